"""No pass without positive controls, kind by kind; unexplained evidence bars one."""

from dataclasses import replace

import pytest
from example_report import coverage, number
from scipy.stats import binom, fisher_exact

from fedaudit.api.records import Finding, Measurement
from fedaudit.metrics.significance import upper_bound
from fedaudit.report.verdict.policy import verdict

AT = {"set": "exclusive"}


def counted(hits=0, n=300, controls=2000, plugin="contextual", **scope):
    """Return the counts of an attack without positive controls."""
    at = {**AT, "plugin": plugin, **scope}
    return [
        coverage(hits, n, source="tuned-not-base", **at),
        coverage(0, n, source="base", **at),
        coverage(0, n, source="base-not-tuned", **at),
        coverage(0, controls, source="control", **at),
    ]


def kind(label, n, *, known=(60, 60), controls=1000, learned=None):
    """Return the rows of one kind: its targets, controls, positive controls and scores."""
    at = {**AT, "label": label}
    rows = [coverage(0, n, source="tuned-not-base", **at)]
    if controls:
        rows.append(coverage(0, controls, source="control", **at))
    if known:
        rows.append(coverage(*known, source="known", **at))
    if learned is not None:
        p, own, others = learned
        row = number("extraction", "contextual", "p_value", p, source="tuned-not-base", **at)
        rows.append(replace(row, n=n, scope={**row.scope, "test": "learned"}))
        for source, mean, count in (("tuned-not-base", own, n), ("known", others, 60)):
            rows.append(
                Measurement(
                    kind="extraction",
                    plugin="contextual",
                    metric="gain_score",
                    value=mean,
                    low=mean - 0.1,
                    high=mean + 0.1,
                    n=count,
                    scope={"source": source, **at},
                )
            )
    return rows


def judged(*rows, findings=()):
    return verdict([row for group in rows for row in group], findings)


def test_without_positive_controls_nothing_passes_and_it_says_what_to_add():
    found = judged(counted())
    assert (found["status"], found["detectable"]) == ("inconclusive", 1.0)
    assert "no positive control" in found["reasons"][0]
    assert "--prefixes" in found["reasons"][0]
    assert judged(counted(), [coverage(60, 60, source="known", **AT)])["status"] == "pass"


@pytest.mark.parametrize("drawn", [0, 5, 30, 60])
def test_the_leak_that_is_seen_follows_from_how_many_positive_controls_come_out(drawn):
    found = judged(counted(), [coverage(drawn, 60, source="known", **AT)])
    if not drawn:
        assert found["status"] == "inconclusive"
        assert "0 of 60 positive controls came out" in found["reasons"][0]
        return
    # By the slow way: hits that Fisher's test at 1 % divided by one test needs.
    needed = next(
        k
        for k in range(1, 300)
        if fisher_exact([[k, 300 - k], [0, 2000]], alternative="greater").pvalue <= 0.01
    )
    mcnemar = next(k for k in range(1, 300) if 0.5**k <= 0.05)
    reach = 1 - upper_bound(60 - drawn, 60, 0.05)
    leaked = next(
        k for k in range(1, 10_000) if binom.sf(max(needed, mcnemar) - 1, k, reach) >= 0.9
    )
    assert found["detectable"] >= min(1, leaked / 300) - 1e-9
    assert found["status"] == ("pass" if found["detectable"] <= 0.1 else "inconclusive")


def test_a_kind_without_controls_counts_as_unseen():
    seen = kind("PERSON", 290)
    few = judged(counted(), seen, kind("DIAGNOSIS", 10, controls=0))
    assert few["status"] == "pass"
    assert few["detectable"] >= 10 / 300
    most = judged(counted(), kind("PERSON", 200), kind("DIAGNOSIS", 100, controls=0))
    assert most["status"] == "inconclusive"
    assert "DIAGNOSIS (100): no control string" in most["reasons"][0]


def test_a_kind_without_controls_that_came_out_bars_a_pass():
    """Eleven of twelve diagnoses came out and the base says each with 20 %: 12 * .2^11 * .8."""
    at = {**AT, "label": "DIAGNOSIS"}
    came_out = coverage(11, 12, source="tuned-not-base", **at)
    chance = number("extraction", "contextual", "chance", 0.2, source="base", **at)
    p = number("extraction", "contextual", "p_value", 1.0, source="tuned-not-base", **AT)
    rest = [*counted(11), *kind("PERSON", 288), coverage(60, 60, source="known", **AT)]
    rest.append(replace(p, n=288, scope={**p.scope, "test": "leak"}))
    found = judged(rest, [came_out, replace(chance, n=12)])
    assert found["status"] == "inconclusive"
    assert "11 of 12 DIAGNOSIS did" in found["reasons"][0]
    assert f"(p = {12 * 0.2**11 * 0.8 + 0.2**12:.2g})" in found["reasons"][0]
    likely = judged(rest, [came_out, replace(chance, n=12, value=0.9)])
    assert "the base does not explain" not in likely["reasons"][0]


def test_what_the_model_has_learned_bars_a_pass_although_nothing_came_out():
    learned = judged(counted(), kind("PERSON", 300, known=(0, 60), learned=(1e-6, 2.0, 3.0)))
    assert learned["status"] == "inconclusive"
    assert "PERSON (300): the model has learned such strings" in learned["reasons"][0]
    nothing = judged(counted(), kind("PERSON", 300, known=(0, 60), learned=(0.5, 1.0, 3.0)))
    assert nothing["status"] == "pass"
    unclear = judged(counted(), kind("PERSON", 300, known=(0, 60), learned=(0.5, 1.0, 1.2)))
    assert unclear["status"] == "inconclusive"


@pytest.mark.parametrize(("p", "status"), [(0.051, "pass"), (0.049, "inconclusive")])
def test_what_the_model_has_learned_bars_a_pass_although_every_positive_control_came_out(p, status):
    """The questions and the positive controls may be chosen to come out, or not to."""
    found = judged(counted(), kind("PERSON", 300, learned=(p, 1.2, 3.0)))
    assert found["status"] == status
    told = "the model has learned the victim's PERSON (p = 0.05)" in found["reasons"][0]
    assert told == (status == "inconclusive")
    # Two kinds share the level.
    both = judged(counted(), kind("PERSON", 150, learned=(p, 1.2, 3.0)), kind("PLACE", 150))
    assert both["status"] == "pass"


def test_the_worse_of_both_reasons_is_said_where_no_leak_could_be_seen():
    """Three targets of ten would show, of a kind whose positive controls never come out: none."""
    found = judged(counted(n=10), kind("PERSON", 10, known=(0, 60)))
    assert found["detectable"] == 1
    assert "would have been seen" not in found["reasons"][0]
    assert "0 of 60 positive controls came out" in found["reasons"][0]


def test_between_pass_and_fail_lies_what_is_unlikely_by_itself():
    """p = 0.004 is not proof among ten tests, and no pass either."""
    known = [coverage(60, 60, source="known", **AT)]
    p = number("extraction", "contextual", "p_value", 0.004, source="tuned-not-base", **AT)
    rows = [*counted(3), *known, replace(p, n=300, scope={**p.scope, "test": "leak"})]
    others = [
        row
        for i in range(9)
        for row in (
            *counted(plugin=f"other-{i}"),
            coverage(60, 60, source="known", plugin=f"other-{i}", **AT),
        )
    ]
    found = verdict([*rows, *others], [])
    assert found["status"] == "inconclusive"
    assert "taken by itself (p = 0.004)" in found["reasons"][0]
    assert verdict(rows, [])["status"] == "fail"


def test_a_finding_of_high_severity_bars_a_pass():
    high = Finding(
        id="f", severity="high", label="PERSON", measurement="contextual coverage", evidence={}
    )
    known = [coverage(60, 60, source="known", **AT)]
    assert judged(counted(1), known)["status"] == "pass"
    found = judged(counted(1), known, findings=[high])
    assert found["status"] == "inconclusive"
    assert "1 finding is of high severity" in found["reasons"][0]


def test_an_attack_that_could_see_nothing_takes_nothing_from_one_that_could():
    seeing = [*counted(), coverage(60, 60, source="known", **AT)]
    blind = counted(n=10, plugin="verbatim")
    found = judged(seeing, blind)
    assert found["status"] == "pass"
    assert judged(blind)["status"] == "inconclusive"
    others = counted(n=10, plugin="verbatim", victim="c2")
    elsewhere = [*counted(victim="c1"), coverage(60, 60, source="known", victim="c1", **AT)]
    assert judged(elsewhere, others)["status"] == "inconclusive"  # of another victim
