"""Plots of named lines and points: over rounds, over budgets, privacy against utility."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedaudit.report.charts.svg import THEME, inline_svg, new_axes
from fedaudit.report.number_format import number
from fedaudit.report.redaction import make_visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, GAP = 420, 240, 16
"""The axes' size, and the height of a line of text, in pixels."""
MOST_LETTERS = 32
MOST_TICKS = 7
MAX_DRAWN = 1e9
"""Numbers beyond this are drawn at this value."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a plot: its points, perhaps with intervals; `color` is one of the theme."""

    name: str
    points: tuple[Point, ...]
    intervals: tuple[tuple[float, float], ...] = ()
    """The interval at each point; points without an interval get no error bar."""
    color: str = "bar"
    bold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """Named lines between `low` and `high`; `across` labels the horizontal axis."""

    title: str
    note: str
    lines: tuple[Line, ...]
    low: float
    high: float
    across: str
    across_scale: Literal["linear", "whole", "log"] = "linear"
    thresholds: tuple[float, ...] = ()
    names_at_points: bool = False
    """Whether each name is next to the line's last point instead of to the right of the plot."""
    format_value: Callable[[float], str] = number

    def svg(self) -> str:
        """Return the picture, for a page."""
        height = max(HEIGHT, GAP * len(self.lines))
        with new_axes(WIDTH, height) as (figure, axes):
            axes.set_ylim(clip_value(self.low), clip_value(self.high))
            _scale(axes, self)
            for value in self.thresholds:
                _draw_threshold(axes, clip_value(value))
            for line in reversed(self.lines):
                _draw_line(axes, line)
            _name_lines(axes, self, height)
            return inline_svg(figure, self.title)


def clip_value(value: float) -> float:
    """Return a value as a float, clipped to +-MAX_DRAWN so that a picture can show it."""
    return float(max(-MAX_DRAWN, min(MAX_DRAWN, value)))


def _scale(axes: "Axes", plot: LinePlot) -> None:
    """Set the scale, ticks and labels of both axes."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    xs = [clip_value(x) for line in plot.lines for x, _ in line.points]
    low, high = min(xs), max(xs)
    if plot.across_scale == "log":
        high = max(2.0, high)
        axes.set_xscale("log")
        axes.set_xlim(1 / high**0.04, high**1.04)
        axes.xaxis.set_major_locator(LogLocator(base=10, numticks=MOST_TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        margin = 0.04 * (high - low)
        if margin < 1e-9 * max(1.0, abs(low)):
            margin = 0.5 * max(1.0, abs(low))
        axes.set_xlim(low - margin, high + margin)
        whole = plot.across_scale == "whole"
        axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS, integer=whole))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plot.format_value(value)))
    axes.set_xlabel(make_visible(plot.across))


def _draw_threshold(axes: "Axes", value: float) -> None:
    axes.axhline(value, color=THEME["ink"], linestyle=(0, (6, 4)), linewidth=1)
    axes.annotate(
        f"{value:.4g}", (0, value), (4, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points",
    )  # fmt: skip


def _draw_line(axes: "Axes", line: Line) -> None:
    xs, ys = zip(*((clip_value(x), clip_value(y)) for x, y in line.points), strict=True)
    color = THEME[line.color]
    if line.intervals:
        lows, highs = zip(*((clip_value(a), clip_value(b)) for a, b in line.intervals), strict=True)
        axes.fill_between(xs, lows, highs, color=color, alpha=0.12, linewidth=0)
    axes.plot(
        xs, ys, color=color, linewidth=2.5 if line.bold else 1.5, marker="o", markersize=6,
        markeredgewidth=0, clip_on=False,
    )  # fmt: skip


def _name_lines(axes: "Axes", plot: LinePlot, height: float) -> None:
    """Write each line's name next to its last point or right of the plot, without overlaps."""
    low, high = axes.get_ylim()
    ends = [clip_value(line.points[-1][1]) for line in plot.lines]
    ideal_heights = [(end - low) / (high - low) * height for end in ends]
    for line, end, y in zip(plot.lines, ends, spread_labels(ideal_heights, 0, height), strict=True):
        at_point = plot.names_at_points
        axes.annotate(
            shorten_name(line.name),
            (clip_value(line.points[-1][0]), end) if at_point else (1, y / height),
            (8, 0),
            xycoords="data" if at_point else "axes fraction",
            textcoords="offset points",
            va="center",
            color=THEME["muted" if line.color == "bar" else line.color],
            fontweight="semibold" if line.bold else "normal",
            annotation_clip=False,
        )


def shorten_name(name: str, most: int = MOST_LETTERS) -> str:
    """Return a name for a picture: visible characters only, cut to the available room."""
    visible = make_visible(name)
    return visible if len(visible) <= most else f"{visible[: most - 1]}…"


def spread_labels(ideal_heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions near the ideal ones, a line of text apart, between `low` and `high`."""
    order = sorted(range(len(ideal_heights)), key=lambda index: ideal_heights[index])
    places = [0.0] * len(ideal_heights)
    below = low - GAP
    for index in order:
        below = places[index] = max(ideal_heights[index], below + GAP)
    above = high + GAP
    for index in reversed(order):
        above = places[index] = min(places[index], above - GAP)
    return [round(y, 1) for y in places]
