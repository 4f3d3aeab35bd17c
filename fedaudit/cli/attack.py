"""What the commands that attack a model have in common, from their options to the exit code."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Request

RUNS = Path("runs")


def options(set_: list[str] | None, plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return options by plugin; a key must name an attack that runs, or the detector."""
    from fedaudit.errors import unknown
    from fedaudit.options import parse_settings

    table = parse_settings(set_ or [])
    for name, chosen in table.items():
        if name not in plugins or not isinstance(chosen, dict):
            raise unknown("attack or detector in use", name, plugins)
    return table


def audited(
    request: "Request", *, out: Path | None, json: Path | None, reveal: bool, quiet: bool
) -> int:
    """Run the audit, write and show its report, and return the exit code."""
    from fedaudit.audit import pipeline
    from fedaudit.cli.show import bars, note, saved, shown
    from fedaudit.report.redaction import Redactor, load_or_create_key

    found = pipeline.check(request)
    if found.found and found.federation:
        where = f"Auditing {found.federation.path}, the federation"
        note(f"{where} {'written last' if found.last else 'of the data'}.", quiet=quiet)
    place = _place(request, out)
    place.mkdir(parents=True, exist_ok=True)
    redactor = Redactor(load_or_create_key(place if out else RUNS))
    with bars(quiet) as bar:
        audit = pipeline.run(request, redactor, bar)
    report = saved(audit.report, place / "report.json", json)
    shown(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return 1 if report["verdict"]["status"] == "fail" else 0


def _place(request: "Request", out: Path | None) -> Path:
    """Return the output folder; refuses one that holds another run's report."""
    from fedaudit.audit.pipeline import run_id, settings
    from fedaudit.errors import InputError
    from fedaudit.report.document import read

    identity = run_id(settings(request))
    place = out or RUNS / request.command / identity
    if place.is_file():
        raise InputError(f"{place} is a file; --out needs a folder.")
    if (place / "report.json").exists() and read(place / "report.json")["run"]["id"] != identity:
        raise InputError(f"{place} holds another run's report; choose another --out or remove it.")
    if (place / "federation.json").exists():
        raise InputError(f"{place} is a federation's folder; choose another --out.")
    return place


def _reveal(leaks: Iterable[Mapping[str, str]], path: Path) -> None:
    from fedaudit.files import atomic_text

    lines = (json.dumps(dict(leak), ensure_ascii=False) + "\n" for leak in leaks)
    atomic_text(path, "".join(lines), mode=0o600)
