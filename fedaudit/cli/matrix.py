"""What `fedaudit extract --matrix` does: every client as attacker on every other one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.cli.attack import RUNS, _place, _reveal


def audited(
    asked: Mapping[str, Any],
    files: Sequence[Path],
    budget: int | None,
    *,
    out: Path | None,
    json: Path | None,
    reveal: bool,
    quiet: bool,
) -> int:
    """Audit every pair of clients, write and show the report, and return the exit code."""
    from fedaudit.audit import matrix
    from fedaudit.audit.parties import parties
    from fedaudit.cli.show import bars, note, saved, shown
    from fedaudit.errors import InputError
    from fedaudit.files import existing_parent, folder
    from fedaudit.report.redaction import Redactor, load_or_create_key

    clients = parties(asked["target"], files)
    request = matrix.Request(clients=clients, budget=budget or matrix.BUDGET, **asked)
    found = matrix.check(request)
    named = ", ".join(client.name for client in clients)
    note(f"Auditing {found.federation.path if found.federation else found.base}: {named}.",
         quiet=quiet)  # fmt: skip
    place = _place(request, found, out)
    if json is not None and json.is_dir():
        raise InputError(f"{json} is a folder; --json needs a file.")
    for made in (place, *([json.parent] if json else [])):
        existing_parent(made)

    def redactor() -> Redactor:
        return Redactor(load_or_create_key(folder(place if out else RUNS)))

    with bars(quiet) as bar:
        audit = matrix.run(request, redactor, bar)
    report = saved(audit.report, place / "report.json", json)
    shown(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return 1 if report["verdict"]["status"] == "fail" else 0
