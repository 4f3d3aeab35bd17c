"""Reconstruction from updates: what is left by steps, batch, sums of clients, and noise.

    python benchmarks/reconstruction_curves.py [--seeds 10] [--first 100] [--base FOLDER]

Each trial tunes an adapter of rank 32 for 20 steps on other records, then lets clients take steps
(plain SGD at a learning rate of 1 or 0.02, or AdamW at 5e-3) on records of the generator, each for
itself, and inverts the mean of their updates. Noise clips every record's gradient to 1 and adds
noise with which a single step has epsilon 8 at delta 1e-5 (Balle and Wang 2018, theorem 8). For
every setting it prints how many texts came out whole (but for the last token, which has no
gradient), of how many all tokens came out, which share of the distinct tokens that is, in how many
updates nothing can be told, and of how many others' texts the texts or all tokens came out.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from fedaudit_plugins.attacks.reconstruction.attack import (
    InvertedUpdate,
    layer_spans,
    search_update,
)
from peft import LoraConfig
from scipy.optimize import brentq
from scipy.stats import norm

from fedaudit.engine.loading.loader import load_base, with_adapter
from fedaudit.engine.local import LocalEngine
from fedaudit.nano.generator import corpus

EPSILON, DELTA = 8.0, 1e-5
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def noise_multiplier() -> float:
    """Return the standard deviation of the noise of one step, as a multiple of the clipping."""

    def excess(sigma: float) -> float:
        half = 1 / (2 * sigma)
        spent = norm.cdf(half - EPSILON * sigma) - math.exp(EPSILON) * norm.cdf(
            -half - EPSILON * sigma
        )
        return float(spent - DELTA)

    return float(brentq(excess, 0.1, 5.0))


OPTIMIZERS: dict[str, Callable[[Sequence[torch.Tensor]], torch.optim.Optimizer]] = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=1.0),
    "slow SGD": lambda weights: torch.optim.SGD(weights, lr=0.02),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=5e-3),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What clients did in the round."""

    steps: int = 1
    batch: int = 1
    clients: int = 1
    noisy: bool = False
    optimizer: str = "SGD"
    in_turn: bool = False
    """Whether each step is on one record of the batch, and the steps go through it once."""


def trial(name: str, seed: int, setting: Setting) -> Counter[str]:
    """Return counts of what came out of one update: see main."""
    steps, batch, clients = setting.steps, setting.batch, setting.clients
    noise = noise_multiplier() if setting.noisy else 0.0
    torch.manual_seed(seed)
    rng = random.Random(seed)
    base = load_base(name, device="cpu")
    engine = LocalEngine(base)
    texts = sorted({document.text for document in RECORDS})
    chosen = rng.sample(texts, 20 + batch * clients + 20)
    rows = [list(tokens.ids) for tokens in engine.tokenize(chosen)]
    earlier, theirs, others = rows[:20], rows[20:-20], rows[-20:]
    config = LoraConfig(r=32, lora_alpha=64, target_modules=TARGETS, task_type="CAUSAL_LM")
    model = with_adapter(base.model, config, "made", trainable=True)
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def gradient(row: list[int]) -> list[torch.Tensor]:
        ids = torch.tensor([row])
        grads = torch.autograd.grad(model(input_ids=ids, labels=ids).loss, weights)
        if noise:
            size = torch.stack([one.norm() for one in grads]).norm()
            grads = tuple(one * min(1.0, 1 / float(size)) for one in grads)
        return list(grads)

    def step(optimizer: torch.optim.Optimizer, some: list[list[int]], sigma: float) -> None:
        sums = [gradient(row) for row in some]
        for index, weight in enumerate(weights):
            total = sum(one[index] for one in sums)
            weight.grad = (total + sigma * torch.randn_like(weight)) / len(some)
        optimizer.step()

    adam = torch.optim.AdamW(weights, lr=5e-3)
    for _ in range(20):
        step(adam, rng.sample(earlier, 4), 0.0)
    start = [weight.detach().clone() for weight in weights]
    mean = [torch.zeros_like(weight) for weight in weights]
    before = {name: one.detach().clone() for name, one in matrices(model)}
    for client in range(clients):
        with torch.no_grad():
            for weight, value in zip(weights, start, strict=True):
                weight.copy_(value)
        optimizer = OPTIMIZERS[setting.optimizer](weights)
        own = theirs[client * batch : (client + 1) * batch]
        for some in [[row] for row in own] if setting.in_turn else [own] * steps:
            step(optimizer, some, noise)
        for total, weight in zip(mean, weights, strict=True):
            total.add_(weight.detach(), alpha=1 / clients)
    with torch.no_grad():
        for weight, value in zip(weights, mean, strict=True):
            weight.copy_(value)
        change = {name: one.double() - before[name].double() for name, one in matrices(model)}
        for weight, value in zip(weights, start, strict=True):
            weight.copy_(value)
    spans = layer_spans(before, change, 1 + 1 / clients)
    found = search_update(base.model, spans, max(map(len, theirs)) + 2)
    return counted(found, theirs, others)


def counted(
    found: InvertedUpdate | str, theirs: list[list[int]], others: list[list[int]]
) -> Counter[str]:
    """Return how many texts, and tokens of texts, came out of an update, and of others' texts."""
    strangers = [row for row in others if row not in theirs]
    read = {token for row in theirs for token in row[:-1]}
    counts = Counter(records=len(theirs), others=len(strangers), tokens=len(read))
    if isinstance(found, str):
        counts["nothing"] = 1
    else:
        counts["texts"] = sum(map(found.gives, theirs))
        counts["bags"] = sum(map(found.has_tokens, theirs))
        counts["tokens out"] = len(read & set(found.tokens))
        counts["others out"] = sum(map(found.gives, strangers))
        counts["other bags"] = sum(map(found.has_tokens, strangers))
    return counts


def matrices(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return every A by the name of its module in the base."""
    end, root = ".lora_A.made.weight", "base_model.model."
    return [
        (name.removesuffix(end).removeprefix(root), weight)
        for name, weight in model.named_parameters()
        if name.endswith(end)
    ]


RECORDS = list(corpus(seed=7, cases=80, documents_per_case=4))

SETTINGS = (
    Setting(),
    Setting(steps=4),
    Setting(steps=32),
    Setting(steps=4, batch=4, in_turn=True),
    Setting(steps=4, batch=4, in_turn=True, optimizer="slow SGD"),
    Setting(batch=2),
    Setting(batch=4),
    Setting(batch=8),
    Setting(clients=2),
    Setting(clients=5),
    Setting(noisy=True),
    Setting(optimizer="AdamW"),
)


def main() -> None:
    """Print a line for each setting, in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--base", default="fedaudit-nano")
    given = parser.parse_args()
    print(f"noise multiplier {noise_multiplier():.3f}")
    print(
        "| optimizer | steps | batch | clients | noise | texts | all tokens, unordered "
        "| share of tokens | nothing told | others' texts | others' tokens |"
    )
    for setting in SETTINGS:
        total: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.seeds):
            total += trial(given.base, seed, setting)
        cells = (
            setting.optimizer, setting.steps,
            "4 in turn" if setting.in_turn else setting.batch, setting.clients,
            "epsilon 8" if setting.noisy else "none", f"{total['texts']} of {total['records']}",
            f"{total['bags']} of {total['records']}",
            f"{100 * total['tokens out'] / total['tokens']:.1f} %",
            f"{total['nothing']} of {given.seeds}",
            f"{total['others out']} of {total['others']}", total['other bags'],
        )  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
