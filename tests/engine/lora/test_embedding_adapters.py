"""Adapters on embeddings and output layers, which PEFT saves with the base's own weights."""

import warnings
from dataclasses import replace

import pytest
import tiny_models
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import adapter
from fedaudit.federation import adapters

ROWS = [[1, *range(200, 230)], [1, 7, 8, 9]]
CASES = [
    (tied, modules)
    for tied in (False, True)
    for modules in (["q_proj", "embed_tokens"], ["q_proj", "lm_head"], ["embed_tokens", "lm_head"])
]


@pytest.fixture
def saved(base, tmp_path):
    """Return a function that saves an adapter as PEFT does, and returns the base and the folder."""

    def save(tied, modules, **options):
        made = tiny_models.llama(base.tokenizer, tied=tied)
        config = LoraConfig(r=4, target_modules=modules, task_type="CAUSAL_LM")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peft = get_peft_model(made.model, config)
            torch.manual_seed(1)
            for name, parameter in peft.named_parameters():
                if "lora_" in name:
                    parameter.data = torch.randn_like(parameter) / 4
            peft.save_pretrained(tmp_path / "saved", **options)
        return tiny_models.llama(base.tokenizer, tied=tied), tmp_path / "saved"

    return save


def logits(model):
    with torch.inference_mode():
        return [model(torch.tensor([row])).logits for row in ROWS]


@pytest.mark.parametrize(("tied", "modules"), CASES, ids=str)
def test_it_answers_as_with_peft(base, saved, tied, modules):
    own, folder = saved(tied, modules)
    assert any(".base_layer.weight" in name for name in load_file(folder / adapters.WEIGHTS))
    assert not any("base_layer" in name for name in adapters.read(folder))
    before = logits(own.model)
    other = tiny_models.llama(base.tokenizer, tied=tied)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = logits(PeftModel.from_pretrained(other.model, folder).eval())
    # As the engine is asked: beside the weights, or inside them where the adapter is plain LoRA.
    scored = LocalEngine(own).score(Target(name="tuned", adapter=str(folder)), ROWS)
    for row, given, found in zip(ROWS, wanted, scored, strict=True):
        chances = given[0, :-1].log_softmax(-1)
        likely = [float(chances[at, token]) for at, token in enumerate(row[1:])]
        assert found == pytest.approx(likely, abs=1e-4)
    attached = loader.attach(tiny_models.llama(base.tokenizer, tied=tied).model, folder, "one")
    for one, given, plain in zip(logits(attached), wanted, before, strict=True):
        assert torch.equal(one, given)
        assert not torch.allclose(given, plain, atol=0.1)


@pytest.mark.parametrize("change", ["rewritten", "resized"])
def test_a_base_that_was_rewritten_is_refused(saved, change):
    own, folder = saved(False, ["q_proj", "lm_head"])
    tensors = load_file(folder / adapters.WEIGHTS)
    name = next(name for name in tensors if name.endswith("lm_head.base_layer.weight"))
    if change == "rewritten":
        tensors[name][0, 0] += 0.01
    else:
        tensors[name] = tensors[name][:-1].clone()
    save_file(tensors, folder / adapters.WEIGHTS)
    says = r"comes with a lm_head\.weight that is not the base's"
    with pytest.raises(InputError, match=says):
        loader.attach(own.model, folder, "one")
    with pytest.raises(InputError, match=says), adapter.merged_weights(own.model, folder):
        pass
    with pytest.raises(InputError, match=says) as error:
        LocalEngine(own).score(Target(name="tuned", adapter=str(folder)), ROWS)
    assert "\n" not in str(error.value)


def test_embeddings_that_training_left_alone_may_lie_beside_an_adapter(saved):
    own, folder = saved(False, ["q_proj"])
    bare = LocalEngine(own).score(Target(name="tuned", adapter=str(folder)), ROWS)
    own, folder = saved(False, ["q_proj"], save_embedding_layers=True)
    assert "base_model.model.lm_head.weight" in load_file(folder / adapters.WEIGHTS)
    assert LocalEngine(own).score(Target(name="tuned", adapter=str(folder)), ROWS) == bare


def test_a_vocabulary_that_grew_in_training_is_said(saved):
    own, folder = saved(False, ["q_proj"], save_embedding_layers=True)
    tensors = load_file(folder / adapters.WEIGHTS)
    name = "base_model.model.model.embed_tokens.weight"
    grown = torch.cat([tensors[name], torch.ones(3, tensors[name].shape[1])])
    save_file(tensors | {name: grown}, folder / adapters.WEIGHTS)
    with pytest.raises(InputError, match=r"comes with a model\.embed_tokens\.weight that is"):
        LocalEngine(own).score(Target(name="tuned", adapter=str(folder)), ROWS)


def test_copies_of_other_digits_are_copies(saved):
    own, folder = saved(False, ["lm_head"])
    tensors = load_file(folder / adapters.WEIGHTS)
    copy = {n: t.bfloat16() if "base_layer" in n else t for n, t in tensors.items()}
    save_file(copy, folder / adapters.WEIGHTS)
    loader.check_copies(own.model, folder)
    save_file(tensors, folder / adapters.WEIGHTS)
    coarse = replace(own, model=own.model.bfloat16())
    loader.check_copies(coarse.model, folder)
