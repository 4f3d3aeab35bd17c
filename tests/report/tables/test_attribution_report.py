"""What reports show of an attribution."""

import math
import re
from dataclasses import replace
from functools import cache
from html import unescape

import pytest
from attributed_report import (
    SCORES,
    THRESHOLD,
    absent,
    attributed,
    baselines,
    client,
    column,
    findings,
    innocent,
    known,
    printed,
    privacy,
    protocol,
    report,
    row,
    share,
    study,
    table,
)
from example_report import HOSTILE, HOSTILE_KINDS
from gated_report import recalled
from rich.cells import cell_len
from svg_shapes import drawn_lines

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.watermark import Score
from fedaudit.attribution import measurements as measured_rows
from fedaudit.attribution.decision.calibration import Calibration, PowerEstimate
from fedaudit.attribution.decision.decision import decide
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.intervals import wilson
from fedaudit.report.charts import z_by_round
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview
from fedaudit.report.tables.attribution import attribution
from fedaudit.report.text import summary
from fedaudit.report.text.attacks import attack_summaries


def titles(rows):
    return [one.title.removeprefix("Attribution: ") for one in attribution(report(rows))]


def every_table(document):
    return (
        *attribution(document),
        *overview.finding_tables(document, 9),
        *overview.other_tables(document),
    )


def test_what_no_table_knows_is_not_lost():
    at = {"client": "c0", "mark": "m"}
    strange = [
        row("fed_attr", "stouffer_z", 1.25, client="c0"),  # a number, but of no mark
        row("fed_attr", "stouffer_z", 2.25, **at, seed=1),
        row("fed_attr", "flagged", 1.0, **at),
        row("direct", "score", 3.25, **at, round=1),
        row("fed_attr", "sets", 4.25),
        replace(row("fed_attr", "accuracy", 0.5, n=2), low=0.1, high=0.9),
    ]
    [other] = overview.unshown_rows_table(report([*attributed(), *strange]))
    assert [line[0] for line in other.rows] == [one.metric for one in strange]
    assert attribution(report(strange)) == []


# clients


def test_clients_stand_by_their_z_and_those_without_last():
    rows = [absent(), *reversed(protocol())]
    found = table(rows, "clients")
    assert column(found, "client") == ["court-1", "bank-2", "ward-3", "ward-4", "ward-5"]
    # 17.6 / sqrt 5, 13.0 / sqrt 5, 1.4 / sqrt 5, -0.8 / sqrt 3
    assert column(found, "Z") == ["7.87", "5.81", "0.63", "-0.46", "-"]
    assert column(found, "must exceed") == ["4"] * 5
    assert column(found, "rounds") == ["5", "5", "5", "3", "0"]
    assert column(found, "flagged") == ["yes", "yes", "no", "no", "-"]
    assert "Not measured: it took part in none of the rounds" in found.notes


def test_each_client_has_its_own_to_exceed():
    needed = {"court-1": 4.0, "bank-2": 5.8125, "ward-3": 6.25, "ward-4": 4.0}

    def own(one):
        total = one.metric == "stouffer_z" and set(one.scope) == {"client", "mark"}
        return replace(one, baseline=needed[one.scope["client"]]) if total else one

    rows = [own(one) for one in protocol()]
    found = table(rows, "clients")
    assert column(found, "client") == ["court-1", "bank-2", "ward-3", "ward-4"]
    assert column(found, "must exceed") == ["4", "5.81", "6.25", "4"]
    assert column(found, "flagged") == ["yes", "yes", "no", "no"]  # bank-2: 5.8138
    assert any("must exceed is each client's own" in note for note in found.notes)
    assert not any("each client's" in note for note in table(protocol(), "clients").notes)
    [figure] = z_by_round.figures(report(rows))
    assert figure.thresholds == pytest.approx((4, 6.25), abs=0.005)
    named = [replace(one, scope={**one.scope, "variant": "a"}) for one in rows]
    means = table([*named, *protocol(variant="b")], "mean Z")
    assert column(means, "must exceed") == ["4 to 6.25", "4"]


def test_the_p_value_is_the_one_after_holm():
    rows = client("c0", "m", (1.0, 1.0, 1.0, 1.0, 1.0))
    [shown] = column(table(rows, "clients"), "Holm p")
    # Z = sqrt 5 = 2.236, upper tail .01267; times 8
    assert shown == "0.101"
    plain = [one for one in rows if "adjusted" not in one.scope]
    assert column(table(plain, "clients"), "Holm p") == ["-"]


def test_the_truth_does_not_show_in_the_table_of_clients():
    assert table(attributed(), "clients") == table(
        [one for one in attributed() if one not in known()], "clients"
    )


def test_every_flagged_client_is_shown_however_many_they_are():
    def many(z):
        at = {"mark": "m", "n": 1, "baseline": 4.0}
        return [row("fed_attr", "stouffer_z", z, client=f"c{n:02}", **at) for n in range(60)]

    assert len(table(many(5.0), "clients").rows) == 60
    quiet = table(many(1.0), "clients")
    assert len(quiet.rows) == 40
    assert "and 20 more in report.json" in quiet.notes


# methods


def test_methods_say_what_they_break_and_how_often_they_are_right():
    hidden = [one for one in attributed() if one.metric != "determined"]
    assert column(table(hidden, "methods"), "breaks secure aggregation")[0] == "no"
    # Wilson: 2 of 2 is at least 2 / (2 + 1.96^2) = 34.2 %
    assert column(table(attributed(), "methods"), "tpr")[0] == "2 of 2, at least 34.2 %"
    stranger = [*attributed(), row("canary", "flagged", 1.0, client="c0")]
    assert column(table(stranger, "methods"), "breaks secure aggregation")[-1] == "-"


def test_without_the_truth_methods_say_how_many_they_flag():
    rows = [one for one in attributed() if one.metric not in ("tpr", "fpr")]
    found = table(rows, "methods")
    assert found.columns == ("method", "breaks secure aggregation", "flagged")
    assert column(found, "flagged") == ["2 of 4", "3 of 4", "0 of 4", "-"]


def test_a_rate_of_nobody_says_why():
    rows = [*innocent(), share("fed_attr", "tpr", 0, 3), share("fed_attr", "fpr", 0, 0)]
    found = table(rows, "methods")
    assert column(found, "fpr") == ["not measured"]
    assert "Not measured: no client that took part is innocent" in found.notes


def test_whom_other_methods_cannot_judge_has_a_line():
    unknown = row("direct", "suspicion", None, client="x", reason="too few rounds")
    found = table([*baselines(), unknown], "whom other methods flag")
    assert found.rows[-1] == ("x", "-", "-")
    assert "Not measured: too few rounds" in found.notes


# privacy and cost


def test_of_several_rounds_the_worst_is_shown():
    def lines(rows):
        return {one[0]: one[1:] for one in table(rows, "privacy and cost").rows}

    assert lines(attributed())["clients in the smallest set"][:2] == ("5", "each of 5")
    small = row("fed_attr", "smallest_set", 3.0, round=6)
    assert lines([*privacy(), small])["clients in the smallest set"][:2] == ("3", "6 of 6")


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (0.0, "No round's sums determine a single client's update exactly."),
        (1.0, "together those of round 1 determine 1 client's update exactly."),
        (10.0, "together those of round 1 determine 10 clients' updates exactly."),
    ],
)
def test_what_the_sums_give_away_together_is_said_in_words(count, says):
    rows = [row("fed_attr", "determined", count, round=1, n=90)]
    [note] = table(rows, "privacy and cost").notes
    assert note.endswith(says)


# studies


def test_the_story_of_a_study_is_short():
    assert attack_summaries(report(study())) == [
        "The attribution was made on 3 variants; tables below compare them."
    ]


# words


def test_the_answer_is_about_clients_and_not_about_extraction():
    for rows, says in ((attributed(), "flags clients"), (innocent(), "flags no client")):
        text = " ".join(printed(report(rows)))
        assert says in text
        assert "Personal data" not in text
        assert "No extraction" not in text
    assert summary.title(report(attributed())) == "Attribution of marked documents"


def test_a_pass_does_not_say_that_nobody_did_it():
    [answer] = summary.verdict_sentence(report(innocent()))
    assert "not proof that no one trained" in answer
    assert "at this strength" in answer
    # A Z of 6.1 may stand below what it must exceed: that is a trace, and decides nothing.
    assert "no trace" not in answer
    assert "more clearly than chance and other clients' marks may explain" in answer


def test_the_error_level_stands_beside_the_verdict_on_every_page():
    levels = [row("fed_attr", "alpha", 0.4), row("fed_attr", "tau", 0.5)]
    simulated = [
        share("fed_attr", "innocent_flagged", hits, 100, strength=strength)
        for hits, strength in ((1, 0.0), (3, 6.0))
    ]
    document = report([*innocent(), *levels])
    [_, told] = summary.verdict_sentence(document)
    assert told == (
        "The error level alpha is 40%, the threshold tau 0.5; how often an innocent client is "
        "flagged was not simulated."
    )
    document = report([*innocent(), *levels, *simulated])
    [_, told] = summary.verdict_sentence(document)
    # Wilson's interval of 3 of 100 ends at 8.5 %.
    assert told == (
        "The error level alpha is 40%, the threshold tau 0.5: in simulated federations with these "
        "settings an innocent client was flagged in 3 of 100, whichever strength a mark had (at "
        "most 8.5 % with 95 % confidence)."
    )
    for page in (" ".join(" ".join(printed(document)).split()), html.render(document)):
        assert told in page
    assert markdown.render(document).partition("## ")[0].count(told) == 1


def test_right_answers_by_attribute_stand_under_the_strongest_mark():
    rows = [
        *client("court-1", "mark-a", SCORES["court-1"][1]),
        *client("ward-3", "mark-a", [0.1] * 5),
    ]
    for mark, hits, before in (("mark-a", (7, 0), (1, 0)), ("mark-b", (5, 5), (0, 0))):
        for number, (found, start) in enumerate(zip(hits, before, strict=True), 1):
            scope = {"client": "court-1", "mark": mark, "attribute": number}
            rows.append(
                row("fed_attr", "attribute_hits", found, n=50, hits=found, baseline=start, **scope)
            )
    found = table(rows, "right answers by attribute")
    assert found.columns == ("client", "mark", "attribute 1", "attribute 2")
    assert found.rows == (("court-1", "mark-a", "7 of 50 (1)", "0 of 50 (0)"),)
    assert "One attribute alone flags no client" in found.notes[0]
    assert "One attribute" not in " ".join(printed(report(protocol())))


def test_an_audit_with_both_speaks_of_both_and_of_a_failure_alone():
    document = report([*recalled(20), *attributed()])
    leaks, clients = summary.verdict_sentence(document)
    assert "without being asked" in leaks
    assert "flags clients" in clients
    assert summary.verdict_sentence(report([*recalled(0), *attributed()])) == [clients]
    assert summary.verdict_sentence(report([*recalled(20), *innocent()])) == [leaks]
    [answer] = summary.verdict_sentence(report([*recalled(0), *innocent()]))
    assert "personal data" in answer
    assert "marked documents" in answer
    assert summary.title(document) == "Privacy audit"
    first, second = attack_summaries(document)
    assert first.startswith("The protocol fed_attr asked for 500 sums")
    assert second.startswith("The attack untargeted")


def test_the_story_tells_who_was_not_tested():
    [told] = attack_summaries(report([*protocol(), absent()]))
    assert told.endswith("tested 4 of 5 clients for watermarks: it flags 2. 1 could not be tested.")
    assert attack_summaries(report(baselines())) == []


# findings


def test_flagged_clients_have_a_table_of_their_own():
    from example_report import findings as leaks

    document = report(attributed(), findings=[*leaks(2), *findings()])
    first, second = overview.finding_tables(document, 10)
    assert (first.title, second.title) == ("Findings", "Flagged clients")
    assert second.columns == ("severity", "client", "mark", "Z", "Holm p", "rounds")
    assert second.rows[0][:4] == ("high", "court-1", "mark-a", "7.87")
    assert len(first.rows) == 2
    [short] = overview.flagged_table(document, 1)
    assert "and 1 more in report.json" in short.notes


# the running Z


def test_the_running_z_is_that_of_the_mark_that_was_decided_on():
    rows = [*client("c0", "m2", (9.0, 0.0, 0.0, 0.0, 0.0)), *client("c0", "m1", (1.0,) * 5)]
    decided = [r for r in rows if "round" in r.scope or r.scope["mark"] == "m1"]
    [only] = z_by_round.z_series(report(decided))[""]
    # sqrt(k) for scores of 1
    assert [round(z, 3) for _, z in only.points] == [1.0, 1.414, 1.732, 2.0, 2.236]
    [highest] = z_by_round.z_series(report([r for r in rows if "round" in r.scope]))[""]
    assert highest.mark == "m2"  # 9 / sqrt 5 = 4.02 is more than 2.24


def test_curves_have_the_rounds_a_client_took_part_in():
    [figure] = z_by_round.figures(report(attributed()))
    assert [one.bold for one in figure.lines] == [True, True, False, False]
    assert [one.color for one in figure.lines] == ["bad", "bad", "bar", "bar"]
    court, ward = figure.lines[0], figure.lines[-1]
    assert [x for x, _ in court.points] == [1, 2, 3, 4, 5]
    assert [x for x, _ in ward.points] == [1, 2, 4]
    assert court.points[-1][1] == figure.high == pytest.approx(7.871, abs=1e-3)
    assert figure.low == pytest.approx(-0.6, abs=1e-3)
    assert figure.thresholds == (4.0,)


def test_many_curves_and_figures_are_counted():
    rows = [one for n in range(25) for one in client(f"c{n}", "m", (0.1 * n,) * 5)]
    [figure] = z_by_round.figures(report(rows))
    assert len(figure.lines) == 20
    assert "and 5 more clients" in figure.note
    assert figure.lines[0].name.startswith("c24 ")
    [shown] = z_by_round.table(report(rows))
    assert "and 5 more clients in report.json" in shown.notes
    every = z_by_round.figures(report(study([f"v{n}" for n in range(14)])))
    assert len(every) == 12
    assert "2 more variants are in report.json" in every[-1].note
    assert every[0].title == "Z after each round, variant v0"


def test_a_table_of_many_rounds_has_the_first_and_the_last():
    at = {"client": "c0", "mark": "m"}
    rows = [row("fed_attr", "stouffer_z", n / 10, **at, round=n) for n in range(1, 31)]
    [shown] = z_by_round.table(report(rows))
    assert len(shown.columns) == 10
    assert shown.columns[2] == "round 1"
    assert shown.columns[-1] == "round 30"
    assert "For the other rounds see report.json." in shown.notes


@pytest.mark.parametrize("values", [(0.0,), (1e308, -1e308), (-5.0, -5.0)])
def test_any_numbers_can_be_drawn(values):
    at = {"client": "c0", "mark": "m"}
    rows = [row("fed_attr", "stouffer_z", z, **at, round=n) for n, z in enumerate(values)]
    [figure] = z_by_round.figures(report(rows))
    [(_, curve)] = drawn_lines(figure.svg())
    assert len(curve) == len(values)
    assert all(math.isfinite(x) and math.isfinite(y) for x, y in curve)


def test_the_page_draws_what_markdown_has_as_a_table():
    document = report(attributed())
    page = html.render(document)
    assert page.count('<svg class="plot"') == 1
    assert all(f">{client} (" in page for client in SCORES)
    assert "## Z after each round\n" in markdown.render(document)
    assert "<polyline" not in html.render(report(recalled(3)))


# hostile names, order


def named(text):
    """Return an attribution whose clients, marks and variants a stranger named."""
    rows = []
    for one in [*attributed(), absent()]:
        scope = {
            key: f"{text}{value}" if key in ("client", "mark") else value
            for key, value in one.scope.items()
        }
        rows.append(replace(one, scope=scope, reason=one.reason and text))
    flag = replace(findings()[0], id=text, evidence=findings()[0].evidence | {"client": text})
    return report(rows, findings=[flag])


@cache
def harmless():
    """Return a report of harmless names, and the elements of its page."""
    plain = named("harmless")
    return plain, re.findall(r"<(?:/?\w+)", html.render(plain))


@pytest.mark.parametrize("name", HOSTILE_KINDS)
def test_hostile_names_are_only_text(name):
    document, (plain, elements) = named(HOSTILE[name]), harmless()
    lines, page, text = printed(document), html.render(document), markdown.render(document)
    assert max(map(cell_len, lines)) <= 80
    for shown in ("\n".join(lines), page, text):
        assert not any(is_hidden(char) for char in shown if char != "\n")
    assert re.findall(r"<(?:/?\w+)", page) == elements
    assert "<" not in text
    assert [(len(one.rows), len(one.columns)) for one in every_table(document)] == [
        (len(one.rows), len(one.columns)) for one in every_table(plain)
    ]
    cells = [cell for one in attribution(document) for line in one.rows for cell in line]
    assert f"{HOSTILE[name]}court-1" in cells
    assert make_visible(f"{HOSTILE[name]}court-1") in unescape(page)


def test_hostile_variants_are_only_text():
    document = report([*study([HOSTILE[name] for name in HOSTILE_KINDS])])
    page = html.render(document)
    assert max(map(cell_len, printed(document))) <= 80
    assert page.count("<figure>") == len(HOSTILE_KINDS)
    assert page.count("<script") == 1  # the page's own
    assert not any(is_hidden(char) for char in page if char != "\n")


# what the attribution itself writes


def score(z):
    return Score(z=z, p_value=0.5, n=100, hits=25, chance=0.25)


def written():
    """Return what the attribution's own room writes of two clients, one of them marked."""
    strength = {"c0": 0.5, "c1": 0.9}
    taken = [
        RoundScores(
            round=number,
            reference={"m": score(1.0)},
            clients={"c0": {"m": score(5.0)}, "c1": {"m": score(1.0)}},
            strength=strength,
            effective=strength,
        )
        for number in (1, 2, 3)
    ]
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=("c0", "c1", "c2"),
        marks={"m": "kgw"},
        dimension=64,
        rounds=tuple(taken),
    )
    decision, truth = decide(scores), {"c0": "m", "c1": "", "c2": ""}
    other = AttributionResult(
        clients=(ClientScore(client="c0", flagged=True, z=5.0, p_value=0.1, mark="m"),),
        marks={"m": score(9.0)},
    )
    found = [
        *measured_rows.decision_rows(decision, THRESHOLD),
        *measured_rows.error_rates("fed_attr", decision.marks, ["c0", "c1"], truth),
        *measured_rows.mean_z_rows(decision, truth),
        *measured_rows.leakage_rows(scores),
        *measured_rows.suspicion_rows("direct", other, THRESHOLD),
        *measured_rows.error_rates("direct", {"c0": {""}}, ["c0"], truth),
    ]
    return found, measured_rows.findings(decision)


def test_tables_and_verdict_know_what_the_attribution_writes():
    measured, flagged = written()
    document = report(measured, findings=flagged)
    lines = printed(document)
    assert "Other measurements" not in lines
    found = table(measured, "clients")
    # Every round has 5 - 1 = 4 for c0: 4 sqrt 3 = 6.93, and 0 for c1.
    assert found.rows[0][:3] == ("c0", "m", "6.93")
    assert column(found, "flagged") == ["yes", "no", "-"]
    assert document["verdict"]["status"] == "fail"
    [one] = overview.flagged_table(document, 9)
    assert one.rows[0][:4] == ("high", "c0", "m", "6.93")
    [figure] = z_by_round.figures(document)
    assert [line.name for line in figure.lines] == ["c0 (6.93)", "c1 (0.00)"]


def test_what_the_settings_can_tell_is_a_table():
    points = [
        PowerEstimate(
            strength=strength,
            accused=wilson(accused, 50),
            published=wilson(9, 50),
            caught=wilson(caught, 50) if strength else None,
        )
        for strength, accused, caught in ((0.0, 0, 0), (6.0, 1, 20), (20.0, 2, 50))
    ]
    made = Calibration(
        federations=50,
        points=tuple(points),
        innocent={"c0": 140, "c1": 130},
        accused={"c0": wilson(0, 140), "c1": wilson(13, 130)},
    )
    measured, flagged = written()
    measured += measured_rows.calibration_rows(made)
    document = report(measured, findings=flagged)
    assert "Other measurements" not in printed(document)
    found = table(measured, "what these settings can tell")
    assert column(found, "marked") == ["nobody", "one client, Z 6", "one client, Z 20"]
    assert [cell.split(",")[0] for cell in column(found, "found")] == [
        "-", "20 of 50", "50 of 50",
    ]  # fmt: skip
    assert [cell.split(",")[0] for cell in column(found, "innocent client flagged")] == [
        "0 of 50", "1 of 50", "2 of 50",
    ]  # fmt: skip
    assert any("than c1: 10.0 %, 16." in note for note in found.notes)
    # Simulated rates are not test of a client: the others read as they did.
    assert column(table(measured, "clients"), "flagged") == ["yes", "no", "-"]


def test_the_mean_of_a_single_client_is_not_of_clients():
    mean = [row("fed_attr", "stouffer_z", z, n=n, clients=name)
            for name, z, n in (("marked", 6.5, 1), ("innocent", 0.5, 2))]  # fmt: skip
    shown = " ".join(printed(report([*innocent(), *mean])))
    assert "6.50 over 1 marked client, 0.50 over 2 innocent clients." in shown
