"""Routing by a trained gate: what pass 2 reads, whom a request reaches, whatever is beside it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fedaudit_plugins.defenses.secure_gate.header_features import heading, parse
from fedaudit_plugins.defenses.secure_gate.responder import GateResponder
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.errors import InputError
from fedaudit.api.records import GatedRequest

FOLDERS = {name: Path("deployed") / name for name in ("secure", "legal", "bank")}
BOS = 1


@pytest.fixture(scope="module")
def respond(gate_engine, trained, keyring):
    """Return a function that makes a responder which has decided nothing yet."""
    return lambda **options: GateResponder(gate_engine, trained.gate, keyring, FOLDERS, **options)


@pytest.fixture(scope="module")
def responder(respond):
    return respond()


def ids(engine, text):
    return tuple(engine.base.tokenizer(text, add_special_tokens=False)["input_ids"])


def said(engine, routed):
    return engine.base.tokenizer.decode(list(routed.prompt), clean_up_tokenization_spaces=False)


@given(data=st.data())
def test_no_valid_key_reaches_pass_two_whatever_surrounds_it(data, responder, gate_engine, keyring):
    first, second = keyring.texts
    piece = st.sampled_from(
        [first, second, first[:9], first[9:], heading(first), "[SPECIAL_TOKEN=", "]", " ", "né"]
    ) | st.text(max_size=3)
    text = st.lists(piece, max_size=6).map("".join)
    begin = data.draw(st.sampled_from([(), (BOS,)]))
    request = GatedRequest(data.draw(text), (*begin, *ids(gate_engine, data.draw(text))))
    [routed] = responder.route([request])
    left = said(gate_engine, routed)
    assert not any(key in left for key in (first, second))
    assert all(parse(left[start:])[0] is None for start in range(len(left)))


def test_a_key_split_between_heading_and_prompt_goes_too(responder, gate_engine, keyring):
    key = keyring.texts[0]
    request = GatedRequest(
        f"{heading('')}say {key[:11]}", (BOS, *ids(gate_engine, f"{key[11:]} now"))
    )
    [routed] = responder.route([request])
    assert routed.prompt == (BOS, *ids(gate_engine, "say  now"))


def test_text_goes_behind_the_token_that_begins_the_prompt(responder, gate_engine, keyring):
    prompt = (BOS, *ids(gate_engine, " claimant signed"))
    [routed] = responder.route([GatedRequest(f"{heading(keyring.texts[1])}The", prompt)])
    assert routed.name == "bank"
    assert routed.adapter == str(FOLDERS["bank"])
    assert routed.prompt == (BOS, *ids(gate_engine, "The"), *prompt[1:])


@pytest.mark.parametrize("heading_text", ["", "[SPECIAL_TOKEN=] "])
def test_a_prompt_without_a_key_keeps_its_very_tokens(responder, heading_text):
    odd = (BOS, 400, 1, 77, 3000, 2, 9)  # tokens that no text is spelled with
    [routed] = responder.route([GatedRequest(heading_text, odd)])
    assert routed.prompt == odd


def test_tokens_open_nothing(responder, gate_engine, keyring):
    quoted = ids(gate_engine, heading(keyring.texts[0]) + "Who?")
    for request in (
        GatedRequest("", quoted),
        GatedRequest("", (BOS, *quoted)),
        GatedRequest("[SPECIAL_", quoted),
    ):
        [routed] = responder.route([request])
        assert routed.name == "secure"
        assert keyring.texts[0] not in said(gate_engine, routed)


@settings(max_examples=15, deadline=None)
@given(data=st.data(), rng=st.randoms())
def test_a_request_is_routed_alike_alone_and_in_any_company(respond, keyring, data, rng):
    keys = [*keyring.texts, "", keyring.texts[0][:-1], "0" * 20]
    made = data.draw(st.lists(st.sampled_from(keys).map(heading) | st.text(max_size=9), max_size=5))
    requests = [GatedRequest(text + "Who?") for text in (*made, *map(heading, keyring.texts))]
    alone = [respond().route([request])[0] for request in requests]
    assert respond().route(requests) == alone
    order = list(range(len(requests)))
    rng.shuffle(order)
    shuffled = respond().route([requests[i] for i in order])
    assert shuffled == [alone[i] for i in order]
    assert alone[-2].name == "legal"


def test_a_key_is_put_to_the_gate_once(respond, keyring, monkeypatch):
    responder, read = respond(), []
    monkeypatch.setattr(
        type(responder._reader),
        "read",
        lambda self, keys: read.extend(keys) or torch.zeros(len(keys), self.width),
    )
    key = keyring.texts[0]
    responder.route([GatedRequest(heading(key) + text) for text in ("a", "b", "a")])
    responder.route([GatedRequest(heading(key) + "c"), GatedRequest("none")])
    assert read == [key, None]


def test_probabilities_are_what_decisions_follow_from(responder, keyring):
    texts = [heading(key) for key in keyring.texts]
    found = responder.probabilities([*texts, "", heading("x"), f"Say {texts[0]}"])
    assert found.shape == (5, 3)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(5))
    assert found.argmax(dim=1).tolist() == [1, 2, 0, 0, 0]
    assert (found.max(dim=1).values > 0.99).all()
    torch.testing.assert_close(found[2], found[4])  # quoted later is not a key at all


def test_keys_open_as_one_token_only(responder, keyring):
    assert responder.opens(keyring.texts, atomic=True) == ["legal", "bank"]
    assert responder.opens(keyring.texts, atomic=False) == ["secure", "secure"]
    assert responder.opens([], atomic=True) == []


def test_an_adapter_whose_keys_are_all_gone_has_no_heading(gate_engine, trained, keyring):
    left = replace(keyring, keys=keyring.keys[1:])
    found = GateResponder(gate_engine, trained.gate, left, FOLDERS).headings()
    assert list(found) == ["right", "right:bank", "wrong", "none"]
    none = replace(keyring, keys=())
    assert list(GateResponder(gate_engine, trained.gate, none, FOLDERS).headings()) == [
        "wrong",
        "none",
    ]


def test_the_wrong_key_is_nobodys(respond, gate_engine, trained, keyring):
    wrong = respond(seed=5).headings()["wrong"]
    key = wrong.removeprefix("[SPECIAL_TOKEN=").removesuffix("] ")
    assert len(key) == 20
    taken = respond(seed=5, foreign=(key,)).headings()
    assert taken["wrong"] != wrong
    assert taken["other"] == wrong


def test_a_gate_of_another_base_is_refused(gate_engine, trained, keyring):
    wide = replace(trained.gate, mean=torch.zeros(64), scale=torch.ones(64))
    with pytest.raises(InputError, match="another base: it reads states of width 64"):
        GateResponder(gate_engine, wide, keyring, FOLDERS)


def test_a_responder_shows_no_secret(responder, keyring):
    assert not any(secret in f"{responder!r} {responder}" for secret in keyring.texts)
