"""The recipe makes what it says, on a small scale."""

from hashlib import sha256
from itertools import islice

import torch
from transformers import AutoTokenizer

from fedaudit import nano
from fedaudit.nano import training


def test_the_shipped_tokenizer_is_the_recipes_kind():
    shipped = AutoTokenizer.from_pretrained(nano.folder())
    made = training.train_tokenizer(documents=300)
    assert len(shipped) == training.VOCABULARY
    for text in ("Ann Lee, 12 May 1980, 020 7946 0958", "身份证号33010619900101123X", "naïve 🙂"):
        for tokenizer in (shipped, made):
            ids = tokenizer(text)["input_ids"]
            assert ids[0] == tokenizer.bos_token_id
            assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_texts_are_the_same_every_time_and_of_other_people_than_simulations():
    assert list(islice(training.training_texts(1), 300)) == list(
        islice(training.training_texts(1), 300)
    )
    assert training.PRETRAINING_SEEDS > 100_000


def test_the_texts_are_those_that_the_shipped_weights_were_trained_on():
    """The first texts of tokenizer (seed 0) and model (seed 70,000), hashed before later tasks."""
    found = [
        sha256("\0".join(islice(training.training_texts(seed), count)).encode()).hexdigest()
        for seed, count in ((0, 2000), (70_000, 1300))
    ]
    assert found == [
        "84debad83b2dae0b8ee02f9eb4543ee61ebd7f044b2f47ecf695661a44090f7b",
        "4a2489b039c5c2f994d2f2361e96808f90ec5bc96a9ff61ca4e248701c75279e",
    ]


def test_some_documents_are_crops_without_a_beginning():
    tokenizer = AutoTokenizer.from_pretrained(nano.folder())
    rows = list(islice(training._tokens(tokenizer, seed=1), 200))
    begun = sum(row[0] == tokenizer.bos_token_id for row in rows)
    assert 120 < begun < 180
    assert all(row[-1] == tokenizer.eos_token_id for row in rows)


def test_training_lowers_the_loss(monkeypatch):
    monkeypatch.setattr(training, "STEP_TOKENS", training.CONTEXT)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(nano.folder())
    model = training.new_model()
    batch = torch.tensor([tokenizer("Claimant: Ann Lee, born 3 May 1980.")["input_ids"]])

    def loss():
        with torch.no_grad():
            return model(input_ids=batch, labels=batch).loss.item()

    before = loss()
    training.train(model, tokenizer, steps=2)
    assert loss() < before
