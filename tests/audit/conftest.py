"""Audits that ask real models: what they count is the subject, not how sure they can be of it."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def in_every_module():
    """Let each test, and what a module's tests share, have few control strings and few to weigh."""
    from fedaudit.extraction import learned, positive_controls, prefix_attack

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_attack, "CONTROLS", 100)
        patch.setattr(prefix_attack, "EXACT_CONTROLS", 100)
        patch.setattr(learned, "MAX_TARGETS", 2)
        patch.setattr(positive_controls, "MAX_KNOWN", 2)
        yield
