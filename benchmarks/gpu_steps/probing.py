"""Continuing prompts: fedaudit's engine, and `transformers.generate` in its best ways."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.memory import is_out_of_memory
from gpu_steps.models import Workbench, rows
from gpu_steps.timing import measured
from gpu_steps.work import Amounts, Size

BASE = Target(name="base")
Prompts = Sequence[tuple[int, ...]]


def ours(engine: LocalEngine, prompts: Prompts, amounts: Amounts) -> Callable[[], Any]:
    """Return the engine's way."""
    requests = [
        GenerationRequest(prompt=p, samples=amounts.samples, max_new_tokens=amounts.new)
        for p in prompts
    ]
    return lambda: engine.generate(BASE, GenerationBatch(requests, seed=0))


def theirs(
    engine: LocalEngine, prompts: Prompts, each: int, amounts: Amounts, **options: Any
) -> Callable[[], Any]:
    """Return the peer's way: `each` prompts in a batch, as many rows for each as samples."""
    model: Any = engine.base.model
    decode = engine.base.tokenizer.batch_decode

    def draw() -> list[str]:
        texts: list[str] = []
        for start in range(0, len(prompts), each):
            ids = torch.tensor(prompts[start : start + each], device=model.device)
            with torch.inference_mode():
                found = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    top_k=0,
                    num_return_sequences=amounts.samples,
                    max_new_tokens=amounts.new,
                    pad_token_id=0,
                    **options,
                )
            texts += decode(found[:, ids.shape[1] :], skip_special_tokens=True)
        return texts

    return draw


def _rate(took: dict[str, Any], samples: int) -> dict[str, Any]:
    return took | {"samples": samples, "samples_per_second": samples / took["seconds"]}


def probing(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the engine's rate on the prompts of an attack."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.prompts, amounts.prefix)
    took = measured(ours(engine, prompts, amounts), bench.device, amounts.repeats)
    return _rate(took, len(prompts) * amounts.samples)


def many(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the engine's rate on more prompts than stand together."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.many, amounts.prefix, seed=9)
    took = measured(ours(engine, prompts, amounts), bench.device, 1)
    return _rate(took, len(prompts) * amounts.samples)


def alone(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the rate of `generate`, one prompt at a time."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.alone, amounts.prefix)
    took = measured(theirs(engine, prompts, 1, amounts), bench.device, 1)
    return _rate(took, len(prompts) * amounts.samples)


def batched(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the rate of `generate` at its best batch size, and all that were tried."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.prompts, amounts.prefix)
    tried: dict[str, Any] = {}
    for each in amounts.batches:
        try:
            took = measured(theirs(engine, prompts, each, amounts), bench.device, 1)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            continue
        tried[str(each)] = _rate(took, len(prompts) * amounts.samples)
    best = max(tried, key=lambda each: tried[each]["samples_per_second"])
    return {**tried[best], "prompts_in_a_batch": int(best), "tried": tried}


def compiled(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the rate of `generate` with a static cache, which transformers compiles on a GPU."""
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.prompts, amounts.prefix)
    work = theirs(engine, prompts, amounts.prompts, amounts, cache_implementation="static")
    try:
        took = _rate(measured(work, bench.device, 1), len(prompts) * amounts.samples)
    finally:  # the compiled forward and its cache stay with the model
        torch.compiler.reset()
        bench.clear()
    return took | {"prompts_in_a_batch": amounts.prompts}


def long_batches(bench: Workbench, size: Size) -> dict[str, Any]:
    """Return the engine's FLOPs a second on long prompts; padding does not count.

    A prompt's tokens see those before them, and the samples' see all of the prompt.
    """
    amounts, engine = bench.amounts, bench.engine(size)
    prompts = rows(size, amounts.long_prompts, amounts.long_prefix)
    took = measured(ours(engine, prompts, amounts), bench.device, amounts.repeats)
    drawn = amounts.samples * (amounts.new - 1)
    length = amounts.long_prefix
    each = size.flops(length + drawn, 1 + drawn, length * (length + 1) // 2 + drawn * length)
    rate = len(prompts) * each / took["seconds"]
    return _rate(took, len(prompts) * amounts.samples) | {"flops_per_second": rate}
