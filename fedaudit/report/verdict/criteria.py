"""The default policy, and policies read from tables of files and reports."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.policy import Policy
from fedaudit.system.numbers import is_finite_number

DEFAULT = Policy()


def same_limits(one: Policy, other: Policy) -> bool:
    """Tell whether two policies give the same verdicts, whatever they are called."""
    return drop_name(one.table()) == drop_name(other.table())


def drop_name(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's table without its name and description, on which no verdict depends."""
    return {k: v for k, v in policy.items() if k not in ("name", "description")}


def policy_of(table: object, source: str) -> Policy:
    """Return the policy that a table of a file or a report describes.

    Raises InputError, naming `source`, for an unknown field, and for a value of the wrong type or
    out of range.
    """
    if not isinstance(table, Mapping):
        raise InputError(f"{source} is no policy: a policy is a table.")
    names = {f.name for f in fields(Policy)}
    if unknown := sorted(set(map(str, table)) - names):
        raise InputError(
            f"{source}: a policy has no {unknown[0]!r}. It may have: {', '.join(sorted(names))}."
        )
    if problem := next(_type_problems(table), None):
        raise InputError(f"{source}: {problem}")
    try:
        return Policy(**{**table, "required": tuple(table.get("required", ()))})
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None


def _type_problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each field whose value has the wrong type."""
    for name, value in table.items():
        if name in ("name", "description"):
            fits = isinstance(value, str)
        elif name == "attribution":
            fits = isinstance(value, bool)
        elif name == "required":
            fits = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        elif name == "kinds":
            fits = isinstance(value, Mapping) and all(map(is_finite_number, value.values()))
        else:
            fits = is_finite_number(value) or (name == "membership" and value is None)
        if not fits:
            yield f"{name} is {value!r:.60}, which is of another type than a policy has there."
