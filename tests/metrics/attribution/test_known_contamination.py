"""What Z takes from others where the sets are known: by hand, and against plain words."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.metrics.attribution.group_contamination import MixedScores
from fedaudit.metrics.attribution.hypotheses import GroupHypotheses, enumerate_hypotheses
from fedaudit.metrics.attribution.known_contamination import (
    ClientStatistics,
    ContaminationHypotheses,
    answers_to_negative_shares,
    contamination_hypotheses,
    upper_envelope,
)
from fedaudit.metrics.attribution.marked_groups import MarkEvidence, enumerate_groups

START = 0.35
MORE = st.tuples(
    st.integers(1, 7), st.integers(0, 4), st.sampled_from([1.0, 3.0, 10.0]), st.sampled_from([0.5])
)
"""A group of the first three clients, who is hidden beside it or boosts, how much, and a start."""


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def groups_of(count, *, among=None):
    names = tuple(range(count)) if among is None else among
    return np.array([[who in group for who in range(count)] for group in enumerate_groups(names)])


def as_they_are(groups, more=()):
    """Return groups as hypotheses, and some with other weights: (group, who, weight, start)."""
    weights = [*groups.astype(float)]
    for group, who, weight, _ in more:
        weights.append(np.where(np.arange(groups.shape[1]) == who, weight, groups[group]))
    starts = [START] * len(groups) + [start for *_, start in more]
    of = [*range(len(groups)), *(group for group, *_ in more)]
    return GroupHypotheses(np.array(of), np.array(weights), np.array(starts))


def leaks(rounds, z, *, spread=1.0, among=None, error=0.0, marks=0, more=()):
    count = len(z)
    groups = groups_of(count, among=among)
    clients = ClientStatistics(
        z=np.array(z), spreads=np.full(count, spread), degrees_of_freedom=[marks] * count
    )
    tried = more if isinstance(more, Iterator) else [as_they_are(groups, more)]
    return contamination_hypotheses(rounds, clients, groups, tried, error)


def one_round(shares, scores, null=None):
    scores = np.array(scores, dtype=float)
    return MixedScores(
        shares=np.array(shares, dtype=float),
        differences=scores,
        null=np.zeros((len(scores), 0)) if null is None else np.array(null, dtype=float),
        scores=scores,
        present=np.ones(len(scores), bool),
    )


def test_by_hand():
    # b's estimate holds 0.4 of a's update, c's nothing of it; a shows 10, b 10, c 1.
    shares = [[0, 0, 0], [0.4, 0, 0], [-0.4, 0, 0]]
    _, b, c = leaks([one_round(shares, [10.0, 10.0, 1.0])], [10.0, 10.0, 1.0], among=(0,))
    # a marked, and tests answer at once from 0.35: b takes the 10 that are shown, +- 1 by chance.
    # 10 + N(0, 1) + N(0, 1) >= 10 in half of all cases; >= 13 with P(N > 3 / sqrt(2)).
    assert b.tail_probability(10.0, 0) == pytest.approx(0.5)
    assert b.tail_probability(13.0, 0) == pytest.approx(tail(3 / math.sqrt(2)))
    # c takes -4 in proportion, nothing where nothing counts against a mark: chance is worse.
    assert c.tail_probability(1.0, 0) == pytest.approx(tail(1.0))


def test_a_round_that_may_be_answered_at_once_says_nothing():
    # b holds 0.4 of a's update in the second of two rounds, and scores 3 and 8: the 3 count.
    first, second = np.zeros((2, 2)), np.array([[0, 0], [0.4, 0]])
    z = 11 / math.sqrt(2)
    rounds = [one_round(first, [10.0, 3.0]), one_round(second, [6.0, 8.0])]
    _, b = leaks(rounds, [11.3, z], among=(0,))
    assert b.tail_probability(z, 0) == pytest.approx(tail(3.0))
    # With a Z that is higher by sqrt(2), so that each score is by 1.
    assert b.tail_probability(z + math.sqrt(2), 0) == pytest.approx(tail(4.0))
    # It is a's mark only if a is marked: c, which holds nothing of a's, has all its rounds.
    rounds = [one_round(np.zeros((3, 3)), [10.0, 3.0, 2.0]) for _ in range(4)]
    *_, c = leaks(rounds, [20.0, 6.0, 4.0], among=(0,))
    assert c.tail_probability(4.0, 0) == pytest.approx(tail(4.0))


def test_the_spread_is_that_of_the_rounds_that_count():
    # Null marks scatter by 2 in the first round, which counts, and by 4 in the second.
    first, second = np.zeros((2, 2)), np.array([[0, 0], [0.4, 0]])
    null = np.array([[1.0, -1.0], [2.0, -2.0]])
    rounds = [one_round(first, [10.0, 3.0], null), one_round(second, [6.0, 8.0], 2 * null)]
    spread, z = (2 + 4) / math.sqrt(2), 11 / math.sqrt(2)
    _, b = leaks(rounds, [11.3, z], spread=spread, among=(0,))
    assert b.tail_probability(z / spread, 0) == pytest.approx(tail(3 / 2))
    # No score is taken for surer than a standard normal one.
    rounds = [one_round(first, [10.0, 3.0], null / 4), one_round(second, [6.0, 8.0], null / 4)]
    _, b = leaks(rounds, [11.3, z], among=(0,))
    assert b.tail_probability(z, 0) == pytest.approx(tail(3))


def test_at_once_it_answers_like_the_member_that_shows_most_over_all_rounds():
    # b holds 0.4 of a's update in both rounds, where a shows 10 and 6, so 8 on average: 10 and 8.
    held = np.array([[0, 0], [0.4, 0]])
    rounds = [one_round(held, [10.0, 9.0]), one_round(held, [6.0, 9.0])]
    z = 18 / math.sqrt(2)
    _, b = leaks(rounds, [11.3, z], among=(0,))
    # 18 / sqrt(2), off by N(0, 1).
    assert b.tail_probability(z, 0) == pytest.approx(0.5)
    assert b.tail_probability(z + 3, 0) == pytest.approx(tail(3 / math.sqrt(2)))


def test_in_proportion_by_hand():
    # b holds 0.2 of an update that shows 4: 0.8, off by 0.2 * N(0, 1). It is too little for more.
    _, b = leaks([one_round([[0, 0], [0.2, 0]], [4.0, 3.0])], [4.0, 3.0], among=(0,))
    assert b.tail_probability(3.0, 0) == pytest.approx(tail(2.2 / math.sqrt(1.04)))
    # Two such rounds of 2.8: 1.12 / sqrt(2), off by 0.2.
    _, b = leaks([one_round([[0, 0], [0.2, 0]], [2.8, 3.0])] * 2, [3.96, 18**0.5], among=(0,))
    assert b.tail_probability(4.0, 0) == pytest.approx(
        tail((4 - 1.12 / math.sqrt(2)) / math.sqrt(1.04))
    )


def test_what_members_show_of_each_other_is_taken_out():
    # a and b show 6 and 8: 10 of their own each less 0.4 and 0.2 of the other's; S is 3.
    shares = [[0, -0.4, 0], [-0.2, 0, 0], [0.2, 0.2, 0]]
    z, null = [6.0, 8.0, 9.0], [[3.0, -3.0]] * 3
    *_, c = leaks([one_round(shares, z, null)], z, spread=3.0, among=(0, 1))
    # c holds 0.2 of each: 0.4 together, and answers at once like b, that shows most. That is 10,
    # but nobody is taken to show more than the highest score of all, 9. b's own mark is
    # (8 + 0.2 * 6) / 0.92, whose variance is 1.04 / 0.92^2.
    assert c.tail_probability(3.0, 0) == pytest.approx(0.5)
    assert c.tail_probability(4.0, 0) == pytest.approx(tail(1 / math.sqrt(1 + 1.04 / 0.92**2)))
    # Half as much is too little to answer at once: in proportion it takes 0.1 * (9 + 9), which is
    # 0.12 / 0.92 of a's score and 0.14 / 0.92 of b's.
    halved = [*shares[:2], [0.1, 0.1, 0]]
    *_, c = leaks([one_round(halved, z, null)], z, spread=3.0, among=(0, 1))
    assert c.tail_probability(5.0, 0) == pytest.approx(
        tail((5 - 0.1 * 18 / 3) / math.sqrt(1 + (0.12**2 + 0.14**2) / 0.92**2))
    )


def test_a_group_that_is_not_told_apart_leaves_others_as_they_are():
    # Two shared sets of two clients: a and b hide half of each other's mark of 14, c and d hold a
    # quarter of each. The four estimates together are not independent.
    shares = [
        [0, -0.5, 0.25, 0.25],
        [-0.5, 0, 0.25, 0.25],
        [0.25, 0.25, 0, -0.5],
        [0.25, 0.25, -0.5, 0],
    ]
    scores = [7.0, 7.0, 14.0, 14.0]
    assert np.linalg.matrix_rank(np.eye(4) + np.array(shares)) == 3
    found = leaks([one_round(shares, scores)], scores, error=1e-4)
    # a and b marked: c and d answer at once with all of the 14. And the other way around.
    assert [
        one.tail_probability(z, 0) for one, z in zip(found, scores, strict=True)
    ] == pytest.approx([1.0, 1.0, 0.5001, 0.5001], abs=1e-3)


def test_a_hypothesis_that_leaves_somebody_unexplained_is_none():
    # b holds 0.4 of c's update and nothing of a's; everybody shows 10.
    shares = [[0, 0, 0], [0, 0, 0.4], [0, 0, 0]]
    shown = [one_round(shares, [10.0, 10.0, 10.0])]
    # c, who holds nothing of anybody, cannot but be marked, and b may owe all to it.
    a, b, c = leaks(shown, [10.0] * 3, error=1e-4)
    assert b.tail_probability(10.0, 0) == pytest.approx(0.5 + 1e-4)
    assert a.tail_probability(10.0, 0) == c.tail_probability(10.0, 0) == pytest.approx(1e-4)
    # Where c shows nothing that chance does not, nobody but b can be the one.
    quiet = [one_round(shares, [10.0, 10.0, 0.5])]
    assert (
        leaks(quiet, [10.0, 10.0, 0.5], among=(0, 1), error=1e-4)[1].tail_probability(10.0, 0)
        < 2e-4
    )


def test_a_client_that_sends_more_than_its_update_accuses_nobody():
    # Everybody's estimate holds 0.2 of a's update, which a sent ten times: all answer like a.
    shares = np.zeros((4, 4))
    shares[1:, 0] = 0.2
    z = [15.0, 14.0, 15.0, 13.0]
    shown, ten_times = [one_round(shares, z)], [(1, 0, 10.0, START)]
    plain_words = leaks(shown, z, among=(0,), error=1e-4)
    assert max(one.tail_probability(13.0, 0) for one in plain_words[1:]) < 2e-4
    boosted = leaks(shown, z, among=(0,), error=1e-4, more=ten_times)
    assert min(one.tail_probability(15.0, 0) for one in boosted[1:]) > 0.4
    # In a second round it holds as much with the wrong sign: only that one says something.
    twice = [one_round(shares, z), one_round(-shares, z)]
    z = [math.sqrt(2) * one for one in z]
    b = leaks(twice, z, among=(0,), error=1e-4, more=ten_times)[1]
    assert b.tail_probability(z[1], 0) == pytest.approx(tail(14.0) + 1e-4)
    # 0.03 of it, three times over: 0.09 of 15, off by 0.09.
    shares[1, 0] = 0.03
    b = leaks(
        [one_round(shares, [15.0, 4.0, 0.0, 0.0])],
        [15.0, 4.0, 0.0, 0.0],
        among=(0,),
        more=[(1, 0, 3.0, START)],
    )[1]
    assert b.tail_probability(4.0, 0) == pytest.approx(tail((4 - 1.35) / math.sqrt(1 + 0.09**2)))


def test_heavier_tails_with_few_null_marks():
    from scipy.stats import t

    [only] = leaks([one_round([[0.0]], [9.0])], [9.0])
    assert only.tail_probability(4.0, 24) == pytest.approx(float(t.sf(4, 24)))
    assert only.tail_probability(99.0, 0) > 0


def plain(rounds, z, spreads, error, tried, among):
    """Return each client's p-value, hypothesis by hypothesis, in plain words."""
    everybody, p = range(len(z)), {}
    for at, (group, weights, start) in enumerate(tried):
        for who in everybody:
            here = [r for r in rounds if r.present[who]]
            told = [r for r in here if weights @ r.shares[who] < start - 1e-12] or here
            left = luck_of_members = 0.0
            for r in told:
                m, v = leak(r, who, group, weights, start, strongest(rounds, group))
                left += (r.differences[who] - m) / len(told) ** 0.5
                luck_of_members += v / len(told)
            null = np.sum([r.null[who] for r in told], axis=0) / len(told) ** 0.5
            s = max(1.0, float(np.sqrt(np.mean(null**2)))) if len(null) else 1.0
            p[at, who] = tail(left / s / math.sqrt(1 + luck_of_members))
    found = []
    for who in everybody:
        tails = [tail(z[who] / spreads[who])]
        for at, (_, weights, _) in enumerate(tried):
            rest = [x for x in among if not weights[x] and x != who]
            if not weights[who] and all(p[at, x] > error / len(z) for x in rest):
                tails.append(p[at, who])
        found.append(min(1.0, max(tails) + error))
    return found


def strongest(rounds, group):
    """Return the member that shows most in all rounds, and how much in one on average."""
    means = {
        who: sum(float(r.scores[who]) for r in rounds) / sum(bool(r.present[who]) for r in rounds)
        for who in group
    }
    return max(means.items(), key=lambda item: (item[1], -item[0]), default=(0, 0.0))


def leak(one, who, group, weights, start, most):
    """Return what one estimate takes from a group of marked clients, and its variance."""
    held, gain = one.shares[who], max(weights)
    alone = unmix_scores(one, group)
    each = {x: max(held[x] * one.scores[x], held[x] * alone[x]) for x in group}
    amount = sum(each.values())
    variance = max(sum(held[x] ** 2 for x in group), luck(one, group, [held[x] for x in group]))
    member, mean = most
    by_itself = alone[member] > max(float(one.scores[member]), mean) + 1e-9
    off = max(1.0, luck(one, group, [x == member for x in group])) if by_itself else 1.0
    at_once = max(float(one.scores[member]), mean, alone[member]) if group else 0.0
    if weights @ held >= start - 1e-9:
        return max(amount, at_once), max(off, variance if amount > at_once + 1e-9 else 0)
    most_of_all = max(amount, at_once)
    if gain > 1:
        amount = sum(weights[x] * each[x] for x in group)
        variance = min(1.0, sum((weights[x] * held[x]) ** 2 for x in group))
    hidden = [x for x in range(len(weights)) if weights[x] and x not in group]
    amount += sum(max(held[x], 0.0) * most_of_all for x in hidden)
    if gain > 1 or hidden:
        amount = min(amount, most_of_all)
    return (amount, variance) if amount > 1e-9 else (0.0, 0.0)


def unmix_scores(one, group):
    """Return what members show by themselves, from equations between them."""
    if not group:
        return {0: 0.0}
    matrix = [[1.0 if a == b else one.shares[a][b] for b in group] for a in group]
    own = np.linalg.solve(np.array(matrix), [one.scores[a] for a in group])
    most = max(one.scores)
    return {a: min(max(0.0, value), most) for a, value in zip(group, own, strict=True)}


def drawn(seed, count, clients, marks=3):
    """Return rounds whose shares and scores are as they come, each client's Z, and its spread."""
    rng = np.random.default_rng(seed)
    rounds = []
    for _ in range(count):
        present = rng.random(clients) < 0.8
        here = np.outer(present, present) * (1 - np.eye(clients))
        scores = rng.choice([0.0, 2.0, 5.0, 9.0], size=clients) * present
        rounds.append(
            MixedScores(
                shares=rng.choice([-0.4, -0.2, 0.0, 0.2, 0.4], size=(clients, clients)) * here,
                differences=scores - rng.choice([0.0, 1.0], size=clients) * present,
                null=rng.normal(0, 2, size=(clients, marks)) * present[:, None],
                scores=scores,
                present=present,
            )
        )
    took = np.sum([r.present for r in rounds], axis=0)
    assume(took.all())  # clients that never took part are not among those that are tested
    null = np.sum([r.null for r in rounds], axis=0) / np.sqrt(took)[:, None]
    spreads = np.sqrt(np.maximum(1.0, np.square(null).mean(axis=1))) if marks else np.ones(clients)
    return rounds, np.sum([r.differences for r in rounds], axis=0) / np.sqrt(took), spreads


ERRORS = st.sampled_from([0.0, 1e-6, 1e-3])


def luck(one, group, held):
    """Return the variance of what is held of members' own marks, if that of each score is 1."""
    if not group:
        return 0.0
    matrix = np.array([[1.0 if a == b else one.shares[a][b] for b in group] for a in group])
    return sum(float(x) ** 2 for x in np.array(held, dtype=float) @ np.linalg.inv(matrix))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.sampled_from([0, 3]),
    ERRORS,
    st.lists(MORE, max_size=4),
    st.integers(0, 9),
)
@example(
    1_636_208_179, 3, 0, 0.0, [], 0
)  # a measured score equals its unmixed one but for rounding
@example(2015, 2, 0, 0.0, [(6, 3, 1.0, 0.5)], 0)  # a leak is 0 but for rounding
def test_against_plain_words(seed, number, marks, error, more, cut):
    rounds, z, spreads = drawn(seed, number, 5, marks)
    groups = groups_of(5, among=(0, 1, 2))
    # Somebody outside the groups is hidden; a member boosts.
    more = [
        (group, who, 1.0 if who > 2 else weight, start)
        for group, who, weight, start in more
        if who > 2 or groups[group][who]
    ]
    tried = as_they_are(groups, more)
    clients = ClientStatistics(z=z, spreads=spreads, degrees_of_freedom=[0] * 5)
    blocks = [tried.slice_rows(0, cut), tried.slice_rows(cut, len(tried))]
    found = contamination_hypotheses(rounds, clients, groups, blocks, error)
    p = [one.tail_probability(value, 0) for one, value in zip(found, z / spreads, strict=True)]
    named = [tuple(np.flatnonzero(groups[of]).tolist()) for of in tried.groups]
    words = list(zip(named, tried.weights, tried.starts, strict=True))
    slow = plain(rounds, z, spreads, error, words, (0, 1, 2))
    assert p == pytest.approx(slow, rel=1e-9, abs=1e-300)


def test_a_marked_client_that_two_others_hide():
    # a, b and c are marked and show 10; c's estimate holds a and b with the wrong sign, so shows 0.
    # d, who is innocent, holds 0.2 of a and 0.3 of c, and answers at once.
    shares = [[0, 0, 0, 0], [0, 0, 0, 0], [-0.4, -0.4, 0, 0], [0.2, 0, 0.3, 0]]
    scores = [10.0, 10.0, 0.0, 10.0]
    quiet = leaks([one_round(shares, scores)], scores, among=(0, 1, 3), error=1e-4)
    assert quiet[3].tail_probability(10.0, 0) < 1e-3  # 0.2 of a is too little: accused
    groups = groups_of(4, among=(0, 1, 3))
    evidence = [MarkEvidence(z, 1.0, 1) for z in scores]
    tried = enumerate_hypotheses(groups, evidence, [np.array(shares)], [np.ones(4, bool)], [START])
    found = leaks([one_round(shares, scores)], scores, among=(0, 1, 3), error=1e-4, more=tried)
    assert found[3].tail_probability(10.0, 0) == pytest.approx(0.5 + 1e-4)
    # a and b hold nothing of anybody: they are as sure as before.
    assert (
        found[0].tail_probability(10.0, 0)
        == found[1].tail_probability(10.0, 0)
        == quiet[0].tail_probability(10.0, 0)
    )


@given(st.integers(0, 2**32 - 1), st.permutations(range(5)))
def test_it_does_not_matter_who_comes_first(seed, order):
    rng = np.random.default_rng(seed)
    shares = rng.choice([-0.4, 0.0, 0.2, 0.4], size=(5, 5)) * (1 - np.eye(5))
    scores = rng.uniform(0, 12, size=5)
    first = leaks([one_round(shares, scores)], scores.tolist(), error=1e-5)
    mixed = leaks(
        [one_round(shares[np.ix_(order, order)], scores[order])],
        scores[order].tolist(),
        error=1e-5,
    )
    for at, who in enumerate(order):
        assert mixed[at].tail_probability(8.0, 0) == pytest.approx(
            first[who].tail_probability(8.0, 0), rel=1e-9
        )


@given(
    st.lists(
        st.tuples(st.floats(-3, 12), st.floats(0.1, 2), st.floats(0, 4)), min_size=1, max_size=6
    ),
    st.floats(0, 9),
    st.sampled_from([0, 4, 256]),
)
def test_the_largest_probability_is_that_of_one_hypothesis_after_another(leak, z, marks):
    means, slopes, variances = (np.array(values) for values in zip(*leak, strict=True))
    beyond = [(slope * z - mean) / math.sqrt(1 + variance) for mean, slope, variance in leak]
    each = [stats.t.sf(at, marks) if marks else stats.norm.sf(at) for at in beyond]
    found = ContaminationHypotheses(means, slopes, variances, 1e-3).tail_probability(z, marks)
    assert found == pytest.approx(min(1.0, max(each) + 1e-3))


LINES = st.tuples(st.integers(-9, 9), st.sampled_from([0.25, 0.5, 1.0]), st.sampled_from([0, 1, 3]))


@given(st.lists(LINES, min_size=1, max_size=30), st.lists(st.floats(-30, 60), min_size=1))
def test_the_hypotheses_that_are_kept_are_the_most_likely_at_every_z(lines, z_values):
    moments = np.array(lines, dtype=float).T
    kept = upper_envelope(moments)
    assert {*zip(*kept, strict=True)} <= {*zip(*moments, strict=True)}

    def highest(of, z):
        return ((of[0] - of[1] * z) / np.sqrt(1 + of[2])).max()

    for z in z_values:
        assert highest(kept, z) == pytest.approx(highest(moments, z), abs=1e-7)


@pytest.mark.parametrize(
    ("scores", "noticed"),
    [
        # The second client's estimate holds -0.4 of the first's mark, Z 10 in one round. The
        # third's holds +0.4, which is not evidence. A score of 1.645 S is as far as chance may go.
        ([10.0, 3.4, 9.0], True),
        ([10.0, 3.2, -9.0], False),
        ([10.0, -4.0, 4.0], False),
        ([7.0, 7.0, 7.0], False),  # 3.5 S: no client is taken for marked
    ],
)
def test_that_a_test_answers_to_negative_shares_is_noticed(scores, noticed):
    held = [[0.0, 0.0, 0.0], [-0.4, 0.0, 0.0], [0.4, 0.0, 0.0]]
    clients = ClientStatistics(
        z=np.array(scores), spreads=np.full(3, 2.0), degrees_of_freedom=[0] * 3
    )
    found = [one_round(held, scores)]
    assert answers_to_negative_shares(found, clients) is noticed
