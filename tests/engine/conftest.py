"""What all of the engines' tests share."""

import ssl
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def tls_context():
    """Make the context of TLS once, which no server here speaks: reading all certificates is slow.

    Each of the clients that these tests make would read them anew.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield
