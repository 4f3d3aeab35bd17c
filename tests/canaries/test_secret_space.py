"""Spaces of secrets: counted, listed, drawn from, and told from what is none."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.canaries.kinds import KINDS
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.pii.checksums import is_id_card, is_luhn


def test_a_pattern_is_counted_and_listed_in_order():
    space = SecretSpace("a[xy]#")
    assert space.size == 20
    assert list(space)[:3] == ["ax0", "ax1", "ax2"]
    assert list(space)[-1] == "ay9"
    assert len(set(space)) == 20
    assert "ay3" in space
    for other in ("az3", "ay33", "ay", "", "ay٣"):
        assert other not in space


def test_check_digits_are_those_of_the_standards():
    card = SecretSpace("799273987#", "luhn")
    assert card.secret(1) == "79927398713"  # the example of ISO/IEC 7812-1
    assert all(map(is_luhn, card))
    assert "79927398712" not in card
    spaced = SecretSpace("7992 73987#", "luhn")
    assert spaced.secret(1) == "7992 739871" + "3"
    identity = KINDS["id"]["zh"].space
    assert identity.size == 5 * 10 * 9 * 10 * 1000
    assert all(is_id_card(identity.secret(n)) for n in range(0, identity.size, 99_991))


@given(st.integers(0, 2**32), st.integers(0, 9_999))
def test_every_number_has_a_secret_of_its_own_that_is_in_the_space(seed, number):
    space = SecretSpace("[AB]#-#[xyz]#", "")
    number %= space.size
    secret = space.secret(number)
    assert secret in space
    assert list(space).index(secret) == number


@given(st.integers(0, 20), st.integers(0, 2**32))
def test_a_sample_is_of_the_space_different_and_none_of_what_is_left_out(count, seed):
    space = SecretSpace("##")
    without = ["07", "42", "no secret"]
    some = space.sample(count, Random(seed), without)
    assert len(some) == len(set(some)) == count
    assert not {"07", "42"} & set(some)
    assert set(some) <= set(space)


def test_a_sample_of_everything_is_everything():
    space = SecretSpace(words=("Ann", "Bo", "Cy", "Di"))
    assert sorted(space.sample(3, Random(0), ["Bo"])) == ["Ann", "Cy", "Di"]
    with pytest.raises(ValueError, match="4 secrets are too few for 5"):
        space.sample(4, Random(0), ["Bo"])


def test_samples_are_uniform():
    space, rng, counts = SecretSpace("[abcd]"), Random(1), dict.fromkeys("abcd", 0)
    for _ in range(4000):
        [one] = space.sample(1, rng)
        counts[one] += 1
    assert all(900 < n < 1100 for n in counts.values())  # 3.6 standard deviations of 27.4


@pytest.mark.parametrize(
    "given_",
    [
        {},
        {"pattern": "abc"},
        {"pattern": "#", "words": ("a", "b")},
        {"pattern": "[##]"},
        {"pattern": "[ab"},
        {"pattern": "ab]#"},
        {"pattern": "#\n#"},
        {"pattern": "#" * 201},
        {"pattern": "##", "check": "crc"},
        {"pattern": "a##", "check": "luhn"},
        {"pattern": "##", "check": "id_card"},
        {"words": ("Ann",)},
        {"words": ("Ann", "Ann")},
        {"words": ("Ann", "")},
        {"words": ("Ann", "B\x1bo")},
        {"words": ("Ann", "Bo"), "check": "luhn"},
    ],
)
def test_what_is_no_space_is_refused(given_):
    with pytest.raises(ValueError, match=r"^(a|an|the|words) "):
        SecretSpace(**given_)


def test_the_kinds_sentences_have_one_secret_behind_a_number():
    for languages in KINDS.values():
        for kind in languages.values():
            for sentence in kind.sentences:
                before, _, _ = sentence.partition("{secret}")
                assert sentence.count("{secret}") == before.count("{number}") == 1
