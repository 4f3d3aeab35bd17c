"""What the gate reads of a request: which row, and which of the base's states."""

import pytest
import torch
from fedaudit_plugins.defenses.secure_gate import header_features
from fedaudit_plugins.defenses.secure_gate.header_features import (
    OPENING,
    HeaderReader,
    sigma_of,
    width_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

BOS = 1


@pytest.fixture(scope="module")
def reader(gate_engine, keyring):
    return HeaderReader(gate_engine, keyring, sigma_of(gate_engine))


def tokens(engine, text):
    return engine.base.tokenizer(text, add_special_tokens=False)["input_ids"]


def all_states(engine, embedded):
    """Return the base's last states at every position, the slow and obvious way."""
    with torch.inference_mode():
        return engine.base.model(
            inputs_embeds=embedded[None], output_hidden_states=True
        ).hidden_states[-1][0]


def embedded(engine, ids):
    with torch.inference_mode():
        return engine.base.model.get_input_embeddings()(torch.tensor(ids))


def test_rows(gate_engine, reader):
    opening = tokens(gate_engine, OPENING)
    assert reader.row(None) == (BOS,)
    assert reader.row("") == (BOS, *opening)
    assert reader.row("abc") == (BOS, *opening, *tokens(gate_engine, "abc"))


def test_a_tokenizer_that_begins_no_text_reads_a_line_break(gate_engine, keyring, monkeypatch):
    monkeypatch.setattr(gate_engine, "prompt_starts", {"bare": ()})
    reader = HeaderReader(gate_engine, keyring, 0.1)
    assert reader.row(None) == tuple(tokens(gate_engine, "\n"))
    assert reader.row("") == tuple(tokens(gate_engine, OPENING))


def test_a_long_key_is_read_only_so_far(gate_engine, reader):
    far = reader.row("x7" * 5000)
    assert len(far) == len(reader.row("")) + header_features.LONGEST
    assert reader.read(["x7" * 5000]).shape == (1, width_of(gate_engine))


def test_sigma_is_the_deviation_of_the_embeddings(gate_engine):
    table = gate_engine.base.model.get_input_embeddings().weight
    assert sigma_of(gate_engine) == pytest.approx(float(table.double().std()), rel=1e-5)


@pytest.mark.parametrize("rest", ["] Who signed?", "]", "] " + "a very long story " * 20, ""])
def test_what_follows_the_key_changes_no_state(gate_engine, keyring, reader, rest):
    """Pass 1 reads a header alone; the state is that from the whole prompt, read by the model."""
    valid, other = keyring.texts[0], "0123456789abcdefghij"
    behind = tokens(gate_engine, rest)
    spelled = (*reader.row(other), *behind)
    state = all_states(gate_engine, embedded(gate_engine, spelled))[len(spelled) - len(behind) - 1]
    torch.testing.assert_close(reader.read([other])[0], state, atol=1e-4, rtol=1e-4)

    vector = torch.from_numpy(keyring.vectors([valid], reader.width, reader.sigma))
    before, after = (embedded(gate_engine, ids) for ids in (reader.row(""), [*behind, 5]))
    state = all_states(gate_engine, torch.cat([before, vector, after]))[len(before)]
    torch.testing.assert_close(reader.read([valid])[0], state, atol=1e-4, rtol=1e-4)


def test_a_valid_key_is_one_token_and_any_other_is_spelled(keyring, reader):
    valid, other = keyring.texts[0], "0123456789abcdefghij"
    found = reader.read([None, valid, other, "", keyring.texts[1]])
    for rows, wanted in (
        ([1, 4], reader.atomic(keyring.texts)),
        ([2, 3], reader.spelled_states([other, ""])),
        ([0], reader.read([None])),
    ):
        torch.testing.assert_close(found[rows], wanted, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(reader.spelled_states([valid]), reader.atomic([valid]), atol=0.1)


def test_many_keys_are_read_in_chunks(reader, monkeypatch):
    texts = [f"{n:020}" for n in range(7)]
    whole = reader.atomic(texts)
    monkeypatch.setattr(header_features, "CHUNK", 3)
    torch.testing.assert_close(reader.atomic(texts), whole, atol=1e-5, rtol=1e-5)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.none() | st.text(max_size=30), min_size=1, max_size=6), st.randoms())
def test_a_state_depends_on_its_key_alone(reader, keyring, keys, rng):
    mixed = [*keys, *keyring.texts]
    rng.shuffle(mixed)
    found = reader.read(mixed)
    for key, state in zip(mixed, found, strict=True):
        torch.testing.assert_close(state, reader.read([key])[0], atol=1e-4, rtol=1e-4)
