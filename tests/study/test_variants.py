"""Which variants of a study run."""

import pytest

from fedaudit.errors import UsageError
from fedaudit.profile import parse
from fedaudit.study.run import variants

PROFILE = {
    "name": "some",
    "scale": {"nano": {}, "paper": {}},
    "study": [
        {"name": "both", "quick": True},
        {"name": "large", "only": "paper"},
        {"name": "small", "only": "nano", "quick": True},
    ],
}


@pytest.mark.parametrize(
    ("scale", "quick", "names"),
    [
        ("nano", False, ["both", "small"]),
        ("nano", True, ["both", "small"]),
        ("paper", False, ["both", "large"]),
        ("paper", True, ["both"]),
    ],
)
def test_a_variant_of_one_scale_runs_at_no_other(scale, quick, names):
    assert [one.name for one in variants(parse(PROFILE), scale, quick)] == names


def test_a_scale_without_variants_is_refused():
    only = {**PROFILE, "study": [{"name": "large", "only": "paper"}]}
    with pytest.raises(UsageError, match="no study"):
        variants(parse(only), "nano", quick=False)
