"""Audit a federation: `python examples/audit_federation.py RUN OUT`, RUN being its folder."""

import sys
from collections import Counter

from fedaudit import audit


def main(run: str, out: str) -> None:
    """Audit a federation; print the verdict's reasons, what leaked and what was left out.

    `quick` attacks one client from another; without it, every client from every other one.
    """
    report = audit(run, quick=True, release="weights", declared_by="an example", out=out)
    document = report.to_json()
    print(f"verdict: {document['verdict']['status']}")
    for judgement in document["verdict"]["judgements"]:
        if judgement["status"] != "pass":
            print(f"{judgement['status']}: {judgement['reason']}")
    leaks = Counter((one["label"], one["severity"]) for one in document["findings"])
    for (label, severity), count in sorted(leaks.items()):
        print(f"leaked: {count} {label} ({severity})")
    for attacks in document["coverage"]:
        if attacks["status"] == "not_run":
            print(f"not tried: {attacks['class']}: {attacks['reason']}")
    print(f"The page for people is {out}/report.html.")


if __name__ == "__main__":
    main(*sys.argv[1:])
