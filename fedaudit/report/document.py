"""report.json: built from records, checked against its schema, written whole, read back."""

import dataclasses
import html
import json
import math
import numbers
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Claim, Finding, Measurement
from fedaudit.report.pii_categories import by_category, category_of
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.verdict.policy import RULE
from fedaudit.report.verdict.policy import verdict as judge
from fedaudit.report.verdict.recheck import judged_rows
from fedaudit.system.documents import parse_json
from fedaudit.system.files import read_regular
from fedaudit.system.outputs import REPORT, write_output

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = "1.0"
OPTIONAL = ("context", "coverage", "defenses")
"""Sections that not every report has."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The sections of a report.json; docs/report-fields.md says what each field means."""

    status: Literal["success", "interrupted", "error"]
    run: Mapping[str, Any]
    environment: Mapping[str, Any]
    target: Mapping[str, Any]
    data: Sequence[Mapping[str, Any]]
    seeds: Mapping[str, Any]
    budget: Mapping[str, Any]
    measurements: Sequence[Measurement] = ()
    findings: Sequence[Finding] = ()
    claims: Sequence[Claim] = ()
    verdict: Mapping[str, Any] | None = None
    """None: the verdict of `fedaudit.report.verdict.policy` on the measurements and findings."""
    policy: Policy | None = None
    """The policy that the verdict applies and names; None: the default rule of every command."""
    context: Mapping[str, Any] | None = None
    """To whom the model is released, as declared by a person; only `fedaudit audit` has it."""
    coverage: Sequence[Mapping[str, Any]] | None = None
    """Which classes of attacks were run; only `fedaudit audit` has it."""
    defenses: Mapping[str, Any] | None = None
    """What each defence would have gained and cost, if requested; no verdict depends on it."""
    limits: Sequence[str] = ()
    artifacts: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists.

        Findings get their category, and extraction gets a row for each major category of PII.
        Raises ValueError naming the location of a NaN or an infinity, and TypeError for values that
        JSON cannot represent.
        """
        sections = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        sections["measurements"] = [*self.measurements, *by_category(self.measurements)]
        sections["findings"] = [_finding_table(finding) for finding in self.findings]
        for name in ("verdict", "policy", *OPTIONAL):
            if name not in OPTIONAL or sections[name] is None:
                del sections[name]
        document = {name: to_plain(section, name) for name, section in sections.items()}
        # The verdict is made from the values as written, so that any reader can make it again.
        verdict = self.verdict or {"rule": RULE, **self._verdict(document)}
        return {
            "schema_version": SCHEMA_VERSION,
            **document,
            "verdict": to_plain(verdict, "verdict"),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the measurements as flat dicts, a scope's parts as `scope.NAME`."""
        return flat_rows(self.to_json())

    def frame(self) -> "pd.DataFrame":
        """Return the measurements as a pandas data frame; UsageError where there is no pandas."""
        return data_frame(self.to_json())

    def _repr_html_(self) -> str:
        """Return the report's page for a notebook, in a frame that runs and loads nothing."""
        from fedaudit.report.renderers.html import render

        page = html.escape(render(self.to_json()))
        return f'<iframe srcdoc="{page}" sandbox width="100%" height="640"></iframe>'

    def _verdict(self, document: Mapping[str, Any]) -> dict[str, Any]:
        rows = judged_rows(document)
        if self.policy is None:
            return judge(*rows)
        verdict = judge(*rows, self.policy, explained=True)
        return {**verdict, "policy": self.policy.table()}


def validate(document: object) -> None:
    """Raise a one-line InputError unless `document` is a report of this schema version."""
    if isinstance(document, dict) and isinstance(document.get("schema_version"), str):
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            raise InputError(
                f"The report has schema version {make_visible(version)}; this fedaudit reads "
                f"{SCHEMA_VERSION}."
            )
    try:
        if found := _violation(_validator(), document):
            location, message = map(make_visible, found)
            raise InputError(f"Not a valid report: {location or 'the report'}: {_short(message)}")
        to_plain(document, "report")
    except ValueError as error:
        raise InputError(f"Not a valid report: {_short(make_visible(str(error)))}") from error
    except RecursionError as error:
        raise InputError("Not a valid report: it is nested too deeply.") from error


def write(report: Report, path: Path) -> dict[str, Any]:
    """Write `report` to `path` as `save` does, and return it as plain dicts and lists."""
    document = report.to_json()
    save(document, path)
    return document


def save(document: Mapping[str, Any], path: Path) -> None:
    """Write what `Report.to_json` returned to `path` as JSON, atomically.

    Raises ValueError when the report breaks its own schema (a bug of the code that built it), and
    Interrupted when the disk refuses.
    """
    try:
        validate(document)
    except InputError as error:
        raise ValueError(str(error)) from error
    write_output(path, dumps(document), REPORT.of(document["run"]["command"]))


def read(path: Path) -> dict[str, Any]:
    """Return the report in the file `path`; InputError unless it is there and valid."""
    return parse_report(content(path), path)


def content(path: Path) -> bytes:
    """Return what the file `path` holds; InputError unless it can be read."""
    try:
        return read_regular(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def parse_report(content: bytes, path: Path) -> dict[str, Any]:
    """Return the report that `content` of the file `path` is; InputError unless it is valid."""
    document = parse_json(content, path)
    try:
        validate(document)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return dict(document)


def dumps(document: Mapping[str, Any]) -> str:
    r"""Return `document` as JSON text with sorted keys, readable and safe to show.

    Other scripts stay as they are; hidden characters (U+009B, U+202E, a lone surrogate) become
    `\u` escapes, which JSON reads back as the same characters.
    """
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return re.sub(r"[^\x20-\x7e\n]", _escape_char, text) + "\n"


def _finding_table(finding: Finding) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(finding) if field.name != "safe"]
    table = {name: getattr(finding, name) for name in names}
    return {**table, "category": category_of(finding.label)}


def _escape_char(match: re.Match[str]) -> str:
    char = match[0]
    return json.dumps(char)[1:-1] if is_hidden(char) else char


_PLAIN = frozenset({str, bool, type(None)})
_SAFE_INTEGER = 2**63


def is_plain(value: object) -> bool:
    """Return whether a value is a text, a truth value, None, or an ordinary number."""
    # A report has 100,000 values: to ask whether each is a number of any library takes long.
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return -_SAFE_INTEGER < value < _SAFE_INTEGER
    return type(value) in _PLAIN


def to_plain(value: Any, location: str) -> Any:
    """Return `value` with records and mappings as dicts, tuples as lists, finite numbers.

    Raises ValueError naming the location of a NaN or an infinity, TypeError for what JSON lacks.
    """
    if is_plain(value):
        return value
    if hasattr(value, "item"):  # a NumPy or torch scalar
        value = value.item()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        if abs(integer := int(value)) > sys.float_info.max:
            raise ValueError(f"{location} is a whole number beyond every float.")
        return integer
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise ValueError(f"{location} is {value}; write null and say why.")
        return float(value)
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {
            str(key): item if is_plain(item) else to_plain(item, f"{location}.{key}")
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [
            item if is_plain(item) else to_plain(item, f"{location}[{index}]")
            for index, item in enumerate(value)
        ]
    raise TypeError(f"{location} is of type {type(value).__name__}, which JSON does not have.")


def _short(message: str) -> str:
    """Return `message` cut to fit one screen, since a violation quotes whole sections."""
    return message if len(message) <= 200 else f"{message[:90]} … {message[-90:]}"


@cache
def schema() -> dict[str, Any]:
    """Return the JSON Schema of report.json."""
    text = files("fedaudit.report").joinpath("schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def share_metrics() -> frozenset[str]:
    """Return the metrics whose values and intervals are between 0 and 1."""
    rules = schema()["$defs"]["measurement"]["allOf"]
    named = [rule["if"]["properties"].get("metric", {}).get("enum", ()) for rule in rules]
    return frozenset(metric for metrics in named for metric in metrics)


def schema_violation(row: Mapping[str, Any]) -> str:
    """Return which part of a measurement breaks the schema, as `scope.source`; "" if none does."""
    found = _violation(_validator("#/$defs/measurement"), row)
    return (found[0] or "it") if found else ""


@cache
def _validator(part: str = "#") -> Any:
    """Return what checks a part of the schema."""
    from jsonschema_rs import Draft202012Validator

    definitions = schema()
    return Draft202012Validator(
        definitions if part == "#" else {"$defs": definitions["$defs"], "$ref": part}
    )


def _violation(validator: Any, value: object) -> tuple[str, str] | None:
    """Return where a value breaks the schema most plainly, and how; None if it does not.

    Raises ValueError for what JSON does not have.
    """
    try:
        errors = list(validator.iter_errors(value))
    except UnicodeEncodeError:  # a lone surrogate, as in the name of a file
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        errors = list(validator.iter_errors(json.loads(text)))
    if not errors:
        return None
    error = min(errors, key=lambda one: len(one.instance_path))
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return "".join(parts).removeprefix("."), error.message


FIELDS = (
    *("kind", "plugin", "metric", "value", "low", "high"),
    *("n", "hits", "chance", "baseline", "reason"),
)
COUNTS = ("n", "hits")
"""Columns of integers, some of which may be missing."""


def flat_columns(document: Mapping[str, Any]) -> list[str]:
    """Return the names of what `flat_rows` has in each row: all keys of scopes, sorted, last."""
    names = sorted({name for row in document["measurements"] for name in row["scope"]})
    return [*FIELDS, *(f"scope.{name}" for name in names)]


def flat_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a report's measurements in their order, each with every key of a scope as a column.

    A key that a measurement does not have is None, as is a value that could not be measured.
    """
    scoped = [column.removeprefix("scope.") for column in flat_columns(document)[len(FIELDS) :]]
    return [
        {name: row[name] for name in FIELDS}
        | {f"scope.{name}": row["scope"].get(name) for name in scoped}
        for row in document["measurements"]
    ]


def data_frame(document: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the measurements as a pandas data frame; UsageError if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError(
            "There is no pandas: pip install pandas, or take rows(), which are dicts."
        ) from None
    frame = pd.DataFrame(flat_rows(document), columns=flat_columns(document))
    return frame.astype(dict.fromkeys(COUNTS, "Int64"))
