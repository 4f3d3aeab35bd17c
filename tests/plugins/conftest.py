import kept_work
import pytest


@pytest.fixture(scope="module", autouse=True)
def kept():
    """Let federations share what each would do anew."""
    with kept_work.kept():
        yield
