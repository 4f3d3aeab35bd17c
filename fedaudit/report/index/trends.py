"""What became of a federation's numbers from round to round, over the runs that audited it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.report.comparison import row_key
from fedaudit.report.index.entries import RunEntry
from fedaudit.report.number_format import RATES
from fedaudit.report.query import Row
from fedaudit.report.tables.assessment import judged_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One number of a federation by round, the rounds in their order."""

    federation: str
    name: str
    points: tuple[tuple[int, Row], ...]

    @property
    def share(self) -> bool:
        """Whether the number is a share, so that it can be drawn on one scale with others."""
        return self.points[0][1]["metric"] in RATES


def trends(entries: Sequence[RunEntry]) -> list[Trend]:
    """Return every number that two or more rounds of one federation have.

    Where a round was audited more than once the newest run counts.
    """
    series: dict[tuple[str, tuple[str, ...]], dict[int, tuple[str, Row]]] = {}
    for entry in entries:
        if entry.round is None:
            continue
        for row in entry.rows:
            points = series.setdefault((entry.federation, row_key(row)), {})
            if entry.round not in points or points[entry.round][0] < entry.start_time:
                points[entry.round] = entry.start_time, row
    return [
        Trend(
            federation=federation,
            name=judged_name({"rule": "", "measurement": next(iter(points.values()))[1]}),
            points=tuple((number, row) for number, (_, row) in sorted(points.items())),
        )
        for (federation, _), points in sorted(series.items(), key=lambda pair: pair[0])
        if len(points) > 1
    ]
