"""What can go wrong, and the exit code each becomes.

* FedauditError                 one line for the user, never a traceback
  x UsageError             2    the command, an option or a name in it is wrong
    + PluginError          2    a plugin does not load, or two share a name
  x InputError             3    a file or folder is not what it should be
    + TooShortError        3    no text is long enough for what is to be asked
    + BatchTooLargeError          3    a single row does not fit into memory, here and now
  x TargetError            4    the model under audit is unreachable or degraded
  x NoEffectError          5    the adapter does not change the base
  x Interrupted            6    stopped before the end, can be resumed
  x ResultError           70    a plugin returned what no report can hold
    + PluginCrash         70    a plugin, or what it called, ended in place of returning
An audit that ended says with its code what its verdict is: 0 pass, 1 fail, 7 inconclusive.
Anything else is a bug: it keeps its traceback and ends with 70.
"""

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class FedauditError(Exception):
    """A failure that the user can do something about; its text says what."""

    exit_code: ClassVar[int] = 70


class UsageError(FedauditError):
    """The command line or a profile names something that does not exist."""

    exit_code = 2


class PluginError(UsageError):
    """A plugin that does not load, or a name that two plugins claim."""


class InputError(FedauditError):
    """A file or folder that cannot be used as it is."""

    exit_code = 3


class BatchTooLargeError(InputError):
    """What is asked does not fit into this machine's memory; it may into another's."""


class TooShortError(InputError):
    """No client has a text that is long enough for what is to be asked with it."""


class TargetError(FedauditError):
    """The model under audit cannot be reached or answers wrongly."""

    exit_code = 4


class NoEffectError(FedauditError):
    """The adapter leaves the base model's answers unchanged: an audit would audit the base."""

    exit_code = 5


class Interrupted(FedauditError):
    """The run was stopped; what it finished is kept."""

    exit_code = 6


BUG_EXIT_CODE = 70


class ResultError(FedauditError):
    """A plugin returned what no report can hold: a bug of the plugin, whose text names it."""

    exit_code = BUG_EXIT_CODE


class PluginCrash(ResultError):
    """A plugin called sys.exit, or a library under it panicked: there is no result."""


_KEY = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{20}(?![A-Za-z0-9])")
"""What a deployed defence's key looks like; none is ever repeated."""


def unknown_name_error(kind: str, name: str, known: "Iterable[str]") -> UsageError:
    """Return the error for a name no one has, with the nearest one that exists."""
    names = sorted(known)
    if _KEY.search(name):  # someone typed a key where its name or kind belongs
        name = "(a key itself)"
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UsageError(f"No {kind} named {name!r}.{hint} There is: {', '.join(names) or 'none'}.")
