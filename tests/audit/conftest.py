"""Audits that ask real models: what they count is the subject, not how sure they can be of it."""

import pytest


@pytest.fixture(autouse=True)
def in_every_test(few_controls):
    """Let each test have few control strings."""
