"""Finding one's way among the measurements of a report: which belong together, in which order."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from fedaudit.api.kind import SWEPT
from fedaudit.api.records import Measurement, Severity
from fedaudit.api.target_sets import ALL, DISJOINT, EXCLUSIVE
from fedaudit.report.attribution_parts import attribution_part

Row = Mapping[str, Any]
"""A measurement of a report.json."""
Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)

SEVERITIES: tuple[str, ...] = get_args(Severity)
"""The severities of findings, worst first."""

SOURCES = {
    "tuned": "tuned",
    "base": "base",
    "tuned-not-base": "tuned, not base",
    "base-not-tuned": "base, not tuned",
    "held-out": "held out",
    "control": "control",
    "known": "positive control",
    "central": "central",
    "local": "local",
}
"""Values of scope.source in reading order, as people read them."""

SETS = {ALL: "all", DISJOINT: "disjoint", EXCLUSIVE: "judged"}
"""Values of scope.set in reading order, as people read them."""

INFERENCE, LEAKING = ("inference_accuracy",), ("leaking_answers", "leaking_requests")
EXTRACTION = (
    *("coverage", "efficiency", "queries", "vx_pii", "overlap", "extractable", "given_up"),
    *("hits_of_one_run", "targets", "p_value", "chance", "effective_controls", "precision"),
    *("annotation_labels", "gain_score", "shared_targets"),
    *LEAKING,
)
UNPROMPTED = ("extraction_recall", "extraction_precision")
UTILITY = (
    *("loss", "perplexity", "rouge_l", "bleu", "accuracy", "edit_distance"),
    *("judge_win", "judge_tie", "judge_lose", "judge_win_tie", "judge_malformed"),
)
COSTS = ("parameters", "bytes_sent", "flops", "seconds")
GUARDS = ("epsilon", "routing_accuracy", "dropped", "kept")

_SOURCES_BY_RANK = ("tuned-not-base", "tuned", "base", "held-out", "control")


def total_coverages(report: Row) -> list[Row]:
    """Return the coverages of whole sets of PII, in reading order."""
    rows = coverages(report, labelled=False)
    order = list(dict.fromkeys(map(scope_of, rows)))
    return sorted(
        rows, key=lambda row: (order.index(scope_of(row)), _rank(row, "set"), _rank(row, "source"))
    )


def coverages(report: Row, *, labelled: bool) -> list[Row]:
    """Return the coverages of whole sets of PII, or of each kind of PII, in report order."""
    rows = [row for row in _rows_of_kind(report, "extraction", "coverage") if not is_sweep(row)]
    return [row for row in rows if _has_label(row) == labelled]


def is_sweep(row: Row) -> bool:
    """Tell whether a row says how much a smaller budget or fewer samples would have found."""
    return SWEPT.issubset(row["scope"])


def _has_label(row: Row) -> bool | None:
    """Tell whether a row is of one kind of PII; None for a category of several kinds."""
    return None if "category" in row["scope"] else "label" in row["scope"]


def largest_label_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the coverages by label of one attack in its preferred source, the largest first.

    Coverages beyond the base are preferred to the tuned model's, and those of all targets to those
    of a selection.
    """
    best = min(rows, key=lambda row: (source_rank(row), _rank(row, "set"), scope_of(row)))
    keys = [key for key in best["scope"] if key != "label"]
    like = [row for row in rows if scope_text(row, keys) == scope_text(best, keys)]
    return sorted(like, key=lambda r: (-(r["hits"] or 0), -(r["n"] or 0), str(r["scope"]["label"])))


def source_rank(row: Row) -> int:
    """Return a row's rank by scope.source: 0 for results beyond the base, which say most."""
    source = row["scope"].get("source")
    return _SOURCES_BY_RANK.index(source) if source in _SOURCES_BY_RANK else len(_SOURCES_BY_RANK)


def set_rank(row: Row) -> int:
    """Return the position of a row's set of targets in reading order."""
    return _rank(row, "set")


def strongest_total(rows: Sequence[Row]) -> Row | None:
    """Return the total that says most about an attack: the highest one beyond the base."""
    totals = [row for row in rows if row["value"] is not None]
    return min(totals, key=lambda r: (source_rank(r), _rank(r, "set"), -r["value"]), default=None)


def comparable_row(rows: Iterable[Row], row: Row, source: str) -> Row | None:
    """Return the row of `source` to compare `row` with; the scope of that row may be wider."""
    return _nearest((r for r in rows if r["scope"].get("source") == source), row, but="source")


def companion_row(report: Row, row: Row, metric: str) -> Row | None:
    """Return the most specific measurement of `metric` for the subject of `row`."""
    return _nearest((r for r in report["measurements"] if r["metric"] == metric), row)


def _nearest(rows: Iterable[Row], row: Row, but: str = "") -> Row | None:
    """Return the most specific of an attack's rows whose scope, `but` for one key, covers `row`."""
    scope = row["scope"]
    fits = (
        candidate
        for candidate in rows
        if candidate["plugin"] == row["plugin"]
        and all(key == but or scope.get(key) == v for key, v in candidate["scope"].items())
    )
    return max(fits, key=lambda candidate: len(candidate["scope"]), default=None)


def same_scope_row(rows: Iterable[Row], row: Row, metric: str, **changes: object) -> Row | None:
    """Return the first row of `metric` that has the scope of `row`, but for `changes`."""
    scope = {**row["scope"], **changes}
    return next((r for r in rows if r["metric"] == metric and r["scope"] == scope), None)


def guessing_accuracy(report: Row, row: Row) -> float | None:
    """Return the accuracy of guessing that the verdict assumes.

    That is the larger of the row's chance level and the accuracy of guessing among candidates that
    are not invented.
    """
    alike = [
        other["value"]
        for other in report["measurements"]
        if (other["plugin"], other["metric"]) == (row["plugin"], "inference_chance")
        and other["scope"] == row["scope"]
    ]
    rates = [rate for rate in (row["chance"], *alike) if rate is not None]
    return max(rates, default=None)


def scope_but(row: Row, *keys: str) -> dict[str, Any]:
    """Return a measurement's scope without some keys."""
    return {key: value for key, value in row["scope"].items() if key not in keys}


def group_by(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """Return values by their key, in the order in which the keys come first."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def by_plugin(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return measurements by the attack that made them, in the order of the report."""
    return group_by(rows, lambda row: str(row["plugin"]))


def inference_rows(report: Row, *, labelled: bool) -> list[Row]:
    """Return the inference accuracies over all kinds of PII, or those of each kind, in order."""
    rows = [
        row
        for row in report["measurements"]
        if row["metric"] in INFERENCE and ("label" in row["scope"]) == labelled
    ]

    def place(row: Row) -> tuple[int, str, int]:
        count = row["scope"].get("candidates")
        label = str(row["scope"].get("label", ""))
        return count if isinstance(count, int) else 0, label, _rank(row, "source")

    return sorted(rows, key=place)


def utility(report: Row) -> list[Row]:
    """Return the measurements of how well a model does its tasks, in reading order."""
    rows = [r for r in report["measurements"] if r["kind"] == "utility" and r["metric"] in UTILITY]
    order = ("base", "tuned", "central", "local")
    rows.sort(key=lambda r: order.index(s) if (s := r["scope"].get("source")) in order else 9)
    return sorted(rows, key=lambda row: str(row["scope"].get("task", "")))


UNTARGETED = "extraction_recall"
"""The metric of attacks that ask for nothing in particular."""


def untargeted_rows(report: Row, *, labelled: bool, metric: str = UNTARGETED) -> list[Row]:
    """Return the recalls over all kinds of PII, or those of each kind, in reading order."""
    rows = _rows_of_kind(report, "extraction", metric)
    rows = [row for row in rows if _has_label(row) == labelled]
    return sorted(rows, key=lambda row: _rank(row, "source"))


def costs(report: Row) -> list[Row]:
    """Return the measurements of what the run cost, in reading order."""
    return sorted(_rows_of_kind(report, "cost", *COSTS), key=lambda row: COSTS.index(row["metric"]))


def defense_rows(report: Row, metric: str) -> list[Row]:
    """Return a defence's rows of `metric`, in report order: what it guarantees or decides."""
    return [row for row in _rows_of_kind(report, "defense", metric) if _guards(row)]


def _guards(row: Row) -> bool:
    """Tell whether a row of a defence is shown in one of the defence's own tables."""
    scope = row["scope"]
    conditions = {"fpr": "attempt" in scope, "loss": bool(scope.get("stage") == "fusion")}
    return conditions.get(row["metric"], row["metric"] in GUARDS)


def _rows_of_kind(report: Row, kind: str, *metrics: str) -> list[Row]:
    return [r for r in report["measurements"] if r["kind"] == kind and r["metric"] in metrics]


def other_rows(report: Row) -> list[Row]:
    """Return the measurements that no other table shows."""
    probability = (*INFERENCE, "inference_chance")
    metrics = {"extraction": EXTRACTION, "utility": UTILITY, "probability": probability}
    metrics["cost"] = COSTS
    recalled = {row["plugin"] for row in _rows_of_kind(report, "extraction", "extraction_recall")}
    return [
        row
        for row in report["measurements"]
        if row["metric"] not in metrics.get(row["kind"], ())
        and not (row["kind"] == "defense" and _guards(row))
        and not attribution_part(row)
        and not (
            row["kind"] == "extraction"
            and row["metric"] in UNPROMPTED
            and row["plugin"] in recalled
        )
    ]


COUNTED = ("candidates", "members", "others")
"""Keys of a scope that say how many there are."""


def scope_words(key: str, value: object) -> str:
    """Return an entry of a scope in words: `the victim's records`, `20 candidates`, `round 3`."""
    if key == "records":
        return "own records" if value == "own" else f"the {value}'s records"
    return f"{value} {key}" if key in COUNTED else f"{key} {value}"


def row_name(row: Measurement, *hidden: str) -> str:
    """Return in words which attack measured a row, and its scope without source and `hidden`."""
    entries = [(k, v) for k, v in row.scope.items() if k not in ("source", *hidden)]
    where = ", ".join(scope_words(key, value) for key, value in entries)
    return f"{row.plugin} ({where})" if where else row.plugin


def rows_like(
    row: Measurement, rows: Iterable[Measurement], metric: str = "", **changes: object
) -> list[Measurement]:
    """Return an attack's rows of a metric with the scope of `row`, both but for changes."""
    names, scope = (row.plugin, metric or row.metric), {**row.scope, **changes}
    return [r for r in rows if (r.plugin, r.metric) == names and dict(r.scope) == scope]


def scope_text(row: Row, keys: Iterable[str]) -> str:
    """Return the given keys of a measurement's scope in words: `budget 100, victim c1`."""
    scope = row["scope"]
    return ", ".join(scope_words(key, scope[key]) for key in sorted(keys) if key in scope)


def scope_of(row: Row, hidden: Collection[str] = ()) -> str:
    """Return a measurement's scope as text, without keys that columns show or that are `hidden`."""
    return scope_text(row, _unshown_keys(row) - set(hidden))


def common_scope(rows: Sequence[Row], hidden: Collection[str] = ()) -> tuple[str, list[str]]:
    """Return the scope that all rows share, as text, and the rest of each row's scope.

    A row that leaves a key out agrees with any value of it.
    """
    by_key: dict[str, set[str]] = {}
    for row in rows:
        for key in _unshown_keys(row) - set(hidden):
            by_key.setdefault(key, set()).add(str(row["scope"][key]))
    agreed = {key for key, values in by_key.items() if len(values) == 1}
    example = {"scope": {key: next(iter(by_key[key])) for key in agreed}}
    return scope_text(example, agreed), [scope_text(row, by_key.keys() - agreed) for row in rows]


def _unshown_keys(row: Row) -> set[str]:
    columns = {"source", "set", "label", "task"}
    return set(row["scope"]) - (columns | {"candidates"} if row["metric"] in INFERENCE else columns)


def missing_reasons(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return why rows without a value have none, each reason once."""
    reasons = (row["reason"] for row in rows if row["value"] is None)
    return tuple(dict.fromkeys(f"Not measured: {reason}" for reason in reasons))


def _rank(row: Row, key: str) -> int:
    order = [*SOURCES] if key == "source" else [*SETS]
    value = row["scope"].get(key)
    return order.index(value) if value in order else len(order)
