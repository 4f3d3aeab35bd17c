"""Scoring, exact probabilities, eleven adapters, training: how long each takes."""

import shutil
from pathlib import Path
from typing import Any

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.lora import adapter
from fedaudit.engine.training import finetune
from gpu_steps.models import Workbench, rows, write_adapters
from gpu_steps.timing import measured
from gpu_steps.work import Size

BASE = Target(name="base")
PEAKED = SamplingParams(temperature=0.1)
"""Makes of random weights a model that is sure of some tokens, as a trained one is."""
OWN = 16
"""Tokens in which the texts of a group differ."""


def scoring(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the rate of scoring texts, and of texts that share all but their ends."""
    amounts, engine = bench.amounts, bench.engine(size)
    texts = rows(size, amounts.texts, amounts.text)
    took = measured(lambda: engine.score(BASE, texts), bench.device, amounts.repeats)
    tokens = amounts.texts * amounts.text
    flops = size.flops(tokens, tokens, tokens * (amounts.text + 1) // 2)
    begin = texts[0][: max(1, amounts.text - OWN)]
    group = [begin + end[1:] for end in rows(size, amounts.candidates, OWN + 1, seed=3)]
    groups = [group] * 4
    shared = measured(lambda: engine.score_groups(BASE, groups), bench.device, amounts.repeats)
    apart = measured(
        lambda: [engine.score(BASE, one) for one in groups], bench.device, amounts.repeats
    )
    return took | {
        "tokens": tokens,
        "tokens_per_second": tokens / took["seconds"],
        "flops_per_second": flops / took["seconds"],
        "shared": shared,
        "not_shared": apart,
    }


def exact_walk(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return how long the exact walk takes, with strings that are drawn often."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.prompts, amounts.prefix)
    requests = [
        GenerationRequest(prompt=p, samples=amounts.samples, max_new_tokens=amounts.new)
        for p in prompts
    ]
    batch = GenerationBatch(requests, seed=0, decoding=PEAKED)
    drawn = [text.strip() for one in engine.generate(BASE, batch) for text in one.texts]
    strings = sorted({text[:12] for text in drawn if text})[: amounts.strings]
    request = PrefixProbabilityRequest(
        prompts=prompts, strings=strings, max_new_tokens=amounts.new, decoding=PEAKED
    )
    found = engine.prefix_probabilities(BASE, request)
    took = measured(
        lambda: engine.prefix_probabilities(BASE, request), bench.device, amounts.repeats
    )
    sampled = measured(lambda: engine.generate(BASE, batch), bench.device, amounts.repeats)
    read = sum(one.rows for one in found)
    return took | {
        "strings": len(strings),
        "rows": read,
        "rows_per_second": read / took["seconds"],
        "sampled": sampled,
    }


def many_adapters(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return how long adapters take side by side, and one after the other.

    Side by side they are read from their files each time, which is `read`.
    """
    amounts, engine = bench.amounts, bench.engine(size)
    folder = bench.folder / f"adapters-{size.name}"
    targets = write_adapters(engine.base.model, folder, amounts.adapters, amounts.rank)
    asked = rows(size, amounts.questions, amounts.prefix)
    greedy = SamplingParams(temperature=0)
    requests = [
        GenerationRequest(prompt=p, samples=1, max_new_tokens=amounts.answer) for p in asked
    ]
    batch = GenerationBatch(requests, seed=0, decoding=greedy)
    device = bench.device
    ways = {
        "read": lambda: [adapter.read(Path(str(one.adapter))) for one in targets],
        "answers": lambda: engine.answers(targets, asked, new=amounts.answer),
        "answers_in_turn": lambda: [engine.generate(one, batch) for one in targets],
    }
    found: dict[str, Any] = {}
    try:
        for name, way in ways.items():
            found[name] = measured(way, device, 1)
    finally:  # the adapters hang on the model
        shutil.rmtree(folder, ignore_errors=True)
        bench.clear()
    together, turns = found["answers"]["seconds"], found["answers_in_turn"]["seconds"]
    found["answers_ratio"] = together / turns
    return found | {"adapters": amounts.adapters, "questions": amounts.questions}


def training(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return how many tokens a second LoRA training reads; the optimizer's steps are in it."""
    amounts, engine = bench.amounts, bench.engine(size)
    half = amounts.text // 2
    lessons = [
        finetune.TrainingExample(prompt=row[:half], answer=row[half:])
        for row in rows(size, amounts.lessons, amounts.text)
    ]
    config = finetune.FinetuneConfig(rank=amounts.rank, alpha=2 * amounts.rank)
    took = measured(lambda: finetune.tune(engine, None, lessons, config), bench.device, 1)
    tokens = amounts.lessons * amounts.text
    # Forward, and backward through the activations: the base's weights have no gradient.
    flops = 2 * size.flops(tokens, tokens, tokens * (amounts.text + 1) // 2)
    return took | {
        "tokens": tokens,
        "tokens_per_second": tokens / took["seconds"],
        "flops_per_second": flops / took["seconds"],
        "steps": -(-amounts.lessons // config.batch_size),
    }
