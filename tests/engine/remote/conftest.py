from functools import cache

import pytest
from completion_server import HonestServer
from hash_model import HashModel

from fedaudit.engine.remote import connection
from fedaudit.engine.remote.connection import RemoteConnection
from fedaudit.engine.remote.options import EndpointOptions, ServedModel


@pytest.fixture(scope="session")
def engine():
    """Return one model, which all servers of these tests answer from."""
    return HashModel()


@pytest.fixture
def honest(engine):
    """Return what makes a server of the model "tuned" and its base "plain"."""

    def make(**options):
        return HonestServer(engine, {"tuned": "lora", "plain": None}, **options)

    return make


@pytest.fixture(scope="module", autouse=True)
def tokenizers_loaded_once():
    """Load each tokenizer once for all connections: reading it takes longer than most probes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "RemoteTokenizer", cache(connection.RemoteTokenizer))
        yield


@pytest.fixture
def connect():
    """Return what connects to a server as an audit does; closed in the end."""
    made = []

    def make(url, *, model="tuned", **options):
        known = {"tokenizer": "fedaudit-nano", "retries": 0, "timeout": 30.0, **options}
        served = ServedModel(url=url, model=model, options=EndpointOptions(**known))
        made.append(RemoteConnection(served, None))
        return made[-1]

    yield make
    for one in made:
        one.close()
