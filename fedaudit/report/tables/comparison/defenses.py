"""The tables of defences that a federation was trained again under: what each bought and cost."""

from collections.abc import Iterator
from dataclasses import replace

from fedaudit.api.kind import Table
from fedaudit.report.number_format import number
from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.tables.table import NONE, build_table

SEEDS = (
    "Means over the seeds {seeds}, none of them that of the audited federation; change: less"
    " training without a defence, with the same seeds, records and questions. Intervals of 95 %"
    " hold seeds and records, and are not adjusted for how many defences there are. Nothing here"
    " is part of the verdict."
)
CAME_OUT = (
    "Came out: targets of {victim} that {attacker} drew out of the tuned model and not of its base;"
    " of a defence that answers by keys, under the wrong key that let most out."
)


def defense_tables(report: Row) -> list[Table]:
    """Return the tables of each defence's gain, with recommendations, and of each one's cost."""
    defenses = report.get("defenses")
    if not defenses:
        return []
    measured = [trial for trial in defenses["tried"] if not trial["reason"]]
    tables = [
        *([_defense_table(defenses, measured), _cost(measured)] if measured else []),
        *_missing(defenses),
    ]
    recommendations = tuple(make_visible(line) for line in defenses["recommendations"])
    return [replace(tables[0], notes=(*recommendations, *tables[0].notes)), *tables[1:]]


def _defense_table(defenses: Row, measured: list[Row]) -> Table:
    seeds = ", ".join(map(str, defenses["seeds"]))
    clients = {name: make_visible(defenses[name]) for name in ("attacker", "victim")}
    numeric = ("came out [95 %]", "change, points [95 %]")
    return Table(
        title="What each defence would have bought",
        columns=("defence", "attack", *numeric),
        rows=tuple(row for trial in measured for row in _leaks(trial)),
        numeric=frozenset(numeric),
        notes=(CAME_OUT.format(**clients), SEEDS.format(seeds=seeds)),
    )


def _leaks(trial: Row) -> Iterator[tuple[str, ...]]:
    for leak in trial["leaks"]:
        yield (
            make_visible(trial["defense"]),
            make_visible(leak["attack"]),
            _estimate(leak["mean"], 100, "{:.1f}"),
            _estimate(leak["difference"], 100, "{:+.1f}"),
        )


def _cost(measured: list[Row]) -> Table:
    lines = [
        {
            "defence": make_visible(trial["defense"]),
            "loss [95 %]": _estimate(loss["mean"], 1, "{:.2f}") if loss else "",
            "change [95 %]": _estimate(loss["difference"], 1, "{:+.3f}") if loss else "",
            "seconds": number(trial["seconds"]) if trial["seconds"] is not None else "",
            "tokens": _short(trial["tokens"]),
            "MB sent": "" if trial["bytes"] is None else number(trial["bytes"] / 1e6),
        }
        for trial in measured
        for loss in [trial["loss"]]
    ]
    numeric = ("loss [95 %]", "change [95 %]", "seconds", "tokens", "MB sent")
    return build_table(
        "What each defence would have cost",
        lines,
        ("defence", *numeric),
        numeric=numeric,
        notes=(
            "Loss in nats a token, of held-out documents as they are; where a defence answers by"
            " keys, under the right one. Seconds of a training with what a defence deploys, and its"
            " evaluation, on this machine; tokens trained on and megabytes sent by all clients.",
        ),
    )


def _missing(defenses: Row) -> Iterator[Table]:
    rows = tuple(
        (make_visible(trial["defense"]), make_visible(trial["reason"]))
        for trial in defenses["tried"]
        if trial["reason"]
    )
    if rows:
        yield Table(title="Defences that were not measured", columns=("defence", "why"), rows=rows)


def _estimate(estimate: Row | None, factor: int, form: str) -> str:
    if estimate is None:
        return NONE
    value, low, high = (form.format(factor * estimate[end]) for end in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.3g} M" if value >= 1e6 else number(round(value))
