"""Memorization pair by pair: what one client draws of another does not thin out among many."""

from dataclasses import replace
from math import comb

import pytest

from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.metrics.memorization import PrefixHits, ratios
from fedaudit.report.kinds.memorization import Memorization

AT = {"category": "all"}


def rows(clients, drawn=0, *, noise=0, base=0, n=100, own=None, own_of_base=0, **scope):
    """Return rows of so many prefixes each: `drawn` of c1's hit c2, `noise` of each a neighbour.

    `own` has how many prefixes of each client hit its own texts; without it, all do.
    """
    names = [f"c{number}" for number in range(clients)]
    made = []
    come_out = dict.fromkeys(names, n) | (own or {})
    untuned = dict.fromkeys(names, own_of_base)
    for source, hits, owned in (("tuned", drawn, come_out), ("base", base, untuned)):
        prefixes = [
            PrefixHits(
                name,
                (
                    *([(name, "verbatim")] if at < owned[name] else []),
                    *([("c2", "verbatim")] if name == "c1" and at < hits else []),
                    *([(names[(index + 2) % clients], "idea")] if at < noise else []),
                ),
            )
            for index, name in enumerate(names)
            for at in range(n)
        ]
        found = ratios(prefixes, dict.fromkeys(names, 200))
        made.append(row("mr_inter", found.inter, source=source, **scope))
        made.append(row("mr_intra", found.intra, source=source, **scope))
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
    odd = [replace(one, hits=101) if one.metric == "mr_pair" else one for one in rows(3)]
    assert judged(odd) == (
        "inconclusive",
        "memorize: what the prefixes of c0 draw of c1's texts was not measured: there are no "
        "counts of the tuned model and of its base; so for 6 of 6 pairs of clients.",
    )


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
    alone = [one for one in rows(clients, 30, noise=5) if one.metric != "mr_pair"]
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
    # None of 28: up to 1 - 0.05 ** (1 / 28), which is 10.1 %.
    status, reason = judged(rows(20, 0, n=28))
    assert status == "inconclusive"
    assert "0 of 28 prefixes of c0 draw something of c1's texts" in reason
    assert "too few prefixes to tell that from a leak; so for 380 of 380 pairs" in reason
    # None of 31 and all 31 of the own texts: up to 9.2 %, which is 10.1 % of 1 - 9.2 %.
    status, reason = judged(rows(20, 0, n=31))
    assert status == "inconclusive"
    assert "only a leak of 10.1% would have been seen: 31 of 31 positive controls of c0" in reason
    assert judged(rows(20, 0, n=32))[0] == "pass"
    # Ten of 100 may be 16 %: neither is it shown among 380 pairs, nor is it excluded.
    status, reason = judged(rows(20, 10, noise=5))
    assert status == "inconclusive"
    assert "so for 1 of 380 pairs" in reason


def test_what_a_policy_allows_is_allowed_to_every_pair():
    # 30 of 100 are not proof of more than 20 % above the base's upper bound of 3.7 %; 50 are.
    assert judged(rows(20, 30), memorization=0.2)[0] == "inconclusive"
    assert judged(rows(20, 50), memorization=0.2)[0] == "fail"
    assert judged(rows(20, 10), memorization=0.2)[0] == "pass"


def test_own_texts_are_not_judged():
    assert judged(rows(3, own={"c1": 100, "c0": 60}))[0] == "pass"


def test_a_pair_that_was_not_measured_bars_a_pass():
    missing = [
        Measurement.missing("every continuation repeats itself", kind="memorization",
                            plugin="memorize", metric="mr_pair", scope=one.scope)
        if one.scope.get("attacker") == "c1" else one
        for one in rows(3)
    ]  # fmt: skip
    assert judged(missing) == (
        "inconclusive",
        "memorize: what the prefixes of c1 draw of c0's texts was not measured: every continuation "
        "repeats itself; so for 2 of 6 pairs of clients.",
    )
    unpaired = [one for one in rows(3) if not is_pair(one, "c2", "c0", "base")]
    assert judged(unpaired) == (
        "inconclusive",
        "memorize: what the prefixes of c2 draw of c0's texts was not measured: there are no "
        "counts of the tuned model and of its base; so for 1 of 6 pairs of clients.",
    )


def is_pair(one, attacker, victim, source):
    scope = one.scope
    pair = (scope.get("attacker"), scope.get("victim"), scope.get("source"))
    return one.metric == "mr_pair" and pair == (attacker, victim, source)


def searched(hits, n, attacker="c0", victim="c1", **scope):
    return Measurement.rate(
        hits, n, kind="memorization", plugin="memorize", metric="searched",
        scope={"attacker": attacker, "victim": victim, **scope},
    )  # fmt: skip


def least_share(hits, n):
    """Return the smallest share that gives this many hits or more at least once in twenty times."""
    return next(
        share / 2000
        for share in range(2001)
        if sum(
            comb(n, k) * (share / 2000) ** k * (1 - share / 2000) ** (n - k)
            for k in range(hits, n + 1)
        )
        >= 0.05
    )


@pytest.mark.parametrize("n", [48, 150, 400])
@pytest.mark.parametrize("share", [0, 0.02, 0.1, 0.3, 0.6, 0.9, 1])
@pytest.mark.parametrize("looked_for", [1, 0.99, 0.95, 0.91, 0.5])
def test_a_leak_may_hide_where_own_texts_do_not_come_out_or_were_not_looked_for(
    n, share, looked_for
):
    """Slowly: what may have leaked, where none of n came out, as seldom as own texts come out."""
    hits = round(share * n)
    drawn = next(p / 2000 for p in range(2001) if (1 - p / 2000) ** n < 0.05)
    reach = least_share(hits, n) if hits else 0.0
    leak = drawn / reach + 1 - looked_for if reach else 1.0
    if abs(leak - 0.1) < 0.004:
        pytest.skip("too near to tell by a search in steps")
    part = searched(round(1000 * looked_for), 1000)
    for shy in ("c0", "c1"):  # the attacker's own texts count, and so do the victim's
        status, reason = judged([*rows(2, n=n, own={shy: hits}), part])
        assert status == ("pass" if leak < 0.1 else "inconclusive")
        if status == "inconclusive":
            assert f"{hits} of {n} positive controls of {shy} came out" in reason


def test_own_texts_that_the_base_draws_as_well_show_nothing():
    assert judged(rows(3, own_of_base=0))[0] == "pass"
    status, reason = judged(rows(3, own_of_base=95))
    assert status == "inconclusive"
    assert "5 of 100 positive controls of c0 came out" in reason


def test_continuations_too_short_to_find_anything_in_are_named():
    short = Measurement.rate(
        100, 100, kind="memorization", plugin="memorize", metric="too_short",
        scope={"source": "tuned", "text": "generation", "attacker": "c1"},
    )  # fmt: skip
    none = {f"c{number}": 0 for number in range(2)}
    status, reason = judged([*rows(2, own=none), short])
    assert status == "inconclusive"
    assert reason == (
        "memorize: 0 of 100 prefixes of c0 draw something of c1's texts, 0 of 100 from the base; "
        "these prefixes cannot show a leak: 0 of 100 positive controls of c0 came out, 0 of 100 "
        "positive controls of c1 came out (100 of 100 continuations are too short to find anything "
        "in); so for 2 of 2 pairs of clients."
    )


def test_without_pairs_the_mean_of_own_texts_is_the_control():
    def means(**given):
        return [one for one in rows(3, **given) if one.metric != "mr_pair"]

    assert judged(means())[0] == "pass"
    few = judged(means(own=dict.fromkeys(("c0", "c1", "c2"), 5)))
    assert few[0] == "inconclusive"
    assert "5.0% of the positive controls came out" in few[1]
    alone = [one for one in means() if one.metric == "mr_inter"]
    assert judged(alone) == (
        "inconclusive",
        "memorize: 0.00% of a client's prefixes draw something of another client's texts from the "
        "tuned model; these prefixes cannot show a leak: no positive control.",
    )


def test_a_count_of_what_was_looked_for_is_of_its_own_variant():
    half = searched(50, 100, decoding="top-k")
    found = Memorization().judge(
        [*rows(2, decoding="top-k"), *rows(2, decoding="greedy"), half], Policy()
    )
    assert [one.status for one in found] == ["inconclusive", "pass"]
    assert "50 of 100 texts of c1 were not looked for, because c0 has" in found[0].reason
