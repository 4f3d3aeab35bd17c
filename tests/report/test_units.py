import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedaudit.report import units
from fedaudit.report.number_format import as_percent, format_difference, format_rate
from fedaudit.report.units import COUNTS, OPERATIONS, SIZES, TIMES

FORMS = {"size": SIZES, "operations": OPERATIONS, "amount": COUNTS, "duration": TIMES}
AMOUNTS = st.floats(min_value=0, max_value=1e300) | st.integers(min_value=0, max_value=10**20)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("size", 0, "0 B"),
        ("size", 512, "512 B"),
        ("size", 999, "999 B"),
        ("size", 1000, "1.00 kB"),
        ("size", 2_097_152, "2.10 MB"),
        ("size", 62_914_560, "62.9 MB"),
        ("size", 999_499, "999 kB"),
        ("size", 999_500, "1.00 MB"),  # not 1,000 kB
        ("size", 3.2e18, "3,200 PB"),
        ("operations", 1.24e12, "1.24 TFLOP"),
        ("operations", 960e9, "960 GFLOP"),
        ("operations", 12, "12 FLOP"),
        ("amount", 6_144, "6,144"),
        ("amount", 999_400, "999,400"),
        ("amount", 999_500, "1.00 million"),
        ("amount", 2_112_000, "2.11 million"),
        ("amount", 1_235_814_400, "1.24 billion"),
        ("duration", 0.00061, "610 µs"),
        ("duration", 0.0047, "4.70 ms"),
        ("duration", 59.96, "60.0 s"),
        ("duration", 60, "1.00 min"),
        ("duration", 12_600, "3.50 h"),
        ("duration", 1e-12, "1e-06 µs"),
        ("size", -2_097_152, "-2.10 MB"),
    ],
)
def test_amounts_are_spelt_in_the_unit_that_fits(form, value, text):
    assert getattr(units, form)(value) == text


def read(text, steps):
    """Return the number that `text` says, the slow way round."""
    number, _, unit = text.partition(" ")
    scale = {name: scale for scale, name in steps}[unit]
    return float(number.replace(",", "")) * scale


@pytest.mark.parametrize("form", FORMS)
@given(value=AMOUNTS)
@example(value=999_999.5)
@example(value=0.0009996)
def test_a_text_says_the_amount_to_half_a_per_cent(form, value):
    spelt = read(getattr(units, form)(value), FORMS[form])
    assert math.isclose(spelt, value, rel_tol=0.00501)


@pytest.mark.parametrize("form", FORMS)
@given(values=st.tuples(AMOUNTS, AMOUNTS) | AMOUNTS.map(lambda value: (value, value * 1.0009)))
def test_more_is_never_spelt_as_less(form, values):
    less, more = sorted(values)
    said = [read(getattr(units, form)(value), FORMS[form]) for value in (less, more)]
    assert said[0] <= said[1]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_has_a_short_text(value):
    for form in FORMS:
        assert len(getattr(units, form)(value)) <= 32


def rate(hits, n, low, high):
    value = hits / n if n and hits is not None else None
    return {"metric": "fpr", "value": value, "hits": hits, "n": n, "low": low, "high": high}


def test_none_and_all_come_with_the_bound_that_is_left():
    # Wilson's upper bound of 0 of n is z^2 / (n + z^2): 3.8416 / 100,003.8 = 0.0000384
    assert format_rate(rate(0, 100_000, 0.0, 0.0000384)) == "0 of 100,000, at most 0.0038 %"
    assert format_rate(rate(200, 200, 0.9812, 1.0)) == "200 of 200, at least 98.1 %"
    assert format_rate(rate(3, 52, 0.0198, 0.1564)) == "3 of 52, 5.8 % [2.0, 15.6]"
    assert format_rate(rate(0, 0, None, None)) == "not measured"
    expected = rate(None, 50, 0.1, 0.3) | {"value": 0.2}
    assert format_rate({**expected, "hits": None}) == "20.0 % [10.0, 30.0]"


@pytest.mark.parametrize(
    ("metric", "numbers", "text"),
    [
        ("coverage", (0.0234, 0.01, 0.0368), "+2.3 points [+1.0, +3.7]"),
        ("coverage", (0.0003, -0.0002, 0.0008), "+0.03 points [-0.02, +0.08]"),
        ("coverage", (-0.0, None, None), "+0.0 points"),
        ("auc", (-0.0314, None, None), "-0.0314"),
    ],
)
def test_a_difference_of_shares_is_in_points_and_a_small_one_is_not_nothing(metric, numbers, text):
    assert format_difference(metric, *numbers) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.07, "7%"), (0.1, "10%"), (0.995, "99.5%"), (0.0025, "0.25%"), (0.125, "12.5%"), (0, "0%")],
)
def test_a_share_that_somebody_set_has_all_its_digits(share, text):
    assert as_percent(share) == text
