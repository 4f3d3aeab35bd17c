"""Memorization pair by pair: what one client draws of another does not thin out among many."""

from dataclasses import replace
from math import comb

import pytest

from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.metrics.memorization import PrefixHits, ratios
from fedaudit.report.kinds.memorization import Memorization

AT = {"category": "all"}


def rows(clients, drawn=0, *, noise=0, base=0, n=100, **scope):
    """Return rows of so many prefixes each: `drawn` of c1's hit c2, `noise` of each a neighbour."""
    names = [f"c{number}" for number in range(clients)]
    made = []
    for source, hits in (("tuned", drawn), ("base", base)):
        prefixes = [
            PrefixHits(
                name,
                (
                    *([("c2", "verbatim")] if name == "c1" and at < hits else []),
                    *([(names[(index + 2) % clients], "idea")] if at < noise else []),
                ),
            )
            for index, name in enumerate(names)
            for at in range(n)
        ]
        found = ratios(prefixes, dict.fromkeys(names, 200))
        made.append(row("mr_inter", found.inter, source=source, **scope))
        made += [
            row("mr_pair", rate, source=source, attacker=j, victim=k, **scope)
            for (j, k), rate in found.pairs.items()
        ]
    return made


def row(metric, rate, **scope):
    return Measurement.mean(
        rate.estimate, rate.n, kind="memorization", plugin="memorize", metric=metric,
        scope={**AT, **scope}, hits=rate.hits if metric == "mr_pair" else None,
    )  # fmt: skip


def judged(measurements, **policy):
    [found] = Memorization().judge(measurements, Policy(**policy))
    return found.status, found.reason


def test_a_report_that_names_a_list_for_a_client_is_read_all_the_same():
    odd = [replace(one, scope={**one.scope, "victim": ["c2"]}) for one in rows(3, 30)]
    assert Memorization().judge(odd, Policy())


def test_a_pair_with_more_hits_than_prefixes_is_no_evidence():
    table = rows(10, 30, noise=5)
    for source in ("tuned", "base"):
        odd = [
            replace(one, hits=101)
            if (one.metric, one.scope["source"]) == ("mr_pair", source)
            else one
            for one in table
        ]
        without = [one for one in table if one.metric != "mr_pair"]
        assert judged(odd) == judged(without) != judged(table)


@pytest.mark.parametrize("clients", [10, 20])
def test_a_pair_that_leaks_fails_among_however_many(clients):
    status, reason = judged(rows(clients, 30, noise=5))
    # All 30 hits are the tuned model's: 100 over 30 of 200 over 30 ways, one of so many pairs.
    p = clients * (clients - 1) * comb(100, 30) / comb(200, 30)
    assert status == "fail"
    assert reason == (
        "memorize: 30 of 100 prefixes of c1 draw something of c2's texts, 0 of 100 from the base "
        f"(p = {p:.2g})."
    )
    # Without the counts of pairs only the mean is judged, which does not see it.
    alone = [one for one in rows(clients, 30, noise=5) if one.metric == "mr_inter"]
    assert judged(alone)[0] != "fail"


def test_what_the_base_draws_as_well_is_no_leak():
    assert judged(rows(20, 0, noise=5))[0] == "pass"
    # 30 of 100 is 22.5 to 38.5 % (Clopper and Pearson, one-sided), so the difference of two such
    # shares is at most hypot(8.5, 7.5) = 11.3 %; of 200 each it is 7.9 %.
    assert judged(rows(20, 30, base=30))[0] == "inconclusive"
    assert judged(rows(20, 60, base=60, n=200))[0] == "pass"


def test_all_pairs_share_half_of_the_level():
    def p(hits):
        return 6 * comb(100, hits) / comb(200, hits)

    least = next(hits for hits in range(100) if p(hits) <= 0.005)
    assert 0.005 < p(least - 1) < 0.01
    assert judged(rows(3, least))[0] == "fail"
    assert judged(rows(3, least - 1))[0] == "inconclusive"
    assert judged(rows(3, least - 1), level=0.02)[0] == "fail"


def test_a_pass_says_of_every_pair_that_it_draws_less_than_one_in_ten_more():
    # None of 28 or 29: up to 1 - 0.05 ** (1 / n), which is 10.1 % and 9.8 %.
    status, reason = judged(rows(20, 0, n=28))
    assert status == "inconclusive"
    assert "0 of 28 prefixes of c0 draw something of c1's texts" in reason
    assert "too few prefixes to tell that from a leak; so for 380 of 380 pairs" in reason
    assert judged(rows(20, 0, n=29))[0] == "pass"
    # Ten of 100 may be 16 %: neither is it shown among 380 pairs, nor is it excluded.
    status, reason = judged(rows(20, 10, noise=5))
    assert status == "inconclusive"
    assert "so for 1 of 380 pairs" in reason


def test_what_a_policy_allows_is_allowed_to_every_pair():
    # 30 of 100 are not proof of more than 20 % above the base's upper bound of 3.7 %; 50 are.
    assert judged(rows(20, 30), memorization=0.2)[0] == "inconclusive"
    assert judged(rows(20, 50), memorization=0.2)[0] == "fail"
    assert judged(rows(20, 10), memorization=0.2)[0] == "pass"


def test_own_texts_and_pairs_without_counts_are_not_judged():
    own = [
        replace(one, hits=90, value=0.9)
        if one.scope.get("attacker") == one.scope.get("victim") == "c1"
        and one.scope["source"] == "tuned"
        else one
        for one in rows(3)
    ]
    assert judged(own)[0] == "pass"
    missing = [
        Measurement.missing("every continuation repeats itself", kind="memorization",
                            plugin="memorize", metric="mr_pair", scope=one.scope)
        if one.scope.get("attacker") == "c1" else one
        for one in rows(3)
    ]  # fmt: skip
    assert judged(missing)[0] == "pass"


def test_a_pair_counts_for_the_mean_of_its_own_variant():
    found = Memorization().judge(
        [*rows(3, 30, decoding="top-k"), *rows(3, decoding="greedy")], Policy()
    )
    assert [one.status for one in found] == ["fail", "pass"]
