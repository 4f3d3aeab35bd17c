"""Two reports beside each other: differences with intervals, leaks that appeared or went."""

from dataclasses import replace

import pytest
from example_report import coverage, example, extraction, findings, number
from html_page import Page
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.comparison import compare, mcnemar_two_sided
from fedaudit.report.renderers import comparison
from fedaudit.report.tables.comparison import change_sentence, comparison_tables


def report(rows=None, leaks=(), **changes):
    rows = extraction() if rows is None else rows
    return example(measurements=rows, findings=list(leaks), **changes).to_json()


def leak(name, label="PERSON"):
    mask = {"label": label, "length": 7, "hmac": name}
    return Finding(id=name, severity="high", label=label, measurement="contextual coverage",
                   evidence=mask)  # fmt: skip


def test_of_two_wilson_intervals_it_is_newcombe_s_of_two_proportions():
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 has 0.0524 to 0.3339."""
    rows = [coverage(*counts, source="tuned", set="all") for counts in ((48, 80), (56, 70))]
    first, second = (report([row]) for row in rows)
    [one] = compare(first, second).differences
    assert one.difference.low == pytest.approx(0.0524, abs=1e-4)
    assert one.difference.high == pytest.approx(0.3339, abs=1e-4)
    assert one.sure


def test_leaks_are_paired_by_their_masks():
    before = report(leaks=[leak("a"), leak("b"), leak("c"), leak("x", "EMAIL")])
    after = report(leaks=[leak("c"), leak("d"), leak("x", "EMAIL")])
    email, person = compare(before, after).leaks
    assert (person.appeared, person.went, person.stayed) == (1, 2, 1)
    assert (email.appeared, email.went, email.stayed, email.p) == (0, 0, 1, 1.0)


def bound(value, correct):
    """Return a report of one bound on epsilon that is judged."""
    scope = {
        "source": "tuned", "position": "client", "estimator": "f_dp", "client": "c0",
        "judged": True, "rule": "the best", "guesses": 30, "correct": correct,
    }  # fmt: skip
    row = Measurement(
        kind="epsilon", plugin="dp_audit", metric="epsilon_low", value=value, n=40,
        baseline=3.0, scope=scope,
    )  # fmt: skip
    return report([row])


def test_bounds_on_epsilon_are_compared():
    """How many guesses were right is not part of the question."""
    comparison = compare(bound(0.0, 16), bound(4.4, 30))
    [one] = comparison.differences
    assert (one.first, one.second, one.difference) == (0.0, 4.4, None)
    [name, *_] = comparison_tables(comparison)[0].rows[0]
    assert "position client" in name
    assert "rule" not in name


def test_the_p_value_is_the_sign_test_of_both_sides():
    assert mcnemar_two_sided(10, 0) == pytest.approx(2 / 1024)
    assert mcnemar_two_sided(0, 10) == mcnemar_two_sided(10, 0)
    # 2 P(Binomial(4, 1/2) >= 3) = 2 * 5 / 16
    assert mcnemar_two_sided(1, 3) == pytest.approx(0.625)
    assert mcnemar_two_sided(2, 2) == 1.0


@given(st.integers(0, 60), st.integers(0, 60))
def test_turned_round_a_comparison_says_the_opposite(one, other):
    rows = [coverage(hits, 60, source="tuned", set="all") for hits in (one, other)]
    first, second = (report([row]) for row in rows)
    [there] = compare(first, second).differences
    [back] = compare(second, first).differences
    assert there.difference.value == pytest.approx(-back.difference.value)
    assert there.difference.low == pytest.approx(-back.difference.high)
    assert there.sure == back.sure


def test_a_report_does_not_differ_from_itself():
    found = compare(report(leaks=findings(5)), report(leaks=findings(5)))
    assert not any(one.sure for one in found.differences)
    assert all(one.appeared == one.went == 0 for one in found.leaks)
    assert "Both reports are of the same model." in found.notes


def test_what_makes_it_less_than_it_seems_is_said():
    other = report(leaks=[leak("z")])
    other["data"][0]["sha256"] = "f" * 64
    other["environment"]["versions"]["fedaudit"] = "9"
    notes = " ".join(compare(report(leaks=[leak("a")]), other).notes)
    for text in ("different files of records", "different versions", "No leak is in both"):
        assert text in notes


def asked(seed=0, policy=None, started="2026-01-02T00:00:00+00:00", **attacks):
    changes = {} if policy is None else {"verdict": None, "policy": policy}
    found = report(**changes)
    found["seeds"] = {"audit": seed}
    found["run"].update(started=started, config={"steps": {"extraction": {"attacks": attacks}}})
    return found


def caveats(first, second):
    known = {"Both reports are of the same model."}
    return [note for note in compare(first, second).notes if note not in known]


def test_audits_that_asked_otherwise_are_said_to_have():
    one = asked(contextual={"samples": 8, "context": 50}, untargeted={})
    assert caveats(one, one) == []
    assert caveats(one, asked(7, contextual={"samples": 15, "context": 50}, verbatim={})) == [
        "The audits had different seeds: other questions and answers were drawn.",
        "Of one audit only: untargeted, verbatim.",
        "The audits had different settings: contextual.samples 8, then 15.",
    ]


def test_only_records_that_were_asked_about_make_targets_others():
    """An audit reads the held-out records as well, and has the same targets."""
    one, two = report(), report()
    for found, held_out in ((one, "b" * 64), (two, "c" * 64)):
        found["run"]["config"] = {"steps": {"extraction": {"victim": "v.jsonl"}}}
        rows = (("v.jsonl", "a" * 64), ("held_out.jsonl", held_out))
        found["data"] = [{**found["data"][0], "path": path, "sha256": sha} for path, sha in rows]
    assert caveats(one, two) == []
    two["data"][0]["sha256"] = "d" * 64
    [note] = caveats(one, two)
    assert "different files of records" in note


def test_limits_are_compared_and_not_the_names_of_policies():
    default, strict = Policy(), Policy(name="strict", detectable=0.05)
    assert caveats(asked(), asked(policy=replace(default, name="ours"))) == []
    [note] = caveats(asked(policy=default), asked(policy=strict))
    assert note == "The reports were judged under different policies: default, then strict."
    [note] = caveats(asked(policy=default), asked(policy=replace(strict, name="default")))
    assert note == "The reports were judged under different limits, both called default."


def test_the_wrong_order_is_said():
    later = asked(started="2026-01-02T01:30:00+01:00")  # half an hour later, in another zone
    assert caveats(asked(), later) == []
    [note] = caveats(later, asked())
    assert note.startswith("The second report is of an earlier audit than the first")


def test_reports_of_different_audits_are_refused():
    utility = replace(coverage(1, 9, source="tuned"), metric="fpr")
    with pytest.raises(InputError, match="no number in common"):
        compare(report(), report([utility]))


def test_sweeps_and_missing_numbers_are_not_compared():
    swept = coverage(1, 9, source="tuned", budget=1, samples=2)
    missing = replace(coverage(1, 9, source="base"), value=None, low=None, high=None, reason="x")
    there = coverage(2, 9, source="control")
    found = compare(report([swept, missing, there]), report([swept, missing, there]))
    assert [one.scope["source"] for one in found.differences] == ["control"]


def test_numbers_that_are_no_shares_stay_as_they_are():
    losses = [number("utility", "x", "loss", value, source="tuned") for value in (2.0, 2.125)]
    found = compare(*(report([loss]) for loss in losses))
    [table, *_] = comparison_tables(found)
    assert table.rows == (("x loss (source tuned)", "2", "2.12", "+0.125", "-"),)


def test_the_tables_have_what_is_sure_first():
    first = [coverage(48, 80, source="tuned"), coverage(1, 80, source="base")]
    second = [coverage(20, 80, source="tuned"), coverage(2, 80, source="base")]
    found = compare(report(first, [leak("a")]), report(second, [leak("b")]))
    numbers, leaks = comparison_tables(found)
    assert [row[-1] for row in numbers.rows] == ["yes", "no"]
    assert numbers.rows[0][:3] == ("contextual coverage (source tuned)", "60.0 %", "25.0 %")
    # Newcombe's interval from Wilson's [49.0, 70.0] and [16.8, 35.5] % around -35 points
    assert numbers.rows[0][3] == "-35.0 points [-48.0, -19.8]"
    assert leaks.rows[0][:5] == ("contextual coverage", "PERSON", "1", "1", "0")


def test_what_changed_is_said_first_and_numbers_that_are_equal_are_counted():
    first = [coverage(48, 80, source="tuned"), coverage(1, 80, source="base")]
    second = [coverage(20, 80, source="tuned"), coverage(1, 80, source="base")]
    reports = report(first, [leak("a"), leak("c")]), report(second, [leak("b"), leak("c")])
    reports[0]["verdict"]["status"], reports[1]["verdict"]["status"] = "fail", "inconclusive"
    found = compare(*reports)
    numbers, _ = comparison_tables(found)
    assert len(numbers.rows) == 1
    assert "1 more are equal in both." in numbers.notes
    sentence = (
        "The verdict went from fail to inconclusive; 1 of 2 numbers changed surely. Of the leaks, 1"
        " appeared, 1 went, 1 stayed."
    )
    assert change_sentence(*reports, found) == sentence
    page = Page(comparison.render(*reports, found))
    assert sentence in page.texts
    assert {"fail", "inconclusive"} <= {
        name for _, attributes in page.elements for name in attributes.get("class", "").split()
    }
    same = change_sentence(reports[0], reports[0], compare(reports[0], reports[0]))
    assert same.startswith("Both verdicts are fail; 0 of 2")


def test_a_verdict_that_its_measurements_contradict_is_said_to():
    sound, altered, older = (asked() for _ in range(3))
    altered["verdict"]["status"] = "pass" if sound["verdict"]["status"] != "pass" else "fail"
    older["verdict"]["rule"] = 1
    assert caveats(sound, sound) == []
    for place, reports in {"first": (altered, sound), "second": (sound, altered)}.items():
        [note] = caveats(*reports)
        assert note.startswith(f"The {place} report: Do not rely on this report: its verdict")
    [note] = caveats(older, sound)
    assert note.startswith("The first report: The verdict is by rule 1, and this fedaudit judges")
