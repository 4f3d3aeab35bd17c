"""What tests of reports share."""

import pytest


@pytest.fixture(scope="module")
def few_findings():
    """Let reports written by hand hold less than what they count and list."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedaudit.report.verdict.recheck.count_missing", lambda *_: 0)
        patch.setattr("fedaudit.report.verdict.recheck.unmeasured_attacks", lambda *_: [])
        yield
