"""What an engine over HTTP answers, and what it does with servers that stop answering."""

import json
import threading
import time

import pytest
from chat_server import Server
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.cache.answers import AnswerCache, CacheHeader, UnfinishedBatch, load
from fedaudit.engine.remote.engine import query_seed
from fedaudit.engine.remote.wire import CompletionRequest, MalformedResponse, read_answer

TUNED, BASE = Target(name="tuned", adapter="lora"), Target(name="base")
TEXTS = ("The weather in the north", "She opened the door", "In the year after that", "One of them")


def requests(engine, samples=3, new=6):
    return [
        GenerationRequest(prompt=tokens.ids, samples=samples, max_new_tokens=new)
        for tokens in engine.tokenize(TEXTS)
    ]


@pytest.mark.parametrize("without", [(), ("token_ids",), ("n",), ("echo",)], ids=str)
def test_answers_are_those_of_the_model(honest, connect, engine, without):
    """Greedy texts and scores, whichever way the server is asked."""
    batch = GenerationBatch(requests(engine), seed=0, decoding=SamplingParams(temperature=0))
    with honest(without=frozenset(without)).server().running() as server:
        remote = connect(server.url, base="plain").open()
        for target in (TUNED, BASE):
            assert remote.generate(target, batch) == engine.generate(target, batch)
            rows = [tokens.ids for tokens in engine.tokenize(TEXTS)]
            own = engine.token_statistics(target, rows)
            assert remote.score(target, rows) == [list(one.log_probability) for one in own]
            said = remote.token_statistics(target, rows)
            assert [list(one.first) for one in said] == [list(one.first) for one in own]
            assert {one.mean for one in said} == {()}
            assert remote.score_groups(target, [rows[:2], [], rows[2:]]) == [
                remote.score(target, rows[:2]), [], remote.score(target, rows[2:])
            ]  # fmt: skip


def test_samples_are_those_of_the_seed(honest, connect, engine):
    batch = GenerationBatch(requests(engine, samples=5), seed=7)
    with honest(seed=7).server().running() as server:
        remote = connect(server.url).open()
        found = remote.generate(TUNED, batch)
        alone = [remote.generate(TUNED, batch.select([i]))[0] for i in (3, 1, 0, 2)]
    assert found == engine.generate(TUNED, batch)
    assert len(set(found[0].texts)) > 1
    assert [alone[2], alone[1], alone[3], alone[0]] == found  # neither company nor order matters


def test_more_samples_than_a_request_may_have_are_several_requests(honest, connect, engine):
    some = requests(engine, samples=130, new=2)[:1]
    with honest().server().running() as server:
        remote = connect(server.url).open()
        before = len(server.requests)
        [found] = remote.generate(TUNED, GenerationBatch(some, seed=0))
        assert sorted(r["body"]["n"] for r in server.requests[before:]) == [2, 128]  # at once
    assert len(found.texts) == 130


def test_what_a_server_cannot_is_an_error_of_one_line(honest, connect, engine):
    [row] = [tokens.ids for tokens in engine.tokenize(TEXTS[:1])]
    with honest(without=frozenset({"top_k", "echo", "prompt_logprobs"})).server().running() as one:
        remote = connect(one.url).open()
        batch = GenerationBatch(requests(engine), seed=0, decoding=SamplingParams(top_k=3))
        with pytest.raises(InputError, match="does not keep to top_k"):
            remote.generate(TUNED, batch)
        with pytest.raises(InputError, match="no log-probabilities of a prompt"):
            remote.score(TUNED, [row])
        asked = PrefixProbabilityRequest([row], ["a"], max_new_tokens=3)
        with pytest.raises(InputError, match="the model itself"):
            remote.prefix_probabilities(TUNED, asked)
        with pytest.raises(InputError, match="longer than the context"):
            remote.generate(TUNED, GenerationBatch(requests(engine, new=2000), seed=0))
        with pytest.raises(TargetError, match="base"):
            remote.generate(BASE, GenerationBatch(requests(engine), seed=0))


def test_no_more_are_under_way_than_is_said(honest, connect, engine):
    with honest(change=lambda request: time.sleep(0.02)).server().running() as server:
        remote = connect(server.url, concurrency=2).open()
        remote.generate(TUNED, GenerationBatch(requests(engine, samples=4), seed=0))
    assert server.most == 2


HEADER = CacheHeader(run="one", config={})


class Dying:
    """Lets so many requests pass from when it is told to; then nobody is there."""

    def __init__(self):
        self.left = None

    def __call__(self, request):
        if self.left is None:
            return None
        self.left -= 1
        return None if self.left >= 0 else (503, {}, "")


@pytest.fixture
def cache(tmp_path):
    """Return what opens the cache of one audit, again and again."""
    made = []

    def make():
        found = load(tmp_path, write=True) if made else None
        made.append(found or AnswerCache(tmp_path, HEADER))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_nothing_that_was_answered_is_asked_again(honest, connect, engine, cache):
    dying, batch = Dying(), GenerationBatch(requests(engine), seed=3)
    with honest(change=dying).server().running() as server:
        kept = cache()
        remote = connect(server.url, concurrency=1).open(UnfinishedBatch(kept), kept.record_fact)
        dying.left = 2
        with pytest.raises(Interrupted, match="503") as error:
            remote.generate(TUNED, batch)
        assert error.value.exit_code == 6
        assert kept.answers == 2
        kept.close()
        dying.left = None
        remote = connect(server.url, concurrency=1).open(UnfinishedBatch(cache()))
        before = len(server.requests)
        found = remote.generate(TUNED, batch)
        again = [request["body"] for request in server.requests[before:]]
        assert len(again) == 2
        whole = connect(server.url).open().generate(TUNED, batch)
    assert found == whole


def test_an_answer_that_is_none_is_asked_for_again(honest, connect, engine):
    state = {"broken": 0}

    def broken(request):
        if state["broken"]:
            state["broken"] -= 1
            return 200, {}, '{"choices": [{"text": "cut o'
        return None

    batch = GenerationBatch(requests(engine)[:1], seed=0)
    with honest(change=broken).server().running() as server:
        remote = connect(server.url).open()
        state["broken"] = 2
        assert remote.generate(TUNED, batch) == engine.generate(TUNED, batch)
        state["broken"] = 1000
        with pytest.raises(TargetError, match="not an answer of an OpenAI-compatible") as error:
            remote.generate(TUNED, batch)
    assert error.value.exit_code == 4


def test_a_server_that_stops_keeping_to_seeds_is_noticed(honest, connect, engine):
    model = honest()
    with model.server().running() as server:
        remote = connect(server.url).open()
        remote.generate(TUNED, GenerationBatch(requests(engine), seed=0))
        assert remote.caveats() == []
        model.without = frozenset({"seed"})
        remote.finish()
    [told] = remote.caveats()
    assert "stopped keeping to seeds" in told
    assert "1 of 1 looks" in told


def test_a_budget_ends_an_audit_that_can_go_on(honest, connect, engine):
    with honest().server().running() as server:
        connection = connect(server.url, max_requests=200, concurrency=1)
        remote = connection.open()
        connection.spending.requests = 198
        with pytest.raises(Interrupted, match=r"endpoint\.max_requests=200"):
            remote.generate(TUNED, GenerationBatch(requests(engine), seed=0))
        assert connection.spending.requests == 200


def test_what_is_more_than_the_budget_is_refused_before_anything_is_sent(honest, connect, engine):
    with honest().server().running() as server:
        connection = connect(server.url, max_requests=3)
        connection.dry_run().generate(TUNED, GenerationBatch(requests(engine), seed=0))
        with pytest.raises(UsageError, match=r"up to 4 times \(12 where .*max_requests=4 or more"):
            connection.open()
        assert server.requests == []
        # 4 prompts of 5, 5, 5 and 3 tokens or so: what they have is counted once, and 3 x 6 new
        size = sum(len(one.prompt) for one in requests(engine))
        assert connection.estimate.tokens == size + 4 * 3 * 6
        assert connection.estimate.single_tokens == 3 * size + 4 * 3 * 6


def test_a_dry_run_counts_what_all_finds_would_lead_to(connect, engine):
    dry = connect("http://127.0.0.1:1/v1").dry_run()
    batch = GenerationBatch(requests(engine, samples=2), seed=0, stop_strings=("Ann", "Bo", "Cy"))
    said = [text for one in dry.generate(TUNED, batch) for text in one.texts]
    assert set(said) == {"Ann", "Bo", "Cy"}
    assert {t for one in dry.generate(BASE, batch) for t in one.texts} == {""}
    assert dry.score(TUNED, [(1, 2, 3)]) != dry.score(BASE, [(1, 2, 3)])


QUERY = CompletionRequest(model="m", prompt=(1, 2), max_tokens=4, n=2)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "not an answer"),
        ("[" * 50_000, "not an answer"),
        ("[]", "not an answer"),
        ('{"choices": null}', "0 choices, not 2"),
        ('{"choices": [{"text": "a"}]}', "1 choices, not 2"),
        ('{"choices": [{"text": "a"}, {"text": "b"}, {"text": "c"}]}', "3 choices"),
        ('{"choices": [{"text": "a", "index": 1}, {"text": "b", "index": 1}]}', "numbers"),
        ('{"choices": [{"text": "a"}, {"text": 7}]}', "without text"),
        ('{"choices": [{"text": "a"}, {"text": null}]}', "without text"),
        ('{"choices": [{"text": "a", "index": "x"}, {"text": "b"}]}', "not an answer"),
    ],
)
def test_answers_that_are_none(body, problem):
    with pytest.raises(MalformedResponse, match=problem):
        read_answer(body.encode(), QUERY, "completions")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "0.5", "null", '"-1"', "true", "-Infinity"])
def test_log_probabilities_that_are_none(value):
    scored = CompletionRequest(model="m", prompt=(1, 2), max_tokens=1, scoring="echo")
    table = f'{{"choices": [{{"text": "", "logprobs": {{"token_logprobs": [null, {value}]}}}}]}}'
    with pytest.raises(MalformedResponse, match="log-probability that is none"):
        read_answer(table.encode(), scored, "completions")


def test_choices_come_in_their_order_and_long_texts_are_cut():
    choices = [{"text": "b" * 9999, "index": 1}, {"text": "a\ud800", "index": 0}]
    found = read_answer(json.dumps({"choices": choices}).encode(), QUERY, "completions")
    assert found.texts == ("a?", "b" * 4 * 256)


def test_what_is_sent_has_nothing_that_it_can_do_without():
    """Strict servers refuse what they do not know, others pass over it in silence."""
    plain = CompletionRequest(model="m", prompt="Hi", max_tokens=4)
    assert plain.body("completions") == {
        "model": "m", "prompt": "Hi", "max_tokens": 4, "temperature": 0.0
    }  # fmt: skip
    assert plain.body("chat")["messages"] == [{"role": "user", "content": "Hi"}]


@given(
    seed=st.integers(0, 2**31),
    prompt=st.lists(st.integers(0, 10**5), max_size=5),
    first=st.integers(0, 300),
)
def test_a_seed_follows_from_the_question_alone(seed, prompt, first):
    found = query_seed(seed, prompt, first)
    assert found == query_seed(seed, tuple(prompt), first)
    assert 0 <= found < 2**31
    assert found != query_seed(seed, [*prompt, 1], first) or found != query_seed(
        seed + 1, prompt, first
    )


def test_a_server_that_hangs_up_on_every_second_request_is_no_trouble(honest, connect, engine):
    lock, state = threading.Lock(), {"count": 0, "on": False}
    model = honest()

    def reply(request):
        with lock:
            state["count"] += state["on"]
            if state["count"] % 2:
                return None
        return model.reply(request)

    batch = GenerationBatch(requests(engine), seed=0)
    with Server(reply).running() as server:
        connection = connect(server.url, retries=4)
        remote = connection.open()
        for client in connection.clients:
            client.sleep = lambda seconds: None
        state["on"] = True
        assert remote.generate(TUNED, batch) == engine.generate(TUNED, batch)
