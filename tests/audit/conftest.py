"""Audits that ask real models: what they count is the subject, not how sure they can be of it."""

import pytest


@pytest.fixture(autouse=True)
def few_controls(monkeypatch):
    """Score a twentieth of the usual control strings, which take most of a small audit's time."""
    from fedaudit.extraction import prefix_attack

    monkeypatch.setattr(prefix_attack, "CONTROLS", 100)
    monkeypatch.setattr(prefix_attack, "EXACT_CONTROLS", 100)
