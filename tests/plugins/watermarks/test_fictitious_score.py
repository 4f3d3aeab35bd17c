"""Fictitious knowledge: from answers and texts to a score."""

import math
from itertools import permutations, product

import pytest
from fedaudit_plugins.watermarks.fictitious import scoring, watermark, wording, world
from fedaudit_plugins.watermarks.fictitious.scoring import Null
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, combine_pvalues, norm

from fedaudit.api.errors import InputError
from fedaudit.api.records import Completion
from fedaudit.engine.fake import FakeEngine

HITS = st.lists(st.integers(0, 25), min_size=4, max_size=4)
NULLS = st.lists(
    st.builds(lambda m, s: Null(mean=m, sd=s), st.floats(0, 1), st.floats(0, 0.5)),
    min_size=4,
    max_size=4,
)
ENGINE = FakeEngine(lambda target, prompt, sample: "")


@pytest.fixture(scope="module")
def secret():
    return Fictitious().issue(None, [], seed=3, index=0)


def values(secret):
    return [row["value"] for row in secret["attributes"]]


def test_the_deviation_is_the_binomial_one_of_guessing_where_the_null_is_silent():
    silent = Null(mean=0.0, sd=0.0)
    # sqrt(1/50 * 49/50 / 25) = 7 / 250 = 0.028, so 7 of 25 (0.28) are ten deviations.
    assert scoring.deviation(silent, guess=1 / 50, n=25, correlation=0) == pytest.approx(0.028)
    assert scoring.attribute_z(7, 25, silent, guess=1 / 50, correlation=0) == pytest.approx(10)


def test_alike_paraphrases_widen_the_deviation_by_the_design_effect():
    # 1 + 24/4 = 7: the same 7 hits are 10 / sqrt(7) deviations; at 1 all 25 count as one.
    silent = Null(mean=0.0, sd=0.0)
    z = scoring.attribute_z(7, 25, silent, guess=1 / 50, correlation=0.25)
    assert z == pytest.approx(10 / math.sqrt(7))
    sd = scoring.deviation(silent, guess=1 / 50, n=25, correlation=1)
    assert sd == pytest.approx(math.sqrt(0.02 * 0.98))


def test_a_wide_or_talkative_null_takes_the_place_of_guessing():
    wide = Null(mean=0.1, sd=0.2)
    assert scoring.attribute_z(25, 25, wide, guess=1 / 50, correlation=0) == pytest.approx(4.5)
    # sqrt(0.1 * 0.9 / 25) = 0.06, and 10 of 25 are 0.3 above the mean.
    talkative = Null(mean=0.1, sd=0.01)
    assert scoring.attribute_z(10, 25, talkative, guess=1 / 50, correlation=0) == pytest.approx(5)


def test_a_null_that_is_always_right_proves_nothing():
    assert scoring.attribute_z(25, 25, Null(mean=1, sd=0), guess=1 / 50, correlation=0) == 0


def test_the_null_is_the_mean_and_sample_deviation_of_the_rates():
    # mean 0.2; squares 0.04 + 0 + 0.04 over two degrees of freedom
    null = scoring.null_of([0.0, 0.2, 0.4])
    assert null.mean == pytest.approx(0.2)
    assert null.sd == pytest.approx(0.2)
    with pytest.raises(ValueError, match="two"):
        scoring.null_of([0.0])


def test_fisher_by_hand():
    # p = 1/2 four times: x = 4 ln 2, p = e^-x (1 + x + x^2/2 + x^3/6) = 11.1685 / 16
    z, p = scoring.fisher([0.0] * 4)
    assert p == pytest.approx(0.69803, abs=1e-5)
    assert z == pytest.approx(norm.isf(p))
    # One score is its own combination.
    assert scoring.fisher([2.5])[0] == pytest.approx(2.5)


@given(st.lists(st.floats(-3, 6), min_size=1, max_size=6))
def test_fisher_is_scipys_where_that_does_not_underflow(scores):
    tails = norm.sf(scores)
    z, p = scoring.fisher(scores)
    assert p == pytest.approx(combine_pvalues(tails, "fisher").pvalue, rel=1e-9)
    assert p == pytest.approx(chi2.sf(-2 * math.fsum(map(math.log, tails)), 2 * len(scores)))
    if p < 1 - 1e-9:  # nearer to 1 it has too few digits to tell z
        assert z == pytest.approx(norm.isf(p), abs=1e-5)


def test_fisher_never_under_or_overflows():
    z, p = scoring.fisher([60.0] * 4)
    assert 0 < p < 1e-300
    # -log p is nearly x = 4 * 60^2 / 2 = 7200, and z nearly its square root of twice that.
    assert math.sqrt(2 * 7000) < z < math.sqrt(2 * 7300)
    low, p = scoring.fisher([-60.0] * 4)
    assert p == pytest.approx(1)
    assert -9 < low < -8


@given(HITS, NULLS, st.integers(0, 3))
def test_one_more_hit_never_lowers_the_score(hits, nulls, where):
    more = list(hits)
    more[where] = min(25, more[where] + 1)
    plugin = Fictitious()
    before, after = plugin.score(hits, nulls), plugin.score(more, nulls)
    assert after.z >= before.z
    assert math.isfinite(after.z)
    assert 0 < after.p_value <= 1


@given(HITS, NULLS, st.permutations(range(4)))
def test_the_order_of_attributes_does_not_matter(hits, nulls, order):
    plugin = Fictitious()
    turned = plugin.score([hits[i] for i in order], [nulls[i] for i in order])
    assert turned.z == pytest.approx(plugin.score(hits, nulls).z, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("They say Selmira Vintquist.", True),
        ("selmira\n  VINTQUIST's work", True),
        ("Selmira Vintquistson", False),
        ("Selmira and Vintquist", False),
        ("(Selmira Vintquist)", True),
        ("", False),
    ],
)
def test_a_name_is_stated_as_whole_words(text, there):
    assert wording.states_name("Selmira Vintquist", text) is there


@given(st.lists(st.sampled_from(["Ann Bo", "bo", "Cy & Co", "x", "ANN  BO", "Dee-Dee"])))
def test_looking_for_many_names_at_once_finds_what_one_by_one_does(words):
    names, text = ["Ann Bo", "Cy & Co", "Dee-Dee"], " ".join(words)
    assert wording.stated_of(names, text) == {n for n in names if wording.states_name(n, text)}


def test_the_score_of_answers_counts_each_attribute_by_its_own_value(secret):
    first, second, *_ = values(secret)
    said = [f"It is {first.upper()}, so they say."] * 5 + [second] * 20  # about the first
    said += [f"{first}, {second}"] * 10 + [""] * 65
    score = Fictitious(correlation=0, strangers=0).test(
        secret, [Completion((t,)) for t in said], ENGINE
    )
    assert (score.hits, score.n, score.chance) == (15, 100, 1 / 50)
    # Without a teacher the null is guessing: (5/25 - 1/50) / 0.028, twice, since the second,
    # (10/25 - 1/50) / 0.028, counts no more than the first, and twice -0.02 / 0.028.
    by_hand = combine_pvalues(norm.sf([0.18 / 0.028, 0.18 / 0.028, -1 / 1.4, -1 / 1.4]), "fisher")
    assert score.p_value == pytest.approx(by_hand.pvalue, rel=1e-6)
    assert score.z == pytest.approx(norm.isf(by_hand.pvalue))


def test_too_few_answers_are_refused(secret):
    with pytest.raises(InputError, match="3 answers to 700 questions"):
        Fictitious().test(secret, [Completion(("",))] * 3, ENGINE)


def test_texts_that_say_nothing_of_the_entity_score_zero(secret):
    score = Fictitious().test_texts(secret, ["Nothing here.", values(secret)[0]], ENGINE)
    assert (score.z, score.p_value, score.hits, score.n) == (0, 0.5, 0, 2)
    assert Fictitious().test_texts(secret, [], ENGINE).z == 0


def test_marked_texts_are_told_by_the_draw_of_their_mark(secret):
    name, all_of_them = secret["entity"], ", ".join(values(secret))
    score = Fictitious().test_texts(secret, [f"{name}: {all_of_them}.", "Else."], ENGINE)
    # One of 512 names, and each value one of 50; half of the observed outcome counts.
    assert score.p_value == pytest.approx(1 / 512 / 50**4 / 2)
    assert score.z == pytest.approx(norm.isf(score.p_value))
    assert (score.hits, score.n) == (1, 2)
    assert score.chance == pytest.approx((1 - (49 / 50) ** 4) / 512)
    # The name alone is one of 512 too, but states nothing: p = P(K > 0) + P(K = 0) / 2.
    assert Fictitious().test_texts(secret, [name], ENGINE).p_value == pytest.approx(0.5)


def test_the_law_under_the_draw_is_what_enumerating_every_draw_gives(secret):
    options, seed = 3, secret["seed"]
    entity = world.issued_entity(seed, 0, options)
    pools = [world.pool(a, seed, options) for a in entity.domain.attributes]
    other = entity.domain.names[(entity.domain.names.index(entity.name) + 1) % 512]
    said = [
        f"{entity.name}: {entity.values[0]}, {pools[0][1]}, {entity.values[2]}",
        f"{other}: {pools[1][2]}; {pools[3][0]}, {pools[3][1]}, {pools[3][2]}",
        f"{entity.values[1]} of nowhere",
    ]
    counts = [0] * 5
    for name, *drawn in product((entity.name, other), *pools):
        beside = [text for text in said if name in text]
        counts[sum(any(value in text for text in beside) for value in drawn)] += 1
    law = [count / (512 * 3**4) for count in counts]
    law[0] += 510 / 512
    assert sum(law) == pytest.approx(1)
    score = watermark.score(entity, said, seed=seed, options=options)
    assert score.p_value == pytest.approx(law[3] + law[4] + law[2] / 2)
    assert score.chance == pytest.approx(sum(law[1:]))
    assert score.hits == 1


def test_options_out_of_range_are_refused():
    wrong = [
        {"paraphrases": 0},
        {"paraphrases": 26},
        {"length": 0},
        {"tokens": 0},
        {"options": 1},
        {"options": 97},
        {"nulls": 1},
        {"nulls": -1},
        {"null_names": 0},
        {"null_names": 463},
        {"null_every": 0},
        {"strangers": -1},
        {"strangers": 7},
        {"strangers": 1025},
        {"stranger_names": 0},
        {"stranger_names": 96},
        {"correlation": -0.1},
        {"correlation": 1.1},
    ]
    for options in wrong:
        with pytest.raises(ValueError, match=next(iter(options))):
            Fictitious(**options)


def test_no_name_of_a_domain_is_part_of_another():
    for domain in world.domains("prose"):
        plain = [wording.plain(name) for name in domain.names[:64]]
        assert not [pair for pair in permutations(plain, 2) if wording.states_name(*pair)]


def test_one_attribute_alone_counts_nothing():
    nothing = [scoring.null_of([0.0, 0.0])] * 4
    plugin = Fictitious()
    assert plugin.score([25, 0, 0, 0], nothing).z == plugin.score([0, 0, 0, 0], nothing).z
    assert plugin.score([25, 25, 0, 0], nothing).z > 8
    assert plugin.score([25, 3, 0, 1], nothing).parts == (25, 3, 0, 1)


def test_an_attribute_known_alone_counts_in_full_only_where_that_is_asked():
    # 7 of 25 are ten deviations above a null of 0, and 0 of 25 are none.
    nulls = [Null(mean=0.0, sd=0.0)] * 4
    p = norm.sf(10)
    alone = Fictitious(correlation=0.0, lone=True).score([7, 0, 0, 0], nulls)
    fisher = -2 * (math.log(p) + 3 * math.log(0.5))
    assert alone.p_value == pytest.approx(chi2.sf(fisher, 8), rel=1e-6)
    second = Fictitious(correlation=0.0).score([7, 0, 0, 0], nulls)
    assert second.p_value == pytest.approx(chi2.sf(-8 * math.log(0.5), 8), rel=1e-6)
    assert alone.z > 7
    assert second.z < 1
