"""The command line: parse, call, render, exit code; nothing heavy is imported early."""

import io
import os
import sys

import typer

from fedaudit.cli import attribute, gate, watermark
from fedaudit.cli.doctor import doctor
from fedaudit.cli.extract import extract
from fedaudit.cli.infer import infer
from fedaudit.cli.memorize import memorize
from fedaudit.cli.merge import merge
from fedaudit.cli.plugins import plugins
from fedaudit.cli.profiles import profiles
from fedaudit.cli.report import report
from fedaudit.cli.reproduce import reproduce
from fedaudit.cli.scrub import scrub
from fedaudit.cli.simulate import simulate
from fedaudit.errors import BUG_EXIT_CODE, FedauditError, Interrupted, UsageError

TYPER_INTERRUPTED = 130
"""What Typer returns for Ctrl-C in place of raising KeyboardInterrupt."""

app = typer.Typer(
    name="fedaudit",
    help="Audit federated fine-tuned language models: what private data can be pulled out.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for group, name in ((attribute.app, "attribute"), (watermark.app, "watermark"), (gate.app, "gate")):
    app.add_typer(group, name=name)
COMMANDS = (
    *(simulate, reproduce, extract, infer, memorize, scrub),
    *(merge, report, plugins, profiles, doctor),
)
for command in COMMANDS:
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        from fedaudit import __version__

        print(f"fedaudit {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(UsageError.exit_code)


def main() -> None:
    """Run the command line and leave with its exit code."""
    _printable()
    sys.exit(_run())


def _printable() -> None:
    """Let what the terminal's encoding does not have be shown as something else."""
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def _decodable() -> None:
    """Raise UsageError for an argument that is no text: nothing could be made of it, or said."""
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


def _run() -> int:
    """Return the exit code: of a result, of a user's mistake in one line, or of a bug."""
    try:
        _decodable()
        code = int(app(standalone_mode=False, prog_name="fedaudit") or 0)
        return _interrupted() if code == TYPER_INTERRUPTED else code
    except FedauditError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except (BrokenPipeError, SystemExit):
        # Typer leaves with 1 when whoever reads stdout has gone; that is no finding. What Python
        # would still flush at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        # Typer's own usage errors; it vendors click, whose classes it does not export.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            if text := error.format_message():
                _say(text)
            return int(error.exit_code)
        import traceback

        traceback.print_exc()
        _say("This is a bug in fedaudit, not in your input; please report it with the lines above.")
        return BUG_EXIT_CODE


def _interrupted() -> int:
    _say(
        "Interrupted. The same command goes on: a simulation after its last finished round, an "
        "audit that has kept answers with --resume."
    )
    return Interrupted.exit_code


def _say(text: str) -> None:
    """Print one line on stderr; what it quotes from files cannot steer the terminal."""
    from fedaudit.report.redaction import visible

    print(f"fedaudit: {visible(' '.join(text.split()))}", file=sys.stderr)
