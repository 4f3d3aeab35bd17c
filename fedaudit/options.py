"""From a table of options to a frozen dataclass, with one clear sentence for each mistake."""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Union

from fedaudit.errors import UsageError, unknown

T = TypeVar("T")


def build(cls: type[T], table: Mapping[str, Any], what: str) -> T:
    """Return `cls(**table)`; nested tables become nested dataclasses.

    Raises UsageError for an unknown key (with the nearest one), a wrong type or a refused value.
    """
    hints = typing.get_type_hints(cls)
    known = [option.name for option in dataclasses.fields(cls)]  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        if key not in known:
            raise unknown(f"option of {what}", key, known)
        values[key] = _fit(hints[key], value, f"{what}.{key}")
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what}: {error}") from None


def _fit(hint: Any, value: Any, what: str) -> Any:
    """Return `value` as `hint` asks, or raise UsageError."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return build(hint, value, what)
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        fits = [kind for kind in typing.get_args(hint) if _accepts(kind, value)]
        if not fits:
            raise _wrong_type(hint, value, what)
        return _fit(fits[0], value, what)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_fit(typing.get_args(hint)[0], item, what) for item in value)
    if origin is tuple and isinstance(value, str):
        return tuple(_fit(typing.get_args(hint)[0], item, what) for item in value.split(","))
    if origin is typing.Literal:
        if value not in typing.get_args(hint):
            raise unknown(f"value of {what}", str(value), map(str, typing.get_args(hint)))
        return value
    if not _accepts(hint, value):
        raise _wrong_type(hint, value, what)
    return float(value) if hint is float else value


def _accepts(hint: Any, value: Any) -> bool:
    if hint is None or hint is type(None):
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float)
    origin = typing.get_origin(hint)
    if origin is not None:
        return isinstance(value, dict if origin in (dict, Mapping) else (tuple, list, str))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return isinstance(value, Mapping | hint)
    return hint is Any or isinstance(value, hint)


def _wrong_type(hint: Any, value: Any, what: str) -> UsageError:
    wanted = getattr(hint, "__name__", None) or str(hint)
    return UsageError(f"{what} takes {wanted}, not {value!r}.")


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Return the nested table that `--set key=value` options spell; values are TOML or text."""
    table: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"--set takes key=value, not {setting!r}.")
        place = table
        *path, last = key.split(".")
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise UsageError(f"--set {key} goes into {step}, which is a value, not a table.")
        place[last] = _value(text)
    return table


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above` over it, table by table."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return result
