"""The HTTP client against servers that are slow, busy, or mean harm."""

import socket
import threading
import time

import pytest
from chat_server import Server, nobody_there

from fedaudit.api.errors import Interrupted, TargetError
from fedaudit.system.http_client import HttpStatusError, JsonClient, ServerUnreachable, check_url

KEY = "sk-secret-4711-key"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("A_KEY", KEY)
    # a proxy that nobody runs: what is on this machine is asked without it
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)


@pytest.fixture
def client():
    made = []

    def make(*urls, waits=None, **options):
        sleep = [].append if waits is None else waits.append
        made.append(JsonClient(urls, name="The server", sleep=sleep, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def trickle():
    """Return the address of a server that sends a byte of its headers every 50 ms, for ever."""
    over = threading.Event()
    place = socket.create_server(("127.0.0.1", 0))

    def serve():
        link, _ = place.accept()
        with link:
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000:
                if over.wait(0.05):
                    return
                try:
                    link.sendall(bytes([byte]))
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{place.getsockname()[1]}/v1"
    over.set()
    place.close()
    thread.join()


def test_slow_headers_have_a_deadline(client, trickle):
    begun = time.monotonic()
    with pytest.raises(ServerUnreachable, match=r"did not answer within 0.4 s, 1 times"):
        client(trickle, timeout=0.4, retries=0).post("/completions", {})
    assert time.monotonic() - begun < 5


def test_a_server_that_asks_for_a_long_wait_is_given_up(client):
    waits = []
    answer = (503, {"Retry-After": "121"}, "")
    with (
        Server(lambda request: answer).running() as server,
        pytest.raises(ServerUnreachable, match="503 and asks to wait 121 s"),
    ):
        client(server.url, waits=waits).post("/completions", {})
    assert waits == []
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(client):
    with Server(lambda request: (200, {}, "{}")).running() as other:
        elsewhere = {"Location": f"{other.url}/completions"}
        with Server(lambda request: (307, elsewhere, "")).running() as server:
            asked = client(server.url, key_variable="A_KEY")
            with pytest.raises(HttpStatusError, match="redirect, which is not followed") as error:
                asked.post("/completions", {})
    assert error.value.status == 307
    assert other.requests == []
    assert KEY not in str(error.value)


def test_a_huge_body_is_cut_off(client):
    with Server(lambda request: (200, {}, "x" * 3000)).running() as server:
        with pytest.raises(TargetError, match="more than 2,000 bytes"):
            client(server.url, most_bytes=2000).post("/completions", {})
        packed = {"Content-Encoding": "gzip"}
    with (
        Server(lambda request: (200, packed, "x")).running() as server,
        pytest.raises(TargetError, match="packed form"),
    ):
        client(server.url).post("/completions", {})
    assert server.requests[0]["headers"]["Accept-Encoding"] == "identity"


def test_servers_are_asked_in_turn_and_one_that_is_gone_is_passed_over(client):
    answer = (200, {}, "{}")
    with Server(lambda r: answer).running() as one, Server(lambda r: answer).running() as two:
        asked = client(one.url, two.url)
        for _ in range(4):
            asked.post("/completions", {})
        assert (len(one.requests), len(two.requests)) == (2, 2)
        with nobody_there() as nobody:
            asked = client(nobody, one.url)
            for _ in range(3):
                asked.post("/completions", {})
        assert len(one.requests) == 5
    with nobody_there() as nobody, nobody_there() as neither:
        asked = client(nobody, neither)
        with pytest.raises(ServerUnreachable, match="cannot be reached"):
            asked.post("/completions", {})


def test_a_failure_of_its_own_is_final_where_nobody_is_patient(client):
    with Server(lambda request: (500, {}, "")).running() as server:
        with pytest.raises(HttpStatusError, match="500"):
            client(server.url).post("/completions", {}, patient=False)
        with pytest.raises(ServerUnreachable, match="500, 3 times"):
            client(server.url, retries=2).post("/completions", {})
    assert len(server.requests) == 4


def test_what_is_under_way_ends_when_the_client_is_closed(client):
    over = threading.Event()

    def never(request):
        over.wait(20)
        return 200, {}, "{}"

    with Server(never).running() as server:
        asked = client(server.url)
        errors = []

        def ask():
            try:
                asked.post("/completions", {})
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        begun = time.monotonic()
        asked.close()
        thread.join(5)
        assert time.monotonic() - begun < 5
        over.set()
    assert len(errors) == 1
    with pytest.raises(Interrupted):
        asked.post("/completions", {})


@pytest.mark.parametrize("url", ["http://10.0.0.7/v1", "http://localhost.example.org/v1"])
def test_a_key_goes_over_https_or_stays_here(url):
    with pytest.raises(ValueError, match="https"):
        check_url(url, "A_KEY")
    check_url(url)
    check_url("https://example.org/v1", "A_KEY")
    check_url("http://[::1]:8000/v1", "A_KEY")
