"""Audit a PEFT adapter: `python examples/audit_adapter.py BASE ADAPTER OURS.jsonl THEIRS.jsonl`.

It exits as the command does: 0 for pass, 1 for fail, 7 for inconclusive.
"""

import sys

from fedaudit import extract

EXIT = {"pass": 0, "fail": 1, "inconclusive": 7}


def main(base: str, adapter: str, ours: str, theirs: str) -> int:
    """Ask the tuned model and its base for one party's strings with another party's prompts."""
    report = extract(ours, victim=theirs, target=base, adapter=adapter, out="adapter-audit")
    for row in report.measurements:
        if row.metric == "coverage" and row.scope.keys() == {"source", "set"}:
            where, share = f"{row.scope['source']}, {row.scope['set']}", "not measured"
            if row.value is not None:
                share = f"{row.hits} of {row.n} ({row.value:.1%}, {row.low:.1%} to {row.high:.1%})"
            print(f"{where}: {share}")
    document = report.to_json()
    for found in document["findings"]:
        evidence = found["evidence"]  # strings are masked: label, length and a keyed fingerprint
        print(f"{found['id']}: {found['severity']} {found['label']}, {evidence['length']} letters")
    print(f"verdict: {document['verdict']['status']}")
    return EXIT[document["verdict"]["status"]]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
