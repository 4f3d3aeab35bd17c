"""What a plugin's methods return, checked against the annotations of what they override.

A wrong value is noticed where the plugin returns it, so that the error names the plugin, in place
of a crash further on that looks like fedaudit's.
"""

import functools
import numbers
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, TypeVar

from fedaudit.api.errors import ResultError

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[..., str]
"""Takes a plugin, what its method returned, and the arguments; returns what is wrong, or ""."""

CORE = "fedaudit."
"""The package of the interfaces, and of the kits that save a plugin work."""
_RULES: dict[str, Rule] = {}
"""What annotations cannot say, by the qualified name of a method of an interface."""
_NUMBERS: dict[object, type] = {float: numbers.Real, int: numbers.Integral}
"""The types of numbers: numpy's are numbers, too."""


def ensures(rule: Rule) -> Callable[[F], F]:
    """Return a decorator for a method of an interface whose results must keep `rule`."""

    def note(function: F) -> F:
        _RULES[function.__qualname__] = rule
        return function

    return note


class Contract:
    """A class whose subclasses' methods return what the interface says, or raise ResultError."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check what each method and property returns that an interface or a kit annotates."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith(CORE):
            return
        for name, member in list(vars(cls).items()):
            declared = _declaration(cls, name)
            if declared is None:
                continue
            if isinstance(member, property) and member.fget:
                setattr(
                    cls, name, property(_checked(member.fget, name, declared), doc=member.__doc__)
                )
            elif isinstance(member, types.FunctionType):
                setattr(cls, name, _checked(member, name, declared))


def _declaration(cls: type, name: str) -> Callable[..., Any] | None:
    """Return the method or property of fedaudit that a class overrides."""
    for base in cls.__mro__[1:]:
        if base.__module__.startswith(CORE) and name in vars(base):
            member = vars(base)[name]
            function = member.fget if isinstance(member, property) else member
            annotated = "return" in getattr(function, "__annotations__", {})
            return function if annotated else None
    return None


def _checked(function: Callable[..., Any], name: str, declared: Callable[..., Any]) -> Any:
    if hasattr(function, "returns_as"):  # a dataclass with slots is made twice
        return function

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = function(self, *args, **kwargs)
        hint = _hint(declared)
        if hint is types.NoneType:  # what nothing reads
            return value
        if typing.get_origin(hint) is Iterable and isinstance(value, Iterator):
            return _each(self, name, value, typing.get_args(hint)[0])
        wrong = _mismatch(value, hint)
        rule = _RULES.get(declared.__qualname__)
        if not wrong and rule:
            wrong = rule(self, value, *args, **kwargs)
        if wrong:
            raise _error(self, name, wrong)
        return value

    call.__dict__["returns_as"] = declared
    return call


def _each(plugin: Any, name: str, values: Iterator[Any], hint: Any) -> Iterator[Any]:
    for value in values:
        if wrong := _mismatch(value, hint):
            raise _error(plugin, name, wrong)
        yield value


def _error(plugin: Any, name: str, wrong: str) -> ResultError:
    cls = type(plugin)
    root = cls.__module__.partition(".")[0]
    packages = [
        f"{entry.dist.name} {entry.dist.version}"
        for entry in entry_points(group="fedaudit")
        if entry.dist and entry.module.partition(".")[0] == root
    ]
    return ResultError(
        f"The plugin {getattr(cls, 'name', cls.__name__)!r} of {(*packages, root)[0]} returned "
        f"{wrong} from {name}. That is a bug in the plugin, not in your input."
    )


def _hint(declared: Callable[..., Any]) -> Any:
    """Return the annotation of what a method returns; Any if type checkers only can read it."""
    names = {**vars(sys.modules[declared.__module__]), "torch": sys.modules.get("torch")}
    stated = types.SimpleNamespace(__annotations__={"return": declared.__annotations__["return"]})
    try:
        return typing.get_type_hints(stated, names)["return"]
    except (NameError, AttributeError, TypeError):
        return Any


def _mismatch(value: Any, hint: Any) -> str:
    """Return how a value differs from a type, or "": "a str in place of a Result"."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return ""
    if origin in (typing.Union, types.UnionType):
        found = [_mismatch(value, member) for member in members]
        return "" if "" in found else found[0]
    if origin is typing.Literal:
        return "" if value in members else f"{_kind(value)} in place of one of {_listed(members)}"
    expected = origin or _NUMBERS.get(hint, types.NoneType if hint is None else hint)
    if not _is_instance(value, expected):
        return f"{_kind(value)} in place of {_article(hint)}"
    return _member_mismatch(value, origin, members)


def _member_mismatch(value: Any, origin: Any, members: tuple[Any, ...]) -> str:
    if origin is Mapping or origin is dict:
        pairs = [
            (one, hint) for pair in value.items() for one, hint in zip(pair, members, strict=True)
        ]
    elif origin is tuple and members[-1] is not Ellipsis:
        if len(value) != len(members):
            return f"{len(value)} values in place of {len(members)}"
        pairs = list(zip(value, members, strict=True))
    elif origin in (tuple, list, Sequence, frozenset, Iterable):
        pairs = [(one, members[0]) for one in value]
    else:
        return ""
    return next((wrong for one, hint in pairs if (wrong := _mismatch(one, hint))), "")


def _is_instance(value: Any, expected: Any) -> bool:
    if expected in (list, tuple, Sequence):  # which of them matters to no reader
        return isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if isinstance(value, bool):
        return expected in (bool, object)
    return isinstance(value, expected)


def _kind(value: object) -> str:
    return "None" if value is None else _article(type(value))


def _article(hint: Any) -> str:
    if hint is None or hint is types.NoneType:
        return "None"
    name = str(getattr(hint, "__name__", hint))
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _listed(members: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, members))
