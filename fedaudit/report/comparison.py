"""What differs between two reports: numbers with intervals, and leaks that appeared or went.

Numbers are paired by kind, plugin, metric and scope. Their difference has the interval of Zou and
Donner (2008, Statistics in Medicine 27:1693), which needs only the two intervals. It assumes
independent numbers, so it is too wide for numbers on the same targets. Leaks are paired by their
masks, and whether more appeared than disappeared is tested exactly (McNemar).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.estimates import Estimate, difference
from fedaudit.report.checklist.leaks import ROLES, UNSEARCHED, options
from fedaudit.report.kinds.registry import kind_of
from fedaudit.report.query import Row, is_sweep
from fedaudit.report.redaction import make_visible
from fedaudit.report.verdict.criteria import DEFAULT, drop_name
from fedaudit.report.verdict.recheck import recheck

COMPARED_METRICS = frozenset(
    {
        *(
            "coverage",
            "extraction_recall",
            "leaking_answers",
            "inference_accuracy",
        ),
        *("tpr", "auc", "edit_distance", "rouge_l", "accuracy"),
        *("loss", "perplexity", "stouffer_z", "source_accuracy"),
    }
)
"""Metrics that are compared where no kind says so: what came out of the model, and its utility."""
IDENTITY_FIELDS = ("hmac", "client", "victim", "attacker", "mark", "document")
"""Fields of a finding's evidence that identify it, and stay the same in another run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """One number that both reports have; the difference is `second` minus `first`."""

    plugin: str
    metric: str
    scope: Mapping[str, object]
    first: float
    second: float
    difference: Estimate | None
    """The difference with its interval; None if either number has no interval."""

    @property
    def sure(self) -> bool:
        """Whether the interval excludes 0."""
        estimate = self.difference
        return estimate is not None and not estimate.low <= 0 <= estimate.high


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakChange:
    """What one attack found of one kind in only one of the reports, or in both."""

    measurement: str
    label: str
    appeared: int
    went: int
    stayed: int
    p: float
    """Two-sided p of McNemar's exact test: the probability of so uneven a change by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportComparison:
    """Two reports, number by number and leak by leak."""

    differences: Sequence[RowDifference]
    leaks: Sequence[LeakChange]
    notes: Sequence[str]


def compare(first: Row, second: Row) -> ReportComparison:
    """Return how the second report differs from the first.

    Raises InputError where they have no number in common.
    """
    differences = list(_differences(first, second))
    if not differences:
        raise InputError("The reports have no number in common: they are of different audits.")
    return ReportComparison(
        differences=differences,
        leaks=leak_changes(_masks(first), _masks(second)),
        notes=[*_verdict_doubts(first, second), *comparison_notes(first, second)],
    )


def mcnemar_two_sided(appeared: int, disappeared: int) -> float:
    """Return 2 P(Binomial(appeared + disappeared, 1/2) >= the larger), at most 1."""
    from fedaudit.metrics.significance import mcnemar

    return min(1.0, 2 * mcnemar(max(appeared, disappeared), min(appeared, disappeared)))


def finding_identity(finding: Row) -> list[str]:
    """Return what identifies a finding among others of its kind, the same in every run."""
    evidence = finding["evidence"]
    fields = [f"{name}={evidence[name]}" for name in IDENTITY_FIELDS if name in evidence]
    return fields or [str(finding["id"])]


def row_key(row: Row) -> tuple[str, str, str, str]:
    """Return a measurement's key, which is the same in two reports for the same question."""
    kind = kind_of(row["kind"])
    outcomes = kind.outcomes if kind else frozenset[str]()
    scope = sorted((n, str(value)) for n, value in row["scope"].items() if n not in outcomes)
    return row["kind"], row["plugin"], row["metric"], str(scope)


def estimate_of(row: Row) -> Estimate | None:
    """Return a row's number with its interval; None if it has no interval."""
    if row["value"] is None or row["low"] is None or row["high"] is None:
        return None
    return Estimate(row["value"], row["low"], row["high"])


def _differences(first: Row, second: Row) -> Iterator[RowDifference]:
    first_rows = {row_key(row): row for row in first["measurements"]}
    for row in second["measurements"]:
        before = first_rows.get(row_key(row))
        if before is None or not _is_compared(row):
            continue
        if before["value"] is None or row["value"] is None:
            continue
        old, new = estimate_of(before), estimate_of(row)
        yield RowDifference(
            plugin=row["plugin"],
            metric=row["metric"],
            scope=row["scope"],
            first=before["value"],
            second=row["value"],
            difference=difference(new, old) if old and new else None,
        )


def _is_compared(row: Row) -> bool:
    kind = kind_of(row["kind"])
    metrics = kind.compared if kind else COMPARED_METRICS
    return row["metric"] in metrics and not is_sweep(row)


def leak_changes(
    before: Mapping[tuple[str, str], set[str]], after: Mapping[tuple[str, str], set[str]]
) -> list[LeakChange]:
    """Return which leaks appeared, went and stayed, of each attack and kind of data."""
    changes = []
    for measurement, label in sorted({*before, *after}):
        old, new = (masks.get((measurement, label), set()) for masks in (before, after))
        appeared, went = len(new - old), len(old - new)
        changes.append(
            LeakChange(
                measurement=measurement,
                label=label,
                appeared=appeared,
                went=went,
                stayed=len(old & new),
                p=mcnemar_two_sided(appeared, went),
            )
        )
    return changes


def _masks(report: Row) -> dict[tuple[str, str], set[str]]:
    masks: dict[tuple[str, str], set[str]] = {}
    for finding in report["findings"]:
        if mask := finding["evidence"].get("hmac"):
            masks.setdefault((finding["measurement"], finding["label"]), set()).add(str(mask))
    return masks


def _verdict_doubts(*reports: Row) -> Iterator[str]:
    """Yield a note on each report whose verdict does not follow from its measurements today."""
    for name, report in zip(("first", "second"), reports, strict=True):
        if message := recheck(report).message:
            yield f"The {name} report: {message}"


def comparison_notes(first: Row, second: Row) -> Iterator[str]:
    """Yield the caveats of the comparison."""
    if records := records_difference(first, second):
        yield records
    versions = [report["environment"]["versions"].get("fedaudit") for report in (first, second)]
    if versions[0] != versions[1]:
        yield "The reports are of different versions of fedaudit."
    yield from setting_notes(first, second)
    masks = [set().union(*_masks(report).values()) for report in (first, second)]
    if all(masks) and not masks[0] & masks[1]:
        yield (
            "No leak is in both. Where the reports were masked with different keys, none can be: "
            "appeared and gone say nothing then."
        )
    alike = first["target"]["sha256"] == second["target"]["sha256"]
    if alike and first["target"]["sha256"] is not None:
        yield "Both reports are of the same model."


def records_difference(first: Row, second: Row) -> str:
    """Return a note that two audits asked for different records; empty if they did not."""
    if _asked_records(first) == _asked_records(second):
        return ""
    return (
        "The reports are about different files of records: numbers and leaks may be of other"
        " targets."
    )


def _asked_records(report: Row) -> set[str]:
    """Return the SHA-256 of the victim's and the attacker's files; of all, if none is named."""
    roles = {option for names in ROLES.values() for option in names}
    named = {path for option, path in options(report["run"]["config"]) if option in roles}
    files = [file for file in report["data"] if file["path"] in named] or report["data"]
    return {file["sha256"] for file in files}


MOST_SETTINGS = 5
"""The maximum number of settings named in one note."""


NOT_ASKED = frozenset(
    {
        *("adapter", "attacker", "before", "canaries", "client", "clients", "coins", "commitment"),
        *("commitments", "context", "control", "counterfactual", "data", "endpoint", "held_out"),
        *("keys", "left_out", "members", "model", "noiseless", "ours", "policy", "prefixes"),
        *("reference_folders", "references", "retrained", "round", "rounds", "run", "target"),
        *("victim", "watermark"),
        *("batch_size", "device", "dtype", "engine", "vllm", "workers"),
        *("seed", "steps"),
    }
)
"""Settings that say of which model, with which files and on which machine was asked, not how.

Other records, seeds and policies have notes of their own.
"""


def setting_notes(first: Row, second: Row) -> Iterator[str]:
    """Yield a note on each difference between two audits other than their results."""
    if _started(second) < _started(first):
        yield "The second report is of an earlier audit than the first: is this order meant?"
    if seeds_differ(first, second):
        yield "The audits had different seeds: other questions and answers were drawn."
    if only := sorted(_attacks(first) ^ _attacks(second)):
        yield f"Of one audit only: {make_visible(', '.join(only))}."
    if changes := changed_settings(first, second):
        yield f"The audits had different settings: {changes}."
    if policies := policy_difference(first, second):
        yield policies


def changed_settings(first: Row, second: Row) -> str:
    """Return the settings that both reports state and that differ, with both values; "" if none.

    They decide what was asked and what counted as found, so the numbers of two such audits tell
    nothing of a change of the model, and a leak that is in one of them alone does not either.
    """
    one, two = (_settings(report["run"]["config"]) for report in (first, second))
    changes = [
        f"{name} {one[name]}, then {two[name]}"
        for name in sorted(one.keys() & two.keys())
        if one[name] != two[name]
    ]
    more = len(changes) - MOST_SETTINGS
    text = ", ".join(changes[:MOST_SETTINGS]) + (f", and {more} more" if more > 0 else "")
    return make_visible(text)


def seeds_differ(first: Row, second: Row) -> bool:
    """Tell whether two audits had different seeds, whatever the commands call theirs."""
    one, two = ({str(seed) for seed in report["seeds"].values()} for report in (first, second))
    return one != two


def policy_difference(first: Row, second: Row) -> str:
    """Return a note that two verdicts were made under different limits; empty if they were not."""
    # A verdict that names no policy was made under the default's limits.
    policies = [report["verdict"].get("policy", DEFAULT.table()) for report in (first, second)]
    if drop_name(policies[0]) == drop_name(policies[1]):
        return ""
    names = [make_visible(str(policy.get("name", ""))) for policy in policies]
    if names[0] == names[1]:
        return f"The reports were judged under different limits, both called {names[0]}."
    return f"The reports were judged under different policies: {', then '.join(names)}."


def _started(report: Row) -> datetime:
    return datetime.fromisoformat(report["run"]["started"])


def _tables(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a report's settings and those of the steps of an audit, each with its prefix."""
    yield "", config
    steps = config.get("steps")
    for name, table in steps.items() if isinstance(steps, Mapping) else ():
        if isinstance(table, Mapping):
            yield f"{name}.", table


def _attacks(report: Row) -> set[str]:
    """Return the attacks of a report, over the steps of an audit."""
    tables = (table.get("attacks") for _, table in _tables(report["run"]["config"]))
    return {name for table in tables if isinstance(table, Mapping) for name in table}


def _settings(config: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings that decide what was asked, by their path; an attack is its own step."""
    settings: dict[str, object] = {}
    for prefix, table in _tables(config):
        for name in table.keys() - NOT_ASKED:
            path = "" if name == "attacks" else prefix + name
            settings.update(_leaves(path, table[name]))
    left_out = config.get("left_out")
    if isinstance(left_out, Mapping):
        settings |= {name: left_out.get(name, "looked for") for name in UNSEARCHED}
    return settings


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, Mapping):
        yield path, value
        return
    for name, inner in value.items():
        yield from _leaves(f"{path}.{name}" if path else str(name), inner)
