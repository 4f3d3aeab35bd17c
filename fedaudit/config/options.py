"""From a table of options to a frozen dataclass, with one clear sentence for each mistake."""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.plugin import UpTo
from fedaudit.system.files import Read, check_version, read_json, read_regular
from fedaudit.system.numbers import is_finite_number

T = TypeVar("T")

_TABLE_TYPES: dict[Any, Any] = {float: int | float, Path: str | Path}
"""The types that a value may have in a table, by option type: TOML and JSON have no paths."""

_WHOLE, _REAL = UpTo(1_000_000), UpTo(1e9)
"""The bounds of a setting that names none: no machine samples a billion times, and a library that
is told to would take the memory or the time for it."""


def build_settings(cls: type[T], table: Mapping[str, Any], name: str) -> T:
    """Return `cls(**table)` as `build` does, of settings that a user gives.

    A whole number is 1,000,000 at most and another number 1e9, either way from 0, unless the option
    is annotated with another `UpTo`.
    """
    return _build(cls, table, name, bounded=True)


def build(cls: type[T], table: Mapping[str, Any], name: str) -> T:
    """Return `cls(**table)`; nested tables become nested dataclasses.

    Raises UsageError for an unknown key (with the nearest one), a missing one, a wrong type or a
    refused value.
    """
    return _build(cls, table, name, bounded=False)


def read_record(
    cls: type[T], path: Path, version: str, missing: str, read_file: Read = read_regular
) -> T:
    """Return `build(cls, ...)` of the JSON object in the file `path`.

    Raises InputError, which says `missing` without the file, for another major schema version than
    `version` and for whatever `build` refuses.
    """
    table = read_json(path, missing, read_file)
    if not isinstance(table, dict):
        raise InputError(f"{path} must hold a JSON object.")
    check_version(table, path, version)
    try:
        return build(cls, table, path.name)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None


def _build(cls: type[T], table: Mapping[str, Any], name: str, *, bounded: bool) -> T:
    if not isinstance(table, Mapping):
        raise UsageError(f"{name} must be a table, not {table!r}.")
    kind: Any = cls  # mypy does not count a type[T] as hashable
    hints = _hints(kind)
    values = {}
    for key, value in table.items():
        if key not in hints:
            raise unknown_name_error(f"option of {name}", key, [*hints])
        values[key] = _fit(hints[key], value, f"{name}.{key}", bounded)
    if missing := [key for key in _required(kind) if key not in values]:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise UsageError(f"{name}: {listed} {'is' if len(missing) == 1 else 'are'} missing.")
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from None


# A file of scores has thousands of records of a few classes.
@cache
def _hints(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's options by name, in their order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {option.name: hints[option.name] for option in dataclasses.fields(cls)}


@cache
def _required(cls: type) -> list[str]:
    """Return the options of a dataclass that have no default."""
    absent = dataclasses.MISSING
    return [
        option.name
        for option in dataclasses.fields(cls)
        if option.init and option.default is absent and option.default_factory is absent
    ]


def _fit(hint: Any, value: Any, name: str, bounded: bool, most: UpTo | None = None) -> Any:
    """Return `value` as `hint` asks, or raise UsageError."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return _build(hint, value, name, bounded=bounded)
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
        most = next((note for note in notes if isinstance(note, UpTo)), most)
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        fits = [kind for kind in typing.get_args(hint) if _accepts(kind, value)]
        if not fits:
            raise _wrong_type(hint, value, name)
        return _fit(fits[0], value, name, bounded, most)
    if typing.get_args(hint) in ((int, ...), (float, ...)) and _accepts(float, value):
        value = [value]  # NAME=20 on the command line is a list of one, as NAME=word is
    if origin in (dict, Mapping, tuple) and isinstance(value, Mapping | list | tuple | str):
        return _members(hint, value, name, bounded, most)
    if origin is typing.Literal:
        if value not in typing.get_args(hint):
            raise unknown_name_error(
                f"value of {name}", str(value), map(str, typing.get_args(hint))
            )
        return value
    if not _accepts(hint, value):
        raise _wrong_type(hint, value, name)
    if hint is Path:
        return Path(value)
    value = _finite(value, name) if hint is float else value
    if bounded and hint in (int, float):
        _check_bounds(value, name, most or (_WHOLE if hint is int else _REAL))
    return value


def _members(hint: Any, value: Any, name: str, bounded: bool, most: UpTo | None) -> Any:
    """Return a table or list whose members are as `hint` asks; words with commas are a list."""
    table, kind = typing.get_origin(hint) is not tuple, typing.get_args(hint)
    if table != isinstance(value, Mapping):
        raise _wrong_type(hint, value, name)
    if isinstance(value, Mapping):
        names = {key: key if str(key).isprintable() else repr(key) for key in value}
        return {
            key: _fit(kind[-1], member, f"{name}.{names[key]}", bounded, most)
            for key, member in value.items()
        }
    if isinstance(value, str):
        words = [item.strip() for item in value.split(",") if item.strip()]
        value = words if kind[0] is str else map(_value, words)
    return tuple(_fit(kind[0], item, name, bounded, most) for item in value)


def _check_bounds(value: int | float, name: str, most: UpTo) -> None:
    if abs(value) > most.most:
        least = "at least -" if value < 0 else "at most "
        raise UsageError(f"{name} takes {least}{most.most:,.0f}, not {value!r:.40}.")


def _finite(value: float, name: str) -> float:
    if is_finite_number(value):
        return float(value)
    raise UsageError(f"{name} takes a finite number, not {value!r}.")


def _accepts(hint: Any, value: Any) -> bool:
    """Return whether `value` is of the kind that `hint` names; its members are not checked."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is not None:
        return isinstance(value, dict if origin in (dict, Mapping) else (tuple, list, str))
    if hint is Any or hint is None:
        return hint is Any or value is None
    if isinstance(value, bool):
        return hint is bool
    if hint in _TABLE_TYPES:
        return isinstance(value, _TABLE_TYPES[hint])
    wide = isinstance(hint, type) and dataclasses.is_dataclass(hint)
    return isinstance(value, Mapping | hint if wide else hint)


def _wrong_type(hint: Any, value: Any, name: str) -> UsageError:
    expected = getattr(hint, "__name__", None) or str(hint)
    return UsageError(f"{name} takes {expected}, not {value!r}.")


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Return the nested table that `--set key=value` options spell; values are TOML or text."""
    table: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"--set takes key=value, not {setting!r}.")
        subtable = table
        *path, last = key.split(".")
        for step in path:
            subtable[step] = _as_table(subtable.get(step, {}))
            subtable = subtable[step]
            if not isinstance(subtable, dict):
                raise UsageError(f"--set {key} goes into {step}, which is a value, not a table.")
        subtable[last] = value = _value(text)
        if value == text and text.startswith(("[", "{")):
            raise UsageError(
                f"--set {key}: {text!r} is not a list or table of TOML; are words in it quoted?"
            )
    return table


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:  # TOMLDecodeError, or a number of thousands of digits
        return text


def table_of(plugin: Any) -> dict[str, Any]:
    """Return a plugin's options as a table."""
    table: dict[str, Any] = dataclasses.asdict(plugin)
    return table


def merge_tables(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above` over it, table by table.

    Tables that name different plugins are not mixed: the one above takes the other's place. A name
    below a table is that of the plugin whose options the table has.
    """
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        old = _as_table(old) if isinstance(value, Mapping) else old
        are_tables = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merge_tables(old, value) if are_tables and _same_plugin(old, value) else value  # type: ignore[arg-type]
    return result


def _as_table(value: Any) -> Any:
    """Return the table that a plugin's name alone stands for; any other value as it is."""
    return {"name": value} if isinstance(value, str) else value


def _same_plugin(below: Any, above: Any) -> bool:
    """Tell whether two tables may be about one plugin: not where they name different ones."""
    return bool(above.get("name", below.get("name")) == below.get("name", above.get("name")))
