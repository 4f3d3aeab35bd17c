"""A text begins as its tokenizer begins it, which need not be with the token it has for that."""

import pytest
import tiny_models
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from fedaudit.api import Target, text_start
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.loading.prompt_starts import prompt_starts
from fedaudit.engine.local import LocalEngine

BOS, EOS = 1, 2


def tokenizer(before="", behind=""):
    """Return one of characters that puts these special tokens around a text."""
    characters = {chr(n): n for n in range(32, 127)}
    backend = Tokenizer(models.WordLevel({"<s>": BOS, "</s>": EOS, **characters}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    if before or behind:
        backend.post_processor = TemplateProcessing(
            single=f"{before} $A {behind}".strip(), special_tokens=[("<s>", BOS), ("</s>", EOS)]
        )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


@pytest.mark.parametrize(
    ("around", "start"),
    [(("<s>",), (BOS,)), ((), ()), (("", "</s>"), ()), (("<s>", "</s>"), (BOS,))],
    ids=["bos", "nothing", "eos behind", "both"],
)
def test_a_text_begins_as_in_training(around, start):
    made = tokenizer(*around)
    starts = prompt_starts(made, None)
    assert starts["bos"] == (BOS,)
    assert text_start(FakeEngine(lambda *_: "", prompt_starts=starts)) == start
    [first, *_] = made("a b")["input_ids"]
    assert (first == BOS) == bool(start)


def test_without_a_token_for_it_a_text_begins_with_its_words():
    assert text_start(FakeEngine(lambda *_: "")) == ()


def test_held_out_losses_are_over_what_is_trained_on():
    """Where no BOS stands in training, none does in the loss."""
    from fedaudit.api import Document
    from fedaudit.simulation.evaluation.utility import losses

    engine = LocalEngine(tiny_models.llama(tokenizer()))
    text = "A text of some words."
    [found] = losses(engine, Target(name="base"), [Document(id="a", text=text)], 64)
    [ids] = engine.tokenize([text])
    [scores] = engine.score(Target(name="base"), [ids.ids])
    assert found == pytest.approx(-sum(scores) / len(scores))
