"""Folders as other frameworks leave them, byte for byte as their code writes them.

A run is made up: random LoRA adapters on fedaudit-nano, each round's global one the mean of its
clients' by their examples, as FedAvg has it.
"""

import json
from argparse import Namespace
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from fedaudit.api.templates import template
from fedaudit.federation import adapters, manifest
from fedaudit.system.files import sha256

LAYERS, SIZE, RANK = 4, 160, 4
CONFIG = {
    "base_model_name_or_path": "fedaudit-nano",
    "bias": "none",
    "inference_mode": True,
    "lora_alpha": 16,
    "lora_dropout": 0.05,
    "peft_type": "LORA",
    "r": RANK,
    "target_modules": ["q_proj", "v_proj"],
    "task_type": "CAUSAL_LM",
}
GIVEN = "r=4,alpha=16,targets=q_proj+v_proj"
NAMES = [
    f"base_model.model.model.layers.{layer}.self_attn.{module}.lora_{part}.weight"
    for layer in range(LAYERS)
    for module in ("q_proj", "v_proj")
    for part in "AB"
]


@dataclass(frozen=True)
class Run:
    whole: dict
    clients: dict
    examples: dict = field(default_factory=dict)


def drawn(seed, scale):
    made = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(
            (RANK, SIZE) if ".lora_A." in name else (SIZE, RANK), generator=made
        ) * scale
        for name in NAMES
    }  # fmt: skip


def make_run(rounds=(1, 2, 3), clients=(0, 2), examples=(30, 10), seed=0):
    """Return a run whose rounds are numbered like that."""
    whole, every = {}, {}
    for number in rounds:
        start = drawn(seed + 100 * number, 0.1)
        every[number] = {
            client: {n: t + d for (n, t), d in
                     zip(start.items(), drawn(seed + 100 * number + client + 1, 0.02).values(),
                         strict=True)}
            for client in clients
        }  # fmt: skip
        shares = torch.nn.functional.normalize(
            torch.tensor(examples, dtype=torch.float32), p=1, dim=0
        )
        whole[number] = {
            name: sum(
                every[number][client][name] * share
                for client, share in zip(clients, shares, strict=True)
            )
            for name in NAMES
        }
    return Run(whole, every, dict(zip(clients, examples, strict=True)))


def peft(tensors, place, *, config=CONFIG):
    """As PeftModel.save_pretrained."""
    place.mkdir(parents=True, exist_ok=True)
    save_file(tensors, place / "adapter_model.safetensors", metadata={"format": "pt"})
    (place / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    (place / "README.md").write_text("---\nlibrary_name: peft\n---\n")
    return place


def peft_04(tensors, place):
    """As PeftModel.save_pretrained of peft 0.4."""
    place.mkdir(parents=True, exist_ok=True)
    torch.save(tensors, place / "adapter_model.bin")
    (place / "adapter_config.json").write_text(json.dumps(CONFIG, indent=2, sort_keys=True))
    return place


def flowertune(run, place, *, name="peft_{}"):
    """Of flowertune-llm's server_app.py; newer ones call a round's folder "{}"."""
    for number, tensors in run.whole.items():
        peft(tensors, place / "results" / "2025-01-31_12-00-00" / name.format(number))
    return place / "results"


def openfedllm(run, place, *, rounds=None, clients=3):
    """Of OpenFedLLM's main_sft.py and config.py, with peft 0.4."""
    out = place / "output" / "alpaca_20000_fedavg_c3s2_i10_b16a1_l512_r4a16_20250131120000"
    out.mkdir(parents=True)
    arguments = {
        "script_args": {
            "model_name_or_path": "fedaudit-nano",
            "template": "alpaca",
            "peft_lora_r": RANK,
            "peft_lora_alpha": 16,
        },
        "fed_args": {"fed_alg": "fedavg", "num_clients": clients, "sample_clients": 2},
    }
    (out / "args.json").write_text(json.dumps(arguments, indent=4))
    loss = [[-1.0] * (rounds or max(run.whole)) for _ in range(clients)]
    for number, sent in run.clients.items():
        for client in sent:
            loss[client][number - 1] = 1.5 / number
    np.save(out / "training_loss.npy", np.array(loss))
    for number, tensors in run.whole.items():
        folder = peft_04(tensors, out / f"checkpoint-{number}")
        torch.save(Namespace(learning_rate=5e-5), folder / "training_args.bin")
    return out


def shepherd(run, place, *, clients=10):
    """Of Shepherd's main.py and fed_utils/client.py; its epochs count from 0."""
    out = place / "lora-shepherd-7b" / str(clients)
    for number, tensors in run.whole.items():
        epoch = out / str(number)
        for client, sent in run.clients[number].items():
            local = epoch / f"local_output_{client}"
            local.mkdir(parents=True)
            torch.save(OrderedDict(sent), local / "pytorch_model.bin")
        torch.save(OrderedDict(tensors), epoch / "adapter_model.bin")
    (out / "adapter_config.json").write_text(json.dumps(CONFIG, indent=2, sort_keys=True))
    return place / "lora-shepherd-7b"


def federatedscope(run, place, *, clients=False):
    """Of FederatedScope's llm branch: trainable named_parameters, with the adapter's name."""
    place.mkdir(parents=True, exist_ok=True)

    def save(tensors, number, name):
        named = {n.replace(".weight", ".default.weight"): t for n, t in tensors.items()}
        torch.save({"cur_round": number, "model": OrderedDict(named)}, place / name)

    for number, tensors in run.whole.items():
        save(tensors, number, f"{number}_llama.ckpt")
        for client, sent in run.clients[number].items() if clients else ():
            save(sent, number, f"client_{client + 1}_{number}_llama.ckpt")
    return place


def nvflare(run, place):
    """Of NVFlare's model persistor, for its llm_hf example."""
    out = place / "workspace" / "server" / "simulate_job" / "app_server"
    out.mkdir(parents=True)
    for name, number in (("best_FL_global_model.pt", 1), ("FL_global_model.pt", 2)):
        model = OrderedDict((f"model.{n}", t) for n, t in run.whole[number].items())
        torch.save({"model": model, "train_conf": {"train": {"model": "x"}}, "meta_props": {}},
                   out / name)  # fmt: skip
    return place / "workspace"


def trainer(run, place):
    """Of transformers' Trainer with a PEFT model: steps for rounds."""
    out = place / "sft"
    for number, tensors in run.whole.items():
        folder = peft(tensors, out / f"checkpoint-{number}")
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": number}))
        torch.save(Namespace(learning_rate=1e-4), folder / "training_args.bin")
        torch.save({"state": {}}, folder / "optimizer.pt")
        torch.save({"python": (3, (1, 2), None)}, folder / "rng_state.pth")
    return out


def flower_npz(run, place):
    """Of Flower's how-to on saving progress: np.savez(f"round-{n}-weights.npz", *ndarrays)."""
    place.mkdir(parents=True, exist_ok=True)
    for number, tensors in run.whole.items():
        np.savez(place / f"round-{number}-weights.npz", *[t.numpy() for t in tensors.values()])
    return place


def flower_pt(run, place, *, name="model_round_{}.pth"):
    """Of the same how-to for PyTorch: torch.save(net.state_dict(), f"model_round_{n}.pth")."""
    place.mkdir(parents=True, exist_ok=True)
    for number, tensors in run.whole.items():
        torch.save(OrderedDict(tensors), place / name.format(number))
    return place


def peft_folders(run, place, *, clients=True):
    """Of a script of one's own."""
    for number, tensors in run.whole.items():
        here = place / "lora-r4" / f"round_{number}"
        peft(tensors, here / "global")
        for client, sent in run.clients[number].items() if clients else ():
            peft(sent, here / f"client_{client}")
    return place / "lora-r4"


def native(run, place, *, form="fed_pii"):
    """Write the run as a federation's folder of ours, without the code that imports."""
    rounds, files = [], {}
    who = sorted({client for sent in run.clients.values() for client in sent})
    for number, tensors in sorted(run.whole.items()):
        here = f"rounds/{number:03d}"
        adapters.write(tensors, CONFIG, place / here / "global")
        folders = {f"c{client}": f"{here}/clients/c{client}" for client in run.clients[number]}
        for client, sent in run.clients[number].items():
            adapters.write(sent, CONFIG, place / folders[f"c{client}"])
        rounds.append(
            manifest.Round(
                round=number, adapter=f"{here}/global", participants=tuple(folders), clients=folders
            )
        )
    for file in sorted((place / "rounds").rglob("adapter_*")):
        files[file.relative_to(place).as_posix()] = sha256(file)
    chosen = template(form)
    found = manifest.Manifest(
        status="complete",
        base=manifest.BaseModel(name="fedaudit-nano", sha256=""),
        clients=tuple(manifest.ManifestClient(id=f"c{c}", examples=1, weight=0.5) for c in who),
        rounds=tuple(rounds),
        aggregation={"name": "fedavg", "options": {}},
        template=manifest.Template(
            name=chosen.name, with_input=chosen.with_input, without_input=chosen.without_input
        ),
        seeds={},
        files=files,
        imported={"layout": "none", "notes": []},
    )
    manifest.write(found, place)
    return place


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self):
        return Path.touch, (Path(self.marker),)
