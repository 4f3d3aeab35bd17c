import pytest
import worked
from worked import row

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Attack, Result
from fedaudit.api.records import Measurement, Target
from fedaudit.audit import attacks as attack_runs
from fedaudit.audit.access import ModelView
from fedaudit.config import registry
from fedaudit.extraction import comparison
from fedaudit.extraction.sampling import ResponseCache
from fedaudit.extraction.scoring import ExtractionResult, HitCounter
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.intervals import wilson


def attack(name, **options):
    return registry.create("attack", name, {"context": 3, "samples": 2, **options})


def ran(*attacks, fake=None, **changes):
    fake = fake or worked.engine()
    cache = attack_runs.response_cache(attacks)
    tries = attack_runs.AttackExecutor(alone=len(attacks) == 1)
    results = attack_runs.run_attacks(attacks, worked.case(fake, **changes), cache, tries)
    tries.check()
    return results, fake, cache


def tally(name, found, base=(), samples=2, size=10, labels="abcdef"):
    """Return what an attack found: `found` and `base` map targets to the prefix that gave them."""
    target_set = TargetSet(labels=dict.fromkeys(labels, "X"))

    def heard(events):
        one = HitCounter(target_set, samples)
        for target, at in dict(events).items():
            one.counts[target] += 1
            one.budget_curve.add(target, start=at - 1, draw=0)
        return one

    return ExtractionResult(
        plugin=name,
        target_set=target_set,
        tuned=heard(found),
        base=heard(base),
        size=size,
        samples=samples,
    )


def overlap(rows, source="tuned", **scope):
    wanted = {"source": source, "set": "all", **scope}
    [found] = [r for r in rows if dict(r.scope) == wanted]
    return found.hits, found.n


# comparing


def test_the_worked_example():
    results, _, _ = ran(attack("contextual"), attack("superset"))
    rows = results[-1].measurements
    # contextual: Ann, Bob, Cy. superset: Ann, Cy, Dee. The base: Cy.
    pair = {"attacks": "contextual", "not": "superset"}
    assert overlap(rows, **pair) == (1, 3)
    assert overlap(rows, "tuned-not-base", **pair) == (1, 2)
    assert overlap(rows, only="contextual, superset") == (2, 4)
    assert overlap(rows, "tuned-not-base", only="contextual, superset") == (1, 3)
    # After two prefixes contextual has Ann and Bob, superset Ann.
    assert overlap(rows, **pair, budget=2, samples=2) == (1, 2)
    assert overlap(rows, **{"attacks": "superset", "not": "contextual"}, budget=2, samples=2) == (
        0,
        1,
    )


def test_three_attacks_by_hand():
    rows = list(
        comparison.rows(
            [
                tally("one", {"a": 1, "b": 2, "c": 9}),
                tally("two", {"b": 1, "c": 2, "d": 3}),
                tally("three", {"c": 1, "e": 2}, base={"e": 5}),
            ]
        )
    )
    regions = {
        r.scope["only"]: r.hits for r in rows if "only" in r.scope and r.scope["source"] == "tuned"
    }
    assert regions == {
        "one": 1,
        "two": 1,
        "three": 1,
        "one, two": 1,
        "one, three": 0,
        "two, three": 0,
        "one, two, three": 1,
    }
    assert sum(regions.values()) == 5 == overlap(rows, only="one")[1]
    assert overlap(rows, "tuned-not-base", only="three") == (0, 4)  # e is the base's
    assert overlap(rows, **{"attacks": "one", "not": "two"}) == (1, 3)
    assert overlap(rows, **{"attacks": "one", "not": "two"}, budget=2, samples=2) == (1, 2)
    [share] = [r for r in rows if dict(r.scope) == {"source": "tuned", "set": "all", "only": "one"}]
    assert (share.low, share.high) == (wilson(1, 5).low, wilson(1, 5).high)


def test_nothing_found_is_not_measured_with_a_reason():
    rows = list(comparison.rows([tally("one", {}), tally("two", {"a": 3})]))
    wanted = {"source": "tuned", "set": "all", "attacks": "one", "not": "two"}
    [none] = [r for r in rows if dict(r.scope) == wanted]
    assert (none.value, none.n, none.reason) == (None, 0, "nothing was found to compare")
    by_budget = [r for r in rows if "budget" in r.scope and r.scope["source"] == "tuned"]
    # two finds its target with three prefixes; the largest budget is there for both.
    told = [(r.scope["attacks"], r.scope["budget"], r.n) for r in by_budget]
    assert told == [("one", 10, 0), ("two", 5, 1), ("two", 10, 1)]


def test_one_attack_has_nobody_to_compare_with():
    assert list(comparison.rows([tally("one", {"a": 1})])) == []
    results, _, cache = ran(attack("contextual"))
    assert len(results) == 1
    assert cache.free_bytes == 0


def test_budgets_of_attacks_that_ask_otherwise_are_not_compared():
    rows = list(comparison.rows([tally("one", {"a": 1}), tally("two", {"a": 1}, samples=3)]))
    assert not [r for r in rows if "budget" in r.scope]
    assert overlap(rows, only="one, two") == (1, 1)


def test_of_many_attacks_only_the_pairs_are_compared():
    rows = list(comparison.rows([tally(f"a{number}", {"a": 1}) for number in range(5)]))
    assert not [r for r in rows if "only" in r.scope]
    assert len({(r.scope["attacks"], r.scope["not"]) for r in rows}) == 20


def test_attacks_with_other_targets_are_not_compared():
    results, _, _ = ran(attack("contextual"), attack("superset", labels="FRIEND"))
    assert results[-1].measurements == ()
    assert results[-1].limits == (
        "superset: not compared with contextual, which has other targets.",
    )


# sharing


def longer(target, prompt, sample):
    """Say what the example says, and then nobody's name as often as is asked."""
    says = worked.BASE_SAYS if target == worked.BASE else worked.TUNED_SAYS
    return [*says.get(prompt, []), *[" nobody"] * 20][sample]


@pytest.mark.parametrize("order", [("contextual", "superset"), ("superset", "contextual")])
def test_no_question_is_asked_twice_and_nothing_else_changes(order):
    attacks = [attack(name) for name in order]
    results, fake, cache = ran(*attacks)
    prompts = [(target, request.prompt) for target, request in fake.asked]
    assert len(prompts) == len(set(prompts)) == 2 * 7  # all that Set(SUP) has
    # "The claimant" was asked four times, "So the claimant" and "; her friend" twice.
    assert cache.reused_answers == {worked.TUNED: 6, worked.BASE: 6}
    assert sum(p.samples for target, p in fake.asked if target == worked.TUNED) == 16
    for name, result, one in zip(order, results, attacks, strict=False):
        assert result == one.run(worked.case())
        assert row(result, "queries").value == {"contextual": 8, "superset": 14}[name]


def test_more_samples_do_for_fewer():
    results, fake, _ = ran(attack("superset", samples=1), attack("frequency", minimum=1))
    assert {request.samples for _, request in fake.asked} == {2}
    assert len(fake.asked) == 14
    assert results[0] == attack("superset", samples=1).run(worked.case())


def test_who_has_more_samples_asks_first():
    # Every prompt of contextual is one of superset, and stands there twice at most.
    fewer, more = attack("contextual", samples=1), attack("superset", samples=4)
    results, fake, cache = ran(fewer, more, fake=worked.engine(longer))
    assert {request.samples for _, request in fake.asked} == {4}
    assert len(fake.asked) == 2 * 7
    assert cache.reused_answers == {worked.TUNED: 4, worked.BASE: 4}
    assert results[0] == fewer.run(worked.case())


def test_a_prompt_is_asked_anew_where_more_answers_are_needed():
    fewer, more = attack("contextual", samples=2), attack("superset", samples=3)
    results, fake, cache = ran(fewer, more, fake=worked.engine(longer))
    of_tuned = [request.samples for target, request in fake.asked if target == worked.TUNED]
    # superset asks 7 prompts three times; contextual then one of them 2 x 2 times, and no other.
    assert sorted(of_tuned) == [3] * 7 + [4]
    assert cache.reused_answers[worked.TUNED] == 8 - 4
    view = ModelView(engine=fake, tuned=worked.TUNED)
    assert attack_runs.count_queries(results, cache, [view]) == sum(of_tuned) == 8 + 21 - 4


# what one of them cannot do


class Impossible(Attack):
    name = "impossible"

    def run(self, case):
        raise InputError("nothing to do")


@pytest.mark.parametrize("first", [True, False])
def test_an_attack_that_cannot_be_made_loses_no_other(first):
    rare = attack("frequency", minimum=50)
    order = [rare, attack("contextual")] if first else [attack("contextual"), rare]
    results, _, _ = ran(*order)
    [missing] = results[0 if first else 1].measurements
    assert (missing.plugin, missing.metric, missing.value) == ("frequency", "coverage", None)
    assert missing.reason.startswith("No sub-prefix has a count of 50")
    assert dict(missing.scope) == {"source": "tuned-not-base", "set": "all"}
    assert results[1 if first else 0] == attack("contextual").run(worked.case())
    assert len(results) == 2


def test_where_no_attack_can_be_made_the_first_reason_is_raised():
    with pytest.raises(InputError, match="nothing to do"):
        ran(Impossible())
    with pytest.raises(InputError, match="nothing to do"):
        ran(Impossible(), Impossible())
    with pytest.raises(InputError, match="count of 50"):
        ran(attack("frequency", minimum=50), Impossible())


# counting


def queries(plugin, value, **scope):
    at = {"source": "tuned", **scope}
    row = Measurement(kind="extraction", plugin=plugin, metric="queries", value=value, scope=at)
    return Result(measurements=(row,))


def test_every_key_and_every_attacker_is_asked_by_itself():
    keys = [Target(name=f"tuned, {key} key", heading=key) for key in ("none", "wrong")]
    views = [
        ModelView(engine=None, tuned=one, scope={"client": "c0", "key": one.heading})
        for one in keys
    ]
    results = [view.add_scope(queries("contextual", 8.0, set="all")) for view in views]
    results += [view.add_scope(queries("contextual", 8.0, set="prefix-disjoint")) for view in views]
    results += [view.add_scope(queries("superset", 14.0)) for view in views]
    cache = ResponseCache()
    assert attack_runs.count_queries(results, cache, views) == 2 * 8 + 2 * 14
    cache.reused_answers.update({keys[0]: 6, keys[1]: 5, Target(name="base"): 99})
    assert attack_runs.count_queries(results, cache, views) == 44 - 11
    pairs = [queries("laft", 3.0, attacker=a, victim=v) for a in "abc" for v in "abc" if a != v]
    assert attack_runs.count_queries(pairs, ResponseCache(), views) == 3 * 3
    assert attack_runs.count_queries([], cache, views) is None


def test_other_attacks_run_among_them():
    class Other(Attack):
        name = "other"

        def run(self, case):
            return Result(limits=("was here",))

    results, _, _ = ran(Other(), attack("contextual"), attack("superset"))
    assert results[0].limits == ("was here",)
    assert len(results) == 4


def test_without_a_victim_there_is_nothing_to_compare():
    results, fake, _ = ran(attack("contextual"), attack("superset"), victim=None)
    assert len(results) == 2
    assert len({request.prompt for _, request in fake.asked}) == len(fake.asked) == 7
