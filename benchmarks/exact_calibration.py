"""Whether exact probabilities are those of sampled runs, and whether intervals hold what they say.

    fedaudit simulate --profile fed_pii --out RUN
    python benchmarks/exact_calibration.py RUN [--runs 30] [--counts FILE] [--threshold 4e-3]

Client c0's contextual attack on c1 is sampled in so many runs, each with a seed of its own, and
computed once. Then, by target: the runs in which it came out, beside how many were expected
(chi-square; targets that are expected in fewer than five runs, or missing from fewer, are put
together with the next likely ones, and the p-value is that of simulated runs, because the law of
few counts is no chi-square's). And by run: how many lie in the interval for one run, of those that
were drawn and of many that are simulated from the probabilities. A count is whole, so no interval
of counts holds 95 % exactly. That is why the randomised share is printed, too: each run counts by
the part of its count's share of the law that lies in the middle 95 %, which is 95 % on average if
the law is right. With --counts what came out of the runs is kept in a file, or read from it, by the
number of the target in alphabetical order: drawing takes 5 to 15 s a run.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from exact import made

from fedaudit.api.plugin import AttackContext
from fedaudit.config import registry
from fedaudit.extraction.exact import estimator
from fedaudit.extraction.targets import build_target_set

Floats = npt.NDArray[np.float64]
ENOUGH, SIMULATED = 5, 20_000


def drawn(context: AttackContext, runs: int) -> list[list[int]]:
    """Return of each run how many answers begin with each target, in alphabetical order."""
    attack = registry.create("attack", "contextual", {"sweeps": False})
    found = []
    for seed in range(runs):
        extraction = attack.run(replace(context, seed=seed)).extraction
        found.append(
            [extraction.tuned.counts[target] for target in sorted(extraction.target_set.labels)]
        )
        print(f"run {seed}: {np.count_nonzero(found[-1])} targets", flush=True)
    return found


def computed(context: AttackContext, threshold: float) -> estimator.ExactResult:
    """Return what is computed of the same attack."""
    options: dict[str, Any] = {"sweeps": False, "estimator": "exact", "threshold": threshold}
    result: estimator.ExactResult = registry.create("attack", "contextual", options).run(context)
    return result


def groups(chances: Floats, runs: int) -> list[npt.NDArray[np.int64]]:
    """Return targets of which enough runs are expected with and without, the unlikely together."""
    found, open_ = list[npt.NDArray[np.int64]](), np.array([], dtype=np.int64)
    for index in np.argsort(chances, kind="stable"):
        open_ = np.append(open_, index)
        with_, without = (runs * one[open_].sum() for one in (chances, 1 - chances))
        if min(with_, without) >= ENOUGH:
            found.append(open_)
            open_ = open_[:0]
    return [*found[:-1], np.append(found[-1], open_)]


def statistic(counts: Floats, chances: Floats, runs: int, together: Any) -> Floats:
    """Return the chi-square of counts (..., targets) against what is expected of them."""
    total = np.zeros(counts.shape[:-1])
    for group in together:
        expected = runs * chances[group].sum()
        variance = runs * (chances[group] * (1 - chances[group])).sum()
        total += (counts[..., group].sum(axis=-1) - expected) ** 2 / variance
    return total


def by_target(seen: Floats, result: estimator.ExactResult, labels: list[str]) -> None:
    """Print the targets, and the chi-square of all."""
    from scipy.special import chdtrc

    runs, chances = len(seen), np.array([result.chances[one][0] for one in labels])
    listed = {one["text"] for one in result.revealed}
    counts = seen.sum(axis=0)
    print("chance  expected  seen  listed (targets that are expected in 0.3 runs, or came out)")
    for index in np.argsort(-chances):
        if chances[index] * runs >= 0.3 or counts[index]:
            own = f"{chances[index]:.4f}  {chances[index] * runs:8.2f}  {counts[index]:4.0f}"
            print(f"{own}  {'yes' if labels[index] in listed else 'no'}")
    together = groups(chances, runs)
    found = float(statistic(counts, chances, runs, together))
    rng = np.random.default_rng(0)
    alike = rng.binomial(runs, chances, size=(SIMULATED, len(chances))).astype(np.float64)
    above = (statistic(alike, chances, runs, together) >= found).mean()
    print(
        f"chi-square {found:.1f} with {len(together)} degrees of freedom: p = {above:.3f} by "
        f"simulation, {float(chdtrc(len(together), found)):.3f} by the chi-square law"
    )


def by_run(seen: Floats, result: estimator.ExactResult, labels: list[str]) -> None:
    """Print how many runs the interval for one run holds, drawn and simulated."""
    wanted = {"source": "tuned", "set": "all", "estimator": "exact"}
    rows = {row.metric: row for row in result.measurements if dict(row.scope) == wanted}
    for metric in ("vx_pii", "hits_of_one_run"):
        row = rows[metric]
        print(f"{metric}: {row.value:.2f} [{row.low:.2f}, {row.high:.2f}] of {row.n}")
    low, high = rows["hits_of_one_run"].low, rows["hits_of_one_run"].high
    chances = np.array([result.chances[one][0] for one in labels])
    rng = np.random.default_rng(1)
    simulated = (rng.random((SIMULATED, len(chances))) < chances).sum(axis=1)
    for name, hits in (("drawn", seen.sum(axis=1)), ("simulated", simulated)):
        inside = (low <= hits) & (hits <= high)
        print(
            f"{len(hits)} {name} runs: mean {hits.mean():.2f} (standard error "
            f"{hits.std(ddof=1) / len(hits) ** 0.5:.2f}), {inside.sum()} in the interval "
            f"({inside.mean():.1%}), randomised {randomised(hits, simulated).mean():.1%}"
        )


def randomised(hits: Floats, simulated: Floats) -> Floats:
    """Return the part of each count's share of the law that lies in the middle 95 %."""
    order = np.sort(simulated)
    below, upto = (order.searchsorted(hits, side) / len(order) for side in ("left", "right"))
    part: Floats = upto.clip(0.025, 0.975) - below.clip(0.025, 0.975)
    return part / np.maximum(upto - below, 1e-12)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--threshold", type=float, default=4e-3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    case = made(given.run)
    if given.counts and given.counts.is_file():
        found = json.loads(given.counts.read_text())
    else:
        found = drawn(case, given.runs)
        if given.counts:
            given.counts.write_text(json.dumps(found))
    seen = (np.array(found[: given.runs]) > 0).astype(np.float64)
    result, labels = computed(case, given.threshold), sorted(build_target_set(case).labels)
    by_target(seen, result, labels)
    by_run(seen, result, labels)


if __name__ == "__main__":
    main()
