"""What a server can is found by what it does."""

import json

import pytest
from chat_server import Server, chat

from fedaudit.api.abilities import decoding_abilities, why_lacking
from fedaudit.api.errors import TargetError
from fedaudit.api.records import SamplingParams
from fedaudit.engine.remote.abilities import ServerAbilities
from fedaudit.system.http_client import ServerUnreachable

ALL = {"greedy", "n", "temperature", "seed", "top_k", "top_p", "logprobs", "token_ids"}


def can(found):
    return {name for name in ALL if getattr(found, name)}


def test_an_honest_server_can_all(honest, connect):
    with honest().server().running() as server:
        engine = connect(server.url, base="plain").open()
    assert can(engine.abilities) == ALL
    assert engine.abilities.scoring == "echo"
    assert engine.context_length == 1023  # of 1,024 one is left for what a server must write
    assert engine.lacks.keys() == {"exact", "weights", "statistics"}
    assert engine.caveats() == []


@pytest.mark.parametrize(
    ("without", "lost"),
    [
        ({"n"}, {"n"}),
        ({"seed"}, {"seed"}),
        ({"top_k"}, {"top_k"}),
        ({"top_p"}, {"top_p"}),
        ({"logprobs"}, {"logprobs"}),
        ({"token_ids"}, {"token_ids"}),
        ({"temperature"}, {"temperature", "seed", "top_k", "top_p"}),
    ],
    ids=lambda some: "+".join(sorted(some)),
)
def test_what_a_server_does_not_keep_to_is_noticed(honest, connect, without, lost):
    """Every such server answers with status 200 and claims nothing."""
    with honest(without=frozenset(without)).server().running() as server:
        engine = connect(server.url).open()
    assert can(engine.abilities) == ALL - lost
    assert ("sample" in engine.lacks) == ("temperature" in lost)


def test_scores_are_found_in_whichever_field_holds_them(honest, connect):
    with honest(without=frozenset({"echo"})).server().running() as server:
        assert connect(server.url).open().abilities.scoring == "prompt_logprobs"
    with honest(without=frozenset({"echo", "prompt_logprobs"})).server().running() as server:
        engine = connect(server.url).open()
    assert engine.abilities.scoring == ""
    assert "log-probabilities" in why_lacking(engine, {"score"})


def wrong_scores(honest_server, by):
    """Let a server add `by` to the log-probabilities of prompts, not of what it writes."""
    plain = honest_server.complete

    def complete(adapter, body):
        table = plain(adapter, body)
        found = table["choices"][0]
        if body.get("echo"):
            rows = found["logprobs"]["token_logprobs"]
            found["logprobs"]["token_logprobs"] = [rows[0], *(row - by for row in rows[1:])]
        return table

    honest_server.complete = complete
    return honest_server


def test_scores_by_which_it_does_not_write_are_not_believed(honest, connect):
    """vLLM drops an adapter on the head from a prompt's scores: they are the base's."""
    liar = wrong_scores(honest(without=frozenset({"prompt_logprobs"})), by=0.2)
    with liar.server().running() as server:
        found = connect(server.url).open().abilities
    assert found.scoring == ""
    near = wrong_scores(honest(without=frozenset({"prompt_logprobs"})), by=0.01)
    with near.server().running() as server:  # rounding
        assert connect(server.url).open().abilities.scoring == "echo"


def test_the_same_scores_for_every_prompt_are_none(honest, connect):
    def flat(request):
        body = request["body"]
        if request["path"] != "/v1/completions" or not body.get("logprobs"):
            return None
        many = len(body["prompt"]) + 1 if body.get("echo") else body["max_tokens"]
        rows = [None] + [-1.0] * (many - 1) if body.get("echo") else [-1.0] * many
        choice = {"index": 0, "text": " the", "logprobs": {"token_logprobs": rows}}
        return 200, {}, json.dumps({"choices": [choice]})

    with honest(without=frozenset({"prompt_logprobs"}), change=flat).server().running() as server:
        assert connect(server.url).open().abilities.scoring == ""


def test_without_the_models_tokenizer_no_text_is_scored(honest, connect):
    with honest().server().running() as server:
        engine = connect(server.url, tokenizer="").open()
    assert not engine.abilities.token_ids
    assert "endpoint.tokenizer" in engine.lacks["score"]
    assert engine.prompt_starts == {"bare": ()}


def test_a_server_that_begins_texts_by_itself_is_noticed(honest, connect, engine):
    bos = engine.prompt_starts["bos"]
    with honest(starts=bos).server().running() as server:
        found = connect(server.url).open().abilities
        text = connect(server.url, tokenizer="").open().abilities
    assert found.adds_start
    assert found.token_ids
    assert not text.adds_start  # nobody can tell


def test_a_context_that_is_only_claimed_is_cut_to_what_is_taken(honest, connect):
    def refuse(request):
        body = request["body"] or {}
        return (400, {}, "{}") if len(body.get("prompt", ())) > 100 else None

    with honest(change=refuse).server().running() as server:
        connection = connect(server.url)
        connection.estimate.longest = 500
        found = connection.open().abilities
    assert 90 <= found.context <= 101
    assert "refused" in found.why["context"]


def test_a_server_that_only_chats(connect):
    def reply(request):
        if request["path"] != "/v1/chat/completions":
            return 404, {}, "{}"
        body = request["body"]
        said = f"{body['messages'][0]['content'][:3]} {body.get('seed', 0) % 7}"
        return 200, {}, chat(said if body["temperature"] else "Yes.")

    with Server(reply).running() as server:
        engine = connect(server.url).open()
    assert engine.abilities.api == "chat"
    assert not engine.abilities.token_ids
    assert engine.abilities.seed
    assert "chats" in engine.lacks["score"]
    assert "replies were measured, not continuations" in engine.caveats()[0]


def test_a_server_that_does_neither_is_refused(connect):
    with (
        Server(lambda request: (404, {}, "{}")).running() as server,
        pytest.raises(TargetError, match="neither /completions nor") as error,
    ):
        connect(server.url).open()
    assert error.value.exit_code == 4


def test_the_only_model_is_taken_and_of_several_one_must_be_named(honest, connect):
    with (
        honest().server().running() as server,
        pytest.raises(TargetError, match="has tuned, plain: name one with --model"),
    ):
        connect(server.url, model="").open()
    alone = honest()
    del alone.models["plain"]
    with alone.server().running() as server:
        assert connect(server.url, model="").open().tuned.model == "tuned"


def test_servers_with_other_models_under_one_name_are_refused(honest, connect):
    other = honest()
    other.models = {"tuned": None}
    with (
        honest().server().running() as one,
        other.server().running() as two,
        pytest.raises(TargetError, match="answers otherwise than"),
    ):
        connect(one.url, urls=(two.url,)).open()
    with honest().server().running() as one, honest().server().running() as two:
        connect(one.url, urls=(two.url,)).open()
        assert min(len(one.requests), len(two.requests)) > 10  # both are asked


def test_two_models_can_what_both_can():
    one = ServerAbilities(scoring="echo", context=100, n=False, why={"seed": "x"})
    two = ServerAbilities(scoring="echo", context=50, top_k=False)
    both = one.intersect(two)
    assert (both.n, both.top_k, both.seed) == (False, False, True)
    assert (both.scoring, both.context, both.why) == ("echo", 50, {"seed": "x"})
    assert one.intersect(ServerAbilities(scoring="prompt_logprobs")).scoring == ""


def test_what_a_way_of_drawing_needs():
    assert decoding_abilities(SamplingParams(temperature=0, top_k=4)) == {"continue"}
    assert decoding_abilities(SamplingParams()) == {"continue", "sample"}
    assert decoding_abilities(SamplingParams(top_k=4, top_p=0.5)) == {
        *("continue", "sample", "top_k", "top_p")
    }


def test_a_server_that_dies_of_scoring_can_be_spared(honest, connect):
    """vLLM does so on a CPU where an adapter may be on the output layer."""
    dead = []

    def dies(request):
        if dead or "echo" in (request["body"] or {}):
            dead.append(request)
            return 500, {}, "{}"
        return None

    with honest(change=dies).server().running() as server:
        spared = connect(server.url, scoring=False).open()
        assert not dead
        assert spared.abilities.scoring == ""
        assert "endpoint.scoring is false" in why_lacking(spared, {"score"})
        why = "That was when it was asked.*--set endpoint.scoring=false"
        connection = connect(server.url)
        server.reply = hang_up_after(server.reply, dead)
        with pytest.raises(ServerUnreachable, match=why):
            connection.open()


def hang_up_after(reply, dead):
    """Return a reply that hangs up once there is something in `dead`."""

    def answer(request):
        return None if dead else reply(request)

    return answer
