"""What a plugin may return, checked at once, so that no audit ends with an invalid report.

Errors do not quote text from the plugin, which may be personal data.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.errors import ResultError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.watermark import Score
from fedaudit.report.document import is_plain, schema_violation, to_plain
from fedaudit.report.query import SEVERITIES
from fedaudit.report.redaction import MASK_FIELDS

TEXT = "text"
"""The field of the evidence that holds the leaked text."""
NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The form of the name of a kind or a metric."""


def check_result(plugin: str, result: object) -> Result:
    """Return the result of an attack with its numbers as JSON types.

    Raises ResultError with one line that names the plugin and what is wrong with the result.
    """
    try:
        return _check_attack_result(result)
    except (ValueError, TypeError) as error:
        raise _result_error(plugin, error) from error


def check_attribution(plugin: str, result: object) -> AttributionResult:
    """Return the result of an attribution method; raises ResultError likewise."""
    try:
        if not isinstance(result, AttributionResult):
            raise ValueError(f"a {type(result).__name__} in place of an AttributionResult")
        _texts("limits", result.limits)
        for label, client in _label_values("client", result.clients):
            _client_score(label, client)
        for number, score in enumerate(result.marks.values(), 1):
            if not isinstance(score, Score):
                raise ValueError(f"mark {number} has a {type(score).__name__}, no Score")
            to_plain(score, f"mark {number}")
    except (ValueError, TypeError, AttributeError) as error:
        raise _result_error(plugin, error) from error
    return result


def _result_error(plugin: str, why: Exception) -> ResultError:
    return ResultError(f"The plugin {plugin} returned what no report can hold: {why}.")


def _check_attack_result(result: object) -> Result:
    if not isinstance(result, Result):
        raise ValueError(f"a {type(result).__name__} in place of a Result")
    rows = [_row(label, row) for label, row in _label_values("measurement", result.measurements)]
    findings = [
        _finding(label, finding) for label, finding in _label_values("finding", result.findings)
    ]
    if len({finding.id for finding in findings}) < len(findings):
        raise ValueError("two findings have one id")
    _texts("limits", result.limits)
    for label, leak in _label_values("revealed text", result.revealed):
        if not isinstance(leak, Mapping) or not isinstance(leak.get("id"), str):
            raise ValueError(f"{label} is not a table with an id")
        _strings(label, [*leak, *leak.values()])
    return replace(
        result,
        measurements=tuple(rows),
        findings=tuple(findings),
        limits=tuple(result.limits),
        revealed=tuple(result.revealed),
    )


def _label_values(kind: str, values: object) -> Iterable[tuple[str, Any]]:
    """Return each of `values` with its label, such as `finding 3`."""
    if not isinstance(values, tuple | list):
        raise ValueError(f"{kind}: a {type(values).__name__} in place of a tuple")
    return [(f"{kind} {number}", value) for number, value in enumerate(values, 1)]


def _row(label: str, row: object) -> Measurement:
    if not isinstance(row, Measurement):
        raise ValueError(f"{label} is a {type(row).__name__}, no Measurement")
    for name in ("kind", "metric"):
        word = getattr(row, name)
        if not isinstance(word, str) or not NAME.fullmatch(word):
            raise ValueError(f"the {name} of {label} is no lower-case name, as in my_{name}")
    label = f"{label} ({row.metric})"
    table = {
        field.name: _json(label, field.name, getattr(row, field.name)) for field in fields(row)
    }
    for name in ("n", "hits"):
        if not isinstance(table[name], int | None) or isinstance(table[name], bool):
            raise ValueError(f"{label}: {name} is not a whole number")
    if violation := schema_violation(table):
        raise ValueError(f"{label}: {violation} is not as docs/report-fields.md says")
    # An answer may begin with several strings, so more may be found than were asked.
    counted = () if row.metric == "efficiency" else (("hits", "n"),)
    for lower, upper in (("low", "high"), *counted):
        if None not in (table[lower], table[upper]) and table[lower] > table[upper]:
            raise ValueError(f"{label}: {lower} is above {upper}")
    if table["value"] is None and not table["reason"].strip():
        raise ValueError(f"{label} has no value and no reason for it")
    _strings(label, [row.plugin])
    return Measurement(**table)


def _finding(label: str, finding: object) -> Finding:
    if not isinstance(finding, Finding):
        raise ValueError(f"{label} is a {type(finding).__name__}, no Finding")
    for name in ("id", "label", "measurement"):
        _strings(f"the {name} of {label}", [getattr(finding, name)])
    if finding.severity not in SEVERITIES:
        raise ValueError(f"the severity of {label} is none of {', '.join(SEVERITIES)}")
    if not isinstance(finding.evidence, Mapping):
        raise ValueError(f"the evidence of {label} is not a table")
    _strings(f"a field of the evidence of {label}", finding.evidence)
    _safe(label, finding)
    evidence = {
        name: _json(f"the evidence of {label}", f"field {number}", value)
        for number, (name, value) in enumerate(finding.evidence.items(), 1)
    }
    return replace(finding, evidence=evidence)


def _safe(label: str, finding: Finding) -> None:
    """Check the fields declared safe, and those with a meaning reserved by the report."""
    if isinstance(finding.safe, str):
        raise ValueError(f"what is safe of {label} is a text and no set of names")
    _strings(f"what is safe of {label}", finding.safe)
    if TEXT in finding.safe:
        raise ValueError(f"{label} declares {TEXT!r} safe, which is what leaked")
    if not isinstance(finding.evidence.get(TEXT, ""), str):
        raise ValueError(f"the {TEXT!r} of {label} is not text")
    if mask_fields := MASK_FIELDS & finding.evidence.keys():
        raise ValueError(f"{label} has {min(mask_fields)!r} in its evidence, which is the mask's")


def _client_score(label: str, score: object) -> None:
    if not isinstance(score, ClientScore):
        raise ValueError(f"{label} is a {type(score).__name__}, no ClientScore")
    _strings(f"the name of {label}", [score.client])
    for name in ("z", "p_value", "score"):
        value = _json(label, name, getattr(score, name))
        if not isinstance(value, int | float | None):
            raise ValueError(f"{label}: {name} is not a number")


def _texts(kind: str, values: object) -> None:
    _strings(kind, [value for _, value in _label_values(kind, values)])


def _strings(label: str, values: Iterable[object]) -> None:
    if not all(isinstance(value, str) and value for value in values):
        raise ValueError(f"{label} is empty or no text")


def _json(label: str, name: str, value: object) -> Any:
    """Return `value` with JSON types; an error says where it is, but does not quote it."""
    if is_plain(value):
        return value
    try:
        plain_value = to_plain(value, name)
        json.dumps(plain_value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"{label}: {name} holds what JSON does not have, or a number that is not finite"
        ) from error
    return plain_value
