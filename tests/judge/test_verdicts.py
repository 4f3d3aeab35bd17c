import json
import threading
from dataclasses import replace
from stat import S_IMODE

import pytest
from chat_server import Server, chat, parts, prefers, scored
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, TargetError
from fedaudit.judge.cache import JudgementCache
from fedaudit.judge.endpoint import Endpoint, EndpointClient
from fedaudit.judge.measurements import rows
from fedaudit.judge.verdicts import Comparison, JudgeVerdict, judge_all, verdict
from fedaudit.metrics.intervals import wilson

KEY = "sk-secret-4711-key"
ONE = Comparison(prompt="Who sues?", answer="Ann Lee", reference="The landlord")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("JUDGE_KEY", KEY)


def asking(server, workers=4, **options):
    endpoint = Endpoint(url=server.url, model="wise", key_variable="JUDGE_KEY", **options)
    return EndpointClient(endpoint, workers=workers, sleep=lambda seconds: None)


def by_length(prompt, answer):
    return min(10, max(1, len(answer)))


def test_both_orders_are_asked_and_really_swapped():
    with Server(prefers(by_length)).running() as server, asking(server) as client:
        [found] = judge_all(client, [ONE])
    assert sorted(parts(request) for request in server.requests) == [
        ("Who sues?", "Ann Lee", "The landlord"),
        ("Who sues?", "The landlord", "Ann Lee"),
    ]
    assert found == JudgeVerdict(outcome="lose", answer=7, reference=10)


def test_a_judge_that_likes_what_stands_first_makes_a_tie():
    reply = 200, {}, chat(scored(9, 4))
    with Server(lambda request: reply).running() as server, asking(server) as client:
        assert judge_all(client, [ONE]) == [JudgeVerdict(outcome="tie", answer=6.5, reference=6.5)]


def test_the_mean_by_hand():
    """First 8 7 9 8 against 6 8 8 8, swapped 5 5 5 5 (reference) against 4 6 5 5.

    The answer has (32 + 20) / 8, the reference (30 + 20) / 8.
    """
    found = verdict(((8, 7, 9, 8), (6, 8, 8, 8)), ((5, 5, 5, 5), (4, 6, 5, 5)))
    assert found == JudgeVerdict(outcome="win", answer=6.5, reference=6.25)
    # 0.1 + 0.2 is not 0.3 in binary: such a difference is none
    level = verdict(((1.1, 1.2, 5, 5), (1.3, 1, 5, 5)), ((5, 5, 5, 5),) * 2)
    assert level.outcome == "tie"
    assert verdict(None, ((5,) * 4, (5,) * 4)).outcome == "malformed"


@given(st.lists(st.lists(st.integers(1, 10), min_size=4, max_size=4), min_size=4, max_size=4))
def test_who_is_called_the_answer_turns_the_verdict_round(scores):
    a, b, c, d = map(tuple, scores)
    one, other = verdict((a, b), (c, d)), verdict((b, a), (d, c))
    turned = {"win": "lose", "lose": "win", "tie": "tie"}
    assert other.outcome == turned[one.outcome]
    assert (other.answer, other.reference) == (one.reference, one.answer)
    assert verdict((d, c), (b, a)).outcome == one.outcome  # nor does it matter which came first
    assert 1 <= one.answer <= 10


def test_many_comparisons_keep_their_order_and_equal_questions_are_asked_once():
    some = [
        Comparison(prompt=f"{n}", answer="x" * (n % 7 + 1), reference="x" * (n % 5 + 1))
        for n in range(12)
    ]
    seen = []
    with Server(prefers(by_length)).running() as server, asking(server) as client:
        found = judge_all(
            client, [*some, *some], progress=lambda done, all_: seen.append((done, all_))
        )
        one_by_one = [judge_all(client, [one])[0] for one in some]
    assert found == [*one_by_one, *one_by_one]
    wanted = ["tlw"[(a > b) - (a < b)] for a, b in ((n % 7, n % 5) for n in range(12))]
    assert [one.outcome[0] for one in one_by_one] == [
        {"t": "t", "l": "w", "w": "l"}[name] for name in wanted
    ]
    same = sum(one.answer == one.reference for one in some)  # both orders are one question
    assert seen[-1] == (24 - same, 24 - same)
    assert len(server.requests) == 2 * (24 - same)


def test_no_more_are_asked_at_a_time_than_there_are_workers():
    gate = threading.Barrier(3, timeout=10)

    def reply(request):
        gate.wait()  # passes only when three are here together
        return prefers(by_length)(request)

    some = [Comparison(prompt=f"{n}", answer="a", reference="bc") for n in range(6)]
    with Server(reply).running() as server, asking(server, workers=3) as client:
        assert len(judge_all(client, some)) == 6
    assert server.most == 3


def test_a_malformed_answer_is_asked_for_once_more():
    def reply(request):
        good = "Reply with the JSON object" in request["body"]["messages"][1]["content"]
        return 200, {}, chat(scored(8, 8) if good else "Both are nice.")

    with Server(reply).running() as server, asking(server) as client:
        assert judge_all(client, [ONE])[0].outcome == "tie"
    assert len(server.requests) == 4


def test_malformed_twice_is_counted_as_such_and_not_kept(tmp_path):
    def reply(request):
        _, one, _ = parts(request)
        return 200, {}, chat(scored(8, 8) if one == ONE.answer else "Both are nice.")

    place = tmp_path / "verdicts.jsonl"
    with Server(reply).running() as server, asking(server) as client:
        [found] = judge_all(client, [ONE], cache=JudgementCache(place))
        assert found == JudgeVerdict(outcome="malformed")
        assert len(server.requests) == 3
        judge_all(client, [ONE], cache=JudgementCache(place))
        assert len(server.requests) == 5  # only the malformed one, twice


def test_what_is_in_the_cache_is_not_asked(tmp_path):
    place = tmp_path / "new" / "verdicts.jsonl"
    some = [ONE, replace(ONE, prompt="Who pays?")]
    with Server(prefers(by_length)).running() as server, asking(server) as client:
        first = judge_all(client, some, cache=JudgementCache(place))
        assert len(server.requests) == 4
        assert judge_all(client, some[::-1], cache=JudgementCache(place)) == first[::-1]
        assert len(server.requests) == 4
        judge_all(client, [replace(ONE, answer="Ann")], cache=JudgementCache(place))
        assert len(server.requests) == 6
    other = EndpointClient(Endpoint(url="http://127.0.0.1:1/v1", model="wise"))
    with other:  # nobody is there, and nobody is asked
        assert judge_all(other, some, cache=JudgementCache(place)) == first
    text = place.read_text()
    assert S_IMODE(place.stat().st_mode) == 0o600
    for secret in (KEY, "Ann Lee", "landlord", "Who"):
        assert secret not in text


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path):
    place = tmp_path / "verdicts.jsonl"
    with Server(prefers(by_length)).running() as server, asking(server) as client:
        found = judge_all(client, [ONE], cache=JudgementCache(place))
        whole = place.read_bytes()
        place.write_bytes(whole.rstrip()[:-9])
        assert judge_all(client, [ONE], cache=JudgementCache(place)) == found
        assert len(server.requests) == 3
        assert judge_all(client, [ONE], cache=JudgementCache(place)) == found
        assert len(server.requests) == 3


@pytest.mark.parametrize("length", [1, 5, 30, 80])
def test_a_file_of_which_only_a_cut_line_is_left_is_still_a_cache(tmp_path, length):
    place = tmp_path / "verdicts.jsonl"
    JudgementCache(place).add("a" * 64, ((1,) * 4, (2,) * 4))
    place.write_bytes(place.read_bytes().strip()[:length])
    cache = JudgementCache(place)
    assert cache.get("a" * 64) is None
    cache.add("b" * 64, ((3,) * 4, (4,) * 4))
    assert JudgementCache(place).get("b" * 64) == ((3,) * 4, (4,) * 4)


def test_several_writers_spoil_nothing(tmp_path):
    place = tmp_path / "verdicts.jsonl"
    caches = [JudgementCache(place) for _ in range(4)]

    def fill(cache, start):
        for n in range(start, start + 25):
            cache.add(f"{n:064x}", ((n % 10 + 1,) * 4, (1.5,) * 4))

    threads = [threading.Thread(target=fill, args=(caches[n % 4], 25 * (n % 6))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line for line in place.read_text().splitlines() if line]
    assert all(json.loads(line) for line in lines)
    kept = JudgementCache(place)
    assert all(kept.get(f"{n:064x}") == ((n % 10 + 1,) * 4, (1.5,) * 4) for n in range(150))


def test_a_file_of_something_else_is_left_alone(tmp_path):
    place = tmp_path / "data.jsonl"
    place.write_text('{"id": "a-1", "text": "a record"}\n')
    with pytest.raises(InputError, match="no verdicts"):
        JudgementCache(place)
    with pytest.raises(InputError, match="cannot be read"):
        JudgementCache(tmp_path)
    assert place.read_text() == '{"id": "a-1", "text": "a record"}\n'
    (tmp_path / "empty").write_text("")
    assert JudgementCache(tmp_path / "empty").get("x") is None
    below = JudgementCache(tmp_path / "folder" / "verdicts.jsonl")
    (tmp_path / "folder").write_text("no folder after all")
    with pytest.raises(InputError, match="cannot be written"):
        below.add("x", ((1,) * 4, (1,) * 4))


def test_one_error_ends_them_all_and_keeps_what_was_answered(tmp_path):
    def reply(request):
        if int(parts(request)[0]) >= 3:
            return 401, {}, f"bad key {KEY}"
        return prefers(by_length)(request)

    place = tmp_path / "verdicts.jsonl"
    some = [Comparison(prompt=f"{n}", answer="a", reference="bc") for n in range(40)]
    with Server(reply).running() as server, asking(server, workers=1) as client:
        with pytest.raises(TargetError) as error:
            judge_all(client, some, cache=JudgementCache(place))
        assert error.value.exit_code == 4
        assert KEY not in str(error.value)
        assert len(server.requests) < 80
    assert len([line for line in place.read_text().splitlines() if line]) == 6
    assert KEY not in place.read_text()


def test_an_error_wakes_those_that_wait():
    """One question is told to come back in a minute, another is refused: nobody waits for it."""
    waits, woken = threading.Event(), []

    def reply(request):
        if parts(request)[0] == "busy":
            return 429, {"Retry-After": "60"}, ""
        waits.wait(10)
        return 400, {}, ""

    some = [Comparison(prompt=p, answer="a", reference="a") for p in ("busy", "bad")]
    with Server(reply).running() as server:
        client = EndpointClient(Endpoint(url=server.url, model="m"), workers=2)
        own = client._http.sleep

        def sleep(seconds):
            waits.set()
            woken.append((seconds, own(seconds)))

        client._http.sleep = sleep
        with client, pytest.raises(TargetError, match="400"):
            judge_all(client, some)
    assert woken == [(60, True)]  # the minute did not pass


def outcomes(win=0, tie=0, lose=0, malformed=0):
    counts = {"win": win, "tie": tie, "lose": lose, "malformed": malformed}
    return [JudgeVerdict(outcome=name) for name, count in counts.items() for _ in range(count)]


def test_rates_by_hand():
    scope = {"source": "tuned", "judge": "wise"}
    found = {row.metric: row for row in rows(outcomes(2, 5, 1, 2), scope)}
    for metric, hits, n in (
        ("judge_win", 2, 8),
        ("judge_tie", 5, 8),
        ("judge_lose", 1, 8),
        ("judge_win_tie", 7, 8),
        ("judge_malformed", 2, 10),
    ):
        row, wanted = found.pop(metric), wilson(hits, n)
        assert (row.value, row.hits, row.n) == (hits / n, hits, n)
        assert (row.low, row.high) == (wanted.low, wanted.high)
        assert (row.kind, row.plugin, row.scope) == ("utility", "judge", scope)
    assert not found


def test_no_verdict_is_no_rate():
    found = {row.metric: row for row in rows(outcomes(malformed=3), {})}
    assert found["judge_win"].value is None
    assert "could be read" in found["judge_win"].reason
    assert found["judge_malformed"].value == 1
    assert all(row.value is None and row.reason for row in rows([], {}))


@given(st.builds(outcomes, *[st.integers(0, 9)] * 4), st.randoms(use_true_random=False))
def test_the_order_of_verdicts_does_not_matter_and_shares_add_up(some, rng):
    found = rows(some, {})
    rng.shuffle(some)
    assert rows(some, {}) == found
    win, tie, lose, both, malformed = found
    if win.value is not None:
        assert win.value + tie.value + lose.value == pytest.approx(1)
        assert both.value == pytest.approx(win.value + tie.value)
        assert all(0 <= row.low <= row.value <= row.high <= 1 for row in found)
    assert (malformed.hits or 0) + (win.n or 0) == len(some)
