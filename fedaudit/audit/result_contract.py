"""What a plugin may return: checked as it returns, so that no audit ends with what no report holds.

What is wrong is said without what the plugin wrote, which may be personal data.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.errors import ResultError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.watermark import Score
from fedaudit.audit.evidence import TEXT
from fedaudit.report.document import schema_violation, to_plain

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""What a kind or a metric may be called."""

SEVERITIES = get_args(get_type_hints(Finding)["severity"])

MASK = frozenset({"label", "length", "hmac"})
"""Fields of the evidence that the mask of what leaked takes."""


def check_result(plugin: str, result: object) -> Result:
    """Return what an attack returned, its numbers as JSON has them.

    Raises ResultError in one line that names the plugin and what is wrong with the result.
    """
    try:
        return _checked(result)
    except (ValueError, TypeError) as error:
        raise _refused(plugin, error) from error


def check_attribution(plugin: str, found: object) -> AttributionResult:
    """Return what a way of attribution returned; raises ResultError likewise."""
    try:
        if not isinstance(found, AttributionResult):
            raise ValueError(f"a {type(found).__name__} in place of an Attributed")
        _texts("limits", found.limits)
        for place, one in _numbered("client", found.clients):
            _suspicion(place, one)
        for number, score in enumerate(found.marks.values(), 1):
            if not isinstance(score, Score):
                raise ValueError(f"mark {number} has a {type(score).__name__}, no Score")
            to_plain(score, f"mark {number}")
    except (ValueError, TypeError, AttributeError) as error:
        raise _refused(plugin, error) from error
    return found


def _refused(plugin: str, why: Exception) -> ResultError:
    return ResultError(f"The plugin {plugin} returned what no report can hold: {why}.")


def _checked(result: object) -> Result:
    if not isinstance(result, Result):
        raise ValueError(f"a {type(result).__name__} in place of a Result")
    rows = [_row(place, one) for place, one in _numbered("measurement", result.measurements)]
    found = [_finding(place, one) for place, one in _numbered("finding", result.findings)]
    if len({one.id for one in found}) < len(found):
        raise ValueError("two findings have one id")
    _texts("limits", result.limits)
    for place, leak in _numbered("revealed text", result.revealed):
        if not isinstance(leak, Mapping) or not isinstance(leak.get("id"), str):
            raise ValueError(f"{place} is no table with an id")
        _strings(place, [*leak, *leak.values()])
    return replace(
        result,
        measurements=tuple(rows),
        findings=tuple(found),
        limits=tuple(result.limits),
        revealed=tuple(result.revealed),
    )


def _numbered(what: str, some: object) -> Iterable[tuple[str, Any]]:
    """Return each of `some` with what it is called: `finding 3`."""
    if not isinstance(some, tuple | list):
        raise ValueError(f"{what}: a {type(some).__name__} in place of a tuple")
    return [(f"{what} {number}", one) for number, one in enumerate(some, 1)]


def _row(place: str, row: object) -> Measurement:
    if not isinstance(row, Measurement):
        raise ValueError(f"{place} is a {type(row).__name__}, no Measurement")
    for name in ("kind", "metric"):
        word = getattr(row, name)
        if not isinstance(word, str) or not NAME.fullmatch(word):
            raise ValueError(f"the {name} of {place} is no lower-case name, as in my_{name}")
    place = f"{place} ({row.metric})"
    table = {one.name: _json(place, one.name, getattr(row, one.name)) for one in fields(row)}
    for name in ("n", "hits"):
        if not isinstance(table[name], int | None) or isinstance(table[name], bool):
            raise ValueError(f"{place}: {name} is no whole number")
    if part := schema_violation(table):
        raise ValueError(f"{place}: {part} is not as docs/report-fields.md says")
    for less, more in (("low", "high"), ("hits", "n")):
        if None not in (table[less], table[more]) and table[less] > table[more]:
            raise ValueError(f"{place}: {less} is above {more}")
    if table["value"] is None and not table["reason"].strip():
        raise ValueError(f"{place} has no value and no reason for it")
    _strings(place, [row.plugin])
    return Measurement(**table)


def _finding(place: str, one: object) -> Finding:
    if not isinstance(one, Finding):
        raise ValueError(f"{place} is a {type(one).__name__}, no Finding")
    for name in ("id", "label", "measurement"):
        _strings(f"the {name} of {place}", [getattr(one, name)])
    if one.severity not in SEVERITIES:
        raise ValueError(f"the severity of {place} is none of {', '.join(SEVERITIES)}")
    if not isinstance(one.evidence, Mapping):
        raise ValueError(f"the evidence of {place} is no table")
    _strings(f"a field of the evidence of {place}", one.evidence)
    _safe(place, one)
    evidence = {
        name: _json(f"the evidence of {place}", f"field {number}", value)
        for number, (name, value) in enumerate(one.evidence.items(), 1)
    }
    return replace(one, evidence=evidence)


def _safe(place: str, one: Finding) -> None:
    """Check which fields are safe, and those that the report gives a meaning of its own."""
    if isinstance(one.safe, str):
        raise ValueError(f"what is safe of {place} is a text and no set of names")
    _strings(f"what is safe of {place}", one.safe)
    if TEXT in one.safe:
        raise ValueError(f"{place} declares {TEXT!r} safe, which is what leaked")
    if not isinstance(one.evidence.get(TEXT, ""), str):
        raise ValueError(f"the {TEXT!r} of {place} is no text")
    if taken := MASK & one.evidence.keys():
        raise ValueError(f"{place} has {min(taken)!r} in its evidence, which is the mask's")


def _suspicion(place: str, one: object) -> None:
    if not isinstance(one, ClientScore):
        raise ValueError(f"{place} is a {type(one).__name__}, no Suspicion")
    _strings(f"the name of {place}", [one.client])
    for name in ("z", "p_value", "score"):
        value = _json(place, name, getattr(one, name))
        if not isinstance(value, int | float | None):
            raise ValueError(f"{place}: {name} is no number")


def _texts(what: str, some: object) -> None:
    _strings(what, [one for _, one in _numbered(what, some)])


def _strings(what: str, some: Iterable[object]) -> None:
    if not all(isinstance(one, str) and one for one in some):
        raise ValueError(f"{what} is empty or no text")


def _json(place: str, name: str, value: object) -> Any:
    """Return `value` as JSON has it; the error says where, and nothing of the value."""
    try:
        found = to_plain(value, name)
        json.dumps(found)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{place}: {name} holds what JSON does not have, or a number that is not finite"
        ) from error
    return found
