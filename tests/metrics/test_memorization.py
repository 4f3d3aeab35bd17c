import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.memorization import PrefixHits, has_repeats, most_hit, ratios

V, I, P = "verbatim", "idea", "paraphrase_high"  # noqa: E741
# Four prefixes of a, two of b, one of c.
TABLE = [
    PrefixHits("a", (("a", V), ("b", V))),
    PrefixHits("a", (("a", I),)),
    PrefixHits("a", (("c", P), ("b", P))),
    PrefixHits("a"),
    PrefixHits("b", (("b", V), ("b", I))),
    PrefixHits("b"),
    PrefixHits("c", (("a", P),)),
]
SIZES = {"a": 60, "b": 30, "c": 10}


def values(rates):
    return {name: rate.estimate.value for name, rate in rates.items()}


def test_ratios_by_hand():
    found = ratios(TABLE, SIZES)
    assert values(found.pairs) == {
        ("a", "a"): 2 / 4,
        ("a", "b"): 2 / 4,
        ("a", "c"): 1 / 4,
        ("b", "a"): 0,
        ("b", "b"): 1 / 2,
        ("b", "c"): 0,
        ("c", "a"): 1,
        ("c", "b"): 0,
        ("c", "c"): 0,
    }
    assert values(found.inter_of) == pytest.approx({"a": 3 / 8, "b": 0, "c": 1 / 2})
    assert found.intra.estimate.value == pytest.approx(0.6 * 0.5 + 0.3 * 0.5)
    assert found.inter.estimate.value == pytest.approx(0.6 * 3 / 8 + 0.1 * 0.5)
    # A union: the first prefix of a hits two clients, and is one of five.
    assert (found.total.hits, found.total.n) == (5, 7)
    assert (found.intra.hits, found.inter.hits, found.intra.n) == (3, 3, 7)
    assert found.inter_of["a"].hits == 2
    assert found.unmeasured == ()


def test_intervals_by_hand():
    found = ratios(TABLE, SIZES)
    assert found.pairs["a", "c"].estimate == wilson(1, 4)
    assert found.total.estimate == wilson(5, 7)
    ab, ac = wilson(2, 4), wilson(1, 4)
    inter = found.inter_of["a"].estimate
    assert inter.low == pytest.approx((ab.low + ac.low) / 2)
    assert inter.high == pytest.approx((ab.high + ac.high) / 2)
    parts = [(0.6, wilson(2, 4)), (0.3, wilson(1, 2)), (0.1, wilson(0, 1))]
    below = math.sqrt(sum((w * (one.value - one.low)) ** 2 for w, one in parts))
    above = math.sqrt(sum((w * (one.high - one.value)) ** 2 for w, one in parts))
    assert found.intra.estimate.low == pytest.approx(0.45 - below)
    assert found.intra.estimate.high == pytest.approx(0.45 + above)


def test_nothing_found_has_an_upper_bound():
    found = ratios([PrefixHits("a")] * 100 + [PrefixHits("b")] * 100, {"a": 1, "b": 1})
    upper = wilson(0, 100).high
    assert found.intra.estimate.low == found.intra.estimate.value == 0
    assert found.intra.estimate.high == pytest.approx(upper / math.sqrt(2))
    assert found.total.estimate == wilson(0, 200)


def test_pairs_of_whose_texts_none_was_looked_for_have_no_ratio():
    unknown = [("a", "c"), ("c", "a"), ("c", "b")]
    found = ratios(TABLE, SIZES, unsearched=unknown)
    assert [pair for pair, rate in found.pairs.items() if rate.estimate is None] == unknown
    assert (found.pairs["a", "c"].hits, found.pairs["a", "c"].n) == (0, 4)
    # a is compared with b alone; c, of which nothing is known, has no part in the mean.
    assert found.inter_of["a"].estimate.value == 2 / 4
    assert found.inter_of["c"].estimate is None
    assert found.inter.estimate.value == pytest.approx((60 * 2 / 4 + 30 * 0) / 90)
    assert found.unmeasured == ()
    others = [(j, k) for j in SIZES for k in SIZES if j != k]
    assert ratios(TABLE, SIZES, unsearched=others).inter.estimate is None


def test_categories_are_counted_apart():
    verbatim, idea = ratios(TABLE, SIZES, {V}), ratios(TABLE, SIZES, {I})
    assert (verbatim.total.hits, idea.total.hits) == (2, 2)
    assert ratios(TABLE, SIZES, {V, I}).total.hits == 3
    assert ratios(TABLE, SIZES, set()).total.hits == 0
    assert verbatim.pairs["a", "c"].hits == 0


def test_what_cannot_be_measured_is_none():
    alone = ratios([PrefixHits("a", (("a", V),))], {"a": 5})
    assert alone.inter.estimate is None
    assert alone.inter_of["a"].estimate is None
    short = ratios([PrefixHits("a", (("a", V),))], {"a": 5, "b": 5, "empty": 0})
    assert short.unmeasured == ("b",)
    assert short.pairs["b", "a"].estimate is None
    assert short.intra.estimate.value == 1  # Over the clients that were measured.
    nothing = ratios([], {"a": 1})
    assert (nothing.total.estimate, nothing.intra.estimate, nothing.total.n) == (None, None, 0)
    for stray in (PrefixHits("x"), PrefixHits("a", (("x", V),))):
        with pytest.raises(ValueError, match="No number of documents for x"):
            ratios([stray], {"a": 1})


NAMES = st.sampled_from("abc")
HITS = st.lists(st.tuples(NAMES, st.sampled_from([V, I, P])), max_size=4).map(tuple)
TABLES = st.lists(st.builds(PrefixHits, NAMES, HITS), max_size=12)
WEIGHTS = st.fixed_dictionaries({name: st.integers(1, 50) for name in "abc"})


@given(TABLES, WEIGHTS, st.permutations("abc"))
def test_swapping_labels_swaps_the_matrix(table, sizes, order):
    new = dict(zip("abc", order, strict=True))
    moved = [PrefixHits(new[r.client], tuple((new[k], c) for k, c in r.hits)) for r in table]
    before, after = ratios(table, sizes), ratios(moved, {new[j]: sizes[j] for j in sizes})
    assert after.pairs == {(new[j], new[k]): rate for (j, k), rate in before.pairs.items()}
    assert after.total == before.total
    for one, other in ((before.intra, after.intra), (before.inter, after.inter)):
        assert (one.hits, one.n) == (other.hits, other.n)
        if one.estimate:
            assert other.estimate.value == pytest.approx(one.estimate.value)
            assert other.estimate.high == pytest.approx(one.estimate.high)


@given(TABLES, WEIGHTS, st.randoms(use_true_random=False))
def test_a_union_is_at_most_the_sum_and_the_order_does_not_matter(table, sizes, draw):
    found = ratios(table, sizes)
    assert found.total.hits <= sum(rate.hits for rate in found.pairs.values())
    assert found.total.hits <= found.intra.hits + found.inter.hits <= 2 * found.total.hits
    parts = [ratios(table, sizes, {c}).total.hits for c in (V, I, P)]
    assert max(parts) <= found.total.hits <= sum(parts)
    for rate in (*found.pairs.values(), found.intra, found.inter, found.total):
        if one := rate.estimate:
            assert 0 <= one.low <= one.value <= one.high <= 1
    draw.shuffle(table)
    assert ratios(table, sizes) == found


def test_a_three_word_sequence_ten_times_is_a_repetition():
    assert has_repeats("of the court " * 10)
    assert not has_repeats("of the court " * 9)
    assert has_repeats("ha " * 12)  # Overlapping: positions 1 to 10.
    assert not has_repeats("ha " * 11)
    assert has_repeats("好的吗" * 10)
    assert not has_repeats("")
    assert has_repeats("a b a b", length=2, times=2)


def test_the_suffixes_hit_most():
    hits = [("b", "2"), ("a", "9"), ("b", "1"), ("a", "9"), ("b", "2"), ("c", "0")]
    assert most_hit(hits, 3) == [(("a", "9"), 2), (("b", "2"), 2), (("b", "1"), 1)]
    assert most_hit([], 10) == []
