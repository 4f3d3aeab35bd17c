"""What `-v` shows: the log of the logger `fedaudit`, on standard error."""

import logging
from typing import Any

from typer.core import TyperOption

from fedaudit.cli.console import print_note


def add_option(command: Any) -> None:
    """Add `-v` to every command below a group, whose own help has it."""
    for child in getattr(command, "commands", {}).values():
        if hasattr(child, "commands"):
            add_option(child)
        else:
            child.params.append(
                TyperOption(
                    param_decls=["-v", "--verbose"],
                    is_flag=True,
                    expose_value=False,
                    hidden=True,
                    callback=lambda _context, _option, given: show() if given else None,
                )
            )


def show() -> None:
    """Print what the logger `fedaudit` is told from now on."""
    logger = logging.getLogger("fedaudit")
    if not any(isinstance(handler, _Lines) for handler in logger.handlers):
        logger.addHandler(_Lines())
    logger.setLevel(logging.INFO)


class _Lines(logging.Handler):
    """Prints a record as one line, with nothing in it that steers the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, after the seconds since the program started."""
        text = " ".join(record.getMessage().split())
        print_note(f"{record.relativeCreated / 1000:.1f} s  {text}")
