"""What the commands that attack a model have in common, from their options to the exit code."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fedaudit.audit.pipeline import Audit, Request, Watcher
    from fedaudit.audit.target import Audited
    from fedaudit.report.redaction import Redactor

RUNS = Path("runs")


class Audits(Protocol):
    """A module that checks a request and runs it."""

    @property
    def check(self) -> "Callable[[Any], Audited]":
        """Return what is audited, or raise what is wrong with the request."""
        ...

    @property
    def run(self) -> "Callable[[Any, Callable[[], Redactor], Watcher], Audit]":
        """Audit it."""
        ...


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
    request: "Request",
    *,
    out: Path | None,
    json: Path | None,
    reveal: bool,
    quiet: bool,
    by: "Audits | None" = None,
    clients: Iterable[str] = (),
) -> int:
    """Run the audit, write and show its report, and return the exit code.

    `by` is what audits, the pipeline of all attacks without it; `clients` are those who take part
    where that is more than an attacker and a victim.
    """
    from fedaudit.audit import pipeline
    from fedaudit.cli.show import bars, note, saved, shown
    from fedaudit.errors import InputError
    from fedaudit.files import existing_parent, folder
    from fedaudit.report.redaction import Redactor, load_or_create_key

    by = by or pipeline
    found = by.check(request)
    for line in _notes(found, ", ".join(clients)):
        note(line, quiet=quiet)
    place = _place(request, found, out)
    if json is not None and json.is_dir():
        raise InputError(f"{json} is a folder; --json needs a file.")
    for made in (place, *([json.parent] if json else [])):
        existing_parent(made)

    def redactor() -> Redactor:  # its key is a file: made only when there is a leak to mask
        return Redactor(load_or_create_key(folder(place if out else RUNS)))

    with bars(quiet) as bar:
        audit = by.run(request, redactor, bar)
    report = saved(audit.report, place / "report.json", json)
    shown(report)
    if reveal:
        _reveal(audit.revealed, place / "revealed.jsonl")
        note(f"The leaks stand in plain text in {place / 'revealed.jsonl'}.", quiet=quiet)
    note(f"The report is {place / 'report.json'}.", quiet=quiet)
    return 1 if report["verdict"]["status"] == "fail" else 0


def _notes(found: "Audited", clients: str) -> Iterator[str]:
    """Yield what the user should know of what is audited."""
    where = found.federation.path if found.federation else found.base
    if clients:
        yield f"Auditing {where}: {clients}."
    elif found.found and found.federation:
        yield f"Auditing {where}, the federation {'written last' if found.last else 'of the data'}."
    if found.deployment:
        yield f"Asking what {found.deployment} deployed, by key."


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
