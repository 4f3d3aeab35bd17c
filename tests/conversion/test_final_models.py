"""The last global model of an import answers as the one that its framework kept or loads.

Each framework's way of loading is repeated with plain transformers and PEFT.
"""

import json
from importlib.resources import files

import pytest
import torch
from foreign_layouts import (
    CONFIG,
    GIVEN,
    federatedscope,
    flower_npz,
    flowertune,
    make_run,
    nvflare,
    openfedllm,
    peft,
    peft_folders,
    shepherd,
)
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from test_flora_layout import flora
from test_layouts import imported
from transformers import AutoModelForCausalLM

from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine

RUN, EPOCHS = make_run(), make_run(rounds=(0, 1, 2))
WEIGHTS = str(files("fedaudit.nano") / "weights")
TEXT = [1, 40, 7, 300, 12, 500, 41, 8, 90, 33, 2000, 5]
ASKED = {"base": "fedaudit-nano", "config": GIVEN}


def plain():
    return AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32)


def from_pretrained(folder):
    return PeftModel.from_pretrained(plain(), folder)


def peft_model(config=CONFIG):
    return get_peft_model(plain(), LoraConfig(**config))


def with_state(state, config=CONFIG):
    """As Shepherd's GlobalModel_generate.py loads an epoch."""
    model = peft_model(config)
    set_peft_model_state_dict(model, state)
    return model


def with_named(state):
    """As FederatedScope and NVFlare load a state, by the names that it has."""
    model = peft_model()
    assert not model.load_state_dict(state, strict=False).unexpected_keys
    return model


def by_order(path):
    """As Flower's clients do: arrays in the order of get_peft_model_state_dict."""
    import numpy as np
    from peft import get_peft_model_state_dict

    model = peft_model()
    with np.load(path) as arrays:
        values = [torch.from_numpy(arrays[name]) for name in arrays.files]
    keys = get_peft_model_state_dict(model)
    set_peft_model_state_dict(model, dict(zip(keys, values, strict=True)))
    return model


def one_flora_epoch(place):
    """An epoch with the whole model that FLoRA's code keeps, its adapter merged in."""
    source = flora(place, epochs=(0,))
    merged = from_pretrained(source / "0").merge_and_unload()
    merged.save_pretrained(source / "0/final")
    return source


def averaged_epochs(place):
    """As FLoRA's code without stacking: a configuration in each epoch, and no whole model."""
    source = shepherd(EPOCHS, place)
    for epoch in EPOCHS.whole:
        (source / f"10/{epoch}/adapter_config.json").write_text(json.dumps(CONFIG))
    (source / "10/adapter_config.json").unlink()
    return source


def ranks_of_their_own(place):
    """As HetLoRA: the global rank is the largest, and clients send adapters of their own."""
    whole = make_run(rounds=(1, 2))
    for number, tensors in whole.whole.items():
        peft(tensors, place / f"round_{number}/global")
        for client, rank in enumerate((4, 2)):
            cut = {
                n: t[:rank] if ".lora_A." in n else t[:, :rank].contiguous()
                for n, t in tensors.items()
            }
            peft(cut, place / f"round_{number}/client_{client}", config=CONFIG | {"r": rank})
    return place


def read(path, key=None):
    state = torch.load(path, weights_only=True)
    return state if key is None else state[key]


def nvflare_state(path):
    return {
        name.removeprefix("model.").replace(".weight", ".default.weight"): tensor
        for name, tensor in read(path, "model").items()
    }


CASES = {
    "flowertune": (
        lambda at: flowertune(RUN, at),
        {},
        lambda at: from_pretrained(next(at.rglob("peft_3"))),
    ),
    "openfedllm": (
        lambda at: openfedllm(RUN, at),
        {},
        lambda at: from_pretrained(at / "checkpoint-3"),
    ),
    "shepherd": (
        lambda at: shepherd(EPOCHS, at),
        {},
        lambda at: with_state(read(at / "10/2/adapter_model.bin")),
    ),
    "federatedscope": (
        lambda at: federatedscope(RUN, at, clients=True),
        ASKED,
        lambda at: with_named(read(at / "3_llama.ckpt", "model")),
    ),
    "nvflare": (
        lambda at: nvflare(RUN, at),
        ASKED,
        lambda at: with_named(nvflare_state(next(at.rglob("FL_global_model.pt")))),
    ),
    "flower": (
        lambda at: flower_npz(RUN, at),
        ASKED,
        lambda at: by_order(at / "round-3-weights.npz"),
    ),
    "flora": (
        one_flora_epoch,
        {},
        lambda at: AutoModelForCausalLM.from_pretrained(at / "0/final", dtype=torch.float32),
    ),
    "shepherd, by FLoRA's code": (
        averaged_epochs,
        {},
        lambda at: with_state(read(at / "10/2/adapter_model.bin")),
    ),
    "peft": (
        lambda at: peft_folders(RUN, at),
        {},
        lambda at: from_pretrained(at / "round_3/global"),
    ),
    "peft, clients of other ranks": (
        ranks_of_their_own,
        {},
        lambda at: from_pretrained(at / "round_2/global"),
    ),
}


@pytest.fixture(scope="module")
def engine():
    return LocalEngine(load_base("fedaudit-nano", device="cpu"))


@pytest.mark.filterwarnings("ignore")  # PEFT's own, of what transformers deprecates
@pytest.mark.parametrize("case", CASES)
def test_it_answers_as_the_frameworks_own(case, engine, tmp_path):
    write, options, load = CASES[case]
    source = write(tmp_path / "src")
    made, federation = imported(source, tmp_path / "out", **options)
    assert made.layout == case.partition(",")[0]
    with torch.inference_mode():
        model = load(source).eval()
        logits = model(input_ids=torch.tensor([TEXT]), use_cache=False).logits[0].double()
    wanted = torch.log_softmax(logits, -1)[torch.arange(len(TEXT) - 1), TEXT[1:]].tolist()
    bare = engine.score(Target(name="base", adapter=None), [TEXT])[0]
    _, folder = federation.adapter(federation.manifest.rounds[-1].round)
    found = engine.score(Target(name="tuned", adapter=str(folder)), [TEXT])[0]
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-4)
    assert found != pytest.approx(bare, abs=1e-2)


def test_clients_of_other_ranks_are_kept_and_the_mean_is_not_claimed(tmp_path):
    made, federation = imported(ranks_of_their_own(tmp_path / "src"), tmp_path / "out")
    assert [len(one.clients) for one in federation.manifest.rounds] == [2, 2]
    told = " ".join(made.notes)
    assert "other ranks" in told
    assert "is the weighted mean" not in told
