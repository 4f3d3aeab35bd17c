"""The plugins that a simulation's settings name, and their options."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.simulation.config import Simulation


def test_options_of_no_plugin_are_refused_with_the_setting_that_names_it():
    config = Simulation(secure_aggregation={"threshold": 2})
    with pytest.raises(UsageError, match=r"threshold .* name: set secure_aggregation\.name\."):
        config.secure_aggregation_plugin()
