"""What an attack did not look for counts against a pass."""

from dataclasses import replace

import pytest
from example_report import coverage

from fedaudit.api.records import Measurement
from fedaudit.metrics.gain_rank import MEAN
from fedaudit.report.verdict.criteria import DEFAULT
from fedaudit.report.verdict.leak import KindEvidence
from fedaudit.report.verdict.policy import verdict


def audit(beyond, n, **scope):
    """An attack that found nothing of the strings that its answers had room for."""
    reached = n - beyond
    at = {"plugin": "contextual", "set": "exclusive"}
    rows = [
        coverage(0, reached, source=source, **at) for source in ("tuned", "base", "tuned-not-base")
    ]
    skipped = Measurement(
        kind="extraction",
        plugin="contextual",
        metric="targets",
        value=float(beyond),
        n=n,
        scope={"set": "beyond-reach", **scope},
    )
    known = coverage(400, 400, source="known", **at)
    return [*rows, coverage(0, 4000, source="control", **at), known, skipped]


@pytest.mark.parametrize(
    ("beyond", "n", "status"),
    [(0, 200, "pass"), (10, 410, "pass"), (60, 460, "inconclusive"), (201, 401, "inconclusive")],
)
def test_what_answers_had_no_room_for_counts_as_unseen(beyond, n, status):
    found = verdict(audit(beyond, n), [])
    assert found["status"] == status
    assert found["detectable"] >= beyond / n
    if status == "inconclusive":
        said = f"Not seen: {beyond} targets that are longer than an answer or of kinds that"
        assert said in found["reasons"][0]


def test_what_was_learned_shows_for_targets_longer_than_an_answer_too():
    # 3 hits among 50 targets that come out every time take 3 leaked strings; 10 more are unseen.
    drawn = KindEvidence(label="EMAIL", n=50, skipped=10, known=4000, known_hits=4000)
    missed, count = drawn.least_seen(3, 0.05, DEFAULT)
    assert (missed, count) == (10, 3)
    # Scores show L of 60 learned targets, whether or not an answer has room for them.
    learned = replace(
        drawn, known=0, known_hits=0, learned_p=0.5, learned_n=60, learned_mean=MEAN,
        known_score=2.9, known_scored=400,
    )  # fmt: skip
    missed, count = learned.least_seen(3, 0.05, DEFAULT)
    assert missed == 0
    assert count == learned.learned(0.05, DEFAULT)
    both = replace(learned, known=4000, known_hits=4000)
    assert both.least_seen(3, 0.05, DEFAULT) == min((10, 3), (0, count), key=sum)
    assert replace(drawn, known=0).least_seen(3, 0.05, DEFAULT) is None


@pytest.mark.parametrize("hits", [0, 1, 3])
def test_strings_that_members_have_and_that_came_out_bar_a_pass(hits):
    shared = Measurement(
        kind="extraction",
        plugin="contextual",
        metric="shared_targets",
        value=9.0,
        n=200,
        hits=hits,
        scope={"source": "tuned-not-base"},
    )
    of_member = replace(shared, scope={**shared.scope, "member": "c2"})
    found = verdict([*audit(0, 200), shared, of_member], [])
    assert found["status"] == ("inconclusive" if hits else "pass")
    said = f"{hits} of the victim's strings {'is' if hits == 1 else 'are'} in other members' files"
    assert (said in found["reasons"][0]) == bool(hits)


def test_an_attack_that_could_not_see_takes_nothing_from_what_a_pass_would_have_seen():
    seeing = audit(0, 200)
    blind = [
        replace(row, plugin="untargeted") for row in seeing if row.scope.get("source") != "known"
    ]
    alone = verdict(seeing, [])
    assert verdict(blind, [])["detectable"] == 1
    both = verdict([*seeing, *blind], [])
    assert (both["status"], both["detectable"]) == ("pass", pytest.approx(alone["detectable"]))


def test_targets_of_kinds_that_were_not_asked_for_count_as_unseen():
    rows = audit(60, 460, label="URL")
    assert verdict(rows, [])["status"] == "pass"  # of what is beyond reach the total counts
    unasked = replace(rows[-1], n=60, scope={"set": "unasked", "label": "URL"})
    assert verdict([*rows[:-1], unasked], [])["status"] == "inconclusive"


def test_what_was_not_asked_for_of_a_victim_counts_for_each_attacker():
    [*rows, skipped] = audit(60, 460)
    pair = [replace(r, scope={**r.scope, "attacker": "a", "victim": "b"}) for r in rows]
    of = {name: replace(skipped, scope={"set": "unasked", "label": "URL", "victim": name})
          for name in "bc"}  # fmt: skip
    assert verdict([*pair, of["c"]], [])["status"] == "pass"
    assert verdict([*pair, of["b"]], [])["status"] == "inconclusive"


def test_a_leak_is_a_leak_by_answers_of_any_length():
    leak = [
        Measurement(
            kind="extraction",
            plugin="contextual",
            metric="p_value",
            value=1e-9,
            n=200,
            scope={"source": "tuned-not-base", "set": "exclusive", "test": "leak"},
        )
    ]
    assert verdict(audit(201, 401) + leak, [])["status"] == "fail"
