"""Signs of a base with earlier adapters merged in are said, in an import as with --adapter."""

import math

import pytest
import torch
from foreign_layouts import CONFIG, drawn, make_run, peft, peft_folders, trainer
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from test_flora_layout import flora
from test_layouts import imported

from fedaudit.api.errors import InputError
from fedaudit.audit import target
from fedaudit.conversion.pipeline import part_cosines, restart_notes

CARD = (
    "---\nbase_model: fedaudit-nano\nlibrary_name: peft\ntags:\n- lora\n- {}\n- trl\n---\n\n# It\n"
)


def whole_model(place):
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    save_file({"w": torch.zeros(1)}, place / "model-00001-of-00001.safetensors")


def continued(rounds):
    """A run whose rounds go on from one another."""
    start, run = drawn(1, 0.1), make_run(rounds=rounds)
    for number in rounds:
        step = drawn(50 + number, 0.02)
        start = {name: tensor + step[name] for name, tensor in start.items()}
        run.whole[number].update(start)
    return run


def said(source, out, how):
    """Return what is said of an adapter, by an import of its run or as --adapter."""
    if how == "import":
        return imported(source.parent, out)[0].notes
    return target.resolve("fedaudit-nano", str(source), None).adapter_caveats


@pytest.mark.parametrize("how", ["import", "adapter"])
@pytest.mark.parametrize("name", ["merged", "stage1/export"])
def test_a_whole_model_in_the_adapters_folder_is_said(name, how, tmp_path):
    source = peft(drawn(1, 0.1), tmp_path / "run/checkpoint-7")
    (source / "trainer_state.json").write_text("{}")
    whole_model(source / name)
    (told,) = (note for note in said(source, tmp_path / "out", how) if "whole model" in note)
    assert told.startswith(f"checkpoint-7/{name} is a whole model")


@pytest.mark.parametrize("how", ["import", "adapter"])
def test_what_relora_left_is_refused_with_the_base_to_audit(how, tmp_path):
    source = peft(drawn(1, 0.1), tmp_path / "run/checkpoint-40")
    (source / "trainer_state.json").write_text("{}")
    whole_model(source / "relora")
    with pytest.raises(InputError, match=r"ReLoRA.*--target .*checkpoint-40/relora --adapter"):
        said(source, tmp_path / "out", how)


def test_the_merged_base_itself_may_be_named(tmp_path):
    source = peft(drawn(1, 0.1), tmp_path / "run/checkpoint-40")
    whole_model(source / "relora")
    found = target.resolve(str(source / "relora"), str(source), None)
    assert not any("whole model" in caveat for caveat in found.adapter_caveats)


@pytest.mark.parametrize("how", ["import", "adapter"])
@pytest.mark.parametrize(("tag", "told"), [("dpo", True), ("kto", True), ("sft", False)])
def test_training_by_preferences_is_said(tag, told, how, tmp_path):
    source = peft(drawn(1, 0.1), tmp_path / "run/checkpoint-40")
    (source / "trainer_state.json").write_text("{}")
    (source / "README.md").write_text(CARD.format(tag))
    notes = said(source, tmp_path / "out", how)
    assert any(f"by preferences ({tag})" in note for note in notes) is told


@pytest.mark.parametrize("options", [{}, {"final": False}])
def test_a_later_epoch_of_flora_is_refused_as_an_adapter_too(options, tmp_path):
    source = flora(tmp_path, **options)
    pickled = source / "1/adapter_model.bin"
    save_file(torch.load(pickled, weights_only=True), pickled.with_suffix(".safetensors"))
    pickled.unlink()  # as its owner is told to
    with pytest.raises(InputError, match="epoch 1 belongs to the base with epochs 0 to 0 merged"):
        target.resolve("fedaudit-nano", str(source / "1"), None)


def test_rounds_that_begin_anew_are_said(tmp_path):
    run = make_run(rounds=(1, 2, 3))
    notes = imported(peft_folders(run, tmp_path / "src", clients=False), tmp_path / "out")[0].notes
    assert any(n.startswith("In rounds 2 to 3 the global adapter shares nothing") for n in notes)


def test_rounds_that_go_on_are_not(tmp_path):
    source = trainer(continued((1, 2, 3)), tmp_path / "src")
    assert not any("shares nothing" in note for note in imported(source, tmp_path / "out")[0].notes)


@given(share=st.floats(0, 1))
def test_cosines_are_those_of_all_entries_of_a_part(share, tmp_path_factory):
    place = tmp_path_factory.mktemp("two")
    name = "base_model.model.model.layers.0.self_attn.{}_proj.lora_{}.weight"
    one = {name.format("q", "A"): torch.tensor([[3.0, 0.0]]),
           name.format("v", "A"): torch.tensor([[0.0, 4.0]]),
           name.format("q", "B"): torch.tensor([[1.0], [0.0]]),
           name.format("v", "B"): torch.tensor([[0.0], [0.0]])}  # fmt: skip
    sine = math.sqrt(1 - share**2)
    other = one | {name.format("v", "A"): torch.tensor([[4.0, 0.0]]),
                   name.format("q", "B"): torch.tensor([[share], [sine]])}  # fmt: skip
    folders = [peft(one, place / "a", config=CONFIG), peft(other, place / "b", config=CONFIG)]
    # A: (3, 0, 0, 4) and (3, 0, 4, 0), 9 of 25; B: (1, 0) and (share, sine).
    assert part_cosines(*folders) == pytest.approx((9 / 25, share), abs=1e-6)


def test_parts_of_zero_are_not_compared(tmp_path):
    zero = {n: t * (".lora_A." in n) for n, t in drawn(1, 0.1).items()}
    peft(zero, tmp_path / "0")
    peft(drawn(2, 0.1), tmp_path / "1")
    assert part_cosines(tmp_path / "0", tmp_path / "1") is None
    assert not list(restart_notes({0: tmp_path / "0", 1: tmp_path / "1"}))
