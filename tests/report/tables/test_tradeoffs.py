"""The table and the picture that set a study's variants beside each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config.profile import parse
from fedaudit.report.charts import privacy_utility
from fedaudit.report.tables import tradeoffs

COLUMNS = [
    {"title": "extracted", "metric": "coverage", "plugin": "contextual",
     "scope": {"source": "tuned"}, "better": "lower", "axis": True},
    {"title": "accuracy", "metric": "accuracy", "plugin": "", "scope": {}, "better": "higher",
     "axis": True},
    {"title": "flops", "metric": "flops", "plugin": "", "scope": {}, "better": "lower",
     "axis": False},
]  # fmt: skip


def row(variant, metric, value, plugin="contextual", **scope):
    return {
        "kind": "extraction", "plugin": plugin, "metric": metric, "value": value, "n": 50,
        "low": None, "high": None, "hits": None, "baseline": None, "chance": None, "reason": "",
        "scope": {"variant": variant, **scope},
    }  # fmt: skip


def report(*rows, columns=COLUMNS):
    return {"run": {"config": {"tradeoffs": columns}}, "measurements": list(rows)}


def variant(name, leak, accuracy):
    return (
        row(name, "coverage", leak, source="tuned"),
        row(name, "coverage", 0.9, source="tuned", label="PERSON"),
        row(name, "coverage", 0.8, source="base"),
        row(name, "accuracy", accuracy, plugin="utility"),
    )


WHOLE = report(
    *variant("none", 0.5, 0.9),
    *variant("scrub", 0.1, 0.8),
    *variant("worse", 0.2, 0.7),  # scrub leaks less and is more accurate
    *variant("dp", 0.0, 0.2),
    row("broken", "coverage", None, source="tuned"),
)


def test_the_front_by_hand():
    assert tradeoffs.axis_values(WHOLE) == {
        "none": (0.5, -0.9),
        "scrub": (0.1, -0.8),
        "worse": (0.2, -0.7),
        "dp": (0.0, -0.2),
    }
    assert tradeoffs.pareto_front(tradeoffs.axis_values(WHOLE)) == ["none", "scrub", "dp"]


def test_equal_variants_are_both_on_the_front():
    assert tradeoffs.pareto_front({"a": (1.0, 1.0), "b": (1.0, 1.0), "c": (1.0, 2.0)}) == ["a", "b"]


def test_the_table_has_the_least_specific_row_of_each_column():
    [table] = tradeoffs.tables(WHOLE)
    assert table.columns == ("variant", "extracted", "accuracy", "flops", "front")
    lines = {line[0]: line[1:] for line in table.rows}
    assert lines["scrub"] == ("10.0 %", "80.0 %", "-", "yes")
    assert lines["worse"][-1] == "-"
    assert lines["broken"][1:] == ("-", "-", "-")
    assert "Less is better, but for accuracy." in table.notes


def test_many_columns_are_parts_that_fit_and_large_numbers_are_short():
    more = [{**COLUMNS[2], "title": f"t{n}"} for n in range(4)]
    rows = [*WHOLE["measurements"], row("dp", "flops", 2_035_410_092_032.0, plugin="simulation")]
    made = tradeoffs.tables(report(*rows, columns=[*more, *COLUMNS]))
    assert [table.title for table in made] == [
        "Leakage, utility and cost",
        "Leakage, utility and cost, part 2",
        "Leakage, utility and cost, part 3",
    ]
    assert made[0].columns == ("variant", "extracted", "accuracy", "t0", "front")
    assert [len(table.columns) for table in made] == [5, 5, 3]
    assert {line[0]: line[3] for line in made[0].rows}["dp"] == "2.04e+12"
    assert made[0].notes
    assert not made[1].notes


def test_a_study_without_columns_or_with_one_variant_has_no_table():
    assert tradeoffs.tables(report(*variant("none", 0.5, 0.9))) == []
    assert tradeoffs.tables({**WHOLE, "run": {"config": {}}}) == []


def test_the_picture_joins_the_front_and_names_the_variants():
    [plot] = privacy_utility.figures(WHOLE)
    assert [line.name for line in plot.lines] == ["", "none", "scrub", "worse", "dp"]
    assert len(plot.lines[0].points) == 3
    xs = [x for x, _ in plot.lines[0].points]
    assert xs == sorted(xs)
    assert "Up: extracted." in plot.note
    assert plot.across == "accuracy"


def test_two_axes_are_needed():
    some = {"name": "x", "scale": {}, "study": [{"name": "a"}], "tradeoffs": COLUMNS[:1]}
    with pytest.raises(UsageError, match="two of the tradeoffs"):
        parse(some)
    assert len(parse({**some, "tradeoffs": COLUMNS}).tradeoffs) == 3


PLACES = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.tuples(st.integers(0, 5), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


@given(PLACES)
def test_whoever_is_not_on_the_front_is_beaten_by_one_who_is(places):
    front = set(tradeoffs.pareto_front(places))
    assert front
    for name, own in places.items():
        beaten = [
            other
            for other in front
            if places[other] != own and all(b <= a for a, b in zip(own, places[other], strict=True))
        ]
        assert bool(beaten) == (name not in front)


@given(PLACES)
def test_order_and_scale_do_not_matter(places):
    turned = {name: (3 * a + 1, 7 * b) for name, (a, b) in reversed(places.items())}
    assert set(tradeoffs.pareto_front(turned)) == set(tradeoffs.pareto_front(places))


@pytest.mark.parametrize(
    "columns", [3, [3], [{}], [{**COLUMNS[0], "scope": 1}], COLUMNS[:1], [*COLUMNS, COLUMNS[0]]]
)
def test_a_strangers_columns_that_cannot_be_are_no_table(columns):
    odd = report(*variant("none", 0.5, 0.9), *variant("dp", 0.1, 0.3), columns=columns)
    assert tradeoffs.tables(odd) == []
    assert privacy_utility.figures(odd) == []
