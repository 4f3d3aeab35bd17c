"""Whose mark others' updates hide: by hand, and against plain words."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.attribution.hidden_marks import find_hidden_clients
from fedaudit.metrics.attribution.marked_groups import MarkEvidence, enumerate_groups


def groups_of(count, among):
    return np.array([[who in group for who in range(count)] for group in enumerate_groups(among)])


def found(shares, present, groups, evidence, start=0.5):
    pairs = find_hidden_clients(shares, present, groups, evidence, start)
    return list(zip(pairs.groups.tolist(), pairs.clients.tolist(), strict=True))


def test_by_hand():
    # c's estimate holds 1 - 0.4 - 0.2 of a mark of a, b and c; d's 1 - 0.4 of one of a and d.
    shares = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [-0.4, -0.2, 0, 0], [-0.4, 0, 0, 0]])
    evidence = [MarkEvidence(z, 1.0, 1) for z in (10.0, 10.0, 0.0, 0.0)]
    groups = groups_of(4, (0, 1))  # nobody, a, b, a and b
    seen = np.ones(4, bool)
    assert found([shares], [seen], groups, evidence) == [(3, 2)]
    # In the second of two rounds nothing hides it: it would show 10 / 2, and shows 2 at most.
    both = [shares, np.zeros((4, 4))]
    twice = [MarkEvidence(z, 1.0, 2) for z in (14.2, 14.2, 0.0, 0.0)]
    assert found(both, [seen, seen], groups, twice) == []
    # Z up to 2 S more, 5.1 over two rounds, is half of what the strongest shows in one of them.
    louder = [MarkEvidence(z, 1.0, 2) for z in (14.2, 14.2, 1.6, 0.0)]
    assert found(both, [seen, seen], groups, louder) == [(3, 2)]
    # It took no part in that round: nothing would be seen of it there.
    absent = np.array([True, True, False, True])
    assert found(both, [seen, absent], groups, twice) == [(3, 2)]


def test_tests_that_answer_late_show_less():
    # c's estimate holds 0.6 of the mark of a and c: too little for a test that answers from 0.75.
    shares = np.array([[0, 0], [-0.4, 0]])
    evidence, seen = [MarkEvidence(z, 1.0, 1) for z in (10.0, 0.0)], np.ones(2, bool)
    groups = groups_of(2, (0,))
    assert found([shares], [seen], groups, evidence, 0.5) == []
    assert found([shares], [seen], groups, evidence, 0.75) == [(1, 1)]


def test_a_client_that_shows_an_update_many_times_is_no_measure():
    # c's estimates hold 0.2 and 0.6 of the mark of a and c: 0.3 on average, it shows 1.6 of 10.
    rounds = [np.array([[0, 0, 0], [0, 0, 0], [held, 0, 0]]) for held in (-0.8, -0.4)]
    seen, groups = [np.ones(3, bool)] * 2, groups_of(3, (0, 1))

    def hidden(loud, shares):
        z = [10.0, loud, 0.3]
        evidence = [MarkEvidence(2**0.5 * one, 1.0, 2) for one in z]
        return (1, 2) in found(shares, seen, groups, evidence)

    assert hidden(10.0, rounds)
    assert not hidden(50.0, rounds)
    # b's estimate holds five times a's update, which is how it shows so much.
    rounds = [one + np.array([[0, 0, 0], [5, 0, 0], [0, 0, 0]]) for one in rounds]
    assert hidden(50.0, rounds)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.35, 0.5, 0.75]))
def test_against_plain_words(seed, count, start):
    rng = np.random.default_rng(seed)
    shares = [rng.choice([-0.4, -0.2, 0.0, 0.2], size=(6, 6)) for _ in range(count)]
    present = [rng.random(6) < 0.8 for _ in range(count)]
    z = rng.choice([-1.0, 0.0, 2.0, 4.0, 9.0], size=6)
    took = np.maximum(1, np.sum(present, axis=0))
    evidence = [MarkEvidence(float(v), 1.5, int(n)) for v, n in zip(z, took, strict=True)]
    groups = groups_of(6, (0, 1, 2))
    slow = []
    for at, group in enumerate(groups):
        for who in range(3, 6):
            edge = max(start, 0.5) - 1e-12
            here = [r for r in range(count) if present[r][who]]
            held = [1 + shares[r][who][group].sum() for r in here]
            shows = [min(one, 1) if one >= edge else 0 for one in held]
            mean = sum(shows) / len(here) if here else 0.0
            may = max(0.0, z[who]) + 2 * 1.5
            least = 0.5 * mean * max(one.mean for one in evidence)
            if mean <= 0.5 + 1e-12 and may / took[who] ** 0.5 >= least:
                slow.append((at, who))
    assert found(shares, present, groups, evidence, start) == slow


def test_nobody_shows_anything():
    nobody = [MarkEvidence(0.0, 1.0, 1)] * 2
    pairs = find_hidden_clients(
        [np.zeros((2, 2))], [np.ones(2, bool)], groups_of(2, ()), nobody, 0.5
    )
    assert len(pairs.groups) == 0
    assert pairs.groups_with_hidden(groups_of(2, ())).shape == (0, 2)
