"""What a report of cross-client memorization shows, and what its verdict is."""

import re
from dataclasses import replace

import pytest
from example_report import HOSTILE, HOSTILE_KINDS
from memorized_report import CLIENTS, document, memorized, passages, ratio, seen
from svg_shapes import squares, texts

from fedaudit.report.charts.heat_map import MOST_CLIENTS, heat_maps
from fedaudit.report.kinds import memorization
from fedaudit.report.redaction import is_hidden
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.verdict.policy import verdict


def table(report, title):
    return next(one for one in overview.attack_tables(report) if one.title.startswith(title))


def test_ratios_stand_by_model_and_category():
    shown = table(document(), "Memorization: prefixes that drew")
    assert shown.columns == ("model", "how", "own", "others'", "any")
    assert [row[:2] for row in shown.rows] == [
        (model, how) for model in ("tuned", "base") for how in ("all", "verbatim", "idea")
    ]
    assert shown.rows[0][2].startswith("10.0 % [")
    assert shown.rows[0][3].startswith("2.0 % [")
    assert "Prefixes: 3,000 (tuned), 3,000 (base)." in shown.notes
    assert "Throughout: decoding top-k, prefix_length 30." in shown.notes


def test_pairs_stand_beside_the_base():
    shown = table(document(), "Memorization: whose prefixes")
    assert [row[:2] for row in shown.rows] == [(j, k) for j in CLIENTS for k in CLIENTS]
    assert shown.rows[0][2] == "100 / 1,000"
    assert shown.rows[1][2] == "20 / 1,000"
    assert shown.rows[0][4] == "0.033 %"


def test_pairs_say_how_many_texts_were_looked_for_if_some_were_not():
    some = ratio("searched", 18, 24, attacker="c0", victim="c2")
    shown = table(document([*memorized(), some]), "Memorization: whose prefixes")
    at = shown.columns.index("looked for")
    assert {row[:2]: row[at] for row in shown.rows if row[at] != "all"} == {("c0", "c2"): "18 / 24"}
    assert "looked for" not in table(document(), "Memorization: whose prefixes").columns
    assert "Other measurements" not in seen(document([*memorized(), some]))


def test_lengths_and_what_was_drawn_most():
    lengths = table(document(), "Memorization: lengths")
    assert ("continuation", "tuned", "all", "3,000", "71", "50.0 %", "0.1 %") in lengths.rows
    assert ("text", "-", "all", "3,000", "150", "-", "-") in lengths.rows
    assert table(document(), "Memorization: texts that").rows == (("c1", "doc-42", "17"),)


def test_nothing_of_it_is_left_for_other_tables():
    assert overview.unshown_rows_table(document()) == []
    assert [t.title for t in overview.leak_table(document(findings=passages()), 10)] == []


def test_passages_have_a_table_of_their_own():
    report = document(findings=passages(5))
    [shown] = memorization.passage_table(report, 3)
    assert len(shown.rows) == 3
    assert shown.rows[0][0] == "high"
    assert shown.rows[0][1].startswith("TEXT(16) #")
    assert shown.rows[0][2:] == ("verbatim", "c0", "c1", "doc-42", "17", "...====.............")
    assert "and 2 more in report.json" in shown.notes
    for text in (seen(report), html.render(report), markdown.render(report)):
        assert "doc-42" in text
        assert "secret passage" not in text


def test_a_passage_is_one_only_with_its_mask():
    stranger = document(findings=passages(1))
    del stranger["findings"][0]["evidence"]["hmac"]
    assert memorization.passage_table(stranger, 3) == []
    assert len(overview.leak_table(stranger, 3)) == 1
    seen(stranger)


def test_the_terminal_keeps_to_80_columns():
    shown = seen(document(findings=passages()))
    assert max(map(len, shown.splitlines())) <= 80
    # No ratio of the tuned model is broken over two lines: nine of it, and nine pairs.
    assert len(re.findall(r"\d+\.\d % \[\d+\.\d, \d+\.\d\]", shown)) >= 9 + 9


def test_a_sentence_says_what_was_asked_and_what_came_of_it():
    [sentence] = attack_summaries(document())
    assert "3,000 prefixes" in sentence
    assert "10.0 % [" in sentence
    assert "another client's" in sentence
    assert "from its base, 0.033 % [" in sentence


# the map


def test_the_map_is_darkest_where_most_was_drawn():
    [one] = heat_maps(document())
    shades = {(field.row, field.column): field.shade for field in one.fields}
    assert shades == {(i, j): 1.0 if i == j else 0.2 for i in range(3) for j in range(3)}
    assert one.names == CLIENTS
    assert {f.caption for f in one.fields} == {"10.0 %", "2.0 %"}


def test_the_map_is_drawn_on_the_page():
    page = html.render(document())
    [svg] = re.findall(r'<svg class="plot".*?</svg>', page, re.DOTALL)
    assert sorted(squares(svg)) == [0.2] * 6 + [1.0] * 3
    written = [text for text, _, _ in texts(svg)]
    assert written.count("10.0 %") == 3
    assert all(written.count(name) == 2 for name in CLIENTS)


def test_a_map_of_nothing_and_of_many_can_be_drawn():
    [blank] = heat_maps(document(memorized(0, 0, 0)))
    assert {field.shade for field in blank.fields} == {0.0}
    many = tuple(f"client-number-{n}" for n in range(20))
    [some] = heat_maps(document(memorized(clients=many)))
    assert len(some.fields) == MOST_CLIENTS**2
    assert some.note.endswith("8 more clients in report.json.")
    assert all(len(name) <= 10 for name in some.names)
    assert some.svg().count("<text") >= MOST_CLIENTS**2


def test_hostile_names_of_clients_and_documents_sleep():
    names = [HOSTILE[name] for name in HOSTILE_KINDS]
    found = [replace(one, id=f"{one.id}-{name}") for name in names for one in passages(1, name)]
    report = document(memorized(clients=("c0", *names)), found)
    page = html.render(report)
    for text in (seen(report), page, markdown.render(report)):
        assert not any(is_hidden(char) for char in text if char != "\n")
    assert page.count("<script>") == 1  # the page's own


def test_a_study_has_a_line_a_variant():
    central = ratio("mr_total", 500, 3000, source="central", category="all", variant="top-k")
    rows = [*memorized(variant="top-k"), *memorized(200, 40, variant="top-p"), central]
    shown = table(document(rows), "Memorization by variant")
    assert [row[0] for row in shown.rows] == ["top-k", "top-p"]
    assert shown.columns[-2:] == ("base %", "central, any %")
    assert shown.rows[0][-1] == "16.7"
    assert shown.rows[1][-1] == "-"
    assert "2 variants" in attack_summaries(document(rows))[0]
    assert len(heat_maps(document(rows))) == 2
    assert max(map(len, seen(document(rows)).splitlines())) <= 80


def test_a_studys_numbers_and_words_are_whole_in_80_columns():
    names = ("classification", "question answering, temperature")
    rows = [row for name in names for row in memorized(2000, 400, variant=name)]
    lines = seen(document(rows)).splitlines()
    [line] = [line for line in lines if line.startswith("classification ")]
    numbers = "66.7 [65.0, 68.3] 13.3 [12.2, 14.6] 80.0 [78.5, 81.4] 0.033"
    assert " ".join(line.split()[1:]) == numbers
    assert any(line.rstrip() == "temperature" for line in lines)


# the verdict


@pytest.mark.parametrize(
    ("tuned", "base", "status", "says"),
    [
        (60, 1, "fail", "more than from its base"),
        (0, 0, "pass", "no more than its base"),
        (60, 70, "pass", "no more than its base"),
        (60, 40, "inconclusive", "its base may give as many"),
    ],
)
def test_memorization_between_clients_is_judged_against_the_base(tuned, base, status, says):
    judged = verdict(memorized(1500, tuned, base), [])
    assert judged["status"] == status
    assert says in judged["reasons"][0]


def test_what_clients_draw_of_their_own_is_not_judged():
    assert verdict(memorized(2900, 0, 0), [])["status"] == "pass"


def test_too_few_prefixes_do_not_pass():
    # None of 20: at most 16.1 % (Wilson), where a leak of 10 % must be seen.
    [reason, *_] = verdict(memorized(0, 0, 0, n=20), [])["reasons"]
    assert reason.endswith("too few prefixes to tell that from what its base gives (0.00%).")
    assert verdict(memorized(0, 0, 0, n=20), [])["status"] == "inconclusive"
    # None of each client's 31 or 32, and all of the own ones: at most 9.2 % or 8.9 % for each
    # pair, where texts come out at a rate of 90.8 % or 91.1 % at least: a leak of 10.1 % or 9.8 %.
    assert verdict(memorized(93, 0, 0, n=93), [])["status"] == "inconclusive"
    assert verdict(memorized(96, 0, 0, n=96), [])["status"] == "pass"


def test_what_own_texts_do_not_show_bars_a_pass():
    # Of each client's 1,000 none: at most 0.3 %, a tenth of 3 %. At least 3.05 % come out of 41.
    for own, status in ((0, "inconclusive"), (38, "inconclusive"), (41, "pass"), (1000, "pass")):
        assert verdict(memorized(3 * own, 0, 0), [])["status"] == status


@pytest.mark.parametrize("source", ["tuned", "base"])
def test_without_a_number_or_a_base_it_is_open(source):
    rows = [
        row for row in memorized() if (row.metric, row.scope.get("source")) != ("mr_inter", source)
    ]
    at = {"source": "tuned", "category": "all"}
    missing = [ratio("mr_inter", 0, 0, reason="one client", **at)] if source == "tuned" else []
    judged = verdict([*rows, *missing], [])
    assert judged["status"] == "inconclusive"
    assert ("one client" if missing else "no base") in judged["reasons"][0]


def test_the_verdict_is_told_in_plain_words():
    shown = seen(document())
    assert "Verdict: fail" in shown
    assert "writes what is in another" in " ".join(shown.split())
