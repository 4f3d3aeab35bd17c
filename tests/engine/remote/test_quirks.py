"""What a server does in silence is found by its effects, with few requests."""

import itertools
import json
import random
from dataclasses import replace
from itertools import product

import pytest
from chat_server import Server, chat
from completion_server import HonestServer
from hash_model import HashModel

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError, NoEffectError, TargetError
from fedaudit.api.records import Document, GenerationRequest, SamplingParams, Target
from fedaudit.audit import preflight
from fedaudit.engine.remote.wire import CompletionRequest, read_answer

MOST_REQUESTS = 40
TUNED = Target(name="tuned", adapter="lora")


def opened(honest, connect, *, longest=0, new=0, **options):
    """Return the engine that a server gives and the requests that it took, which are few."""
    known = {
        key: options.pop(key) for key in ("base", "concurrency", "tokenizer") if key in options
    }
    with honest(**options).server().running() as server:
        connection = connect(server.url, **known)
        connection.estimate.longest, connection.estimate.new = longest, new
        remote, requests = connection.open(), len(server.requests)
    assert requests <= MOST_REQUESTS or known.get("concurrency", 0) > 4
    return remote, requests


QUIRKS = ["", "same choices", "crowded", "stale places", "stale blocks", "template", "cut",
          "cut and lied", "no context", "other length", "penalty", "late base",
          "narrow draws", "double start"]  # fmt: skip
MISSING = ["", "echo", "n token_ids", "echo prompt_logprobs logprobs token_ids seed n"]
MOST_ASKED = [("", ""), ("", MISSING[-1])]
"""The tests below open servers with other quirks, and none of them with more requests."""


@pytest.mark.parametrize(
    ("quirk", "missing"),
    [
        pytest.param(*pair, marks=[] if pair in MOST_ASKED else [pytest.mark.oracle])
        for pair in product(QUIRKS, MISSING)
    ],
)
def test_few_requests_are_sent_before_the_first_question(quirk, missing, honest, connect):
    """Model and base together, whatever the server does wrongly and whatever it lacks."""
    options = {"quirks": frozenset({quirk} - {""}), "without": frozenset(missing.split())}
    opened(honest, connect, base="plain", longest=500, **options)


def test_further_requests_under_way_and_another_server_cost_more(honest, connect):
    _, few = opened(honest, connect, base="plain", concurrency=4)
    _, many = opened(honest, connect, base="plain", concurrency=12)
    assert many - few == 2 * (12 - 4)  # a wave of the model and one of its base
    with honest().server().running() as tuned, honest().server().running() as plain:
        connect(tuned.url, base="plain", base_url=plain.url).open()
        assert len(tuned.requests) <= MOST_REQUESTS
        assert len(plain.requests) <= MOST_REQUESTS


def test_a_steady_effect_is_not_told_from_unsteady_scores(honest, connect):
    """Scores went wrong after the probes: no adapter without effect, but no score to be used."""
    state = {"broken": False}

    def change(request):
        body = request["body"] or {}
        if not state["broken"] or not body.get("echo"):
            return None
        rows = [None, *(-1.0 - 20 * random.random() for _ in range(len(body["prompt"])))]
        choice = {"index": 0, "text": " the", "logprobs": {"token_logprobs": rows}}
        return 200, {}, json.dumps({"choices": [choice]})

    with honest(change=change).server().running() as server:
        remote = connect(server.url, base="plain").open()
        state["broken"] = True
        texts = [Document(id=str(i), text=f"Number {i} of these texts.") for i in range(6)]
        with pytest.raises(TargetError, match="differently from one time to the next") as error:
            preflight.measure_effect(remote, TUNED, Target(name="base"), texts)
    assert error.value.exit_code == 4


SCORES = "echo prompt_logprobs"
NOTICED = [
    ("same choices", "", {}, {"n": False, "seed": True, "top_k": True}, "of one request are equal"),
    ("crowded", "", {}, {"scoring": ""}, "endpoint.concurrency=1"),
    ("crowded", "", {"concurrency": 12}, {"scoring": ""}, "endpoint.concurrency=1"),
    # That the second field is missing says nothing about the first, which is wrong.
    ("crowded", "prompt_logprobs", {}, {"scoring": ""}, "while several requests are under way"),
    ("stale places", "prompt_logprobs", {"base": "plain"}, {"scoring": ""}, "stale prefix cache"),
    ("stale blocks", "prompt_logprobs", {"base": "plain"}, {"scoring": ""}, "stale prefix cache"),
    ("other length", "", {}, {"scoring": "echo"}, ""),
    ("penalty", "", {}, {}, "repetition penalty"),
    ("penalty", SCORES, {}, {}, "penalises repetition"),
    ("other penalty", SCORES, {}, {}, "repetition penalty"),  # seen in log-probabilities
    ("stop string", "prompt_logprobs", {"longest": 300, "new": 64}, {}, "its answers lack a part"),
    ("stop string", SCORES, {"longest": 300, "new": 64}, {}, "its answers lack a part"),
    # The model's answers are the same, but usage counts one token more.
    ("double start", "", {}, {"token_ids": False, "adds_start": True}, "before a prompt of tokens"),
]


@pytest.mark.parametrize("case", NOTICED, ids=lambda case: "+".join(filter(None, case[:2])))
def test_what_a_server_does_wrongly_is_noticed(case, honest, connect):
    quirk, missing, options, shown, told = case
    without = frozenset(missing.split())
    remote, _ = opened(honest, connect, quirks=frozenset({quirk}), without=without, **options)
    found = remote.abilities
    assert {name: getattr(found, name) for name in shown} == shown
    said = [*found.why.values(), *remote.lacks.values(), *remote.caveats()]
    assert any(told in one for one in said) or not told


@pytest.mark.parametrize("tokenizer", ["fedaudit-nano", ""])
def test_a_template_around_completions_makes_them_replies(tokenizer, honest, connect):
    quirks = frozenset({"template"})
    if not tokenizer:  # a template that is longer than any tokenizer could make of the prompt

        class Wordy(HonestServer):
            def ids(self, prompt):
                return super().ids(prompt) * (9 if prompt == "User: " else 1)

        made = honest(quirks=quirks)
        honest = lambda **_: Wordy(made.engine, made.models, quirks=quirks)  # noqa: E731
    remote, _ = opened(honest, connect, quirks=quirks, tokenizer=tokenizer)
    assert remote.abilities.templated
    assert not remote.abilities.token_ids
    assert not remote.abilities.scoring
    assert any("replies were measured, not continuations" in told for told in remote.caveats())


@pytest.mark.parametrize("scoring", [True, False], ids=["scored", "not scored"])
def test_prompts_that_are_cut_in_silence_are_refused(scoring, honest, connect):
    without = frozenset() if scoring else frozenset({"echo", "prompt_logprobs"})
    remote, _ = opened(honest, connect, longest=500, quirks=frozenset({"cut"}), without=without)
    assert remote.abilities.context <= 65
    assert remote.abilities.context >= 60
    assert "cut" in remote.abilities.why["context"]
    batch = GenerationBatch(
        [GenerationRequest(prompt=(5,) * 100, samples=1, max_new_tokens=4)],
        seed=0,
        decoding=SamplingParams(temperature=0),
    )
    with pytest.raises(InputError, match="longer than the context"):
        remote.generate(TUNED, batch)


def test_prompts_that_are_cut_are_noticed_where_usage_lies(honest, connect):
    quirks = frozenset({"cut and lied"})
    remote, _ = opened(honest, connect, base="plain", longest=500, quirks=quirks)
    assert remote.abilities.context <= 65


class FarSighted(HashModel):
    """A model whose answers depend on all that it reads, as those of real models do."""

    context_length = 2048

    def next(self, target, before):
        return super().next(target, (hash(before), *before[-2:]))


@pytest.mark.parametrize(
    ("stated", "kept"),
    [
        *((True, 64), (True, 1500), (False, 64)),
        *(
            pytest.param(*pair, marks=pytest.mark.oracle)
            for pair in ((True, 700), (False, 700), (False, 1500))
        ),
    ],
)
def test_prompts_that_are_cut_are_noticed_by_log_probabilities_alone(kept, stated, connect):
    quirks = frozenset({"cut and lied"} if stated else {"cut and lied", "no context"})
    without = frozenset({"echo", "prompt_logprobs"})
    made = HonestServer(FarSighted(), {"tuned": "lora", "plain": None}, quirks=quirks,
                        without=without, kept=kept)  # fmt: skip
    remote, _ = opened(lambda: made, connect, base="plain", longest=2000)
    assert kept * 0.8 <= remote.abilities.context <= kept


def test_a_context_that_is_not_stated_is_asked_for(honest, connect):
    quirks = frozenset({"no context"})
    remote, _ = opened(honest, connect, base="plain", longest=500, quirks=quirks)
    assert remote.abilities.context == 8192

    def refuse(request):
        body = request["body"] or {}
        if len(body.get("prompt", ())) + body.get("max_tokens", 0) <= 700:
            return None
        said = f"This model's maximum context length is 700 tokens, not {len(body['prompt'])}."
        return 400, {}, json.dumps({"error": {"message": said}})

    remote, _ = opened(honest, connect, quirks=quirks, change=refuse)
    assert remote.abilities.context == 700


def test_a_refusal_shows_what_the_server_says_but_no_key(connect, monkeypatch):
    def reply(request):
        said = f"The model `tuned` does not exist. {request['headers'].get('Authorization', '')}"
        return 404, {}, json.dumps({"error": {"message": said}})

    with Server(reply).running() as server:
        with pytest.raises(TargetError, match="says: The model `tuned` does not exist"):
            connect(server.url).open()
        monkeypatch.setenv("KEY_OF_TEST", "sk-0123456789")
        with pytest.raises(TargetError) as error:
            connect(server.url, key_variable="KEY_OF_TEST").open()
    assert "0123456789" not in str(error.value)


def thinking(said):
    """Return a chat server whose replies are its reasoning alone, unless `said(body)` is a text."""

    def reply(request):
        if request["path"] != "/v1/chat/completions":
            return 404, {}, "{}"
        if text := said(request["body"]):
            return 200, {}, chat(text)
        message = {"role": "assistant", "content": None, "reasoning_content": "Let me think."}
        return 200, {}, json.dumps({"choices": [{"message": message}]})

    return Server(reply)


def test_a_model_that_only_thinks_is_no_model_without_leaks(connect):
    with (
        thinking(lambda body: "").running() as server,
        pytest.raises(
            TargetError, match=r"no answer had content \(\d+ had reasoning alone"
        ) as error,
    ):
        connect(server.url).open()
    assert error.value.exit_code == 4


def test_replies_that_are_all_empty_are_no_answers(connect, engine):
    """The probes' short prompts got a reply, the audit's did not."""
    replies = thinking(lambda body: "Yes." if len(body["messages"][0]["content"]) < 60 else "")
    prompt = engine.tokenize(["The answer to the next question is a long one. " * 3])[0].ids
    requests = [GenerationRequest(prompt=prompt, samples=1, max_new_tokens=4)] * 20
    batch = GenerationBatch(requests, seed=0, decoding=SamplingParams(temperature=0))
    with replies.running() as server:
        remote = connect(server.url).open()
        with pytest.raises(TargetError, match="no answer had content"):
            remote.generate(TUNED, batch)


@pytest.mark.parametrize("quirk", ["no top", "own top"])
def test_a_token_is_not_the_likeliest_for_want_of_another(quirk, honest, connect, engine):
    quirks, without = frozenset({quirk}), frozenset({"prompt_logprobs"})
    row = engine.tokenize(["She opened the door and saw a cat, a hat and nobody else."])[0].ids
    with honest(quirks=quirks, without=without).server().running() as server:
        remote = connect(server.url).open()
        [statistics] = remote.token_statistics(TUNED, [row])
    assert remote.abilities.scoring == "echo"
    assert not remote.abilities.ranks
    assert len(statistics.log_probability) == len(row) - 1
    assert statistics.first == ()
    assert any("not of the likeliest ones" in told for told in remote.caveats())


def test_the_likeliest_token_is_found_without_its_rank():
    def position(**others):
        return {"7": {"logprob": -1.0}, **{key: {"logprob": v} for key, v in others.items()}}

    def read(*positions):
        table = {"choices": [{"text": "", "prompt_logprobs": [None, *positions]}]}
        query = CompletionRequest(
            model="m", prompt=(1, 7, 7), max_tokens=1, scoring="prompt_logprobs"
        )
        return read_answer(json.dumps(table).encode(), query, "completions").first

    assert read(position(other=-2.0), position(other=-0.5)) == (True, False)
    assert read(position(other=-2.0), position()) == ()


@pytest.mark.parametrize("quirk", ["few choices", "choices at most"])
def test_fewer_samples_a_request_are_asked_for_where_a_server_gives_no_more(
    quirk, honest, connect, engine
):
    [prompt] = [tokens.ids for tokens in engine.tokenize(["She opened the door"])]
    batch = GenerationBatch(
        [GenerationRequest(prompt=prompt, samples=130, max_new_tokens=6)], seed=0
    )
    with honest(quirks=frozenset({quirk})).server().running() as server:
        remote = connect(server.url, concurrency=1).open()
        before = len(server.requests)
        [found] = remote.generate(TUNED, batch)
        asked = [
            request["body"]["n"] for request in server.requests[before:] if "n" in request["body"]
        ]
        assert [found] == remote.generate(TUNED, batch)
        repeated = len(server.requests) - before - len(asked)
    assert len(found.texts) == 130
    assert len(set(found.texts)) > 100
    assert (
        asked
        == {
            "few choices": [128, 64, 32, 16, *[8] * 16, 2],
            "choices at most": [128, *[8] * 16, 2],
        }[quirk]
    )
    assert repeated == 17


def test_a_refusal_in_an_audit_shows_the_servers_reason_but_no_record(honest, connect, engine):
    def refuse(request):
        body = request["body"] or {}
        if body.get("temperature") != 0.25:
            return None
        said = f"{body['prompt']}: temperature must be 0 or 1"
        return 400, {}, json.dumps({"error": {"message": said}})

    [prompt] = [tokens.ids for tokens in engine.tokenize(["Ann Lee lives in Rome"])]
    batch = GenerationBatch(
        [GenerationRequest(prompt=prompt, samples=1, max_new_tokens=4)],
        seed=0,
        decoding=SamplingParams(temperature=0.25),
    )
    with honest(change=refuse, without=frozenset({"token_ids"})).server().running() as server:
        remote = connect(server.url).open()
        with pytest.raises(TargetError, match="says: Hello: temperature must be") as error:
            remote.generate(TUNED, batch)
    assert "Ann" not in str(error.value)


@pytest.mark.parametrize(("status", "every"), [(500, 5), (503, 8), (500, 13)])
def test_a_server_that_fails_now_and_then_keeps_its_abilities(status, every, honest, connect):
    count = itertools.count(1)

    def fail(request):
        return (status, {}, "busy") if next(count) % every == 0 else None

    with honest(change=fail).server().running() as server:
        connection = connect(server.url, base="plain", retries=2, concurrency=1)
        make = connection._server

        def impatient(*args):
            made = make(*args)
            made.client.sleep = lambda seconds: None
            return made

        connection._server = impatient
        found = connection.open().abilities
    assert found.scoring == "echo"
    assert found.why == {}


@pytest.mark.parametrize("end", ["", "</think>"])
def test_a_model_that_never_ends_its_reasoning_gives_no_answers(end, connect):
    def reply(request):
        if request["path"] != "/v1/chat/completions":
            return 404, {}, "{}"
        return 200, {}, chat(f"<think>\nLet me think. {end}")

    with Server(reply).running() as server:
        if end:
            connect(server.url).open()
            return
        with pytest.raises(
            TargetError, match=r"no answer had content \(\d+ had reasoning"
        ) as error:
            connect(server.url).open()
    assert error.value.exit_code == 4


@pytest.mark.parametrize("missing", ["", "echo prompt_logprobs", "logprobs echo prompt_logprobs"])
@pytest.mark.parametrize("quirk", ["few tokens", "few tokens and stop"])
def test_a_server_that_generates_less_than_the_audit_asks_for_is_refused(
    quirk, missing, honest, connect
):
    options = {"quirks": frozenset({quirk}), "without": frozenset(missing.split())}
    with pytest.raises(TargetError, match="generates at most 16 tokens, though asked for 64") as no:
        opened(honest, connect, longest=300, new=64, **options)
    assert no.value.exit_code == 4
    opened(honest, connect, longest=300, new=16, **options)


def test_an_answer_that_ends_early_is_no_limit_of_the_server(honest, connect):
    """The model comes to its end after fewer tokens, but not always after as many."""

    def end(request):
        body = request["body"] or {}
        if "prompt" in body and not body.get("echo"):
            size = len(made.ids(body["prompt"]))
            body["max_tokens"] = min(body["max_tokens"], 5 + size % 7)

    class Ending(HonestServer):
        def change_choice(self, choice, body):
            choice["finish_reason"] = "stop"

    plain = honest()
    made = Ending(plain.engine, plain.models, change=end)
    remote, _ = opened(lambda: made, connect, longest=300, new=64)
    assert remote.caveats() == []


def test_where_the_context_ends_an_answer_less_is_asked_for(honest, connect):
    def end(request):
        body = request["body"] or {}
        if "prompt" in body:
            body["max_tokens"] = max(1, min(body["max_tokens"], 400 - len(body["prompt"])))

    remote, _ = opened(honest, connect, longest=500, new=200, change=end)
    assert 350 <= remote.abilities.context <= 400


@pytest.mark.parametrize("missing", ["", "echo prompt_logprobs"])
def test_a_server_that_repeats_every_prompt_is_refused(missing, honest, connect):
    without = frozenset(missing.split())
    with pytest.raises(TargetError, match="repeats every prompt before its answer") as error:
        opened(honest, connect, quirks=frozenset({"echo always"}), without=without)
    assert error.value.exit_code == 4


@pytest.mark.parametrize("quirk", ["late base", "late shift"])
def test_scores_that_are_wrong_in_a_long_text_alone_are_not_believed(quirk, honest, connect):
    options = {"quirks": frozenset({quirk}), "without": frozenset({"prompt_logprobs"})}
    remote, _ = opened(honest, connect, base="plain", longest=400, **options)
    assert not remote.abilities.scoring
    assert "of a text of 399 tokens" in remote.lacks["score"]
    remote, _ = opened(honest, connect, base="plain", longest=60, **options)
    assert remote.abilities.scoring == "echo"  # nothing is asked for that is wrong


@pytest.mark.parametrize("missing", ["", "logprobs"])
def test_prompts_whose_end_is_cut_are_refused(missing, connect):
    without = frozenset({"echo", "prompt_logprobs", *missing.split()})
    made = HonestServer(FarSighted(), {"tuned": "lora", "plain": None},
                        quirks=frozenset({"end cut"}), without=without)  # fmt: skip
    with pytest.raises(TargetError, match="does not read the end of a prompt of 488") as error:
        opened(lambda: made, connect, longest=500)
    assert error.value.exit_code == 4
    remote, _ = opened(lambda: made, connect, longest=60)
    assert remote.caveats() == []


def test_draws_that_a_server_narrows_by_default_are_not_narrowed(honest, connect, engine):
    [prompt] = [tokens.ids for tokens in engine.tokenize(["She opened the door"])]
    batch = GenerationBatch(
        [GenerationRequest(prompt=prompt, samples=100, max_new_tokens=1)], seed=0
    )
    with honest(quirks=frozenset({"narrow draws"})).server().running() as server:
        remote = connect(server.url).open()
        [found] = remote.generate(TUNED, batch)
    assert any("told not to (top_k" in told for told in remote.caveats())
    assert len(set(found.texts)) > 2

    def strict(request):
        known = {"model", "prompt", "max_tokens", "temperature", "seed", "top_p", "n", "logprobs",
                 "echo", "frequency_penalty", "presence_penalty", "top_k"}  # fmt: skip
        return (400, {}, "{}") if (request["body"] or {}).keys() - known else None

    with honest(change=strict).server().running() as server:
        remote = connect(server.url).open()
        [found] = remote.generate(TUNED, batch)
        assert "top_p" not in server.requests[-1]["body"]
    assert remote.caveats() == []
    assert len(set(found.texts)) > 2


def test_answers_that_a_filter_cuts_are_counted(honest, connect, engine):
    without = frozenset({"echo", "prompt_logprobs"})
    prompts = [tokens.ids for tokens in engine.tokenize(["She opened the door", "One of them"])]
    batch = GenerationBatch(
        [GenerationRequest(prompt=p, samples=3, max_new_tokens=20) for p in prompts], seed=0
    )
    made = honest(without=without)
    with made.server().running() as server:
        remote = connect(server.url).open()
        remote.generate(TUNED, batch)
        assert remote.caveats() == []
        made.quirks = frozenset({"filter"})
        remote.generate(TUNED, replace(batch, seed=1))
        made.quirks = frozenset({"few tokens"})
        remote.generate(TUNED, replace(batch, seed=2))
    cut, limited = remote.caveats()
    assert "6 of 18 answers were cut by a content filter" in cut
    assert "6 of 18 answers were cut by a limit" in limited


@pytest.mark.parametrize("missing", ["", "echo prompt_logprobs"])
def test_an_adapter_that_is_unloaded_during_an_audit_is_noticed(missing, honest, connect, engine):
    without = frozenset({"seed", *missing.split()})
    texts = [Document(id=str(i), text=f"Number {i} of these texts.") for i in range(6)]
    made = honest(without=without)
    with made.server().running() as server:
        for gone in (False, True):
            remote = connect(server.url, base="plain").open()
            preflight.measure_effect(remote, TUNED, Target(name="base"), texts)
            made.models["tuned"] = None if gone else "lora"
            before = len(server.requests)
            if gone:
                with pytest.raises(NoEffectError, match="4 of 4 answers are the base's") as error:
                    remote.finish()
                assert error.value.exit_code == 5
            else:
                remote.finish()
            assert len(server.requests) - before == 4
