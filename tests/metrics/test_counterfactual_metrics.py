import math

import pytest

from fedaudit.metrics.counterfactual import drawn_chance


def test_the_chance_behind_a_count():
    # Nothing drawn: a Poisson mean of up to -ln 0.025 = 3.689 would have been missed so.
    nothing = drawn_chance(0)
    assert (nothing.value, nothing.low) == (0.0, 0.0)
    assert nothing.high == pytest.approx(1 - 0.025)
    # Three drawn: Garwood's lower bound is 0.6187.
    assert drawn_chance(3).low == pytest.approx(1 - math.exp(-0.61867), abs=1e-5)
    assert (drawn_chance(3).value, drawn_chance(3).high) == (1.0, 1.0)
    assert drawn_chance(50).low > 0.999
    with pytest.raises(ValueError, match="not a count"):
        drawn_chance(-1)
