"""Testing many adapters with the same questions: all together, one after the other, PEFT's way.

    python benchmarks/scoring.py [--adapters 11] [--questions 128] [--new 16] [--repeats 3]

The work is that of one round of FedAttr's scoring: the global adapter and every client's estimate
answer the same questions greedily. Each repeat runs the ways in turn in this process; the ratios
are of their times, with the spread over the repeats. One after the other is with the adapters
beside the weights, switched by PEFT.
Answers are compared too.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from turns import in_turn, line

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.loading.loader import attach, load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters
from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.initialization import initial_adapter

BASE = "fedaudit-nano"
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def made(folder: Path, count: int) -> list[Path]:
    """Write adapters of rank 64 that change what the base says."""
    result = []
    for number in range(count):
        config = Simulation(seed=number, training=Training(rank=64, alpha=128, targets=TARGETS))
        initial_adapter(config, load_base(BASE), folder / str(number))
        tensors = adapters.read(folder / str(number))
        generator = torch.Generator().manual_seed(number)
        changed = {
            name: tensor
            if "lora_A" in name
            else torch.randn(tensor.shape, generator=generator) * 0.01
            for name, tensor in tensors.items()
        }
        adapters.write(changed, adapters.check(folder / str(number)), folder / str(number))
        result.append(folder / str(number))
    return result


def questions(engine: LocalEngine, count: int) -> list[tuple[int, ...]]:
    """Return prompts of one length."""
    ids = engine.tokenize(["Claimant: Joan Richards, born 13 September, of London"])[0].ids[:8]
    return [(1, *ids, 300 + number) for number in range(count)]


def peft_mixed(
    folders: list[Path],
) -> Callable[[list[tuple[int, ...]], int], list[list[list[int]]]]:
    """Return PEFT's own mixed batch: `generate(adapter_names=...)`."""
    base = load_base(BASE)
    model: Any = base.model
    for number, folder in enumerate(folders):
        model = attach(model, folder, f"a{number}")
    assert isinstance(model, PeftModel)
    model.eval()

    def answers(asked: list[tuple[int, ...]], new: int) -> list[list[list[int]]]:
        rows = torch.tensor([list(one) for _ in folders for one in asked])
        names = [f"a{number}" for number in range(len(folders)) for _ in asked]
        with torch.inference_mode():
            drawn = model.generate(
                input_ids=rows,
                attention_mask=torch.ones_like(rows),
                adapter_names=names,
                do_sample=False,
                max_new_tokens=new,
                pad_token_id=0,
            )
        ends = drawn[:, rows.shape[1] :].tolist()
        cut = [row[: row.index(2)] if 2 in row else row for row in ends]
        return [cut[k * len(asked) : (k + 1) * len(asked)] for k in range(len(folders))]

    return answers


def main() -> None:
    """Print the times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("adapters", 11), ("questions", 128), ("new", 16), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folders = made(Path(place), given.adapters)
        together, single = LocalEngine(load_base(BASE)), LocalEngine(load_base(BASE))
        single.merging.possible = False
        targets = [Target(name=str(one), adapter=str(one)) for one in folders]
        asked = questions(together, given.questions)
        requests = [
            GenerationRequest(prompt=one, samples=1, max_new_tokens=given.new) for one in asked
        ]
        mixed = peft_mixed(folders)
        ways: dict[str, Callable[[], list[list[list[int]]]]] = {
            "together": lambda: [
                [list(answer.tokens[0]) for answer in row]
                for row in together.answers(targets, asked, new=given.new)
            ],
            "one by one": lambda: [
                [list(single.tokenize([answer.texts[0]])[0].ids) for answer in row]
                for row in (
                    single.generate(
                        t, GenerationBatch(requests, seed=0, decoding=SamplingParams(temperature=0))
                    )
                    for t in targets
                )
            ],
            "PEFT mixed batch": lambda: mixed(asked, given.new),
        }
        spent, found = in_turn(ways, given.repeats)
    same = sum(
        ours == theirs
        for row, other in zip(found["together"], found["PEFT mixed batch"], strict=True)
        for ours, theirs in zip(row, other, strict=True)
    )
    for peer in ("one by one", "PEFT mixed batch"):
        print(line(f"{peer} / together", spent, peer, "together"))
    print(f"{same} of {given.adapters * given.questions} answers are PEFT's, token by token.")


if __name__ == "__main__":
    main()
