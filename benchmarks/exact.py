"""Exact extraction probabilities beside sampling: the cost of each, and whether they agree.

    fedaudit simulate --profile fed_pii --out RUN
    python benchmarks/exact.py RUN [--repeats 3] [--threshold 4e-3] [--seeds 50] [--prefixes 12]

The work is the contextual attack's on one model of a nano federation: client c0's prefixes of 50
tokens, 10 new tokens, c1's personal data and the guess control as strings. Sampling draws 15
continuations of each, to their ends or until it is settled which string they begin with; the walk
computes them all, with its draws from what it gives up. They take turns in this process. With
--seeds, so many runs of 1, 15 and 100 samples of --prefixes prefixes, evenly spaced, are drawn, and
the targets that they find set beside what the walk gives for them.
"""

import argparse
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from turns import in_turn, line

from fedaudit.api.engine import GenerationBatch, PrefixProbabilityRequest
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.api.templates import template
from fedaudit.audit import preflight
from fedaudit.data import corpus
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction import query_plan
from fedaudit.extraction.exact.sources import ExactSources, SourceValues
from fedaudit.extraction.exact.walk import DRAWS, walk_prefixes
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.extraction.query_plan import Query
from fedaudit.extraction.sampling import QueryParams
from fedaudit.extraction.targets import build_target_set as truth_of
from fedaudit.metrics.extraction import Matcher

CONTEXT, SAMPLES, NEW = 50, 15, 10
RUNS = (1, 15, 100)


def made(run: Path) -> AttackContext:
    """Return the case of c0 against c1, on the last global adapter of a federation."""
    engine, form = LocalEngine(load_base("fedaudit-nano", device="cpu")), template("fed_pii")
    own, other = (list(corpus.read(run / "data" / f"{c}.jsonl", form)) for c in ("c0", "c1"))
    adapter = max((run / "rounds").glob("*/global"))
    tuned = Target(name="tuned", adapter=str(adapter))
    begun = preflight.choose_prompt_start(
        engine, tuned, pii_occurrences(engine, own, CONTEXT)
    ).chosen
    base = Target(name="base")
    return AttackContext(
        engine=engine, tuned=tuned, base=base, attacker=own, victim=other, beginning=begun
    )


def cost(context: AttackContext, threshold: float, repeats: int) -> None:
    """Print what walking takes beside sampling."""
    asked = query_plan.plan_by_frequency(
        context, pii_occurrences(context.engine, context.attacker, CONTEXT)
    )
    questions, target_set = list(asked.queries()), truth_of(context)
    strings = [*target_set.labels, *target_set.controls]
    requests = [
        GenerationRequest(prompt=one.prompt, samples=SAMPLES * one.copies, max_new_tokens=NEW)
        for one in questions
    ]
    ways = {
        "sampling": lambda: context.engine.generate(
            context.tuned, GenerationBatch(requests, seed=0)
        ),
        "sampling until settled": lambda: context.engine.generate(
            context.tuned, GenerationBatch(requests, seed=0, stop_strings=strings)
        ),
        "walking": lambda: context.engine.prefix_probabilities(
            context.tuned,
            PrefixProbabilityRequest(
                [one.prompt for one in questions],
                strings,
                max_new_tokens=NEW,
                threshold=threshold,
                trials=[DRAWS * SAMPLES * one.copies for one in questions],
            ),
        ),
    }
    spent, found = in_turn(ways, repeats)
    rows = [one.rows for one in found["walking"]]
    print(
        f"{asked.size} prefixes, {len(questions)} different ones, {len(target_set.labels)} targets "
        f"and {len(target_set.controls)} controls, threshold {threshold:g}: "
        f"{mean(rows):.1f} model rows a different prefix ({max(rows)} at most)"
    )
    print(line("sampling n = 15 / walking", spent, "sampling", "walking"))
    settled = "sampling until settled"
    print(line("sampling n = 15 / the same until settled", spent, "sampling", settled))
    print(line("sampling until settled / walking", spent, settled, "walking"))


def agreement(context: AttackContext, threshold: float, seeds: int, prefixes: int) -> None:
    """Print how many sampled coverages lie within the interval that the walk gives."""
    whole = query_plan.plan_by_frequency(
        context, pii_occurrences(context.engine, context.attacker, CONTEXT)
    )
    every = [Query(one.prompt) for one in whole.queries()]
    some = every[:: max(1, len(every) // prefixes)][:prefixes]
    asked, target_set = (
        query_plan.QueryPlan(size=len(some), queries=lambda: iter(some)),
        truth_of(context),
    )
    targets = list(target_set.labels)
    query_params = QueryParams(samples=SAMPLES, new_tokens=NEW, decoding=SamplingParams())
    walk = walk_prefixes(context, context.tuned, asked, targets, query_params, threshold)
    exact = ExactSources(
        plugin="contextual",
        target_set=target_set,
        tuned=walk,
        base=None,
        size=asked.size,
        samples=SAMPLES,
        threshold=threshold,
    )
    # Samples of one prompt are independent, so every 100 of them are a run's of its own.
    requests = [
        GenerationRequest(prompt=one.prompt, samples=seeds * max(RUNS), max_new_tokens=NEW)
        for one in some
    ]
    texts = [
        one.texts
        for one in context.engine.generate(context.tuned, GenerationBatch(requests, seed=1))
    ]
    matcher = Matcher(targets)
    for n in RUNS:
        wanted = SourceValues(exact, targets, control=False).expected(n)["tuned"]
        seen = np.array(
            [
                len({found for own in texts for t in own[at : at + n] for found in matcher.hits(t)})
                for at in range(0, seeds * max(RUNS), max(RUNS))
            ]
        )
        low, high = wanted.run
        inside = int(((low <= seen) & (seen <= high)).sum())
        print(
            f"n = {n:>3}: computed {wanted.value:.2f} ({wanted.low:.2f} to {wanted.high:.2f} by "
            f"what was drawn; one run [{low}, {high}]), mean of {seeds} runs {seen.mean():.2f} "
            f"(standard error {seen.std(ddof=1) / seeds**0.5:.2f}), {seen.min()} to {seen.max()}, "
            f"{inside} within"
        )


def main() -> None:
    """Print the ratio, and with --seeds the agreement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--threshold", type=float, default=4e-3)
    for name, value in (("repeats", 3), ("seeds", 0), ("prefixes", 12)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(1)
    case = made(given.run)
    if given.repeats:
        cost(case, given.threshold, given.repeats)
    if given.seeds:
        agreement(case, given.threshold, given.seeds, given.prefixes)


if __name__ == "__main__":
    main()
