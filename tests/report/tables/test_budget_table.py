"""Sweeps and overlaps as they are shown: tables by hand, curves where their numbers are."""

import re
from itertools import product

import pytest
from example_report import HOSTILE
from gated_report import printed, rate, report, table, titles
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from svg_shapes import drawn_lines

from fedaudit.api.errors import InputError
from fedaudit.api.records import Measurement
from fedaudit.report.charts import coverage_by_budget
from fedaudit.report.document import validate
from fedaudit.report.query import total_coverages
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview
from fedaudit.report.tables.sweeps import sweeps
from fedaudit.report.verdict.policy import verdict

BUDGETS = {1: 0, 2: 1, 5: 1, 10: 2, 20: 4, 40: 8}
"""Hits of 50 that each budget has, 15 samples each."""


def swept(plugin="contextual", factor=1, source="tuned-not-base", **scope):
    rows = []
    for size, hits in BUDGETS.items():
        at = {"set": "all", "budget": size, "samples": 15, **scope}
        for own, found in ((source, factor * hits), ("base", hits // 4), ("control", 0)):
            one = ("extraction", plugin, "coverage")
            rows.append(rate(*one, found, 50, source=own, **at))
            low, high = rows[-1].low, rows[-1].high
            queries = size * 15
            rows.append(
                Measurement(
                    kind="extraction",
                    plugin=plugin,
                    metric="efficiency",
                    value=found / queries,
                    low=low * 50 / queries,
                    high=high * 50 / queries,
                    n=queries,
                    hits=found,
                    scope={"source": own, **at},
                )
            )
    for samples, hits in ((1, 2), (2, 3), (5, 5), (10, 7)):
        at = {"source": source, "set": "all", "budget": 40, "samples": samples, **scope}
        rows.append(rate("extraction", plugin, "coverage", factor * hits, 50, **at))
    return rows


def overlap(hits, n, plugin="frequency", **scope):
    scope = {"source": "tuned-not-base", "set": "all", **scope}
    return rate("extraction", plugin, "overlap", hits, n, reason="nothing", **scope)


PAIR = {"attacks": "frequency", "not": "contextual"}


def test_a_table_has_the_powers_of_ten_and_the_end():
    found = table(swept(), "Coverage by budget: contextual")
    assert found.columns == ("prefixes", "found", "coverage [95 %]", "per query", "base", "control")
    assert found.rows == (
        ("1", "0 / 50", "0.0 % [0.0, 7.1]", "0", "0.0 %", "0.0 %"),
        ("10", "2 / 50", "4.0 % [1.1, 13.5]", "0.0133", "0.0 %", "0.0 %"),
        ("40", "8 / 50", "16.0 % [8.3, 28.5]", "0.0133", "4.0 %", "0.0 %"),
    )
    assert found.notes == (
        "Model: tuned, not base. Each prefix was asked 15 times.",
        "All prefixes, by how often each is asked: 1: 4.0 % [1.1, 13.5]; 2: 6.0 % [2.1, 16.2]; "
        "5: 10.0 % [4.3, 21.4]; 10: 14.0 % [7.0, 26.2].",
    )


def test_it_fits_the_terminal():
    told = printed([*swept(), *swept("superset", 2)])
    assert "Coverage by budget: superset" in told
    assert max(map(len, told)) <= 80


def test_a_sweep_is_no_total_and_is_not_judged():
    whole = [
        rate("extraction", "contextual", "coverage", hits, 50, source=source, set="all")
        for source, hits in (("tuned-not-base", 0), ("base", 0), ("control", 0))
    ]
    rows = [*whole, *swept(factor=5)]
    assert len(total_coverages(report(rows))) == 3
    assert verdict(rows, ()) == verdict(whole, ())
    assert "Other measurements" not in titles(rows)


def test_labels_are_left_to_the_file():
    rows = [*swept(), *swept(label="PERSON"), *swept(category="Identity")]
    assert overview.attack_tables(report(rows))[0] == overview.attack_tables(report(swept()))[0]
    assert [one.name for one in sweeps(report(rows))] == ["contextual"]


def test_the_first_variant_is_shown_and_every_key():
    rows = [
        row
        for variant, key in product(("a", "b"), ("right", "none"))
        for row in swept(variant=variant, key=key, factor=2 if variant == "b" else 1)
    ]
    found = sweeps(report(rows))
    assert [one.name for one in found] == ["contextual, right key", "contextual, no key"]
    assert {row["scope"]["variant"] for one in found for row in one.coverage} == {"a"}


def test_curves_have_the_numbers_of_the_rows():
    rows = [*swept(), *swept("superset", 2)]
    coverage, efficiency = coverage_by_budget.figures(report(rows))
    assert coverage.title == "Coverage against budget"
    assert [line.name for line in coverage.lines] == ["contextual", "superset"]
    one, two = coverage.lines
    assert one.points == tuple((budget, hits / 50) for budget, hits in BUDGETS.items())
    assert two.points == tuple((budget, 2 * hits / 50) for budget, hits in BUDGETS.items())
    assert all(
        low <= y <= high for (low, high), (_, y) in zip(one.intervals, one.points, strict=True)
    )
    assert coverage.high == two.intervals[-1][1]  # the widest of all
    assert coverage.format_value(0.5) == "50.0 %"
    # The highest efficiency, 1 of 30 twice over, is at two thirds, though its interval goes beyond.
    assert efficiency.high == pytest.approx(1.5 * 2 / 30)
    assert efficiency.lines[1].intervals[1][1] > efficiency.high


def test_the_page_draws_them():
    page = html.render(report([*swept(), *swept("superset", 2)]))
    pictures = re.findall(r'(?s)<svg class="plot".*?</svg>', page)
    assert len(pictures) == 2
    assert "Found per query against budget" in page
    for svg in pictures:
        assert sorted(color for color, _ in drawn_lines(svg)) == ["bad", "blue"]
        assert svg.count("fill-opacity: 0.12") == 2


def test_one_budget_is_no_curve():
    rows = [row for row in swept() if row.scope["budget"] == 40]
    assert coverage_by_budget.figures(report(rows)) == []
    assert table(rows, "Coverage by budget: contextual").rows[0][0] == "40"


def test_many_curves_are_cut():
    rows = [row for number in range(9) for row in swept(f"a{number}")]
    figure = coverage_by_budget.figures(report(rows))[0]
    assert len(figure.lines) == len(coverage_by_budget.COLORS)
    assert figure.note.endswith("And 3 more in report.json.")


# overlaps


def overlapping():
    return [
        overlap(6, 10, **PAIR),
        overlap(4, 8, "contextual", attacks="contextual", **{"not": "frequency"}),
        overlap(3, 5, **PAIR, budget=20, budgets="equal", samples=15),
        overlap(1, 2, **PAIR, budget=10, samples=15),
        overlap(4, 14, "overlap", only="contextual"),
        overlap(6, 14, "overlap", only="frequency"),
        overlap(4, 14, "overlap", only="contextual, frequency"),
        overlap(0, 14, "overlap", only="nobody"),
    ]


def test_overlaps_by_hand():
    rows = overlapping()
    assert table(rows, "Found by these attacks and no other").rows == (
        ("contextual", "4 / 14", "28.6 % [11.7, 54.6]"),
        ("frequency", "6 / 14", "42.9 % [21.4, 67.4]"),
        ("contextual, frequency", "4 / 14", "28.6 % [11.7, 54.6]"),
    )
    assert table(rows, "What one attack found and another did not").rows == (
        ("frequency", "contextual", "6 / 10", "60.0 % [31.3, 83.2]", "3 / 5 (20)"),
        ("contextual", "frequency", "4 / 8", "50.0 % [21.5, 78.5]", "-"),
    )
    assert "Other measurements" not in titles(rows)


def test_only_the_source_that_says_most_is_shown():
    rows = [*overlapping(), overlap(9, 9, **PAIR | {"source": "tuned"})]
    assert len(table(rows, "What one attack found and another did not").rows) == 2


def test_overlaps_are_shares_that_the_schema_knows():
    validate(report(overlapping()))
    with pytest.raises(InputError, match=r"value: 1\.5 is greater"):
        validate(report([_beyond()]))


def _beyond():
    return Measurement(
        kind="extraction", plugin="x", metric="overlap", value=1.5, low=0, high=2, n=1, scope={}
    )


# whatever a stranger writes

VALUES = st.none() | st.integers(-3, 10**18) | st.sampled_from([*HOSTILE.values(), "all"])


@st.composite
def strange(draw):
    metric = draw(st.sampled_from(["coverage", "efficiency", "overlap"]))
    value = draw(st.none() | st.floats(0, 1))
    scope = {key: draw(VALUES) for key in ("budget", "samples")}
    parts = st.sampled_from(["attacks", "not", "only", "variant", "key"])
    others = st.dictionaries(parts, VALUES)
    return Measurement(
        kind="extraction",
        plugin=draw(st.sampled_from(["a", *HOSTILE.values()])),
        metric=metric,
        value=value,
        low=None if value is None else value / 2,
        high=None if value is None else (1 + value) / 2,
        n=3,
        reason="no" if value is None else "",
        scope={**scope, **draw(others), "source": draw(st.sampled_from(["tuned", "base"]))},
    )


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(strange(), max_size=8))
def test_any_sweep_can_be_shown(rows):
    document = report(rows)
    assert max(map(cell_len, printed(rows)), default=0) <= 80
    assert html.render(document).count("<script") == 1  # the page's own
    assert "<" not in markdown.render(document)
