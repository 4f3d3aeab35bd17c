"""The plugins that a simulation's settings name, and their options."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.simulation.config import Simulation, SumQuerySettings
from fedaudit.simulation.preparation import prepare


def test_options_of_no_plugin_are_refused_with_the_setting_that_names_it():
    config = Simulation(secure_aggregation={"threshold": 2})
    with pytest.raises(UsageError, match=r"threshold .* name: set secure_aggregation\.name\."):
        config.secure_aggregation_plugin()


@pytest.mark.parametrize(("protocol", "setting"), [("pairs", "others"), ("shared", "sets")])
def test_sets_that_cannot_be_are_refused_with_their_settings(tmp_path, protocol, setting):
    queries = SumQuerySettings(protocol=protocol)
    config = Simulation(clients=4, secure_aggregation="ideal", queries=queries)
    with pytest.raises(UsageError, match=rf"queries\.{setting}, .*secure_aggregation\.threshold"):
        prepare(config, tmp_path / "run")
