"""What the commands that attack a model have in common, from their options to the exit code."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Request
    from fedaudit.audit.target import Audited

RUNS = Path("runs")


def options(set_: list[str] | None, plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return options by plugin; a key must name an attack that runs, or the detector."""
    from fedaudit import registry
    from fedaudit.errors import unknown
    from fedaudit.options import parse_settings

    table = parse_settings(set_ or [])
    known = [name for kind in ("attack", "detector") for name in registry.plugins(kind)]
    for name in plugins:
        if name not in known:
            raise unknown("attack or detector", name, known)
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
    from fedaudit.errors import InputError
    from fedaudit.files import existing_parent, folder
    from fedaudit.report.redaction import Redactor, load_or_create_key

    found = pipeline.check(request)
    if found.found and found.federation:
        where = f"Auditing {found.federation.path}, the federation"
        note(f"{where} {'written last' if found.last else 'of the data'}.", quiet=quiet)
    if found.deployment:
        note(f"Asking what {found.deployment} deployed, by key.", quiet=quiet)
    place = _place(request, found, out)
    if json is not None and json.is_dir():
        raise InputError(f"{json} is a folder; --json needs a file.")
    for made in (place, *([json.parent] if json else [])):
        existing_parent(made)

    def redactor() -> Redactor:  # its key is a file: made only when there is a leak to mask
        return Redactor(load_or_create_key(folder(place if out else RUNS)))

    with bars(quiet) as bar:
        audit = pipeline.run(request, redactor, bar)
    report = saved(audit.report, place / "report.json", json)
    shown(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return 1 if report["verdict"]["status"] == "fail" else 0


def _place(request: "Request", found: "Audited", out: Path | None) -> Path:
    """Return the output folder; refuses one that holds another run's report."""
    from fedaudit.audit.pipeline import identity
    from fedaudit.errors import InputError
    from fedaudit.report.document import read

    name = identity(request, found)
    place = out or RUNS / request.command / name
    if place.is_file():
        raise InputError(f"{place} is a file; --out needs a folder.")
    if (place / "report.json").exists() and read(place / "report.json")["run"]["id"] != name:
        raise InputError(f"{place} holds another run's report; choose another --out or remove it.")
    if (place / "federation.json").exists():
        raise InputError(f"{place} is a federation's folder; choose another --out.")
    return place


def _reveal(leaks: Iterable[Mapping[str, str]], path: Path) -> None:
    from fedaudit.files import atomic_text

    lines = (json.dumps(dict(leak), ensure_ascii=False) + "\n" for leak in leaks)
    atomic_text(path, "".join(lines), mode=0o600)
