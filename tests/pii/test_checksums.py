"""Check digits, against published examples and against themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.pii.checksums import id_card_check_digit, is_id_card, is_luhn, luhn_check_digit

digits_17 = st.text("0123456789", min_size=17, max_size=17)
numbers = st.text("0123456789", min_size=1, max_size=20)


# GB 11643-1999, annex A: 11010519491231002X and 440524188001010014.
@pytest.mark.parametrize(
    "number", ["11010519491231002X", "11010519491231002x", "440524188001010014"]
)
def test_examples_of_the_standard_are_identity_cards(number):
    assert is_id_card(number)


@pytest.mark.parametrize(
    "text",
    [
        "110105194912310021",
        "11010519491231002",
        "11010519491231002XX",
        "1101051949123100 X",
        "１１０１０５１９４９１２３１００２X",
        "X1010519491231002X",
        "",
    ],
)
def test_other_strings_are_no_identity_cards(text):
    assert not is_id_card(text)


@given(digits_17)
def test_check_character_makes_an_identity_card(first):
    assert is_id_card(first + id_card_check_digit(first))


@given(digits_17, st.integers(0, 16), st.integers(1, 9))
def test_a_changed_digit_is_noticed_in_an_identity_card(first, place, step):
    check = id_card_check_digit(first)
    changed = first[:place] + str((int(first[place]) + step) % 10) + first[place + 1 :]
    assert not is_id_card(changed + check)


# ISO/IEC 7812-1's worked example, and card schemes' published test numbers.
@pytest.mark.parametrize(
    "number", ["79927398713", "4111111111111111", "378282246310005", "6200000000000005"]
)
def test_known_numbers_pass_luhn(number):
    assert is_luhn(number)


@pytest.mark.parametrize(
    "text", ["79927398710", "", "0", "4111-1111", "４１１１１１１１１１１１１１１１"]
)
def test_other_strings_do_not_pass_luhn(text):
    assert not is_luhn(text)


@given(numbers)
def test_check_digit_passes_luhn(number):
    assert is_luhn(number + luhn_check_digit(number))


@given(numbers, st.integers(1, 9), st.data())
def test_a_changed_digit_is_noticed_by_luhn(number, step, data):
    place = data.draw(st.integers(0, len(number) - 1))
    changed = number[:place] + str((int(number[place]) + step) % 10) + number[place + 1 :]
    assert not is_luhn(changed + luhn_check_digit(number))
