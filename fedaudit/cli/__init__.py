"""The command line: parse, call, render, exit code; nothing heavy is imported early."""

import io
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Any

import typer
import typer.core
from typer.core import TyperGroup
from typer.main import get_command

from fedaudit.api.errors import BUG_EXIT_CODE, FedauditError, InputError, Interrupted, UsageError
from fedaudit.cli import canary, dp, forget, gate, joint, log
from fedaudit.cli.attribution import attribute, watermark
from fedaudit.cli.audit.command import audit
from fedaudit.cli.audit.compare import compare
from fedaudit.cli.audit.settings_file import init, option_defaults
from fedaudit.cli.data import data
from fedaudit.cli.doctor import doctor
from fedaudit.cli.exit_handling import (
    finished_only,
    interrupt_hint,
    interrupt_received,
    invoke_command,
    note_interrupts,
    print_crash,
)
from fedaudit.cli.extract import extract
from fedaudit.cli.help import HelpfulCommand
from fedaudit.cli.import_run import import_
from fedaudit.cli.infer import infer
from fedaudit.cli.memorize import memorize
from fedaudit.cli.merge import merge
from fedaudit.cli.plugins import plugins
from fedaudit.cli.profiles import profiles
from fedaudit.cli.report import report
from fedaudit.cli.reproduce import reproduce
from fedaudit.cli.scrub import scrub
from fedaudit.cli.simulate import simulate
from fedaudit.cli.streams import streams
from fedaudit.cli.watch import watch
from fedaudit.config import registry
from fedaudit.report.redaction import make_visible
from fedaudit.system.failures import NO_MEMORY, machine_failure, near_memory_limit
from fedaudit.system.staging import remove_open_stages

# Help texts have no markup: rich, which takes longer to load than they do, is not asked for them.
typer.core.HAS_RICH = False

IN_ORDER = (
    *(
        "init",
        "audit",
        "import",
        "extract",
        "infer",
        "memorize",
        "attribute",
        "canary",
        "dp",
        "joint",
        "watch",
        "forget",
    ),
    *("report", "compare", "merge", "gate", "scrub", "data", "watermark"),
    *("simulate", "reproduce", "profiles", "plugins", "doctor"),
)
"""The order of a user's work: an audit, its parts, what is done with it; then simulations."""
FIRST_STEPS = (
    "First steps: `fedaudit simulate --profile fed_pii` makes a federation to try things on, "
    "`fedaudit audit runs/fed_pii` audits it, and `fedaudit doctor` says what is missing."
)


_HINT = " Did you mean "
COMPLETE = "_FEDAUDIT_COMPLETE"
"""The variable by which a shell asks for completions, as `--show-completion` sets it up."""
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")


class OrderedGroup(TyperGroup):
    """Commands as IN_ORDER."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order in which help shows them."""
        return sorted(super().list_commands(ctx), key=(*IN_ORDER, *self.commands).index)


app = typer.Typer(
    name="fedaudit",
    cls=OrderedGroup,
    epilog=FIRST_STEPS,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit federated fine-tuned language models: what private data can be pulled out.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
GROUPS = (
    *((attribute.app, "attribute"), (watermark.app, "watermark")),
    *((canary.app, "canary"), (dp.app, "dp"), (gate.app, "gate")),
    *((joint.app, "joint"), (forget.app, "forget")),
)
for group, name in GROUPS:
    app.add_typer(group, name=name)
COMMANDS = (
    *(simulate, init, audit, reproduce, extract, infer, memorize, watch, scrub, data),
    *(merge, compare, report, plugins, profiles, doctor),
)
for command in COMMANDS:
    app.command(cls=HelpfulCommand)(command)
app.command("import")(import_)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    verbose: bool = typer.Option(
        False, "-v", "--verbose", help="Log on stderr what is opened, reused and left out."
    ),
) -> None:
    if verbose:
        log.show()
    if version:
        from fedaudit import __version__

        print(f"fedaudit {__version__}")
        raise typer.Exit
    if context.invoked_subcommand == "audit":
        words = sys.argv[sys.argv.index("audit") + 1 :]
        command: Any = context.command
        context.default_map = {"audit": option_defaults(command.commands["audit"], words)}
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(UsageError.exit_code)


def main() -> None:
    """Run the command line and leave with its exit code."""
    code: int | None = None
    try:
        _printable()
        with streams() as output:
            with note_interrupts(), finished_only():
                code = _run()
            if lost := output.lost():
                _say(
                    f"The results could not be written to standard output: {lost}. Files that "
                    "were asked for are complete."
                )
            code = output.code(code)
    except KeyboardInterrupt:  # before the command, or after it has ended
        code = _report_interrupt() if code is None else code
    finally:
        with suppress(KeyboardInterrupt):
            remove_open_stages()
    sys.exit(code)


def _printable() -> None:
    """Let what the terminal's encoding does not have be shown as something else."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _decodable() -> None:
    """Raise UsageError for an argument that is not text: it could be neither used nor shown."""
    for word in sys.argv[1:]:
        try:
            word.encode()
        except UnicodeEncodeError:
            try:
                os.fsencode(word).decode()
            except UnicodeDecodeError:
                raise UsageError(f"The argument {word} is not UTF-8.") from None
            raise UsageError(
                f"The argument {word} cannot be read under this locale: set PYTHONUTF8=1."
            ) from None


def _complete(command: Any) -> None:
    """Answer a shell that asks how a command line may go on, or how to ask, and leave."""
    if instruction := os.environ.get(COMPLETE):
        from typer.completion import shell_complete

        sys.exit(shell_complete(command, {}, "fedaudit", COMPLETE, instruction))
    if sys.argv[1:2] and sys.argv[1] in COMPLETION_OPTIONS:
        command.make_context("fedaudit", sys.argv[1:])  # which leaves by sys.exit


@cache
def _command() -> Any:
    """Return the root of all commands, each with `-v`, made once in a process."""
    command = get_command(app)
    log.add_option(command)
    return command


def _run() -> int:  # noqa: PLR0911, one for each way to end
    """Return the exit code: of a result, of a user's mistake in one line, or of a bug."""
    try:
        _decodable()
        command = _command()
        _complete(command)
        return invoke_command(command, sys.argv[1:])
    except FedauditError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _report_interrupt()
    except Exception as error:
        # Typer's own usage errors; it vendors click, whose classes it does not export.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            if text := error.format_message():
                # Click and typer may both know what was meant.
                _say(_HINT.join(dict.fromkeys(text.split(_HINT))))
            return int(error.exit_code)
        if interrupt_received():
            return _report_interrupt()
        failure = machine_failure(error)
        if failure is None and near_memory_limit():
            failure = InputError(NO_MEMORY)
        if failure:
            _say(str(failure))
            return failure.exit_code
        return _bug(error)


def _bug(error: Exception) -> int:
    """Print the traceback, and say whose bug it is: fedaudit's, or a third-party plugin's."""
    print_crash(error)
    name, package = registry.plugin_behind(error) or ("", "fedaudit ")
    is_fedaudit = package.startswith("fedaudit ")
    owner = "fedaudit" if is_fedaudit else f"the plugin {name!r} of {package}"
    _say(f"This is a bug in {owner}, not in your input; please report it with the lines above.")
    return BUG_EXIT_CODE


def _report_interrupt() -> int:
    _say(f"Interrupted. {interrupt_hint(sys.argv[1:])}")
    return Interrupted.exit_code


def _say(text: str) -> None:
    """Print one line on stderr; what it quotes from files cannot steer the terminal."""
    print(f"fedaudit: {make_visible(' '.join(text.split()))}", file=sys.stderr)
