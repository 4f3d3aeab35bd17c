"""The calibration of a base and adapter whose small files were edited, weights unchanged."""

import json
import os
import shutil
from dataclasses import replace

import pytest

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.api.templates import template
from fedaudit.audit import preflight
from fedaudit.audit.preflight import differences, fold, instrument_rows
from fedaudit.data import corpus
from fedaudit.engine.loading import checkpoint, loader
from fedaudit.engine.local import LocalEngine

BASE = Target(name="base")


def edited_base(folder, name, edit):
    shutil.copytree(nano.folder(), folder)
    path = folder / name
    os.chmod(path, 0o644)
    table = json.loads(path.read_text("utf-8"))
    edit(table)
    path.write_text(json.dumps(table), "utf-8")
    return folder


def edited_adapter(adapter, folder, **changes):
    shutil.copytree(adapter, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **changes}), "utf-8")
    return folder


@pytest.fixture
def documents(federation):
    form = template(federation.config.template)
    return list(corpus.read(federation.path / "data/c0.jsonl", form))


@pytest.fixture
def trained(federation):
    return federation.path / "rounds/002/global"


def measure(base, adapter, documents):
    engine = LocalEngine(loader.load_base(str(base)))
    return preflight.measure_effect(
        engine, Target(name="tuned", adapter=str(adapter)), BASE, documents
    )


def barred(effect):
    return {row.metric for row in instrument_rows(effect)}


def test_fold_leaves_what_a_normalizer_may_change():
    assert fold("  Zoë\tMÜLLER,\u00a0№ 7") == fold("zoe muller, no 7")
    assert fold("Ada 12") != fold("Ada 1")


def test_differences_by_hand():
    assert differences("ada12", "ada") == "12"
    assert differences("ada", "aXda") == "X"
    assert sorted(differences("a1b", "a2b")) == ["1", "2"]


def test_the_built_in_base_and_a_trained_adapter_are_fit(trained, documents):
    assert barred(measure(nano.folder(), trained, documents)) == set()


def test_marks_of_a_chat_template_are_no_lost_letters_and_no_early_ends(trained, documents):
    """Decoding leaves out <s> and </s>, which also end answers, as <|im_end|> does."""
    chat = [replace(d, pii=None, text=f"<s>[user] Go on.</s><s> {d.text}</s>") for d in documents]
    effect = measure(nano.folder(), trained, chat)
    assert (effect["changed_texts"], effect["end_tokens"]) == (0, 0)
    named = [replace(d, pii=None, text=f"Ann<s>: {d.text}") for d in documents]
    assert measure(nano.folder(), trained, named)["changed_texts"] == 0


def test_letters_that_a_special_token_swallows_are_missed(tmp_path, trained, documents):
    def swallow(table):
        token = next(row for row in table["added_tokens"] if row["content"] == "<s>")
        table["added_tokens"].append({**token, "id": 400, "content": "Claimant"})

    base = edited_base(tmp_path / "base", "tokenizer.json", swallow)
    texts = [replace(d, pii=None, text=f"Claimant {i}") for i, d in enumerate(documents)]
    with pytest.raises(InputError, match="does not give back what it reads"):
        measure(base, trained, texts)


@pytest.mark.parametrize("pattern", ["[0-9A-Z]", "[aeiou]"])
def test_a_decoder_that_masks_is_refused(tmp_path, trained, documents, pattern):
    def mask(table):
        step = {"type": "Replace", "pattern": {"Regex": pattern}, "content": "*"}
        table["decoder"] = {"type": "Sequence", "decoders": [table["decoder"], step]}

    base = edited_base(tmp_path / "base", "tokenizer.json", mask)
    with pytest.raises(InputError, match="does not give back what it reads") as error:
        measure(base, trained, documents)
    assert "\n" not in str(error.value)


def test_a_decoder_that_masks_only_one_record_bars_a_pass(tmp_path, trained, documents):
    many = [*documents, *(documents[0].__class__(id=f"x{i}", text=f"Row {i}.") for i in range(300))]
    rare = documents[0].__class__(id="rare", text="Signed: Quillon Zarathov.")

    def mask(table):
        step = {"type": "Replace", "pattern": {"String": "Zarathov"}, "content": ""}
        table["decoder"] = {"type": "Sequence", "decoders": [table["decoder"], step]}

    base = edited_base(tmp_path / "base", "tokenizer.json", mask)
    engine = LocalEngine(loader.load_base(str(base)))
    tuned = Target(name="tuned", adapter=str(trained))
    assert "changed_texts" not in barred(preflight.measure_effect(engine, tuned, BASE, many))
    # The victim's strings must be readable, too.
    assert "changed_texts" in barred(preflight.measure_effect(engine, tuned, BASE, many, [rare]))


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
def test_end_tokens_that_begin_words_are_refused(tmp_path, name):
    tokenizer = loader.AutoTokenizer.from_pretrained(nano.folder())
    vocabulary = tokenizer.get_vocab()
    word = min(i for token, i in vocabulary.items() if token.lstrip("\u2581\u0120")[:1].isupper())
    for number, ids in enumerate(([2, word], sorted(vocabulary.values()))):

        def end(table, ids=ids):
            table["eos_token_id"] = ids

        base = edited_base(tmp_path / f"{number}", name, end)
        if name == "config.json":
            (base / "generation_config.json").unlink()
        with pytest.raises(InputError, match=r"end.* answer") as error:
            loader.load_base(str(base))
        assert error.value.exit_code == 3


def test_end_tokens_of_several_kinds_as_in_published_models_are_named(tmp_path):
    base = edited_base(
        tmp_path / "base", "generation_config.json", lambda t: t.update(eos_token_id=[2, 0, 1])
    )
    loader.load_base(str(base))
    [caveat] = checkpoint.end_token_caveats(base)
    assert "[2, 0, 1] in generation_config.json and 2 in config.json" in caveat
    assert checkpoint.end_token_caveats(nano.folder()) == []


def test_an_adapter_far_above_its_scale_bars_a_pass(tmp_path, trained, documents):
    alpha = json.loads((trained / "adapter_config.json").read_text("utf-8"))["lora_alpha"]
    folder = edited_adapter(trained, tmp_path / "scaled", lora_alpha=alpha * 16)
    assert "gain_at_half" in barred(measure(nano.folder(), folder, documents))


def test_a_short_context_bars_a_pass(tmp_path, trained, documents):
    tokens = [
        len(t.ids)
        for t in LocalEngine(loader.load_base(nano.BASE)).tokenize([d.text for d in documents])
    ]
    base = edited_base(
        tmp_path / "base",
        "config.json",
        lambda t: t.update(max_position_embeddings=sorted(tokens)[len(tokens) // 2]),
    )
    assert "longer_texts" in barred(measure(base, trained, documents))


def test_a_base_without_knowledge_of_the_language_bars_a_pass(tmp_path, trained, documents):
    base = edited_base(tmp_path / "base", "config.json", lambda t: t.update(rms_norm_eps=1.0))
    assert "base_loss" in barred(measure(base, trained, documents))


@pytest.mark.parametrize(
    ("key", "edit"),
    [
        ("rope_theta", lambda t: t["rope_parameters"].update(rope_theta=1.0)),
        ("rope_type", lambda t: t["rope_parameters"].update(rope_type="linear", factor=8.0)),
        ("hidden_act", lambda t: t.update(hidden_act="sigmoid")),
    ],
)
def test_a_configuration_of_other_weights_bars_a_pass(tmp_path, trained, documents, key, edit):
    base = edited_base(tmp_path / "base", "config.json", edit)
    effect = measure(base, trained, documents)
    assert "other_gain" in barred(effect)
    assert effect["other_key"] == key


def test_a_decoder_that_masks_marks_bars_a_pass(tmp_path, trained, documents):
    def mask(table):
        step = {"type": "Replace", "pattern": {"Regex": "[.,<]"}, "content": "*"}
        table["decoder"] = {"type": "Sequence", "decoders": [table["decoder"], step]}

    base = edited_base(tmp_path / "base", "tokenizer.json", mask)
    assert "changed_texts" in barred(measure(base, trained, documents))


class Reconfigured:
    """An engine under whose other configuration each row has a log-probability per token."""

    def __init__(self, scores):
        self.scores, self.asked = scores, []

    def best_configurations(self, batches):
        self.asked += map(len, batches)
        return [("rope_theta", sum(self.scores[: len(b)]) / len(b)) for b in batches]


@pytest.mark.parametrize(
    ("few", "others", "asked", "gain"),
    [
        (-1.8, -2.1, [4, 32], (4 * 0.2 - 28 * 0.1) / 32),  # chance: the other texts deny it
        (-1.8, -1.8, [4, 32], 0.2),
        (-2.1, -1.8, [4], -0.1),
    ],
)
def test_what_four_texts_say_against_a_base_is_asked_of_all(few, others, asked, gain):
    engine = Reconfigured([few] * 4 + [others] * 28)
    found = preflight._other_configuration(engine, [(1, 2)] * 32, [[-2.0]] * 32)
    assert engine.asked == asked
    assert found == {"other_key": "rope_theta", "other_gain": pytest.approx(gain)}
