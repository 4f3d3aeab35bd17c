"""The scorer by a sequence-pair classifier, with a tiny model that is made here."""

import random

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config.registry import create

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{n}" for n in range(30))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BERT of one layer with a tokenizer of thirty words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("pair") / "model"
    ids = {word: at for at, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )  # fmt: skip
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=42, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(place)
    fast.save_pretrained(place)
    return place


def sentences(count, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS[4:], k=rng.randint(1, 12))) for _ in range(count)]


PAIRS = list(zip(sentences(12), sentences(12, 1), strict=True))


def slowly(folder, pair):
    """Return the probability of class 1 for one pair, straight from transformers."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoded = AutoTokenizer.from_pretrained(folder)(*pair, return_tensors="pt")
    with torch.inference_mode():
        return float(model(**encoded).logits.softmax(-1)[0, 1])


def test_it_is_the_models_probability(folder):
    scores = create("paraphraser", "sequence_pair", {"model": str(folder)}).score(PAIRS)
    assert scores == pytest.approx([slowly(folder, pair) for pair in PAIRS], abs=1e-6)
    assert all(0 <= score <= 1 for score in scores)
    assert len({round(score, 4) for score in scores}) > 6


def test_neither_batches_nor_order_matter(folder):
    options = {"model": str(folder)}
    whole = create("paraphraser", "sequence_pair", options).score(PAIRS)
    single = create("paraphraser", "sequence_pair", {**options, "batch_size": 1})
    assert single.score(PAIRS) == pytest.approx(whole, abs=1e-6)
    assert single.score(PAIRS[::-1])[::-1] == pytest.approx(whole, abs=1e-6)


def test_the_sides_of_a_pair_and_the_classes_differ(folder):
    scorer = create("paraphraser", "sequence_pair", {"model": str(folder)})
    other = create("paraphraser", "sequence_pair", {"model": str(folder), "label": 0})
    turned = [(b, a) for a, b in PAIRS]
    assert scorer.score(turned) != pytest.approx(scorer.score(PAIRS), abs=1e-3)
    assert other.score(PAIRS) == pytest.approx([1 - s for s in scorer.score(PAIRS)], abs=1e-6)


def test_long_sentences_are_cut_to_what_the_model_reads(folder):
    long = " ".join(sentences(20))
    [score] = create("paraphraser", "sequence_pair", {"model": str(folder)}).score([(long, long)])
    assert 0 <= score <= 1


def test_nothing_to_score_is_nothing(folder):
    assert create("paraphraser", "sequence_pair", {"model": str(folder)}).score([]) == []


def test_it_says_what_it_is(folder):
    told = create("paraphraser", "sequence_pair", {"model": str(folder)}).describe()
    assert str(folder) in told
    assert "transformers 5" in told


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, UsageError, "sequence_pair.model"),
        ({"model": "nobody/nothing"}, InputError, "neither a folder nor"),
        ({"model": "."}, InputError, "does not load"),
    ],
)
def test_a_model_that_is_not_there_is_named(tmp_path, monkeypatch, options, error, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(error, match=message):
        create("paraphraser", "sequence_pair", options).score(PAIRS)


def test_a_class_that_the_model_does_not_have(folder):
    with pytest.raises(UsageError, match="2 classes, no class 5"):
        create("paraphraser", "sequence_pair", {"model": str(folder), "label": 5}).score(PAIRS)


@pytest.mark.parametrize("options", [{"label": -1}, {"batch_size": 0}])
def test_impossible_options_are_refused(options):
    with pytest.raises(UsageError, match="at least"):
        create("paraphraser", "sequence_pair", options)
