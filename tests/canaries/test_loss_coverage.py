"""Every copy of a canary is counted once: learned, cut, masked or missing."""

import json
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from fedaudit import cli
from fedaudit.api.errors import InputError, UsageError
from fedaudit.canaries import canary_file
from fedaudit.canaries.canary_file import Canary
from fedaudit.canaries.generator import CanaryRequest, make
from fedaudit.canaries.loss_coverage import IGNORED, describe, loss_coverage
from fedaudit.canaries.planting_plan import PlantRequest, plant
from fedaudit.canaries.trainer import canary_check, trained_rows

MADE = make(CanaryRequest(count=4, times=(3,), controls=2, clients=("c0",), seed=1))
ONE = MADE.planted[0]


def row(text, learned=None):
    """One character a token; `learned` is the part that the loss is over."""
    ids = list(map(ord, text))
    if learned is None:
        return ids, ids
    at = text.index(learned)
    inside = range(at, at + len(learned))
    return ids, [token if n in inside else IGNORED for n, token in enumerate(ids)]


def decode(ids):
    return "".join(map(chr, ids))


def covered(*rows, canaries=MADE):
    return loss_coverage(canaries, "c0", rows, decode)


def counts(one):
    return one.learned, one.cut, one.masked, one.missing


def test_each_copy_is_counted_once():
    at = ONE.sentence.index(ONE.secret)
    found = covered(
        row(f"A text. {ONE.sentence}"),
        row(ONE.sentence[at - 3 :]),
        row(f"{ONE.sentence} Then.", learned="Then."),
    )
    assert counts(found[0]) == (1, 1, 1, 0)
    assert [counts(one) for one in found[1:]] == [(0, 0, 0, 3)] * 3
    assert not any(one.is_whole for one in found)


def test_several_copies_in_one_packed_row():
    [first, *_] = covered(row(f"{ONE.sentence}\n{ONE.sentence} and {ONE.sentence}"))
    assert counts(first) == (3, 0, 0, 0)
    assert first.is_whole


def test_what_is_cut_off_behind_is_missing():
    [first, *_] = covered(row(ONE.sentence[: ONE.sentence.index(ONE.secret) + 3]))
    assert counts(first) == (0, 0, 0, 3)


def test_a_secret_inside_a_longer_one_is_not_counted():
    space = MADE.space
    short = Canary(text="Ask {secret}.", secret="Ann", client="c0", times=1)
    long = Canary(text="Call {secret}.", secret="Anna", client="c0", times=1)
    both = canary_file.CanarySet(
        made=MADE.made, salt=MADE.salt, kind="name", language="en", label="PERSON",
        space=space, canaries=(short, long),
    )  # fmt: skip
    found = covered(row("Hello. Call Anna."), canaries=both)
    assert [counts(one) for one in found] == [(0, 0, 0, 1), (1, 0, 0, 0)]


@given(st.lists(st.integers(0, 3), max_size=6), st.randoms())
def test_neither_order_nor_other_texts_matter(which, rng):
    texts = [MADE.planted[n].sentence for n in which]
    rows = [row(f"Words before. {one}") for one in texts]
    before = covered(*rows)
    assert [one.learned for one in before] == [which.count(n) for n in range(4)]
    rows += [row("Another text without any."), row("1")]
    rng.shuffle(rows)
    assert covered(*rows) == before


def test_the_words_name_no_secret():
    found = covered(row(ONE.sentence), row(ONE.sentence, learned="Note"))
    said = describe(found, "c0")
    assert said == (
        "Training on c0's records learns 1 of 12 copies of canaries. Of the others 1 are read, but "
        "masked from the loss; 10 are in no batch. Canaries by their place in the file: 1 (1 of 3),"
        " 2 (0 of 3), 3 (0 of 3), 4 (0 of 3)."
    )
    assert not any(one.secret in said for one in MADE.canaries)


def test_a_client_without_canaries_is_named():
    with pytest.raises(UsageError, match="c9"):
        loss_coverage(MADE, "c9", [], decode)


class Words:
    """A tokenizer of characters."""

    def decode(self, ids, **_):
        return decode(ids)


def loader(texts, *, cut=None):
    def collate(batch):
        [text] = batch
        ids = torch.tensor([[*list(map(ord, text))[:cut], 0, 0]])
        mask = torch.ones_like(ids)
        mask[:, -2:] = 0
        labels = ids.masked_fill(mask == 0, IGNORED)
        return {"input_ids": ids, "labels": labels, "attention_mask": mask}

    return torch.utils.data.DataLoader(texts, batch_size=2, shuffle=True, collate_fn=collate)


@pytest.fixture
def path(tmp_path):
    canary_file.write(MADE, tmp_path / "c.json")
    return tmp_path / "c.json"


def begin(check, texts, **options):
    check.on_train_begin(
        None, None, None, processing_class=Words(), train_dataloader=loader(texts, **options)
    )


def test_a_trainer_stops_where_copies_are_cut_off(path, capsys):
    texts = [one.sentence for one in MADE.planted for _ in range(3)]
    before = torch.get_rng_state()
    begin(canary_check(path, "c0"), texts)
    assert "learns 12 of 12 copies" in capsys.readouterr().err
    assert torch.get_rng_state().equal(before)
    with pytest.raises(InputError, match="learns 0 of 12 copies"):
        begin(canary_check(path, "c0"), texts, cut=20)
    begin(canary_check(path, "c0", strict=False), texts, cut=20)


def test_a_stream_is_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    stream = torch.utils.data.DataLoader(Stream())
    with pytest.raises(InputError, match="stream"):
        next(trained_rows(stream))


def test_a_real_trainer_calls_it(path, tmp_path, base):
    """As a user of transformers has it: the callback, a tokenizer, a small model."""
    tokenizer = base.tokenizer
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2,
        )
    )  # fmt: skip
    encoded = [
        tokenizer(one.sentence)["input_ids"] for one in MADE.planted for _ in range(one.times)
    ]
    data = [{"input_ids": ids, "labels": ids, "attention_mask": [1] * len(ids)} for ids in encoded]
    arguments = TrainingArguments(
        tmp_path / "out", max_steps=1, per_device_train_batch_size=1, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True,
    )  # fmt: skip

    def trained(examples):
        Trainer(
            model=model, args=arguments, train_dataset=examples, processing_class=tokenizer,
            callbacks=[canary_check(path, "c0")],
        ).train()  # fmt: skip

    trained(data)
    with pytest.raises(InputError, match="learns 11 of 12 copies"):
        trained(data[1:])


def test_the_command(tmp_path, monkeypatch, capsys, path):
    rows = [{"id": f"r{n}", "text": f"Case {n} was heard.", "pii": []} for n in range(5)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    plant(PlantRequest(secrets=path, records=tmp_path / "r.jsonl", client="c0",
                     out=tmp_path / "planted.jsonl", seed=0))  # fmt: skip

    def run(*words):
        monkeypatch.setattr(
            sys, "argv", ["fedaudit", "canary", "check", str(path), "--client", "c0", *words]
        )
        with pytest.raises(SystemExit) as left:
            cli.main()
        return left.value.code, capsys.readouterr().out

    planted = str(tmp_path / "planted.jsonl")
    code, said = run("--records", planted)
    assert (code, said) == (0, "Training on c0's records learns 12 of 12 copies of canaries.\n")
    code, said = run("--records", planted, "--max-length", "8")
    assert code == 1
    assert "learns 0 of 12 copies" in said
    assert not any(one.secret in said for one in MADE.canaries)
    code, said = run("--records", str(tmp_path / "r.jsonl"))
    assert code == 1
    assert "12 are in no batch" in said
