"""The engine on the device beside plain transformers: one text at a time, nothing shared."""

import itertools
import random
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from peft import PeftModel

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.batching import SampleRange
from fedaudit.engine.generation.cuda_graphs import CudaGraphs
from fedaudit.engine.generation.decoding import decode_refilled
from fedaudit.engine.generation.sequences import SamplingJob
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training import finetune
from gpu_steps.models import SPECIAL, Workbench, base, rows, words, write_adapters
from gpu_steps.work import SMALL

SPREAD = 0.1
TOLERANCES = {"float32": 2e-4, "bfloat16": 0.1}
"""What may be off: scores in nats, probabilities by that share of themselves, samples by number.

Sums in another order, and bfloat16's three digits.
"""
FREE: dict[str, tuple[str, ...]] = {"float32": (), "bfloat16": ("sampling",)}
"""What is shown and does not count: in bfloat16 a sample at the edge between two tokens can fall
the other way under another batch size."""
BASE = Target(name="base")
NEW = 8


def correctness(bench: Workbench, name: str) -> dict[str, Any]:
    """Return how far each kind of answer is off in one dtype, and whether that is too far."""
    dtype = getattr(torch, name)
    engine = LocalEngine(base(SMALL, bench.device, dtype, spread=SPREAD))
    folder = bench.folder / f"small-{name}"
    targets = write_adapters(engine.base.model, folder, 3, 4)
    texts = rows(SMALL, 6, 40) + rows(SMALL, 5, 19, seed=2)
    off = {
        "scores": _apart(engine.score(BASE, texts), _plain_scores(engine.base.model, texts)),
        "greedy": _greedy(engine),
        "replayed": _replayed(engine, BASE),
        "shared prefix": _groups(engine),
        "exact walk": _walk(engine),
        "sampling": _batches(engine),
    }
    off |= _adapters(engine, targets, texts, folder)
    off["replayed with an adapter"] = _replayed(engine, targets[0])
    off["training losses"] = _training(bench, dtype)
    counted = {what: value for what, value in off.items() if what not in FREE[name]}
    correct = all(value <= TOLERANCES[name] for value in counted.values())
    return {"off": off, "tolerance": TOLERANCES[name], "correct": correct}


@torch.inference_mode()
def _plain_scores(model: torch.nn.Module, texts: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the log-probabilities of every token but the first, text by text, unpadded."""
    device, found = next(model.parameters()).device, []
    for text in texts:
        ids = torch.tensor([list(text)], device=device)
        chances = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1)
        found.append(chances.gather(-1, ids[0, 1:, None]).squeeze(-1).tolist())
    return found


def _apart(ours: Any, theirs: Any) -> float:
    """Return the largest difference between two nests of equal shape."""
    if isinstance(ours, list):
        assert len(ours) == len(theirs), (len(ours), len(theirs))
        return max((_apart(a, b) for a, b in zip(ours, theirs, strict=True)), default=0.0)
    return float(abs(ours - theirs))


def _greedy(engine: LocalEngine) -> float:
    """Return how much less likely than the likeliest an answer's token was, in nats, at most.

    By plain transformers. Two tokens that are equally likely may change places.
    """
    prompts = rows(SMALL, 4, 17) + rows(SMALL, 3, 30, seed=2)
    answers = engine.answers([BASE], prompts, new=NEW)[0]
    return max(
        _regret(engine.base.model, [*prompt, *(answer.tokens or ((),))[0]], len(prompt))
        for prompt, answer in zip(prompts, answers, strict=True)
    )


def _replayed(engine: LocalEngine, target: Target) -> float:
    """Return the same of answers that come again and again: a GPU replays what it has recorded."""
    prompts = rows(SMALL, 5, 17, seed=6)
    requests = [GenerationRequest(prompt=p, samples=2, max_new_tokens=NEW) for p in prompts]
    job = SamplingJob(requests, 0, SamplingParams(temperature=0), engine.base.end_tokens)
    pieces = [SampleRange(index, 0, 2) for index, _ in enumerate(prompts)]
    graphs, apart = CudaGraphs(engine.base.model.device), 0.0
    with engine.apply_target(target) as model:
        for _ in range(4):
            for found, outputs in decode_refilled(model, job, pieces, 64, graphs):
                owners = [prompts[piece.index] for piece in found for _ in range(2)]
                for prompt, tokens in zip(owners, outputs, strict=True):
                    apart = max(apart, _regret(model, [*prompt, *tokens], len(prompt)))
    return apart


def _groups(engine: LocalEngine) -> float:
    """Return how far scores of texts that share their beginning are off."""
    begin, other = rows(SMALL, 1, 30)[0], rows(SMALL, 1, 21, seed=3)[0]
    ends = [row[1:] for row in rows(SMALL, 4, 9, seed=4)]
    groups = [[begin + end for end in ends], [other + end[:4] for end in ends]]
    plain = [_plain_scores(engine.base.model, group) for group in groups]
    return _apart(engine.score_groups(BASE, groups), plain)


@torch.inference_mode()
def _walk(engine: LocalEngine) -> float:
    """Return how far probabilities of strings are off from the sum over all pairs of tokens."""
    model, vocabulary = engine.base.model, words(SMALL.vocabulary)
    spelt = ["" if word in SPECIAL else word.replace("Ġ", " ") for word in vocabulary]
    prompt, strings = rows(SMALL, 1, 12)[0], ["ab", "k", "bcd", "e f"]
    ids = torch.tensor([list(prompt)], device=model.device)
    first = torch.softmax(model(ids).logits[0, -1].double(), -1)
    every = torch.arange(SMALL.vocabulary, device=model.device)[:, None]
    longer = torch.cat([ids.expand(SMALL.vocabulary, -1), every], dim=1)
    second = torch.softmax(model(longer).logits[:, -1].double(), -1)
    pairs = (first[:, None] * second).cpu()
    end = engine.base.end_tokens
    expected = []
    for string in strings:
        total = 0.0
        for one, other in itertools.product(range(SMALL.vocabulary), repeat=2):
            after = "" if one in end or other in end else spelt[other]
            total += float(pairs[one, other]) * (spelt[one] + after).lstrip().startswith(string)
        expected.append(total)
    request = PrefixProbabilityRequest(
        prompts=[prompt], strings=strings, max_new_tokens=2, threshold=0.0
    )
    [found] = engine.prefix_probabilities(BASE, request)
    return max(abs(float(p) / q - 1) for p, q in zip(found.least, expected, strict=True))


def _batches(engine: LocalEngine) -> float:
    """Return the share of samples that another batch size changes; bfloat16 may change some."""
    prompts = rows(SMALL, 4, 17) + rows(SMALL, 3, 30, seed=2)
    requests = [GenerationRequest(prompt=p, samples=5, max_new_tokens=NEW) for p in prompts]
    batch = GenerationBatch(requests, seed=0)
    ours = engine.generate(BASE, batch)
    others = LocalEngine(engine.base, batch_size=4).generate(BASE, batch)
    pairs = [
        (a, b)
        for one, other in zip(ours, others, strict=True)
        for a, b in zip(one.texts, other.texts, strict=True)
    ]
    return sum(a != b for a, b in pairs) / len(pairs)


def _adapters(
    engine: LocalEngine, targets: list[Target], texts: list[tuple[int, ...]], folder: Any
) -> dict[str, float]:
    """Return how far scores and answers of adapters side by side are off."""
    together = [engine.score(target, texts) for target in targets]
    answers = engine.answers(targets, texts, new=NEW)
    model = base(SMALL, engine.base.model.device, engine.base.model.dtype, spread=SPREAD).model
    plain, less = [], 0.0
    for number, _ in enumerate(targets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PEFT asks transformers what it is to ask no more
            peft = PeftModel.from_pretrained(
                model, str(folder / str(number)), autocast_adapter_dtype=False
            )
        plain.append(_plain_scores(peft.eval(), texts))
        whole = [
            [*text, *(answer.tokens or ((),))[0]]
            for text, answer in zip(texts, answers[number], strict=True)
        ]
        pairs = zip(whole, texts, strict=True)
        less = max(less, *(_regret(peft, row, len(text)) for row, text in pairs))
        model = peft.unload()
    return {"adapters' scores": _apart(together, plain), "adapters' answers": less}


@torch.inference_mode()
def _regret(model: torch.nn.Module, row: list[int], prompt: int) -> float:
    """Return how much less likely than the likeliest a token behind the prompt is, at most."""
    if len(row) == prompt:
        return 0.0
    ids = torch.tensor([row], device=next(model.parameters()).device)
    logits = model(ids).logits[0, prompt - 1 : -1].float()
    chosen = logits.gather(-1, ids[0, prompt:, None]).squeeze(-1)
    return float((logits.amax(-1) - chosen).max())


def _training(bench: Workbench, dtype: torch.dtype) -> float:
    """Return how far the losses of three training steps are off from those on a CPU, in nats."""
    draw = random.Random(5)
    lessons = [
        finetune.TrainingExample(prompt=row[:5], answer=row[5 : draw.randrange(9, 20)])
        for row in rows(SMALL, 12, 20)
    ]
    config = finetune.FinetuneConfig(rank=4, alpha=8, learning_rate=1e-2, batch_size=4)
    losses = []
    for device in (bench.device, torch.device("cpu")):
        engine = LocalEngine(base(SMALL, device, dtype, spread=SPREAD))
        losses.append(list(finetune.tune(engine, None, lessons, config).losses))
    return _apart(*losses)
