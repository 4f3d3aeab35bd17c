"""What the commands that attack a model have in common, from their options to the exit code."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from fedaudit.api.cost import Cost
from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.audit.request import AuditRequest
from fedaudit.cli.audit.plan_text import space_lines
from fedaudit.cli.console import print_lines, print_note, print_report, progress_bars, verdict_code
from fedaudit.cli.exit_handling import raise_plugin_crashes
from fedaudit.cli.options import Output, settings_by_plugin
from fedaudit.config import registry
from fedaudit.system.numbers import rough_duration

if TYPE_CHECKING:
    from fedaudit.audit.input_files import InputReader
    from fedaudit.audit.run import Watcher
    from fedaudit.audit.session import AuditSession

R = TypeVar("R", bound=AuditRequest)


def options(set_: list[str] | None, plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return options by plugin; a key must name an attack that runs, or the detector."""
    plugin_names = [name for kind in ("attack", "detector") for name in registry.plugins(kind)]
    for name in plugins:
        if name not in plugin_names:
            raise unknown_name_error("attack or detector", name, plugin_names)
    return settings_by_plugin(set_, "attack or detector in use", plugins)


def make_request(kind: type[R], **given: Any) -> R:
    """Return a request of this kind; raises UsageError for a value that it refuses."""
    try:
        return kind(**given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def run_audit(request: AuditRequest, output: Output, reader: "InputReader | None" = None) -> int:
    """Run or resume the requested audit, show its report, and return the exit code.

    `reader` has read what the request was made from. A dry run only prints what it would cost.
    """
    if output.dry_run:
        return _print_cost(request, reader)
    from fedaudit.audit.session import AuditSession

    session = AuditSession(
        request,
        output.out,
        shard=output.shard,
        resume=output.resume,
        copy=output.json,
        reveal=output.reveal,
        reader=reader,
    )
    return run_session(session, quiet=output.quiet)


def run_session(session: "AuditSession", *, quiet: bool) -> int:
    """Run an audit, show its report, and return the exit code."""
    for line in session.notes:
        print_note(line, quiet=quiet)
    folder = session.folder
    if session.run(watching(quiet), lambda line: print_note(line, quiet=quiet)) is None:
        message = f"Shard {session.shard} is in {folder}; fedaudit merge puts all parts together."
        print_note(message, quiet=quiet)
        return 0
    report = session.document
    print_report(report)
    if session.reveal:
        print_note(
            f"Leaked strings, in plain text: {folder / 'revealed.jsonl'}.",
            quiet=quiet,
        )
    print_note(f"The report is {folder / 'report.json'}.", quiet=quiet)
    return verdict_code(report)


def _print_cost(request: AuditRequest, reader: "InputReader | None") -> int:
    """Print what an audit would ask, and the time that it would take on this machine.

    A target of another framework is imported for that into a folder that is removed again.
    """
    from fedaudit.audit.session import native_target

    with TemporaryDirectory(prefix="fedaudit-") as scratch:
        target = native_target(request.target, request.template, Path(scratch), lambda _: None)
        imported = request.target if target != request.target else None
        return _print_native_cost(replace(request, target=target), reader, imported)


def _print_native_cost(
    request: AuditRequest, reader: "InputReader | None", imported: str | None
) -> int:
    """Print the cost of a request; `imported` is the foreign folder that its target came from."""
    from fedaudit.audit.cost import cost_of, documents_of, speed_here
    from fedaudit.audit.input_files import InputReader
    from fedaudit.audit.resolve import resolve

    inputs = resolve(request, reader or InputReader())
    audited, cost = inputs.audited, cost_of(inputs)
    if cost == Cost():
        raise InputError("There is nothing to ask: no personal data was found in the records.")
    models = "tuned model and its base" if audited.untuned else "model"
    adapter = audited.adapter_name or "none"
    if imported:
        adapter = f"of round {audited.round} of {imported}, which the audit imports first"
    print_lines(
        [
            f"Model: {audited.base}, adapter {adapter}",
            f"Asked of the {models}{' each' if audited.untuned else ''}: {cost.describe()}",
            *space_lines(cost, audited, request),
        ]
    )
    if audited.served:
        print_lines(["Time: not known of a server; the audit shows its requests before the first."])
    elif speed := speed_here(inputs, documents_of(inputs)):
        seconds = speed.seconds(cost, 2 if audited.untuned else 1)
        apart = f" without {', '.join(cost.unknown)}" if cost.unknown else ""
        time = f"about {rough_duration(seconds)} at most{apart}" if cost.is_counted else "not known"
        print_lines([f"Time: {time}, not counting reading and loading"])
    return 0


@contextmanager
def watching(quiet: bool) -> Iterator["Watcher"]:
    """Give the progress bars of a run, and turn plugin crashes into errors within."""
    with progress_bars(quiet) as bar, raise_plugin_crashes():
        yield bar
