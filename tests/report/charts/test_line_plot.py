"""Plots of lines as SVG: to scale, every name whole and apart, safe whatever the names are."""

import itertools
import re
import subprocess
import sys
from importlib.resources import files
from xml.etree import ElementTree

import pytest
from example_report import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from svg_shapes import drawn_lines, texts, threshold_heights

from fedaudit.report.charts.line_plot import GAP, HEIGHT, WIDTH, Line, LinePlot, spread_labels
from fedaudit.report.charts.svg import THEME


def plot(*lines, **settings):
    given = {"low": 0.0, "high": 10.0, "across": "round", "across_scale": "whole", **settings}
    return LinePlot(title="A title", note="", lines=lines, **given)


def line(name, *points, **settings):
    return Line(name=name, points=points, **settings)


def test_points_thresholds_and_ticks_are_to_scale():
    svg = plot(line("a", (1, 2.5), (2, 5), (5, 10), color="bad"), thresholds=(4.0,)).svg()
    [(color, found)] = drawn_lines(svg)
    assert color == "bad"
    xs, ys = zip(*found, strict=True)
    # From 0 to 10 the plot is HEIGHT high; rounds 1 to 5 take its width but for 4 % at either end.
    assert ys[0] - ys[1] == pytest.approx(HEIGHT / 4, abs=0.01)
    assert ys[1] - ys[2] == pytest.approx(HEIGHT / 2, abs=0.01)
    assert xs[2] - xs[0] == pytest.approx(WIDTH / 1.08, abs=0.01)
    assert xs[1] - xs[0] == pytest.approx((xs[2] - xs[0]) / 4, abs=0.01)
    [threshold] = threshold_heights(svg)
    assert threshold - ys[2] == pytest.approx(HEIGHT * 0.6, abs=0.01)
    written = {text: (x, y) for text, x, y in texts(svg)}
    assert {"1", "2", "3", "4", "5", "0", "10", "a", "round"} <= written.keys()
    assert written["5"][0] == pytest.approx(xs[2], abs=0.01)


def test_a_log_scale_puts_10_halfway_to_100():
    svg = plot(line("a", (1, 0.0), (10, 1.0), (100, 2.0)), across_scale="log").svg()
    [(_, found)] = drawn_lines(svg)
    (x1, _), (x10, _), (x100, _) = found
    assert x10 - x1 == pytest.approx(x100 - x10, abs=0.01)
    assert {"1", "10", "100"} <= {text for text, _, _ in texts(svg)}


def test_intervals_are_shaded_in_the_lines_color():
    given = line("a", (1, 5.0), (2, 6.0), intervals=((4.0, 6.0), (5.0, 7.0)), color="blue")
    svg = plot(given).svg()
    assert svg.count("fill: var(--blue); fill-opacity: 0.12") == 1


def test_names_are_apart_and_inside():
    lines = [line(f"c{n}", (1, 1 + n / 1000), (2, 1 + n / 1000)) for n in range(19)]
    svg = plot(*lines).svg()
    heights = sorted(y for text, _, y in texts(svg) if text.startswith("c"))
    assert len(heights) == 19
    assert all(b - a >= GAP - 0.11 for a, b in itertools.pairwise(heights))
    assert all(0 < y < box(svg)[1] for y in heights)


def test_a_plot_has_room_for_its_longest_name():
    [short, long] = [box(plot(line(name, (1, 1.0))).svg())[0] for name in ("a", "W" * 32)]
    assert long > short + 300


def box(svg):
    """Return the width and height of what is seen."""
    return [float(one) for one in ElementTree.fromstring(svg).get("viewBox").split()[2:]]


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=12))
def test_labels_stay_in_order_apart_and_inside(wished):
    height = GAP * 14
    found = spread_labels(wished, 0, height)
    assert len(found) == len(wished)
    assert all(0 <= y <= height for y in found)
    order = sorted(range(len(wished)), key=lambda index: wished[index])
    assert all(found[b] - found[a] >= GAP - 0.11 for a, b in itertools.pairwise(order))


def test_labels_with_room_stay_where_they_are():
    assert spread_labels([10.0, 100.0, 50.0], 0, 200) == [10.0, 100.0, 50.0]


VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([5e-324, -1e308])


@given(
    st.lists(st.tuples(st.integers(0, 10**400) | VALUES, VALUES), min_size=1, max_size=4),
    st.sampled_from(["linear", "whole"]),
)
def test_any_numbers_can_be_drawn(points, scale):
    values = [y for _, y in points]
    low, high = min(0.0, *values), max(1.0, *values)
    given = plot(line("a", *points), low=low, high=high, across_scale=scale, thresholds=(low,))
    svg = given.svg()
    assert "nan" not in svg
    assert "inf" not in svg.replace("info", "")
    [(_, found)] = drawn_lines(svg)
    assert all(-1 <= x <= box(svg)[0] + 1 and -1 <= y <= box(svg)[1] + 1 for x, y in found)


@pytest.mark.parametrize("name", [*HOSTILE.values(), "$\\frac{1}{2}$", "$x", "名前 😀", "#b3261e"])
def test_a_name_is_text_and_nothing_else(name):
    svg = plot(line(name, (1, 1.0), (2, 2.0)), across=name, names_at_points=True).svg()
    assert "<script" not in svg
    assert "\x1b" not in svg
    ElementTree.fromstring(svg)
    if "$" in name or "#" in name:
        assert name in [text for text, _, _ in texts(svg)]


def test_the_same_plot_gives_the_same_picture_and_another_other_identifiers():
    one, again, other = (plot(line("a", (1, y), (2, 3.0))).svg() for y in (1.0, 1.0, 2.0))
    assert one == again
    names = [set(re.findall(r' id="([^"]*)"', svg)) for svg in (one, other)]
    assert names[0]
    assert not names[0] & names[1]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', one))
    assert used == names[0]


def test_the_picture_loads_nothing_and_styles_nothing_else():
    svg = plot(line("a", (1, 1.0), (2, 2.0))).svg()
    assert not re.search(r"<style|<metadata|xmlns|http|font-family|<image", svg)
    assert "<title>A title</title>" in svg


def test_settings_of_the_session_change_nothing():
    import matplotlib

    given = plot(line("a_b", (1, 1.0), (2, 2.0)))
    before = given.svg()
    with matplotlib.rc_context({"text.usetex": True, "font.size": 40, "svg.fonttype": "path"}):
        assert given.svg() == before
        assert matplotlib.rcParams["font.size"] == 40


@pytest.mark.parametrize("content", [b"text.usetex: True\nfont.size: 99\nnonsense\n", b"\xff\xfe"])
def test_settings_in_the_current_folder_change_nothing(tmp_path, content):
    (tmp_path / "matplotlibrc").write_bytes(content)
    code = (
        "from fedaudit.report.charts.line_plot import Line, LinePlot; import os;"
        "lines = (Line(name='a', points=((1, 1.0), (2, 2.0))),);"
        "drawn = LinePlot(title='A title', note='', lines=lines, low=0.0, high=10.0,"
        " across='round', across_scale='whole'); print(drawn.svg()); print(os.getcwd())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    expected = plot(line("a", (1, 1.0), (2, 2.0))).svg()
    assert ended.stdout == f"{expected}\n{tmp_path.resolve()}\n"
    assert ended.stderr == ""


def test_colors_are_those_of_the_page():
    style = files("fedaudit.report").joinpath("pages/page.css").read_text("utf-8")
    light = dict(re.findall(r"--(\w+): (#\w+)", style[: style.index("@media")]))

    def whole(color):
        return color if len(color) == 7 else "#" + "".join(2 * one for one in color[1:])

    assert {name: whole(light[name]) for name in THEME} == THEME
