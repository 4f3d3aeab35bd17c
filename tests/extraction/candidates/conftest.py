import pytest

from fedaudit.extraction.candidates import ranking
from fedaudit.metrics import calibration


@pytest.fixture(scope="module", autouse=True)
def fewer_calibrations():
    """Learn a tenth of the usual calibrations for each interval, which take most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (calibration, ranking):
            patch.setattr(module, "DRAWS", 40)
        yield
