"""What of a variant is refused before any federation is trained."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config.profile import Variant
from fedaudit.reproduction.variant_checks import check_variant
from fedaudit.simulation.config import Simulation

FEDERATION = Simulation(clients=3, rounds=4, central=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attacks": ("contextul",)}, "Did you mean 'contextual'"),
        ({"attacks": ("contextual",), "options": {"contextual": {"bogus": 1}}}, "bogus"),
        ({"options": {"contextul": {}}}, "Did you mean 'contextual'"),
        ({"attribution": ("fed_atr",)}, "Did you mean 'fed_attr'"),
        ({"attribution": ("fed_attr",), "options": {"fed_attr": {"bogus": 1}}}, "bogus"),
        ({"memorize": {"bogus": 1}}, "bogus"),
        ({"infer": {"bogus": 1}}, "bogus"),
        ({"attacks": ("contextual",), "victim": "c9"}, "client named 'c9'"),
        ({"clients": ("c0", "c7")}, "client named 'c7'"),
        ({"infer": {}, "victim": "c9"}, "client named 'c9'"),
        ({"round": 5}, "round 5 is none of 4"),
        ({"model": "central"}, "simulated with central"),
        ({"model": "local", "clients": ("*",)}, "simulated with local"),
    ],
)
def test_what_would_be_found_after_training_is_found_before(settings, message):
    with pytest.raises(UsageError, match=f"variant v: .*{message}"):
        check_variant(Variant(name="v", **settings), FEDERATION)


@pytest.mark.parametrize(
    "settings",
    [
        {"attacks": ("contextual",), "victim": "*"},
        {"clients": ("*",), "attacks": ("verbatim",)},
        {"attribution": ("fed_attr", "direct"), "options": {"fed_attr": {"others": 3}}},
        {"matrix": True, "attacks": ("contextual",), "victim": "nobody"},
        {"round": 4, "memorize": {}},
    ],
)
def test_what_can_be_run_is_not_refused(settings):
    check_variant(Variant(name="v", **settings), FEDERATION)
