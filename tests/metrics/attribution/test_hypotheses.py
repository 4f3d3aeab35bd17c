"""Who is marked, by hypothesis: boosters and hidden clients by hand, and against plain words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.attribution import hypotheses as module
from fedaudit.metrics.attribution.hypotheses import GAINS, enumerate_hypotheses
from fedaudit.metrics.attribution.marked_groups import MarkEvidence, enumerate_groups


def groups_of(count, among):
    return np.array([[who in group for who in range(count)] for group in enumerate_groups(among)])


def hidden(shares, present, groups, evidence, start=0.5):
    """Return who is hidden, (group, client) each, where nobody boosts."""
    [tried] = enumerate_hypotheses(groups, evidence, shares, present, [start])
    found = []
    for group, weights, own_start in zip(tried.groups, tried.weights, tried.starts, strict=True):
        more = np.flatnonzero((weights > 0) & ~groups[group])
        assert own_start == start
        if len(more) and weights.max() == 1:
            found.append((int(group), int(more.item())))
    return found


def test_by_hand():
    # c's estimate holds 1 - 0.4 - 0.2 of a mark of a, b and c; d's 1 - 0.4 of one of a and d.
    shares = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [-0.4, -0.2, 0, 0], [-0.4, 0, 0, 0]])
    evidence = [MarkEvidence(z, 1.0, 1) for z in (10.0, 10.0, 0.0, 0.0)]
    groups = groups_of(4, (0, 1))  # nobody, a, b, a and b
    seen = np.ones(4, bool)
    assert hidden([shares], [seen], groups, evidence) == [(3, 2)]
    # In the second of two rounds nothing hides it: it would show 10 / 2, and shows 2 at most.
    both = [shares, np.zeros((4, 4))]
    twice = [MarkEvidence(z, 1.0, 2) for z in (14.2, 14.2, 0.0, 0.0)]
    assert hidden(both, [seen, seen], groups, twice) == []
    # Z up to 2 S more, 5.1 over two rounds, is half of what the strongest shows in one of them.
    louder = [MarkEvidence(z, 1.0, 2) for z in (14.2, 14.2, 1.6, 0.0)]
    assert hidden(both, [seen, seen], groups, louder) == [(3, 2)]
    # It took no part in that round: nothing would be seen of it there.
    absent = np.array([True, True, False, True])
    assert hidden(both, [seen, absent], groups, twice) == [(3, 2)]


def test_boosters_by_hand():
    # a and b show 10 and 7, within three standard deviations; c shows 6.9.
    evidence = [MarkEvidence(z, 1.0, 1) for z in (10.0, 7.0, 6.9)]
    groups, seen = groups_of(3, (0, 1, 2)), np.ones(3, bool)
    [tried] = enumerate_hypotheses(groups, evidence, [np.zeros((3, 3))], [seen], [0.35])
    boosted = tried.weights[(tried.weights > 1).any(axis=1)].tolist()
    # Each in the four groups that it belongs to, with either gain.
    assert len(boosted) == 2 * 4 * len(GAINS)
    for weights in ([3.0, 0.0, 0.0], [10.0, 1.0, 1.0], [1.0, 3.0, 0.0]):
        assert weights in boosted
    assert not any(weights[2] > 1 for weights in boosted)
    # Nobody is taken for one whose Z is within four standard deviations.
    faint = [MarkEvidence(z, 2.0, 1) for z in (8.0, 7.0, 6.9)]
    [tried] = enumerate_hypotheses(groups, faint, [np.zeros((3, 3))], [seen], [0.35])
    assert tried.weights.tolist() == groups.astype(float).tolist()


def test_a_booster_hides_more():
    # b's estimates hold 0.2 of a's update with the wrong sign, a third time as much with the right
    # one: if a sends ten times its update, they show b's mark in one of three rounds, else in all.
    held = np.array([[0, 0, 0], [-0.2, 0, 0], [0, 0, 0]])
    shares, seen = [held, held, -held], [np.ones(3, bool)] * 3
    evidence = [MarkEvidence(z, 1.0, 3) for z in (10.0, 0.0, 0.0)]
    [tried] = enumerate_hypotheses(groups_of(3, (0,)), evidence, shares, seen, [0.5])
    assert not (tried.weights[:, 1] > 0).any()  # a third is more than a quarter
    shares, seen = [held] * 4 + [-held], [np.ones(3, bool)] * 5
    evidence = [MarkEvidence(z, 1.0, 5) for z in (10.0, 0.0, 0.0)]
    [tried] = enumerate_hypotheses(groups_of(3, (0,)), evidence, shares, seen, [0.5])
    assert tried.weights[tried.weights[:, 1] > 0].tolist() == [[3.0, 1.0, 0.0], [10.0, 1.0, 0.0]]


def test_tests_that_answer_late_show_less():
    # c's estimate holds 0.6 of the mark of a and c: too little for a test that answers from 0.75.
    shares = np.array([[0, 0], [-0.4, 0]])
    evidence, seen = [MarkEvidence(z, 1.0, 1) for z in (10.0, 0.0)], np.ones(2, bool)
    groups = groups_of(2, (0,))
    assert hidden([shares], [seen], groups, evidence, 0.5) == []
    assert hidden([shares], [seen], groups, evidence, 0.75) == [(1, 1)]
    # Who boosts is tried with the least start alone, and so are all without a hidden client.
    [tried] = enumerate_hypotheses(groups, evidence, [shares], [seen], [0.5, 0.75])
    late = tried.starts == 0.75
    assert tried.weights[late].tolist() == [[1.0, 1.0]]


def test_a_client_that_shows_an_update_many_times_is_no_measure():
    # c's estimates hold 0.2 and 0.6 of the mark of a and c: 0.3 on average, it shows 1.6 of 10.
    rounds = [np.array([[0, 0, 0], [0, 0, 0], [held, 0, 0]]) for held in (-0.8, -0.4)]
    seen, groups = [np.ones(3, bool)] * 2, groups_of(3, (0, 1))

    def is_hidden(loud, shares):
        z = [10.0, loud, 0.3]
        evidence = [MarkEvidence(2**0.5 * one, 1.0, 2) for one in z]
        return (1, 2) in hidden(shares, seen, groups, evidence)

    assert is_hidden(10.0, rounds)
    assert not is_hidden(50.0, rounds)
    # b's estimate holds five times a's update, which is how it shows so much.
    rounds = [one + np.array([[0, 0, 0], [5, 0, 0], [0, 0, 0]]) for one in rounds]
    assert is_hidden(50.0, rounds)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.35, 0.5, 0.75]))
def test_against_plain_words(seed, count, start):
    rng = np.random.default_rng(seed)
    shares = [rng.choice([-0.4, -0.2, 0.0, 0.2], size=(6, 6)) for _ in range(count)]
    present = [rng.random(6) < 0.8 for _ in range(count)]
    z = rng.choice([-1.0, 0.0, 2.0, 4.0, 9.0], size=6)
    took = np.maximum(1, np.sum(present, axis=0))
    evidence = [MarkEvidence(float(v), 1.5, int(n)) for v, n in zip(z, took, strict=True)]
    groups = groups_of(6, (0, 1, 2))
    plain = [(group.astype(float), 0.5) for group in groups]
    boosters = [who for who in (0, 1, 2) if z[who] > 6 and z[who] + 4.5 >= max(z)]
    plain += [
        (np.where(np.arange(6) == who, gain, group), 0.25)
        for who in boosters
        for gain in (3.0, 10.0)
        for group in groups
        if group[who]
    ]
    slow = [weights.tolist() for weights, _ in plain]
    for weights, limit in plain:
        for who in range(3, 6):
            edge = max(start, 0.5) - 1e-12
            here = [r for r in range(count) if present[r][who]]
            held = [1 + weights @ shares[r][who] for r in here]
            shows = [min(one, 1) if one >= edge else 0 for one in held]
            mean = sum(shows) / len(here) if here else 0.0
            may = max(0.0, z[who]) + 2 * 1.5
            least = 0.5 * mean * max(one.mean for one in evidence)
            if mean <= limit + 1e-12 and may / took[who] ** 0.5 >= least:
                slow.append(np.where(np.arange(6) == who, 1.0, weights).tolist())
    [tried] = enumerate_hypotheses(groups, evidence, shares, present, [start])
    assert sorted(tried.weights.tolist()) == sorted(slow)
    assert (tried.is_marked == (tried.weights > 0)).all()


def test_nobody_shows_anything():
    nobody, seen = [MarkEvidence(0.0, 1.0, 1)] * 2, np.ones(2, bool)
    [tried] = enumerate_hypotheses(groups_of(2, ()), nobody, [np.zeros((2, 2))], [seen], [0.5])
    assert tried.weights.tolist() == [[0.0, 0.0]]


def test_in_blocks_they_are_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    shares = [rng.choice([-0.4, 0.0, 0.2], size=(6, 6)) for _ in range(2)]
    evidence = [MarkEvidence(z, 1.0, 2) for z in (9.0, 8.0, 7.0, 0.0, 0.0, 0.0)]
    given_ = (groups_of(6, (0, 1, 2)), evidence, shares, [np.ones(6, bool)] * 2, [0.35, 0.75])
    [whole] = enumerate_hypotheses(*given_)
    monkeypatch.setattr(module, "BLOCK", 12)
    blocks = list(enumerate_hypotheses(*given_))
    assert [len(one) <= 12 for one in blocks] == [True] * 4
    assert np.concatenate([one.weights for one in blocks]).tolist() == whole.weights.tolist()
    assert np.concatenate([one.starts for one in blocks]).tolist() == whole.starts.tolist()
    assert np.concatenate([one.groups for one in blocks]).tolist() == whole.groups.tolist()
