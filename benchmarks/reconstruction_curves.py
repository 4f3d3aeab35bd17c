"""Reconstruction from updates: what is left by steps, batch, sums of clients, and noise.

    python benchmarks/reconstruction_curves.py [--seeds 10] [--first 100]

Each trial tunes an adapter of rank 32 on fedaudit-nano for 20 steps on other records, then lets
clients take steps of plain SGD (learning rate 1) on records of the generator, each for itself, and
inverts the mean of their updates. `noise` clips every record's gradient to 1 and adds noise with
which a single step has epsilon 8 at delta 1e-5 (Balle and Wang 2018, theorem 8). For every
setting it prints how many texts came out whole (but for the last token, which has no gradient), how
many updates had full rank, in which nothing can be told, and how many others' texts came out.
"""

import argparse
import math
import random

import torch
from fedaudit_plugins.attacks.reconstruction.attack import (
    InvertedUpdate,
    find_texts,
    find_tokens,
    layer_spans,
    vocabulary_size,
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


def trial(seed: int, *, steps: int, batch: int, clients: int, noise: float) -> list[int]:
    """Return texts that came out, texts, full updates, others' texts that came out, and others."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    base = load_base("fedaudit-nano", device="cpu")
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
        sgd = torch.optim.SGD(weights, lr=1.0)
        for _ in range(steps):
            step(sgd, theirs[client * batch : (client + 1) * batch], noise)
        for total, weight in zip(mean, weights, strict=True):
            total.add_(weight.detach(), alpha=1 / clients)
    with torch.no_grad():
        for weight, value in zip(weights, mean, strict=True):
            weight.copy_(value)
        change = {name: one.double() - before[name].double() for name, one in matrices(model)}
        for weight, value in zip(weights, start, strict=True):
            weight.copy_(value)
    (first, span), (second, deeper) = layer_spans(before, change, 1 + 1 / clients)[:2]
    if span.is_full or deeper.is_full:
        return [0, len(theirs), 1, 0, len(others)]
    tokens = find_tokens(base.model, first, span)
    longest = max(map(len, theirs)) + 2
    found = InvertedUpdate(
        span,
        tokens,
        find_texts(base.model, second, deeper, tokens, longest),
        vocabulary_size(base.model),
    )
    strangers = [row for row in others if row not in theirs]
    hits = sum(map(found.gives, theirs))
    return [hits, len(theirs), 0, sum(map(found.gives, strangers)), len(strangers)]


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
    {"steps": 1, "batch": 1, "clients": 1},
    {"steps": 4, "batch": 1, "clients": 1},
    {"steps": 32, "batch": 1, "clients": 1},
    {"steps": 1, "batch": 2, "clients": 1},
    {"steps": 1, "batch": 4, "clients": 1},
    {"steps": 1, "batch": 1, "clients": 2},
    {"steps": 1, "batch": 1, "clients": 5},
    {"steps": 1, "batch": 1, "clients": 1, "noise": 1},
)


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    arguments = parser.parse_args()
    sigma = noise_multiplier()
    print(f"noise multiplier {sigma:.3f}")
    print("steps  batch  clients  noise  texts      full  others'")
    for setting in SETTINGS:
        noise = sigma if setting.get("noise") else 0.0
        sums = [0] * 5
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            counts = trial(
                seed,
                steps=setting["steps"],
                batch=setting["batch"],
                clients=setting["clients"],
                noise=noise,
            )
            sums = [one + other for one, other in zip(sums, counts, strict=True)]
        print(
            f"{setting['steps']:5}  {setting['batch']:5}  {setting['clients']:7}  {noise:5.2f}  "
            f"{sums[0]:3} of {sums[1]:2}  {sums[2]:4}  {sums[3]:3} of {sums[4]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
