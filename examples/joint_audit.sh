#!/usr/bin/env bash
# A joint audit of two members on one machine, as a rehearsal (docs/joint.md):
#
#   examples/joint_audit.sh RUN BANK.jsonl COURT.jsonl [OPTION of joint commit ...]
#
# It makes two folders, bank and court, which real members have on machines of their own; what `send`
# copies, they send each other. Exit code: that of the last command, by the joint verdict.
set -euo pipefail

run=$1
records=("$2" "$3")
shift 3
members=(bank court)

send() { # send PATTERN: bring each member's files to the other one
  cp "bank/bank$1" court/
  cp "court/court$1" bank/
}

each() { # each STEP: all members take a step; 1 and 7 are verdicts
  for member in "${members[@]}"; do
    fedaudit joint "$1" "$member" || case $? in 1 | 7) ;; *) exit 1 ;; esac
  done
}

for number in 0 1; do
  member=${members[$number]}
  openssl genpkey -algorithm ed25519 -out "$member.pem"
  fedaudit joint commit "$member" --as "$member" --ours "${records[$number]}" --target "$run" \
    --key "$member.pem" "$@"
done
send .commit.json
each ask
send .ask.zip
each answer
cp bank/bank.answer-for-court.zip court/
cp court/court.answer-for-bank.zip bank/
each count
send .result.json
fedaudit joint report bank
