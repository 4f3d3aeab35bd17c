"""What FLoRA's public code leaves behind is neither FlowerTune's nor Shepherd's."""

import json
import shutil

import pytest
import torch
from foreign_layouts import CONFIG, make_run, peft_04
from test_layouts import imported, same

from fedaudit.api.errors import InputError

SENT = make_run(rounds=(0, 1), clients=(0, 1))


def stacked(parts):
    """Return the adapter whose B A is the sum of those of `parts`."""
    return {
        name: torch.cat([part[name] for part in parts], dim=0 if ".lora_A." in name else 1)
        for name in parts[0]
    }


def flora(place, *, epochs=(0, 1), final=True, sent=True, config_above=False):
    out = place / "flora-run"
    for epoch in epochs:
        parts = list(SENT.clients[epoch].values())
        folder = peft_04(stacked(parts), out / str(epoch))
        config = CONFIG | {"r": 2 * CONFIG["r"], "lora_alpha": 2 * CONFIG["lora_alpha"]}
        (folder / "adapter_config.json").write_text(json.dumps(config))
        if config_above:
            shutil.move(folder / "adapter_config.json", out / "adapter_config.json")
        for client, tensors in SENT.clients[epoch].items() if sent else ():
            (folder / f"local_output_{client}").mkdir()
            torch.save(tensors, folder / f"local_output_{client}" / "pytorch_model.bin")
        if final:
            (folder / "final").mkdir()
            (folder / "final/config.json").write_text("{}")
    return out


def test_the_first_epoch_belongs_to_the_named_base(tmp_path):
    made, federation = imported(flora(tmp_path, epochs=(0,)), tmp_path / "out")
    assert made.layout == "flora"
    [one] = federation.manifest.rounds
    assert same(federation.path / one.adapter, stacked(list(SENT.clients[0].values())))
    assert federation.manifest.template.name == "shepherd_alpaca"
    assert any("What clients sent is left out" in note for note in made.notes)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "epoch 1 belongs to the base with epochs 0 to 0 merged in.*final, as --target"),
        ({"epochs": (1,)}, "epoch 1 belongs to the base.*final, as --target"),
        ({"epochs": (1,), "final": False}, "epoch 1 belongs to the base.*merge the epochs"),
        ({"epochs": (1,), "final": False, "sent": False}, "epoch 1 belongs to the base"),
        ({"epochs": (1,), "config_above": True}, "epoch 1 belongs to the base"),
        ({"epochs": (1,), "config_above": True, "final": False}, "stacks what its clients sent"),
    ],
)
def test_later_epochs_are_refused_by_name(options, says, tmp_path):
    with pytest.raises(InputError, match=says):
        imported(flora(tmp_path, **options), tmp_path / "out")
