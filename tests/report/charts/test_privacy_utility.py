"""What variants give away, round by round and beside their utility: tables and pictures."""

import re
from dataclasses import replace

import pytest
from example_report import example, number
from svg_shapes import drawn_lines

from fedaudit.report.charts import privacy_utility
from fedaudit.report.document import validate
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview


def leak(variant, value, passed=None, **scope):
    where = {"source": "tuned-not-base", "records": "victim", "variant": variant, **scope}
    if passed is not None:
        where |= {"round": round(10 * passed), "passed": passed}
    row = number("extraction", "discoverable", "rouge_l", value)
    return replace(row, low=value - 0.1, high=value + 0.1, n=100, scope=where)


def useful(variant, value, metric="loss", source="tuned", **scope):
    row = number("utility", "utility", metric, value)
    low, high = max(0.0, value - 0.05), value + 0.05
    where = {"source": source, "variant": variant, **scope}
    return replace(row, low=low, high=high, n=32, scope=where)


ROWS = [
    leak("FedAvg", 0.1, 0.5),
    leak("FedAvg", 0.5, 1.0),
    leak("FedAvg", 0.9, 1.0, task="exam"),
    leak("alpha 0.3", 0.0, 0.5),
    leak("alpha 0.3", 0.2, 1.0),
    leak("LocIT", 0.6, client="c0"),
    leak("LocIT", 0.4, client="all"),
    useful("FedAvg", 2.0),
    useful("FedAvg", 9.0, source="base"),
    useful("FedAvg", 0.3, "rouge_l", task="exam"),
    useful("alpha 0.3", 1.5),
    useful("LocIT", 8.0),
    useful("LocIT", 3.0, source="local", clients=2),
]


def document(rows):
    report = example(measurements=rows, findings=[]).to_json()
    validate(report)
    return report


def table(rows, title):
    found = [one for one in overview.attack_tables(document(rows)) if one.title == title]
    return found[0] if found else None


def test_leakage_round_by_round():
    found = table(ROWS, privacy_utility.ROUNDS)
    assert found.columns == ("variant", "round 5", "round 10")
    assert found.rows == (
        ("FedAvg", "0.1 [0, 0.2]", "0.5 [0.4, 0.6]"),
        ("alpha 0.3", "0 [-0.1, 0.1]", "0.2 [0.1, 0.3]"),
    )


def test_leakage_beside_utility():
    """Each variant's last round; of models of one's own, their mean and their own utility."""
    found = table(ROWS, privacy_utility.UTILITY)
    assert [(row[0], row[1].split()[0], row[2].split()[0]) for row in found.rows] == [
        ("FedAvg", "2", "0.5"),
        ("alpha 0.3", "1.5", "0.2"),
        ("LocIT", "3", "0.4"),
    ]
    assert any("held-out loss; lower is better" in note for note in found.notes)


def test_a_judge_goes_before_loss_where_it_judged_every_variant():
    judged = [useful("FedAvg", 0.3, "judge_win_tie"), useful("alpha 0.3", 0.4, "judge_win_tie")]
    assert (
        "loss" in table([*ROWS, *judged], privacy_utility.UTILITY).columns
    )  # LocIT was not judged
    whole = [*ROWS, *judged, useful("LocIT", 0.2, "judge_win_tie", source="local")]
    found = table(whole, privacy_utility.UTILITY)
    assert found.columns == ("variant", "judge_win_tie", "leakage")
    assert len(found.rows) == 3


def test_a_central_models_utility_is_its_own():
    rows = [*ROWS, leak("central", 0.7, 1.0, model="central"), useful("central", 2.0)]
    own = useful("central", 1.0, source="central")
    found = {row[0]: row[1] for row in table([*rows, own], privacy_utility.UTILITY).rows}
    assert found["central"].split()[0] == "1"
    assert "central" not in {row[0] for row in table(rows, privacy_utility.UTILITY).rows}


@pytest.mark.parametrize("rows", [ROWS[:1], ROWS[1:2], ROWS[7:]])
def test_without_two_to_compare_there_is_nothing(rows):
    assert table(rows, privacy_utility.ROUNDS) is None
    assert table(rows, privacy_utility.UTILITY) is None
    assert privacy_utility.figures(document(rows)) == []


def test_the_pictures_points_by_hand():
    rounds, pairs = privacy_utility.figures(document(ROWS))
    by = {line.name: line.points for line in rounds.lines}
    assert by == {"FedAvg": ((5, 0.1), (10, 0.5)), "alpha 0.3": ((5, 0.0), (10, 0.2))}
    assert (rounds.low, rounds.high) == (0.0, 0.5)
    by = {line.name: line.points for line in pairs.lines}
    assert by == {"FedAvg": ((2.0, 0.5),), "alpha 0.3": ((1.5, 0.2),), "LocIT": ((3.0, 0.4),)}
    assert pairs.across == "held-out loss"


def test_what_is_below_nothing_is_drawn_below_the_line():
    rows = [leak("a", -0.2, 0.5), leak("a", 0.2, 1.0), leak("b", 0.0, 0.5), leak("b", 0.0, 1.0)]
    [plot] = privacy_utility.figures(document(rows))
    assert (plot.low, plot.high) == (-0.2, 0.2)
    lines = [points for _, points in drawn_lines(plot.svg())]
    heights = sorted(round(y, 1) for points in lines for _, y in points)
    assert heights[0] < heights[1] == heights[2] < heights[3]  # 0.2, twice 0, -0.2
    assert heights[3] - heights[1] == pytest.approx(heights[1] - heights[0], abs=0.2)


def test_page_and_markdown_show_both():
    report = document(ROWS)
    page, text = html.render(report), markdown.render(report)
    for title in (privacy_utility.ROUNDS, privacy_utility.UTILITY):
        assert f"<title>{title}</title>" in page
        assert title in text
    pictures = re.findall(r'(?s)<svg class="plot".*?</svg>', page)
    assert [len(drawn_lines(one)) for one in pictures] == [2, 3]


def test_a_variants_name_is_text():
    rows = [replace(r, scope={**r.scope, "variant": "<b>x</b>"}) for r in ROWS[:2]] + ROWS[3:5]
    assert "<b>x</b>" not in html.render(document(rows))


def test_a_study_compares_answers_after_the_last_round_without_tasks():
    [found] = [
        t for t in overview.attack_tables(document(ROWS)) if t.title.startswith("Answers to")
    ]
    assert len(found.rows) == 3
    alone = [row for row in ROWS if row.scope["variant"] == "FedAvg"]
    [found] = [
        t for t in overview.attack_tables(document(alone)) if t.title.startswith("Answers to")
    ]
    assert len(found.rows) == 3  # both rounds, and the task
