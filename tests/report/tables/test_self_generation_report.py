"""The tables of made-up examples: what filters dropped, and what was kept."""

from fedaudit.report.tables.defense import defense


def row(metric, value, *, n=None, hits=None, **scope):
    return {
        "kind": "defense",
        "plugin": "few_fed_pit",
        "metric": metric,
        "value": value,
        "low": None if n is None else max(0.0, value - 0.1),
        "high": None if n is None else min(1.0, value + 0.1),
        "n": n,
        "hits": hits,
        "chance": None,
        "baseline": None,
        "reason": "",
        "scope": scope,
    }


def only_table(*rows):
    """Return the title of the one table of `rows`, and its lines by column."""
    [table] = defense({"measurements": list(rows)})
    return table.title, [dict(zip(table.columns, line, strict=True)) for line in table.rows]


def kept(number, value, **scope):
    more = {"client": "c1", "clients": 2, "mean": 3.5, "highest": 0.61, "alike": 4}
    return row("kept", value, round=number, **more, **scope)


def test_filters_are_shown_over_all_rounds_in_their_order():
    title, lines = only_table(
        row("dropped", 0.5, n=40, hits=20, filter="short"),
        row("dropped", 0.25, n=20, hits=5, filter="format"),
        row("dropped", 0.9, n=10, hits=9, filter="short", round=1),
    )
    assert title == "What the filters of made-up examples dropped: few_fed_pit"
    assert [line["filter"] for line in lines] == ["short", "format"]
    assert ["20" in line["dropped"] and "40" in line["dropped"] for line in lines] == [
        True,
        False,
    ]


def test_what_was_kept_is_shown_round_by_round():
    title, lines = only_table(kept(1, 0), kept(2, 3))
    assert title == "Made-up examples that were kept: few_fed_pit"
    assert [(line["round"], line["kept"]) for line in lines] == [("1", "0"), ("2", "3")]
    assert {line["client"] for line in lines} == {"c1"}
    assert lines[0]["mean"] == "3.5"


def test_a_study_shows_the_worst_of_each_variant():
    _, lines = only_table(
        *(kept(number, 4 - number, variant="half") for number in (1, 2)),
        kept(1, 5, variant="tenth"),
    )
    assert [(line["variant"], line["kept"]) for line in lines] == [("half", "2"), ("tenth", "5")]
