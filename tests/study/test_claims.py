import pytest

from fedaudit.errors import UsageError
from fedaudit.profile import parse
from fedaudit.records import Measurement
from fedaudit.study.claims import beside, checked, find


def row(metric, value, low, high, **scope):
    return Measurement(
        kind="extraction", plugin="p", metric=metric, value=value, low=low, high=high, scope=scope
    )


ROWS = {
    "a": [
        row("coverage", 0.2, 0.1, 0.3, source="tuned", set="all"),
        row("coverage", 0.9, 0.8, 1.0, source="tuned", set="all", label="PERSON"),
        row("coverage", 0.01, 0.0, 0.05, source="base", set="all"),
    ],
    "b": [row("coverage", 0.1, 0.05, 0.2, source="tuned", set="all")],
}


def profile(**claim):
    table = {
        "name": "p",
        "scale": {},
        "study": [{"name": "a"}, {"name": "b"}, {"name": "missing"}],
        "claims": [{"id": "c", "source": "s", "statement": "t", **claim}],
    }
    return parse(table)


def side(variant, source, number="value"):
    return {
        "variant": variant,
        "metric": "coverage",
        "number": number,
        "scope": {"source": source, "set": "all"},
    }


def outcome(**claim):
    (found,) = checked(profile(**claim), ROWS)
    return found.holds


def test_the_lower_bound_is_held_against_the_other_ones_upper_bound():
    sides = {"left": side("a", "tuned", "low"), "right": side("a", "base", "high")}
    assert outcome(**sides, compare=">") is True
    assert outcome(**sides, compare="<") is False


def test_factor_and_margin_move_the_right_side():
    # 0.2 > 2 * 0.1 is false, 0.2 >= 2 * 0.1 is true, 0.2 > 1 * 0.1 + 0.15 is false
    sides = {"left": side("a", "tuned"), "right": side("b", "tuned")}
    assert outcome(**sides, compare=">", factor=2.0) is False
    assert outcome(**sides, compare=">=", factor=2.0) is True
    assert outcome(**sides, compare=">", margin=0.15) is False


def test_a_number_can_be_the_right_side():
    assert outcome(left=side("a", "tuned"), compare=">=", right=0.08) is True


def test_what_was_not_measured_neither_holds_nor_fails():
    assert outcome(left=side("missing", "tuned"), compare=">", right=0.0) is None


def test_the_least_specific_row_is_meant():
    found = find(ROWS["a"], "coverage", {"source": "tuned"})
    assert found is not None
    assert found.value == 0.2
    assert find(ROWS["a"], "coverage", {"label": "PERSON"}).value == 0.9
    assert find(ROWS["a"], "loss", {}) is None


def test_published_figures_stand_beside_ours():
    table = {
        "name": "p",
        "scale": {},
        "figures": [
            {"source": "s", "what": "w", "metric": "coverage", "value": 0.3, "variant": "b"},
            {"source": "s", "what": "w", "metric": "coverage", "value": 0.3, "variant": "none"},
        ],
    }
    assert [ours for _, ours in beside(parse(table).figures, ROWS)] == [0.1, None]


def test_a_claim_about_a_variant_nobody_runs_is_refused():
    with pytest.raises(UsageError, match="Did you mean 'missing'"):
        profile(left=side("misssing", "tuned"), compare=">", right=0.0)
