#!/usr/bin/env bash
# Audit an adapter and stop a release only for what the last release did not have (docs/ci.md):
#
#   examples/ci_gate.sh BASE ADAPTER OURS.jsonl THEIRS.jsonl BASELINE OUT [OPTION ...]
#
# BASELINE is the report.json of the last release; where there is none, the verdict decides. Exit
# code 0: nothing new or worse; 1: something is; 7: undecided; others: the audit did not take place.
set -euo pipefail

base=$1 adapter=$2 ours=$3 theirs=$4 baseline=$5 out=$6
shift 6
if [ -f "$baseline" ]; then
  set -- --baseline "$baseline" "$@"
else
  echo "There is no $baseline: once you accept $out/report.json, keep it there." >&2
fi

code=0
fedaudit audit "$base" --adapter "$adapter" --prefixes "$ours" --victim "$theirs" \
  --out "$out" --quiet "$@" || code=$?
case $code in
  0 | 1 | 7) # a verdict: after any other code a report there may be of an earlier run
    fedaudit report "$out" --format sarif --out "$out/audit.sarif" &&
      fedaudit report "$out" --format annex ||
      echo "The verdict stands; its SARIF or its annex was not written." >&2
    ;;
esac
exit "$code"
