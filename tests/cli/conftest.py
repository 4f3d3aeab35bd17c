"""Audits that ask real models, as typed."""

import pytest


@pytest.fixture
def few_controls(few_controls, monkeypatch):
    """Also weigh few of the victim's strings, and of those that any model knows."""
    from fedaudit.extraction import learned, positive_controls

    monkeypatch.setattr(learned, "MAX_TARGETS", 8)
    monkeypatch.setattr(positive_controls, "MAX_KNOWN", 8)
