"""Parts of a report that follow from other parts, recomputed and compared."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isclose
from typing import TYPE_CHECKING, Any

from fedaudit.api.estimates import Estimate
from fedaudit.metrics.intervals import wilson
from fedaudit.report.check import Check
from fedaudit.report.kinds.registry import is_ours
from fedaudit.report.number_format import is_rate

if TYPE_CHECKING:
    from fedaudit.audit.defenses.study import DefenseEffect, MeanChange

Report = Mapping[str, Any]

CORRECTED = frozenset({"learnt"})
"""Shares that are not `hits` of `n`: guessing is taken off."""
WHOLE_TARGETS = ("coverage", "extraction_recall", "inference_accuracy", "inversion_rate")
"""Metrics whose hits are targets, each of which has one finding at most."""
PARTS = ("set", "source", "label", "category", "budget", "samples")
"""Keys of a scope that name a part of what an attack found, or another measurement of it."""
ROUNDING = 1e-6


def consistency_checks(report: Report) -> Iterator[Check]:
    """Yield a check of each kind of statement that other parts of the report determine.

    Whether an interval is that of its data, and whether a finding is of a target, cannot be told
    from a report.
    """
    if shares := [row for row in report["measurements"] if _is_share(row)]:
        yield _check("shares", len(shares), map(_share_contradiction, shares))
    if report["findings"]:
        yield _check("findings", len(report["findings"]), _finding_contradictions(report))
    if defenses := report.get("defenses"):
        yield _check("defences", len(defenses["tried"]), [_defense_contradiction(defenses)])


def _check(kind: str, count: int, contradictions: Iterable[str]) -> Check:
    whys = list(dict.fromkeys(filter(None, contradictions)))
    if not whys:
        return Check(state="same", kind=kind, name=f"{count:,}")
    more = f"; and {len(whys) - 1:,} more" if len(whys) > 1 else ""
    return Check(state="differs", kind=kind, name=f"{count:,}", why=whys[0] + more)


def _is_share(row: Report) -> bool:
    counted = None not in (row["value"], row["hits"]) and row["n"]
    return bool(
        counted
        and is_ours(row["kind"])
        and is_rate(row["metric"])
        and row["metric"] not in CORRECTED
    )


def _share_contradiction(row: Report) -> str:
    """Return how a share's value or interval contradicts its counts; "" if neither does.

    Intervals allow for targets that depend on each other, so they may be wider than Wilson's. The
    data that they are computed from is not in the report, but without a hit no interval is
    narrower.
    """
    name = f"{row['plugin']} {row['metric']}"
    share = row["hits"] / row["n"]
    if not isclose(row["value"], share, abs_tol=ROUNDING):
        return f"{name} is {row['value']:.4g}, and {row['hits']:,} of {row['n']:,} are {share:.4g}"
    low, high = row["low"], row["high"]
    if low is None or high is None:
        return ""
    if not low - ROUNDING <= share <= high + ROUNDING:
        return f"the interval of {name}, {low:.4g} to {high:.4g}, does not hold its {share:.4g}"
    least = wilson(0, row["n"]).high
    if row["metric"] in WHOLE_TARGETS and not row["hits"] and high < least - ROUNDING:
        return (
            f"the interval of {name} ends at {high:.4g}, that of 0 of {row['n']:,} at {least:.4g}"
        )
    return ""


def _finding_contradictions(report: Report) -> Iterator[str]:
    """Yield where an attack has more findings, in all or of a kind of data, than hits."""
    rows = [row for row in report["measurements"] if row["metric"] in WHOLE_TARGETS]
    # Where a probability was computed, or a number is a mean over seeds, there are no hits.
    uncounted = {_name(row) for row in rows if row["hits"] is None and row["value"] is not None}
    found = Counter(
        (finding["measurement"], label)
        for finding in report["findings"]
        for label in ("", finding["label"])
    )
    for (name, label), count in found.items():
        of_attack = [row for row in rows if _name(row) == name and name not in uncounted]
        labelled = any("label" in row["scope"] for row in of_attack)
        if not of_attack or (label and not labelled):
            continue
        hits = _most_hits(of_attack, label)
        if count > hits:
            kind = f" of the kind {label}" if label else ""
            yield f"{name} has {count:,} findings{kind}, and its rows {hits:,} hits"


def _most_hits(rows: Sequence[Report], label: str) -> int:
    """Return the most targets that rows of a kind of data, or of all ("" ), can have hit."""
    most: dict[str, int] = defaultdict(int)
    for row in rows:
        scope = row["scope"]
        if str(scope.get("label", "")) != label or (not label and "category" in scope):
            continue
        if scope.get("source", "tuned") not in ("tuned", "tuned-not-base"):
            continue
        place = str(sorted((key, str(v)) for key, v in scope.items() if key not in PARTS))
        most[place] = max(most[place], row["hits"] or 0)
    return sum(most.values())


def _name(row: Report) -> str:
    return f"{row['plugin']} {row['metric']}"


def _defense_contradiction(defenses: Report) -> str:
    """Return that the recommendations are not those of the table; "" if they are."""
    from fedaudit.audit.defenses.plan import NONE
    from fedaudit.audit.defenses.study import no_number, recommendations

    tried = {row["defense"]: row for row in defenses["tried"]}
    effects = {name: _effect(row) for name, row in tried.items() if row["leaks"]}
    none = effects.pop(NONE, None)
    if any(change.difference is None for e in effects.values() for change in e.leaks.values()):
        return "a defence has no difference from training without one"
    if none is not None:
        recomputed = recommendations(none, effects)
    else:
        recomputed = [no_number(tried[NONE]["reason"] if NONE in tried else "")]
    if list(defenses["recommendations"]) == recomputed:
        return ""
    return "the recommendations do not follow from the table of defences"


def _effect(row: Report) -> "DefenseEffect":
    from fedaudit.audit.defenses.study import DefenseEffect

    return DefenseEffect(
        leaks={leak["attack"]: _change(leak) for leak in row["leaks"]},
        loss=_change(row["loss"]) if row["loss"] else None,
        seconds=row["seconds"],
        tokens=row["tokens"] or 0.0,
        bytes=row["bytes"],
        flops=row["flops"],
    )


def _change(stated: Report) -> "MeanChange":
    from fedaudit.audit.defenses.study import MeanChange

    gap = stated["difference"]
    return MeanChange(mean=Estimate(**stated["mean"]), difference=Estimate(**gap) if gap else None)
