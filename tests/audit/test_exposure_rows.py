"""The rows of exposure: means, firsts and tests, against values by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.audit.exposure import chance_exposure, exposure_findings, exposure_rows
from fedaudit.canaries.canary_file import Canary
from fedaudit.canaries.ranking import ScoredCanary


def scored(rank, times=1, of=8, secret="s"):
    """Return a canary that stands at a rank, from 1, among `of` with itself."""
    canary = Canary(text="A {secret}", secret=secret, client="c0" * bool(times), times=times)
    others = [float(-n) for n in range(1, of + 1) if n != rank]
    return ScoredCanary(canary, float(-rank), tuple(others))


def one(found, metric, **scope):
    [row] = [r for r in found if r.metric == metric and scope.items() <= r.scope.items()]
    return row


def test_rows_of_each_multiplicity_beside_the_base():
    tuned = [scored(1), scored(4), scored(1, 4), scored(1, 4), scored(8, 0)]
    base = [scored(8), scored(2), scored(4, 4), scored(1, 4), scored(8, 0)]
    found = exposure_rows({"tuned": tuned, "base": base}, is_exact=True, bits=3.0, seed=0)
    assert len(found) == 2 * 3 * 3
    row = one(found, "exposure", source="tuned", times=1)
    assert (row.value, row.n, row.baseline) == (2.0, 2, 1.0)  # (3 + 1) / 2; (0 + 2) / 2
    assert (row.low, row.high) == (1.0, 3.0)
    # Ranks 1 to 8 with the same probability: (3 + 2 + log2(8/3) + 1 + ... + 0) / 8.
    by_hand = sum(math.log2(8 / rank) for rank in range(1, 9)) / 8
    assert row.chance == pytest.approx(by_hand)
    assert dict(row.scope) == {"source": "tuned", "times": 1, "space": 8, "estimator": "exact"}
    first = one(found, "maximal_exposure", source="tuned", times=4)
    assert (first.hits, first.n, first.chance, first.baseline) == (2, 2, 1 / 8, 0.5)
    # Both at the share 1/8 of a uniform law: the chance that both are at most that.
    assert one(found, "p_value", source="tuned", times=4).value == pytest.approx(1 / 64)
    assert one(found, "exposure", source="base", times=4).baseline is None
    alone = one(found, "exposure", source="tuned", times=0)
    assert (alone.value, alone.low, alone.high) == (0.0, None, None)


def test_a_sample_is_extrapolated_no_further_than_the_space():
    refs = tuple(float(n % 10) for n in range(200))
    far = ScoredCanary(Canary(text="A {secret}", secret="s", client="c", times=1), 1e6, refs)
    near = ScoredCanary(far.canary, 4.5, refs)  # half of the sample is likelier
    found = exposure_rows({"tuned": [far, near]}, is_exact=False, bits=30.0, seed=0)
    plain = one(found, "exposure", estimator="sampled")
    assert plain.value == pytest.approx((math.log2(201) + math.log2(201 / 101)) / 2)
    fitted = one(found, "exposure", estimator="extrapolated")
    # A symmetric law is fitted to a symmetric sample: 1 bit at its middle.
    assert fitted.value == pytest.approx((30 + 1) / 2, abs=1e-6)
    few = ScoredCanary(far.canary, 1.0, refs[:50])
    assert {
        r.scope["estimator"]
        for r in exposure_rows({"tuned": [few]}, is_exact=False, bits=9, seed=0)
    } == {"sampled"}


@given(st.integers(1, 2000))
def test_what_chance_gives_is_the_mean_over_all_ranks(size):
    by_hand = sum(math.log2(size / rank) for rank in range(1, size + 1)) / size
    assert chance_exposure(size) == pytest.approx(by_hand, abs=1e-9)
    assert 0 <= chance_exposure(size) + 1e-12 < math.log2(math.e)


def test_findings_are_planted_secrets_that_stand_too_high():
    some = [
        scored(1, of=1000, secret="first"),
        scored(9, of=1000, secret="ninth"),
        scored(30, of=1000, secret="low"),
        scored(1, 0, of=1000, secret="control"),
    ]
    found, plain = exposure_findings(some)
    assert [(f.id, f.severity) for f in found] == [
        ("canary-0001", "high"),
        ("canary-0002", "medium"),  # 3 secrets * 0.009 is below 0.05
    ]
    assert [leak["text"] for leak in plain] == ["first", "ninth"]
    assert found[0].evidence["exposure"] == pytest.approx(math.log2(1000))
    assert all(f.safe == ("client",) for f in found)
    many = [*some, *(scored(500, of=1000) for _ in range(3))]
    assert [f.severity for f in exposure_findings(many)[0]] == ["high", "unverified"]  # 6 * 0.009
