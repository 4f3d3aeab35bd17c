"""A federation of three, and the same without c1, trained in a few seconds."""

from dataclasses import replace

from fedaudit.simulation import session
from fedaudit.simulation.runner import simulate


def silent(event):
    """Hear nothing."""


def train(small, run):
    """Return the settings of a federation in `run`, and where the one without c1 is."""
    config = replace(small, clients=3, central=True)
    simulate(config, run, listener=silent)
    other, place = session.settings(config, ["c1"], run)
    simulate(other, place, listener=silent)
    return config, place
