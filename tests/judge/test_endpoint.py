import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from chat_server import Server, chat, nobody_there

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.judge.endpoint import MOST_BYTES, Endpoint, EndpointClient
from fedaudit.system.http_client import LONGEST_WAIT

KEY = "sk-secret-4711-key"
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("JUDGE_KEY", KEY)


def client(url, waits=None, **options):
    """Return a client that does not wait, but writes down how long it would."""
    endpoint = Endpoint(**{"url": url, "model": "wise", "key_variable": "JUDGE_KEY", **options})
    return EndpointClient(endpoint, sleep=[].append if waits is None else waits.append)


def scripted(*answers):
    """Return a server whose answers come in this order, the last one for ever."""
    return Server(lambda request: answers[min(request["number"], len(answers)) - 1])


def refused(server, **options):
    """Return the one line that asking ends with."""
    with client(server.url, **options) as one, pytest.raises(TargetError) as error:
        one.ask(HELLO)
    assert error.value.exit_code == 4
    assert "\n" not in str(error.value)
    assert KEY not in str(error.value)
    assert server.url in str(error.value)
    return str(error.value)


OK = (200, {}, chat("Hi."))


def test_what_is_asked_and_answered():
    with scripted(OK).running() as server, client(server.url + "/") as one:
        assert one.ask(HELLO) == "Hi."
    [request] = server.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["headers"]["Content-Type"] == "application/json"
    assert request["body"] == {
        "model": "wise",
        "messages": HELLO,
        "temperature": 0,
        "max_tokens": 256,
    }


def test_without_a_key_none_is_sent_and_a_length_may_be_left_open():
    with scripted(OK).running() as server, client(server.url, key_variable="", max_tokens=0) as one:
        assert one.ask(HELLO) == "Hi."
    assert "Authorization" not in server.requests[0]["headers"]
    assert "max_tokens" not in server.requests[0]["body"]


def busy(status=429, after=None):
    return status, {"Retry-After": after} if after else {}, "busy"


@pytest.mark.parametrize(
    ("answers", "waited"),
    [
        *(((busy(status), busy(status)), [1, 2]) for status in (429, 500, 502, 503, 504)),
        *(((busy(status, "7"), busy(status)), [7, 2]) for status in (429, 503)),
        # A wait that makes no sense is the ordinary one.
        *(
            ((busy(after=odd),), [1])
            for odd in ("soon", "-5", "nan", "Wed, 21 Oct 2015 07:28:00 GMT")
        ),
    ],
)
def test_a_busy_endpoint_is_asked_again(answers, waited):
    waits = []
    with scripted(*answers, OK).running() as server, client(server.url, waits) as one:
        assert one.ask(HELLO) == "Hi."
    assert [request["body"] for request in server.requests] == [server.requests[0]["body"]] * (
        len(answers) + 1
    )
    assert waits == waited


def test_waiting_doubles_and_ends():
    waits = []
    with (
        scripted((500, {}, "")).running() as server,
        client(server.url, waits, retries=9) as one,
        pytest.raises(TargetError) as error,
    ):
        one.ask(HELLO)
    assert waits == [1, 2, 4, 8, 16, 32, 64, LONGEST_WAIT, LONGEST_WAIT]
    assert "HTTP status 500, 10 times" in str(error.value)
    assert len(server.requests) == 10


def test_it_may_be_asked_to_wait_until_a_time():
    waits, then = [], datetime.now(UTC) + timedelta(seconds=60)
    answers = busy(after=format_datetime(then, usegmt=True)), OK
    with scripted(*answers).running() as server, client(server.url, waits) as one:
        one.ask(HELLO)
    assert 30 < waits[0] <= 60


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404])
def test_a_refusal_is_final_and_its_text_not_repeated(status):
    echo = (status, {"Location": "http://127.0.0.1:1/"}, f"Incorrect API key: {KEY}")
    with scripted(echo).running() as server:
        line = refused(server)
        assert f"HTTP status {status}" in line
        assert ("key_variable" in line) == (status in (401, 403))
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body", ["<html>", "{}", '{"choices": []}', '{"choices": [{"message": 1}]}', "[" * 50_000]
)
def test_something_else_than_a_chat_is_said(body):
    with scripted((200, {}, body)).running() as server:
        assert "OpenAI-compatible" in refused(server)


def test_a_model_that_declines_says_nothing():
    nothing = (200, {}, chat("x").replace('"x"', "null"))
    with scripted(nothing).running() as server, client(server.url) as one:
        assert one.ask(HELLO) == ""


def test_an_answer_without_end_is_cut_off():
    with scripted((200, {}, "x" * (MOST_BYTES + 1))).running() as server:
        assert "bytes" in refused(server)


def test_time_outs_are_tried_again_and_then_told():
    over = threading.Event()

    def never(request):
        over.wait(20)
        return OK

    with Server(never).running() as server:
        assert "did not answer within 0.1 s, 3 times" in refused(server, timeout=0.1, retries=2)
        over.set()


def test_a_connection_that_breaks_off_is_tried_again():
    with (
        Server(lambda r: None if r["number"] == 1 else OK).running() as server,
        client(server.url) as one,
    ):
        assert one.ask(HELLO) == "Hi."
    with scripted(None).running() as server:
        assert "broke off, 2 times" in refused(server, retries=1)


def test_nobody_there_is_said_at_once():
    waits = []
    with (
        nobody_there() as url,
        client(url, waits) as one,
        pytest.raises(TargetError) as error,
    ):
        one.ask(HELLO)
    assert str(error.value) == f"The judge at {url} cannot be reached."
    assert waits == []


def test_a_client_that_is_to_stop_asks_no_more():
    with scripted((500, {}, "")).running() as server, client(server.url) as one:
        one.stop()
        with pytest.raises(Interrupted):
            one.ask(HELLO)
    # its own way to wait ends with it
    lasting = EndpointClient(Endpoint(url=server.url, model="m"))
    lasting.stop()
    assert lasting._http.sleep(60) is True
    lasting.close()
    assert server.requests == []


def test_the_key_is_nowhere_to_be_seen():
    endpoint = Endpoint(url="http://127.0.0.1:1/v1", model="m", key_variable="JUDGE_KEY")
    with EndpointClient(endpoint) as one:
        [http] = one._http.http.values()
        shown = f"{endpoint!r} {one!r} {vars(one)!r} {vars(one._http)!r} {http.headers!r}"
        assert KEY not in shown


@pytest.mark.parametrize(
    ("value", "error"),
    [(None, UsageError), ("  ", UsageError), ("sk a b", InputError), ("sk-é", InputError),
     ("sk\nb", InputError)],
    ids=str,
)  # fmt: skip
def test_a_key_that_is_none_is_not_repeated(monkeypatch, value, error):
    monkeypatch.delenv("JUDGE_KEY")
    if value is not None:
        monkeypatch.setenv("JUDGE_KEY", value)
    with pytest.raises(error) as found:
        client("http://127.0.0.1:1/v1")
    assert "key_variable" in str(found.value)
    assert not value or value not in str(found.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"url": "ftp://x"}, "http"),
        ({"url": "127.0.0.1:8000"}, "http"),
        ({"url": "http://"}, "http"),
        ({"url": f"http://me:{KEY}@x/v1"}, "no user"),
        ({"url": f"http://x/v1?key={KEY}"}, "query"),
        ({"model": ""}, "model"),
        ({"key_variable": KEY}, "name of an environment variable"),
        ({"url": "http://example.org/v1", "key_variable": "JUDGE_KEY"}, "begin with https://"),
        ({"url": "http://10.0.0.7:8000/v1", "key_variable": "JUDGE_KEY"}, "begin with https://"),
        ({"url": "http://localhost.example.org", "key_variable": "K"}, "begin with https://"),
        ({"timeout": 0}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        Endpoint(**{"url": "http://x/v1", "model": "m", **wrong})
    assert KEY not in str(error.value)
