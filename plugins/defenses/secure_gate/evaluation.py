"""How well a deployed gate works: where it sends prompts, and how long that takes."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median_high
from typing import TYPE_CHECKING, Any

from fedaudit.api import (
    DeployedClient,
    FinishedFederation,
    GatedRequest,
    GenerationBatch,
    GenerationRequest,
    Measurement,
    SamplingParams,
    Target,
    text_start,
)

from .header_features import heading, parse
from .training_examples import malformed_key, random_key_text

if TYPE_CHECKING:
    from .responder import GateResponder

PROMPTS = 1000
"""Held-out prompts of each kind."""
TIMED, NEW_TOKENS = 8, 64
"""Requests that are timed one by one, and tokens of the answer to each."""


def evaluate(finished: FinishedFederation, client: str) -> Iterator[Measurement]:
    """Yield the routing accuracy on held-out prompts, and what the gate and an answer cost."""
    from .deployment import open_gate

    deployed = DeployedClient(
        engine=finished.engine, folder=finished.folder, client=client, seed=finished.seed
    )
    gate = open_gate(deployed)
    texts = [document.text[:200] for document in finished.parties[client].documents]
    for kind, (expected, headings) in _headings(gate, finished.seed).items():
        prompts = [f"{begin}{number} {texts[number % len(texts)]}" for number, begin in headings]
        routed = gate.route([GatedRequest(prompt) for prompt in prompts])
        right = [r.name == name for r, name in zip(routed, expected, strict=True)]
        yield Measurement.rate(
            *decisions(prompts, right),
            kind="defense",
            plugin="secure_gate",
            metric="routing_accuracy",
            scope={"client": client, "prompts": kind},
        )
    yield from _costs(finished, gate, client)


def decisions(prompts: Sequence[str], right: Sequence[bool]) -> tuple[int, int]:
    """Return for how many of the gate's decisions all prompts went right, and how many there are.

    The key alone decides: prompts with one key, or without any, are one decision.
    """
    outcomes: dict[str | None, bool] = {}
    for prompt, correct in zip(prompts, right, strict=True):
        key, _ = parse(prompt)
        outcomes[key] = outcomes.get(key, True) and correct
    return sum(outcomes.values()), len(outcomes)


def _headings(
    gate: "GateResponder", seed: int
) -> Mapping[str, tuple[Sequence[str], Sequence[tuple[int, str]]]]:
    """Return by kind of prompt the adapters that must answer, and numbered headings.

    Malformed and random keys are drawn by a seed that the gate was not trained with.
    """
    rng, secure = random.Random(f"prompts {seed}"), gate.adapters[0]
    keys = gate.keyring.keys
    if not keys:  # a client without documents for any revealing adapter
        return {"none": ([secure] * PROMPTS, [(n, "") for n in range(PROMPTS)])}
    makers: Mapping[str, Callable[[int], str]] = {
        "malformed": lambda n: heading(_malformed(keys[n % len(keys)].secret, gate.secrets, rng)),
        "random": lambda n: heading(random_key_text(rng)),
        "empty": lambda n: heading(""),
        "none": lambda n: "",
    }
    by_kind: dict[str, tuple[Sequence[str], Sequence[tuple[int, str]]]] = {
        "right": (
            [keys[n % len(keys)].adapter for n in range(PROMPTS)],
            [(n, heading(keys[n % len(keys)].secret)) for n in range(PROMPTS)],
        )
    }
    for kind, make in makers.items():
        by_kind[kind] = [secure] * PROMPTS, [(n, make(n)) for n in range(PROMPTS)]
    return by_kind


def _malformed(key: str, valid: Sequence[str], rng: random.Random) -> str:
    """Return `key` malformed; a corruption may happen to change nothing, and is drawn again."""
    candidate = malformed_key(key, rng)
    while candidate in valid:
        candidate = malformed_key(key, rng)
    return candidate


def _costs(
    finished: FinishedFederation, gate: "GateResponder", client: str
) -> Iterator[Measurement]:
    """Yield the seconds and operations of a gating pass, and of the answer behind it.

    One request at a time, with keys that the gate has not met; the first of them is not timed.
    """
    engine, rng = finished.engine, random.Random(f"timing {finished.seed}")
    begin = text_start(engine)
    texts = engine.tokenize([d.text for d in finished.parties[client].documents])
    halves = [text.ids[: len(text.ids) // 2] for text in texts if len(text.ids) > 1]
    halves = halves[: TIMED + 1]  # to be continued
    if not halves:
        return
    prompts = [(*begin, *half)[: finished.max_length // 2] for half in halves]
    requests = [GatedRequest(heading(random_key_text(rng)), prompt) for prompt in prompts]
    target = Target(name="secure", adapter=str(gate.folders[gate.adapters[0]]))
    room = min(NEW_TOKENS, engine.context_length - max(map(len, prompts)))

    def answer(request: GatedRequest) -> Any:
        probe = GenerationRequest(prompt=request.prompt, samples=1, max_new_tokens=room)
        return engine.generate(
            target, GenerationBatch([probe], seed=0, decoding=SamplingParams(temperature=0))
        )

    for stage, work in (("gating", lambda request: gate.route([request])), ("adapter", answer)):
        seconds = _timed(work, requests)
        yield _cost("seconds", seconds, {"client": client, "stage": stage, "n": len(requests) - 1})
    header = gate.header("")
    flops = engine.flops(Target(name="base"), [(*header, 0)])
    yield _cost("flops", float(flops), {"client": client, "stage": "gating"})


def _timed(work: Callable[[GatedRequest], Any], requests: Sequence[GatedRequest]) -> float:
    """Return the median seconds of `work` on a request, the first one left out."""
    durations = []
    for request in requests:
        start = time.perf_counter()
        work(request)
        durations.append(time.perf_counter() - start)
    return median_high(durations[1:] or durations)


def _cost(metric: str, value: float, scope: Mapping[str, Any]) -> Measurement:
    return Measurement(kind="cost", plugin="secure_gate", metric=metric, value=value, scope=scope)
