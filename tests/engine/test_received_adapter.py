"""What was sent is the LoRA adapter that its configuration makes, or one line says why not."""

import pytest
import torch
from flower_run import LORA, SHAPES, A, B, initial

from fedaudit.api.errors import InputError
from fedaudit.engine.loading.received_adapter import adapter_tensors, known_shapes
from fedaudit.federation import adapters


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    place = tmp_path_factory.mktemp("lora")
    adapters.write(initial(), LORA, place)
    return known_shapes("fedaudit-nano", place)


def test_the_configuration_makes_these_tensors_on_the_base(shapes):
    assert shapes == SHAPES
    assert list(shapes) == [A, B]


@pytest.mark.parametrize("known", [True, False])
def test_names_are_brought_to_the_form_that_peft_saves(shapes, known):
    sent = initial()
    foreign = {
        A.replace("lora_A", "lora_A.default"): sent[A],
        B.removeprefix("base_model.model."): sent[B],
    }
    found = adapter_tensors(foreign, shapes if known else None, LORA, "It")
    assert found.keys() == sent.keys()
    assert all(torch.equal(found[name], sent[name]) for name in sent)


def test_arrays_without_names_are_in_pefts_order(shapes):
    sent = initial()
    found = adapter_tensors({"0": sent[A], "1": sent[B]}, shapes, LORA, "It")
    assert torch.equal(found[A], sent[A])
    assert torch.equal(found[B], sent[B])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: {}, "It holds no arrays"),
        (lambda t: {A: t[A]}, f"It lacks '{B}'"),
        (lambda t: {**t, A.replace("q_proj", "v_proj"): t[A]}, f"the nearest of them is '{A}'"),
        (lambda t: {**t, A: t[A].T}, "is 160x2; the LoRA configuration makes it 2x160"),
        (lambda t: {"0": t[A]}, "It holds 1 arrays; the LoRA configuration makes 2"),
        (lambda t: {**t, "lm_head.weight": t[A]}, "'base_model.model.lm_head.weight', no tensor"),
        (lambda t: {**t, A.replace("lora_A", "lora_A.b"): t[A]}, "several adapters"),
    ],
)
def test_other_arrays_are_refused_in_one_line(shapes, change, told):
    with pytest.raises(InputError) as error:
        adapter_tensors(change(initial()), shapes, LORA, "It")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: {A.replace("q_proj", "v_proj"): t[A]}, "no tensor of the LoRA configuration"),
        (lambda t: {A: t[A][:1]}, "has the rank 1; the LoRA configuration says 2"),
        (lambda t: {"0": t[A], "1": t[B]}, "arrays without names"),
    ],
)
def test_without_the_base_the_configuration_alone_is_held_against_them(change, told):
    with pytest.raises(InputError, match=told):
        adapter_tensors(change(initial()), None, LORA, "It")


def test_without_the_base_each_module_has_its_own_rank_and_parameters_are_known():
    named = {"rank_pattern": {"v_proj": 1}, "target_modules": ["q_proj", "v_proj"]}
    sent = {A: initial()[A][:1]}  # 1 is the rank of another module
    with pytest.raises(InputError, match=r"self_attn\.q_proj has the rank 1; .* says 2"):
        adapter_tensors(sent, None, LORA | named, "It")
    experts = "base_model.model.model.layers.0.mlp.experts.lora_A.weight"
    config = LORA | {"target_modules": [], "target_parameters": ["experts.gate_up_proj"]}
    del config["layers_to_transform"]
    assert adapter_tensors({experts: initial()[A]}, None, config, "It").keys() == {experts}


def test_a_base_that_is_not_here_has_no_known_shapes(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    adapters.write(initial(), LORA, tmp_path)
    assert known_shapes("nobody/nothing", tmp_path) is None
