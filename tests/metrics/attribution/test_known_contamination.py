"""What Z takes from others where the sets are known: by hand, and against plain words."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from fedaudit.metrics.attribution.contamination import TEST_RESPONSES
from fedaudit.metrics.attribution.hidden_marks import HiddenClients, find_hidden_clients
from fedaudit.metrics.attribution.known_contamination import (
    GAINS,
    MIN_BOOSTED_Z,
    NOBODY_HIDDEN,
    ClientStatistics,
    ContaminationHypotheses,
    RoundShares,
    contamination_hypotheses,
)
from fedaudit.metrics.attribution.marked_groups import MarkEvidence, enumerate_groups

HIDDEN = st.tuples(st.integers(0, 7), st.integers(3, 4))
"""A group of the first three clients, and who else is marked."""


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def groups_of(count, *, among=None):
    names = tuple(range(count)) if among is None else among
    return np.array([[who in group for who in range(count)] for group in enumerate_groups(names)])


def leaks(rounds, z, *, spread=1.0, among=None, error=0.0, marks=0, hidden=NOBODY_HIDDEN):
    count = len(z)
    clients = ClientStatistics(
        z=np.array(z),
        z_above=np.array(z),
        spreads=np.full(count, spread),
        null_marks=[marks] * count,
    )
    groups = groups_of(count, among=among)
    return contamination_hypotheses(rounds, clients, groups, error, hidden)


def one_round(shares, scores):
    return RoundShares(np.array(shares), np.array(scores, dtype=float), np.ones(len(scores), bool))


def test_by_hand():
    # b's estimate holds 0.4 of a's update, c's nothing of it; a shows 10, b 10, c 1.
    shares = [[0, 0, 0], [0.4, 0, 0], [-0.4, 0, 0]]
    _, b, c = leaks([one_round(shares, [10.0, 10.0, 1.0])], [10.0, 10.0, 1.0], among=(0,))
    # a marked, and tests answer at once from 0.35: b takes the 10 that are shown, +- 1 by chance.
    # 10 + N(0, 1) + N(0, 1) >= 10 in half of all cases; >= 13 with P(N > 3 / sqrt(2)).
    assert b.tail(10.0, 0) == pytest.approx(0.5)
    assert b.tail(13.0, 0) == pytest.approx(tail(3 / math.sqrt(2)))
    # c takes -4 in proportion, nothing where nothing counts against a mark: chance is worse.
    assert c.tail(1.0, 0) == pytest.approx(tail(1.0))


def test_at_once_it_answers_like_the_member_that_shows_most_over_all_rounds():
    # b holds 0.4 of a's update in the second of two rounds, where a shows 6 after 10: 8 counts.
    first, second = np.zeros((2, 2)), np.array([[0, 0], [0.4, 0]])
    rounds = [one_round(first, [10.0, 1.0]), one_round(second, [6.0, 8.0])]
    _, b = leaks(rounds, [11.3, 6.4], among=(0,))
    # 8 / sqrt(2), off by N(0, 1) in one round of two.
    assert b.tail(8.0, 0) == pytest.approx(tail((8 - 8 / math.sqrt(2)) / math.sqrt(1.5)))
    # In the first round a showed 10, and more than on average: that counts.
    rounds = [one_round(second, [10.0, 8.0]), one_round(first, [6.0, 1.0])]
    _, b = leaks(rounds, [11.3, 6.4], among=(0,))
    assert b.tail(8.0, 0) == pytest.approx(tail((8 - 10 / math.sqrt(2)) / math.sqrt(1.5)))


def test_in_proportion_by_hand():
    # b holds 0.2 of an update that shows 4: 0.8, off by 0.2 * N(0, 1). It is too little for more.
    _, b = leaks([one_round([[0, 0], [0.2, 0]], [4.0, 3.0])], [4.0, 3.0], among=(0,))
    assert b.tail(3.0, 0) == pytest.approx(tail(2.2 / math.sqrt(1.04)))
    # Two such rounds of 2.8: 1.12 / sqrt(2), off by 0.2.
    _, b = leaks([one_round([[0, 0], [0.2, 0]], [2.8, 3.0])] * 2, [3.96, 4.2], among=(0,))
    assert b.tail(4.0, 0) == pytest.approx(tail((4 - 1.12 / math.sqrt(2)) / math.sqrt(1.04)))


def test_what_members_show_of_each_other_is_taken_out():
    # a and b show 6 and 8: 10 of their own each less 0.4 and 0.2 of the other's; S is 3.
    shares = [[0, -0.4, 0], [-0.2, 0, 0], [0.2, 0.2, 0]]
    z = [6.0, 8.0, 9.0]
    *_, c = leaks([one_round(shares, z)], z, spread=3.0, among=(0, 1))
    # c holds 0.2 of each: 0.4 together, and answers at once like b, that shows most. That is 10,
    # but nobody is taken to show more than the highest score of all, 9. b's own mark is
    # (8 + 0.2 * 6) / 0.92, whose variance is 1.04 / 0.92^2.
    assert c.tail(3.0, 0) == pytest.approx(0.5)
    assert c.tail(4.0, 0) == pytest.approx(tail(1 / math.sqrt(1 + 1.04 / 0.92**2)))
    # Half as much is too little to answer at once: in proportion it takes 0.1 * (9 + 9), which is
    # 0.12 / 0.92 of a's score and 0.14 / 0.92 of b's.
    halved = [*shares[:2], [0.1, 0.1, 0]]
    *_, c = leaks([one_round(halved, z)], z, spread=3.0, among=(0, 1))
    assert c.tail(5.0, 0) == pytest.approx(
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
    assert [one.tail(z, 0) for one, z in zip(found, scores, strict=True)] == pytest.approx(
        [1.0, 1.0, 0.5001, 0.5001], abs=1e-3
    )


def test_a_hypothesis_that_leaves_somebody_unexplained_is_none():
    # b holds 0.4 of c's update and nothing of a's; everybody shows 10.
    shares = [[0, 0, 0], [0, 0, 0.4], [0, 0, 0]]
    shown = [one_round(shares, [10.0, 10.0, 10.0])]
    # c, who holds nothing of anybody, cannot but be marked, and b may owe all to it.
    a, b, c = leaks(shown, [10.0] * 3, error=1e-4)
    assert b.tail(10.0, 0) == pytest.approx(0.5 + 1e-4)
    assert a.tail(10.0, 0) == c.tail(10.0, 0) == pytest.approx(1e-4)
    # Where c shows nothing that chance does not, nobody but b can be the one.
    quiet = [one_round(shares, [10.0, 10.0, 0.5])]
    assert leaks(quiet, [10.0, 10.0, 0.5], among=(0, 1), error=1e-4)[1].tail(10.0, 0) < 2e-4


def test_a_client_that_sends_more_than_its_update_accuses_nobody():
    # Everybody's estimate holds 0.2 of a's update, which a sent ten times: all answer like a.
    shares = np.zeros((4, 4))
    shares[1:, 0] = 0.2
    shown = [one_round(shares, [15.0, 14.0, 15.0, 13.0])]
    z = [15.0, 14.0, 15.0, 13.0]
    _, b, c, d = leaks(shown, z, among=(0, 1, 2, 3), error=1e-4)
    assert min(one.tail(15.0, 0) for one in (b, c, d)) > 0.3
    # Where the others show nothing, b alone is no neighbour of a client that sends more.
    quiet = [one_round(shares, [15.0, 14.0, 0.0, 0.0])]
    z = [15.0, 14.0, 0.0, 0.0]
    b = leaks(quiet, z, among=(0, 1), error=1e-4)[1]
    assert b.tail(14.0, 0) < 1.1e-4
    # Neither is one whose mark shows less clearly than such a client's would.
    faint = [one_round(shares, [3.9, 9.0, 3.9, 3.9])]
    b = leaks(faint, [3.9, 9.0, 3.9, 3.9], among=(0,), error=1e-4)[1]
    assert b.tail(3.9, 0) == pytest.approx(tail((3.9 - 0.78) / math.sqrt(1.04)) + 1e-4)


def test_heavier_tails_with_few_null_marks():
    from scipy.stats import t

    [only] = leaks([one_round([[0.0]], [9.0])], [9.0])
    assert only.tail(4.0, 24) == pytest.approx(float(t.sf(4, 24)))
    assert only.tail(99.0, 0) > 0


def plain(rounds, z, spread, error, *, among=None, hidden=()):
    """Return each client's p-value, hypothesis by hypothesis, in plain words.

    A hypothesis: who is seen to be marked, who is hidden beside them, how tests answer.
    """
    count, everybody = len(z), tuple(range(len(z)))
    took = [sum(bool(r.present[who]) for r in rounds) for who in range(count)]
    table, means = {}, {}
    groups = enumerate_groups(everybody if among is None else among)
    hypotheses = [(group, (), law) for group in groups for law in [*TEST_RESPONSES, *GAINS]]
    hypotheses += [(group, (who,), law) for group, who in hidden for law in TEST_RESPONSES[2:]]
    for group, more, law in hypotheses:
        for who in everybody:
            mean = variance = 0.0
            for r in rounds:
                if r.present[who]:
                    m, v = leak(r, who, group, law, strongest(rounds, group, took), more)
                    mean += m / (spread * took[who] ** 0.5)
                    variance += v / took[who]
            means[group, more, law, who] = mean, variance
            table[group, more, law, who] = tail((z[who] / spread - mean) / math.sqrt(1 + variance))
    found = []
    for who in everybody:
        tails = [tail(z[who] / spread)]
        for group, more, law in hypotheses:
            seen = everybody if among is None else among
            rest = [x for x in seen if x not in group + more and x != who]
            explained = all(table[group, more, law, x] > error / count for x in rest)
            if law in GAINS and not sent(group, law, means, z, spread, error):
                continue
            if who not in group + more and explained:
                tails.append(table[group, more, law, who])
        found.append(min(1.0, max(tails) + error))
    return found


def sent(group, law, means, z, spread, error):
    """Return whether one client may have sent so much that others answer as they do."""
    if len(group) != 1 or z[group[0]] / spread <= MIN_BOOSTED_Z:
        return False
    taking = [x for x in range(len(z)) if x not in group and means[group, (), law, x][0] > 0]
    lacking = sum(means[group, (), law, x][0] - z[x] / spread for x in taking)
    spread = len(taking) + sum(math.sqrt(means[group, (), law, x][1]) for x in taking) ** 2
    return tail(lacking / math.sqrt(max(spread, 1.0))) > error


def strongest(rounds, group, took):
    """Return the member that shows most in all rounds, and how much in one on average."""
    means = {who: sum(float(r.scores[who]) for r in rounds) / took[who] for who in group}
    return max(means.items(), key=lambda item: (item[1], -item[0]), default=(0, 0.0))


def leak(one, who, group, law, most, hidden=()):
    """Return what one estimate takes from a group of marked clients, and its variance.

    What is held of those that are hidden counts where tests answer at once.
    """
    held = one.shares[who]
    shown = [s if x != who else 0.0 for x, s in enumerate(one.scores)]
    alone = unmix_scores(one, group)
    amount = sum(max(held[x] * shown[x], held[x] * alone[x]) for x in group)
    variance = max(sum(held[x] ** 2 for x in group), luck(one, group, [held[x] for x in group]))
    member, mean = most
    at_once = max(float(one.scores[member]), mean, alone[member])
    if law in GAINS:
        more = min(max(law * amount, 0.0), at_once if group else 0.0)
        return (more, min(1.0, law**2 * variance)) if more > 0 else (0.0, 0.0)
    if law.start is None:
        return (amount, variance) if amount >= law.minimum else (0.0, 0.0)
    if sum(held[x] for x in (*group, *hidden)) < law.start - 1e-9:
        return 0.0, 0.0
    by_itself = alone[member] > max(float(one.scores[member]), mean)
    off = max(1.0, luck(one, group, [x == member for x in group])) if by_itself else 1.0
    return (max(amount, at_once) if group else 0.0), max(off, variance if amount > at_once else 0)


def unmix_scores(one, group):
    """Return what members show by themselves, from equations between them."""
    if not group:
        return {0: 0.0}
    matrix = [[1.0 if a == b else one.shares[a][b] for b in group] for a in group]
    own = np.linalg.solve(np.array(matrix), [one.scores[a] for a in group])
    most = max(one.scores)
    return {a: min(max(0.0, value), most) for a, value in zip(group, own, strict=True)}


def drawn(seed, count, clients):
    """Return rounds in which shares and scores are as they come, and each client's Z."""
    rng = np.random.default_rng(seed)
    rounds = []
    for _ in range(count):
        present = rng.random(clients) < 0.8
        here = np.outer(present, present) * (1 - np.eye(clients))
        rounds.append(
            RoundShares(
                rng.choice([-0.4, -0.2, 0.0, 0.2, 0.4], size=(clients, clients)) * here,
                rng.choice([0.0, 2.0, 5.0, 9.0], size=clients) * present,
                present,
            )
        )
    took = np.sum([r.present for r in rounds], axis=0)
    assume(took.all())  # clients that never took part are not among those that are tested
    return rounds, np.sum([r.scores for r in rounds], axis=0) / np.sqrt(took)


ERRORS = st.sampled_from([0.0, 1e-6, 1e-3])


def luck(one, group, held):
    """Return the variance of what is held of members' own marks, if that of each score is 1."""
    if not group:
        return 0.0
    matrix = np.array([[1.0 if a == b else one.shares[a][b] for b in group] for a in group])
    return sum(float(x) ** 2 for x in np.array(held, dtype=float) @ np.linalg.inv(matrix))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), ERRORS)
def test_against_plain_words(seed, number, error):
    rounds, z = drawn(seed, number, 4)
    found = leaks(rounds, z.tolist(), spread=1.5, error=error)
    p = [one.tail(value / 1.5, 0) for one, value in zip(found, z, strict=True)]
    assert p == pytest.approx(plain(rounds, z, 1.5, error), rel=1e-9, abs=1e-300)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), ERRORS, st.lists(HIDDEN, max_size=4))
def test_against_plain_words_with_somebody_hidden(seed, number, error, hidden):
    rounds, z = drawn(seed, number, 5)
    groups = enumerate_groups((0, 1, 2))
    pairs = HiddenClients(
        np.array([at for at, _ in hidden], dtype=int),
        np.array([who for _, who in hidden], dtype=int),
    )
    found = leaks(rounds, z.tolist(), spread=1.5, error=error, among=(0, 1, 2), hidden=[pairs] * 3)
    p = [one.tail(value / 1.5, 0) for one, value in zip(found, z, strict=True)]
    named = [(groups[at], who) for at, who in hidden]
    slow = plain(rounds, z, 1.5, error, among=(0, 1, 2), hidden=named)
    assert p == pytest.approx(slow, rel=1e-9, abs=1e-300)


def test_a_marked_client_that_two_others_hide():
    # a, b and c are marked and show 10; c's estimate holds a and b with the wrong sign, so shows 0.
    # d, who is innocent, holds 0.2 of a and 0.3 of c, and answers at once.
    shares = [[0, 0, 0, 0], [0, 0, 0, 0], [-0.4, -0.4, 0, 0], [0.2, 0, 0.3, 0]]
    scores = [10.0, 10.0, 0.0, 10.0]
    quiet = leaks([one_round(shares, scores)], scores, among=(0, 1, 3), error=1e-4)
    assert quiet[3].tail(10.0, 0) < 1e-3  # 0.2 of a is too little: accused
    groups = groups_of(4, among=(0, 1, 3))
    seen = np.ones(4, bool)
    evidence = [MarkEvidence(z, 1.0, 1) for z in scores]
    pairs = find_hidden_clients([np.array(shares)], [seen], groups, evidence, 0.5)
    assert [[*np.flatnonzero(m)] for m in pairs.groups_with_hidden(groups)] == [
        [0, 1, 2],
        [0, 1, 2, 3],
    ]
    found = leaks(
        [one_round(shares, scores)], scores, among=(0, 1, 3), error=1e-4, hidden=[pairs] * 3
    )
    assert found[3].tail(10.0, 0) == pytest.approx(0.5 + 1e-4)
    # a and b hold nothing of anybody: they are as sure as before.
    assert found[0].tail(10.0, 0) == found[1].tail(10.0, 0) == quiet[0].tail(10.0, 0)


@settings(max_examples=25, deadline=None)
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
        assert mixed[at].tail(8.0, 0) == pytest.approx(first[who].tail(8.0, 0), rel=1e-9)


@given(
    st.lists(st.tuples(st.floats(-3, 12), st.floats(0, 4)), min_size=1, max_size=6),
    st.floats(0, 9),
    st.sampled_from([0, 4, 256]),
)
def test_the_largest_probability_is_that_of_one_hypothesis_after_another(leak, z, marks):
    means, variances = (np.array(values) for values in zip(*leak, strict=True))
    beyond = [(z - mean) / math.sqrt(1 + variance) for mean, variance in leak]
    each = [stats.t.sf(at, marks) if marks else stats.norm.sf(at) for at in beyond]
    found = ContaminationHypotheses(means, variances, 1e-3).tail(z, marks)
    assert found == pytest.approx(min(1.0, max(each) + 1e-3))
