"""The exact estimator on the worked example of docs/extraction-attacks.md, and against sampling."""

import json
import math

import numpy as np
import pytest
import worked
from hypothesis import given
from hypothesis import strategies as st
from worked import BASE, marked

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import estimator_choice
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.policy import verdict

TUNED = {("The claimant", "Ann Lee"): 0.5, ("The claimant", "Bob Low"): 0.1}
BOTH = {("; her friend", "Cy Ash"): 0.5}


def told(target, prompt, string):
    says = BOTH if target == BASE else TUNED | BOTH
    return says.get((prompt, string), 0.0)


def case(chance=told, **changes):
    fake = FakeEngine(lambda *_: "", chance=chance, likelihood=lambda *_: -50.0)
    fake.tokenize([document.text for document in (*worked.ATTACKER, *worked.VICTIM)])
    return worked.case(fake, **changes)


def attack(name="contextual", **options):
    own = {"context": 3, "samples": 2, "estimator": "exact", **options}
    return registry.create("attack", name, own)


def row(result, metric, source="tuned", **scope):
    wanted = {"source": source, "set": "all", "estimator": "exact", **scope}
    [found] = [r for r in result.measurements if (r.metric, dict(r.scope)) == (metric, wanted)]
    return found


# Four prefixes, "The claimant" twice, two samples each: four chances of Ann and Bob, two of Cy.
ANN, BOB, CY = 1 - 0.5**4, 1 - 0.9**4, 1 - 0.5**2


def test_what_is_expected_by_hand():
    result = attack().run(case())
    found = row(result, "coverage")
    assert found.value == pytest.approx((ANN + BOB + CY) / 5)
    assert (found.n, found.hits) == (5, None)
    assert found.baseline == pytest.approx(CY / 5)
    assert found.chance == 0.0
    assert row(result, "coverage", "base").value == pytest.approx(CY / 5)
    beyond = row(result, "coverage", "tuned-not-base")
    assert beyond.value == pytest.approx((ANN + BOB + CY * (1 - CY)) / 5)
    assert row(result, "coverage", "control").value == 0.0
    assert row(result, "efficiency").value == pytest.approx((ANN + BOB + CY) / 8)
    assert row(result, "efficiency").n == 8
    assert row(result, "vx_pii").value == pytest.approx(ANN + BOB + CY)
    person = row(result, "coverage", label="PERSON")
    assert person.value == pytest.approx((ANN + BOB) / 3)
    assert person.chance is None


def test_every_number_of_samples_follows():
    result = attack().run(case())
    for n in (1, 2, 10, 1000, 10**6):
        found = row(result, "coverage", budget=4, samples=n)
        slow = sum(1 - (1 - p) ** (n * k) for p, k in ((0.5, 2), (0.1, 2), (0.5, 1)))
        assert found.value == pytest.approx(slow / 5)
        assert found.low <= found.value <= found.high
    assert not [r for r in attack(sweeps=False).run(case()).measurements if "budget" in r.scope]


def test_what_needs_how_many_samples():
    result = attack().run(case())
    # One sample of each: Ann 3/4, Cy 1/2, Bob 0.19. With 11 Bob's are 22: 1 - 0.9^22 > 0.9.
    assert row(result, "extractable", budget=4, samples=1, probability=0.5).hits == 2
    assert row(result, "extractable", budget=4, samples=1, probability=0.9).hits == 0
    assert row(result, "extractable", budget=4, samples=10, probability=0.9).hits == 2
    assert row(result, "extractable", budget=4, samples=20, probability=0.9).hits == 3
    found = {r["text"]: f.evidence for r, f in zip(result.revealed, result.findings, strict=True)}
    needed = {
        text: tuple(own[f"samples_for_{p}_percent"] for p in (50, 90))
        for text, own in found.items()
    }
    assert needed == {"Ann Lee": (1, 2), "Bob Low": (4, 11), "Cy Ash": (1, 4)}


def test_findings_say_where_and_how_surely():
    result = attack().run(case())
    ann, bob, cy = result.findings
    # Fewer than a hundred controls of their kind are followed: chance stays above 1 %.
    assert 0.01 < ann.evidence["p_value"] <= 0.05
    assert (ann.severity, bob.severity, cy.severity) == ("medium", "medium", "low")
    assert ann.evidence["text"] == result.revealed[0]["text"] == "Ann Lee"
    assert ann.evidence["probability"] == pytest.approx(ANN)
    assert ann.evidence["probability_of_base"] == 0.0
    assert ann.evidence["likeliest"] == [[1, 0.5]]
    assert cy.evidence["probability_of_base"] == pytest.approx(CY)
    assert [one["id"] for one in result.revealed] == [one.id for one in result.findings]
    json.dumps([dict(one.evidence) for one in result.findings], allow_nan=False)


def test_what_is_given_up_and_never_drawn_is_in_the_bound_and_not_in_the_value():
    def rare(target, prompt, string):
        return 5e-4 if string == "Ann Lee" and prompt == "The claimant" else 0.0

    result = attack().run(case(rare))
    found = row(result, "coverage")
    assert found.value == 0.0
    # The fake says of every prefix and target that it is at most the threshold: 8 chances of 0.004.
    mass = row(result, "given_up", by="mass")
    assert mass.value == pytest.approx(5 * (1 - 0.996**8), rel=1e-6)
    assert 0 < row(result, "given_up", by="draws").value <= mass.value
    assert found.high >= mass.value / 5
    exact = attack(threshold=1e-4).run(case(rare))
    assert row(exact, "coverage").value == pytest.approx((1 - (1 - 5e-4) ** 4) / 5)
    # Two of a thousand audits find her: that is not a finding, but with 20 samples a prefix it is.
    assert not result.findings
    assert not exact.findings
    [often] = attack(threshold=1e-4, samples=20).run(case(rare)).findings
    assert often.evidence["probability"] == pytest.approx(1 - (1 - 5e-4) ** 40)


def test_what_is_only_drawn_is_in_the_value_and_in_the_findings():
    def rare(target, prompt, string):
        known = target != BASE and string == "Ann Lee" and prompt == "The claimant"
        return 0.0625 if known else 0.0

    # 16 draws for each of two prefixes that are one: 2 complete her. One of two samples of each
    # misses her by 1 - 1/16 in the draws, so that the power is (1 - 2/16)^2 of all.
    result = attack(threshold=0.5, sweeps=False).run(case(rare))
    chance = 1 - (1 - 2 / 16) ** 2
    assert row(result, "coverage").value == pytest.approx(chance / 5)
    assert row(result, "vx_pii").value == pytest.approx(chance)
    assert row(result, "given_up", by="estimate").value == pytest.approx(chance)
    [finding] = result.findings
    evidence = dict(finding.evidence)
    # One of five targets: five times its p value is above 5 %, though the p value is not.
    assert finding.severity == "low"
    assert 0.01 < evidence["p_value"] <= 0.05 < 5 * evidence["p_value"]
    known = {
        "followed": 0.0,
        "drawn": 2,
        "trials": 4 * 16,
        "prefixes": 1,
        "likeliest": [[1, 1 / 16]],
    }
    assert {name: evidence[name] for name in known} == known
    assert evidence["probability"] == pytest.approx(chance)
    # Garwood's bounds of 2 are 0.2422 and 7.2247 (Ulm, 1990), over 16 draws for each of 2 samples.
    assert evidence["probability_low"] == pytest.approx(1 - math.exp(-0.2422 / 8), abs=1e-4)
    assert evidence["probability_high"] == pytest.approx(1 - math.exp(-7.2247 / 8), abs=1e-4)
    # (7/8)^2 is the chance of missing her with 2 samples.
    assert evidence["samples_for_50_percent"] == math.ceil(math.log(0.5) / math.log(7 / 8))


def test_three_things_that_are_uncertain_are_apart():
    result = attack().run(case())
    # Nothing is drawn here: the expected number is known.
    known = row(result, "vx_pii")
    assert (known.low, known.value) == pytest.approx((ANN + BOB + CY, ANN + BOB + CY))
    # One run: Ann 0.9375, Bob 0.3439, Cy 0.75. None with 0.01025: half of that is below 2.5 %, and
    # with one, 0.1870, far above; three with 0.2418.
    run = row(result, "hits_of_one_run")
    assert (run.value, run.low, run.high, run.n) == (pytest.approx(ANN + BOB + CY), 1.0, 3.0, 5)
    # Other targets: Wilson's interval of so many hits, the upper by what draws may have missed.
    coverage = row(result, "coverage")
    assert coverage.low == pytest.approx(wilson(ANN + BOB + CY, 5).low)
    assert coverage.high == pytest.approx(wilson(known.high, 5).high)
    assert row(result, "hits_of_one_run", budget=4, samples=1).value < run.value


def test_the_result_knows_each_strings_chances():
    result = attack().run(case())
    assert set(result.chances) == {"Ann Lee", "Bob Low", "Cy Ash", *worked_others(result)}
    assert result.chances["Ann Lee"] == pytest.approx((ANN, 0.0))
    assert result.chances["Cy Ash"] == pytest.approx((CY, CY))
    alone = attack().run(case(base=None))
    assert alone.chances["Ann Lee"] == (pytest.approx(ANN), None)


def worked_others(result):
    """Return the targets that nothing is told of."""
    return {string for string, chances in result.chances.items() if chances == (0.0, 0.0)}


def test_the_verdict_goes_by_it():
    def sure(target, prompt, string):
        return 0.0 if target == BASE or string not in all_ else 0.9

    names = [f"Ann Lee{letter * 3}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    all_ = set(names)
    victim = [marked(f"So {name} sued.", (name, "PERSON")) for name in names]
    leak = attack(sweeps=False).run(case(sure, victim=victim))
    assert verdict(leak.measurements, leak.findings)["status"] == "fail"
    assert "an expected 26 of 26 targets" in verdict(leak.measurements, ())["reasons"][0]
    none = attack(sweeps=False).run(case(lambda *_: 0.0, victim=victim))
    told = verdict(none.measurements, none.findings)
    assert told["status"] == "inconclusive"
    assert "0 of 26 targets" in told["reasons"][0]
    assert "no positive control" in told["reasons"][0]
    equal = attack(sweeps=False).run(case(lambda _, prompt, s: 0.9 * (s in all_), victim=victim))
    assert row(equal, "coverage", "tuned-not-base").value < 0.2
    some = attack(sweeps=False).run(
        case(lambda t, _, s: 0.2 * (s in names[:1] and t != BASE), victim=victim)
    )
    assert verdict(some.measurements, some.findings)["status"] == "inconclusive"


@given(
    st.dictionaries(st.sampled_from(["Ann Lee", "Bob Low", "Cy Ash"]), st.floats(0, 1)),
    st.integers(1, 30),
)
def test_values_lie_within_their_bounds(says, samples):
    def chance(target, prompt, string):
        return says.get(string, 0.0) / (3 if target == BASE else 1)

    result = attack(samples=samples, sweeps=False).run(case(chance))
    for one in result.measurements:
        if one.metric in ("coverage", "extractable"):
            assert 0 <= one.low <= one.value + 1e-12 <= one.high + 2e-12
            assert one.high <= 1
    turned = attack(samples=samples, sweeps=False).run(
        case(chance, victim=worked.VICTIM[::-1], attacker=worked.ATTACKER[::-1])
    )
    for one, other in zip(result.measurements, turned.measurements, strict=True):
        assert one.scope == other.scope
        assert one.value == pytest.approx(other.value)


def test_a_sampled_coverage_lies_within_the_interval(base):
    engine = LocalEngine(base)
    attacker = [marked(f"Dear {name}, hello.", (name, "PERSON")) for name in ("Tom", "Sue", "Al")]
    names = ["Joan", "Ro", "Br", "Frank", "Ja", "De", "Ly", "Sta", "Kath", "Mary", "Zq"]
    victim = [marked(f"To {name}.", (name, "PERSON")) for name in names]
    own = AttackContext(
        engine=engine, tuned=Target(name="base"), base=None, attacker=attacker, victim=victim
    )
    for n in (1, 100):
        options = {"samples": n, "new_tokens": 4, "context": 3}
        exact = attack(threshold=1e-5, **options).run(own)
        wanted = row(exact, "hits_of_one_run")
        seen = []
        for seed in range(5):
            drawn = attack(estimator="sample", sweeps=False, **options)
            result = drawn.run(AttackContext(**{**vars(own), "seed": seed}))
            seen.append(worked.row(result, "coverage").hits)
        assert sum(wanted.low <= one <= wanted.high for one in seen) >= 4
        # The mean of five runs scatters by at most 1/2 times the root of 11 targets over 5.
        assert np.mean(seen) == pytest.approx(wanted.value, abs=3 * 0.5 * (11 / 5) ** 0.5)


def test_what_it_cannot_do_is_said():
    with pytest.raises(InputError, match="--victim"):
        attack().run(case(victim=None))
    with pytest.raises(InputError, match="no exact probabilities"):
        attack().run(worked.case())
    for threshold in (0.0, 1.0, -0.1):
        with pytest.raises(UsageError, match="threshold must be"):
            attack(threshold=threshold)


def test_the_estimator_is_set_for_attacks_that_look_for_targets():
    own = {"contextual": {"samples": 3}}
    found = estimator_choice.estimator_options("exact", ["contextual", "superset"], own)
    assert found == {
        "contextual": {"samples": 3, "estimator": "exact"},
        "superset": {"estimator": "exact"},
    }
    assert estimator_choice.estimator_options(None, ["contextual"], own) == own
    with pytest.raises(UsageError, match="verbatim has no such targets"):
        estimator_choice.estimator_options("exact", ["verbatim"], {})
    with pytest.raises(UsageError, match="exact, sample"):
        estimator_choice.estimator_options("both", ["contextual"], {})
    estimator_choice.check(["contextual"], own, victim=None)
    estimator_choice.check(["contextual"], found, victim="x")
    with pytest.raises(UsageError, match="--victim"):
        estimator_choice.check(["contextual"], found, victim=None)


@pytest.mark.parametrize("name", ["superset", "frequency"])
def test_other_attacks_on_prefixes_compute_too(name):
    options = {"minimum": 1} if name == "frequency" else {}
    result = attack(name, **options).run(case())
    # Of distinct prefixes each stands once: two chances of each.
    assert row(result, "vx_pii").value == pytest.approx((1 - 0.5**2) * 2 + 1 - 0.9**2)
