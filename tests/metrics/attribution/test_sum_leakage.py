import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.attribution import sum_leakage as module
from fedaudit.metrics.attribution.subset_design import draw
from fedaudit.metrics.attribution.sum_leakage import (
    PRIME,
    InnerProducts,
    Span,
    hidden_variances,
    leakage_bits,
    sum_leakage,
)

NAMES = "abcdefg"
SETS = st.lists(
    st.sets(st.sampled_from(NAMES), min_size=1).map(lambda members: tuple(sorted(members))),
    max_size=9,
)
SHUFFLED = st.randoms(use_true_random=False)


def reduced(rows):
    """Return the independent ones of integer rows in echelon form, by exact elimination."""
    basis = []
    for row in rows:
        left = leftover(basis, row)
        if any(left):
            basis.append(left)
    return basis


def leftover(basis, row):
    left = [Fraction(int(value)) for value in row]
    for other in basis:
        pivot = next(at for at, value in enumerate(other) if value)
        left = [a - left[pivot] / other[pivot] * b for a, b in zip(left, other, strict=True)]
    return left


def follows(basis, group):
    """Whether the sum of a group is a combination of the basis."""
    return not any(leftover(basis, [name in group for name in NAMES]))


def matrix(sets):
    return [[name in members for name in NAMES] for members in sets]


def test_leakage_by_hand():
    # rho = 1 is masks as strong as the update: half a bit a dimension; at 1/3, a whole one.
    assert leakage_bits(1.0, 10) == pytest.approx(5)
    assert leakage_bits(1 / 3, 7) == pytest.approx(7)
    assert leakage_bits(0.0, 3) == math.inf
    assert leakage_bits(0.0, 0) == leakage_bits(2.0, 0) == 0
    # O(d / m): for strong masks it is d / (2 rho ln 2).
    assert leakage_bits(1e6, 1000) == pytest.approx(1000 / (2e6 * math.log(2)), rel=1e-5)


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(1, 10**6))
def test_stronger_masks_leak_less(first, second, dimension):
    weak, strong = sorted((first, second))
    assert leakage_bits(strong, dimension) <= leakage_bits(weak, dimension)
    assert leakage_bits(weak, 2 * dimension) == pytest.approx(2 * leakage_bits(weak, dimension))


@pytest.mark.parametrize(("strength", "dimension"), [(-0.1, 3), (1.0, -1)])
def test_no_leakage_of_the_negative(strength, dimension):
    with pytest.raises(ValueError, match="not negative"):
        leakage_bits(strength, dimension)


def test_an_exposure_by_hand():
    found = sum_leakage([("a", "b", "c"), ("b", "a", "c"), ("a", "b"), ("c", "d")], threshold=2)
    assert (found.queries, found.sets, found.smallest, found.rank) == (4, 3, 2, 3)
    assert (found.differences, found.closest) == (1, ("c",))
    # abc - ab is c, at the third query; cd - c is d at the fourth. a and b stay together.
    assert dict(found.determined) == {"c": 3, "d": 4}
    assert found.queries_until_determined == 3
    assert (found.group.members, found.group.exact) == (("c",), True)


def test_a_combination_that_is_no_difference():
    # Not nested anywhere, and yet a = (ab + ac - bc) / 2.
    found = sum_leakage([("a", "b"), ("a", "c"), ("b", "c")], threshold=2)
    assert (found.differences, found.closest) == (0, ())
    assert dict(found.determined) == {"a": 3, "b": 3, "c": 3}


def test_nobody_is_exposed_by_one_sum_or_by_none():
    one = sum_leakage([tuple(NAMES)], threshold=3)
    assert (one.differences, one.rank, one.queries_until_determined, dict(one.determined)) == (
        0,
        1,
        None,
        {},
    )
    assert one.group.members == tuple(NAMES)
    none = sum_leakage([], threshold=3)
    assert (none.queries, none.sets, none.smallest, none.rank, none.queries_until_determined) == (
        0,
        0,
        0,
        0,
        None,
    )
    assert none.group.members == ()


@settings(deadline=None)
@given(SETS, st.integers(1, 5))
def test_differences_against_a_double_loop(sets, threshold):
    exposed = [
        sorted(set(large) - set(small))
        for small in set(sets)
        for large in set(sets)
        if set(small) < set(large) and len(large) - len(small) < threshold
    ]
    found = sum_leakage(sets, threshold)
    assert found.differences == len(exposed)
    smallest = min(exposed, key=lambda group: (len(group), group), default=[])
    assert found.closest == tuple(smallest)


@settings(deadline=None)
@given(SETS)
def test_what_is_determined_against_exact_elimination(sets):
    found = sum_leakage(sets, threshold=2)
    assert found.rank == len(reduced(matrix(sets)))
    wanted = {}
    for count in range(1, len(sets) + 1):
        basis = reduced(matrix(sets[:count]))
        for name in NAMES:
            if follows(basis, name):
                wanted.setdefault(name, count)
    assert dict(found.determined) == wanted
    assert found.queries_until_determined == min(wanted.values(), default=None)


@settings(deadline=None)
@given(SETS.filter(len))
def test_the_smallest_group_against_every_group(sets):
    basis = reduced(matrix(sets))
    groups = (group for size in range(1, 8) for group in combinations(NAMES, size))
    wanted = next(group for group in groups if follows(basis, group))
    found = sum_leakage(sets, threshold=2).group
    assert (found.members, found.exact) == (wanted, True)


@settings(deadline=None)
@given(SETS.filter(len))
def test_a_group_that_was_not_searched_for_is_an_upper_bound(sets):
    exact = sum_leakage(sets, threshold=2).group
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXHAUSTIVE", 0)
        found = sum_leakage(sets, threshold=2).group
    assert follows(reduced(matrix(sets)), found.members)
    assert len(exact.members) <= len(found.members) <= min(map(len, sets))
    assert found.exact == (len(found.members) == 1)


@settings(deadline=None)
@given(SETS, SHUFFLED)
def test_other_names_and_orders_change_nothing(sets, random):
    new = dict(zip(NAMES, random.sample(NAMES, len(NAMES)), strict=True))
    renamed = [random.sample([new[name] for name in members], len(members)) for members in sets]
    before, after = sum_leakage(sets, 3), sum_leakage(renamed, 3)
    assert dict(after.determined) == {new[who]: at for who, at in before.determined.items()}
    for field in ("queries", "sets", "smallest", "differences", "rank"):
        assert getattr(before, field) == getattr(after, field)
    assert len(before.closest) == len(after.closest)
    assert len(before.group.members) == len(after.group.members)


@settings(deadline=None)
@given(SETS, SHUFFLED)
def test_the_order_of_queries_matters_only_for_when(sets, random):
    before, after = sum_leakage(sets, 3), sum_leakage(random.sample(sets, len(sets)), 3)
    assert set(before.determined) == set(after.determined)
    assert (before.differences, before.closest) == (after.differences, after.closest)
    assert before.group == after.group


def test_who_colludes_is_taken_out_of_every_sum_by_hand():
    # abc and bcd tell nothing of anybody alone. With a's update bc follows, and with bc and bcd, d.
    sets = [("a", "b", "c"), ("b", "c", "d")]
    assert not sum_leakage(sets, threshold=2).determined
    found = sum_leakage(sets, threshold=2, colluders=["a"])
    assert (found.queries, found.sets, found.smallest, found.rank) == (2, 2, 3, 2)
    assert (dict(found.determined), found.closest) == ({"d": 2}, ("d",))
    both = sum_leakage(sets, threshold=2, colluders=["a", "b", "x"])
    assert dict(both.determined) == {"c": 1, "d": 2}
    # a, b and c collude: the second sum is d's update, and the first tells nothing.
    assert dict(sum_leakage(sets, threshold=2, colluders="abc").determined) == {"d": 2}
    everybody = sum_leakage(sets, threshold=2, weights=dict.fromkeys("abcd", 1.0), colluders="abcd")
    assert (everybody.queries, everybody.rank, everybody.group.members) == (3, 0, ())
    # Of the round's own sum, a + 2 b + 2 c, a's update leaves 2 (b + c), which abc gave already.
    weighted = sum_leakage(sets[:1], threshold=2, weights={"a": 1, "b": 2, "c": 2}, colluders=["a"])
    assert (weighted.rank, weighted.group.members) == (1, ("b", "c"))


KNOWN = st.sets(st.sampled_from(NAMES), max_size=4)
WEIGHTS = st.none() | st.lists(st.integers(1, 6), min_size=7, max_size=7)


@settings(deadline=None)
@given(SETS, KNOWN, WEIGHTS)
def test_what_colluding_clients_expose_against_exact_elimination(sets, known, weights):
    given_away = [[name == who for name in NAMES] for who in sorted(known)]
    by = None if weights is None else dict(zip(NAMES, weights, strict=True))
    found = sum_leakage(sets, 2, by, known)
    asked = matrix(sets) + ([] if weights is None else [weights])
    whole = reduced(given_away + asked)
    assert found.rank == len(whole) - len(known)
    others = [name for name in NAMES if name not in known]
    wanted = {}
    for count in range(1, len(asked) + 1):
        basis = reduced(given_away + asked[:count])
        for name in others:
            if follows(basis, name):
                wanted.setdefault(name, count)
    assert dict(found.determined) == wanted
    groups = (group for size in range(1, 8) for group in combinations(others, size))
    smallest = next((group for group in groups if follows(whole, group)), ())
    if set().union(*sets) - known:
        assert (found.group.members, found.group.exact) == (smallest, True)


@settings(deadline=None)
@given(SETS, KNOWN)
def test_whoever_colludes_determines_no_fewer(sets, known):
    alone, helped = sum_leakage(sets, 3), sum_leakage(sets, 3, colluders=known)
    assert set(alone.determined) - known <= set(helped.determined)
    assert not known & set(helped.determined)
    assert all(
        helped.determined[who] <= at for who, at in alone.determined.items() if who not in known
    )
    assert sum_leakage(sets, 3, colluders=()) == alone


def test_blocks_change_nothing():
    rows = np.random.default_rng(0).integers(0, 2, (60, 6))
    rows = np.unique(rows, axis=0)

    def pairs(block):
        return {(int(a), int(b)) for small, large in module._nested_pairs(rows, 3, block)
                for a, b in zip(small, large, strict=True)}  # fmt: skip

    assert pairs(7) == pairs(1024)
    assert len(pairs(7)) > 20


INTEGERS = st.lists(st.lists(st.integers(-10, 10), min_size=5, max_size=5), max_size=8)


@settings(deadline=None)
@given(INTEGERS)
def test_a_span_against_exact_elimination(rows):
    span, wanted = Span(5), []
    for row in rows:
        independent = any(leftover(reduced(wanted), row))
        assert span.add(np.array(row)) == independent
        wanted.append(row)
    basis = reduced(rows)
    assert span.rank == len(basis)
    units = {at for at in range(5) if not any(leftover(basis, np.eye(5, dtype=int)[at]))}
    assert set(span.determined_columns()) == units


def test_the_prime_is_prime_and_above_small_determinants():
    assert PRIME > 2**31 - 2
    assert all(PRIME % divisor for divisor in range(2, math.isqrt(PRIME) + 1))
    # Hadamard: a 0/1 matrix of n columns has a determinant of (n+1)^((n+1)/2) / 2^n at most.
    assert (PRIME * 2**22) ** 2 > 23**23
    assert (PRIME * 2**23) ** 2 < 24**24


def series(number, others, queries, seed=0):
    """Return every client's design of one round."""
    names = [f"c{at:03}" for at in range(number)]
    return names, [
        draw(names, who, mask_size=others, queries=queries, threshold=others, seed=seed, number=1)
        for who in names
    ]


@pytest.mark.parametrize("shape", [(10, 5, 5), (20, 4, 5), (50, 16, 5), (100, 5, 5)])
def test_a_series_of_admissible_sums_gives_everybody_away(shape):
    number, others, queries = shape
    names, designs = series(*shape)
    sets = [members for design in designs for members in (*design.include, *design.exclude)]
    found = sum_leakage([tuple(names), *sets], threshold=others)
    assert found.smallest == others
    assert found.queries == 1 + 2 * queries * number
    assert set(found.determined) == set(names)
    assert found.rank == number
    # And so it is in numbers, from fewer sums than one in two targets took.
    last = max(found.determined.values())
    rows = np.array(
        [[name in members for name in names] for members in [names, *sets][:last]], float
    )
    updates = np.random.default_rng(1).normal(size=(number, 3))
    assert np.linalg.lstsq(rows, rows @ updates)[0] == pytest.approx(updates, abs=1e-8)
    assert last <= number + 3


def test_one_targets_series_at_the_defaults_already_does():
    names, designs = series(10, 5, 5)
    found = sum_leakage([tuple(names), *designs[0].include, *designs[0].exclude], threshold=5)
    assert set(found.determined) == set(names)
    assert found.queries == 11
    # Everybody less an include set is four clients, below the threshold of five.
    assert (len(found.closest), found.differences) == (4, 5)


def test_of_many_clients_one_targets_series_determines_nobody():
    names, designs = series(50, 16, 5)
    found = sum_leakage([tuple(names), *designs[0].include, *designs[0].exclude], threshold=16)
    assert (found.rank, dict(found.determined), found.differences) == (11, {}, 0)
    assert not found.group.exact
    assert 1 < len(found.group.members) <= 16


def test_two_sums_of_an_accepted_design_may_be_one_update():
    names = [f"c{at}" for at in range(10)]
    chosen = [
        draw(names, "c0", mask_size=5, queries=5, threshold=5, seed=seed, number=1)
        for seed in range(1500)
    ]
    bare = [
        design
        for design in chosen
        if {members[1:] for members in design.include} & set(design.exclude)
    ]
    # By hand, were all pairs independent and none rejected: 1 - (1 - 1/126)^25 = 18 %.
    assert len(bare) / len(chosen) == pytest.approx(0.17, abs=0.04)
    for design in bare[:20]:
        found = sum_leakage([*design.include, *design.exclude], threshold=5)
        assert found.closest == ("c0",)
        assert found.determined["c0"] <= 10


def test_what_is_hidden_of_unlike_lengths_and_of_what_is_common_by_hand():
    """Of a and b only the sum is known, and c: the best guess of a is its part of that sum."""
    rows = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert hidden_variances(rows) == pytest.approx([0.5, 0.5, 0])
    # Variances 1 and 4: the sum leaves 1 * 4 / 5 of either.
    assert hidden_variances(rows, np.diag([1.0, 4.0, 1.0])) == pytest.approx([0.8, 0.2, 0])
    # A cosine of 0.5 with each other: a - b, of variance 1, is all that is not known.
    alike = np.full((3, 3), 0.5) + np.eye(3) / 2
    assert hidden_variances(rows, alike) == pytest.approx([0.25, 0.25, 0])
    # A client that sent nothing has nothing to hide, and two copies hide nothing.
    assert hidden_variances(rows, np.diag([0.0, 4.0, 1.0])) == pytest.approx([1, 0, 0])
    assert hidden_variances(rows, np.ones((3, 3))) == pytest.approx([0, 0, 0])


def test_what_is_summed_is_measured_with_its_weights():
    products = InnerProducts(names=("b", "a"), matrix=np.diag([4.0, 1.0])).scaled({"a": 2, "b": 1})
    assert products.of(("a", "b")).tolist() == [[4, 0], [0, 4]]
    found = sum_leakage([("a", "b")], threshold=2, products=products)
    assert found.hidden == pytest.approx({"a": 0.5, "b": 0.5})
    assert found.measured
