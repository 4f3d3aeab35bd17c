"""What the sums of one round cost and give away: the paper's pairs of sets against shared ones.

    python benchmarks/attribution_protocols.py [--seeds 5] [--numbers 782336]

Both at equal masking strength: Q is the largest number of shared sets whose typical strength is no
less than the mean over the pairs' estimates, all of them within the limit, or the nearest above
it that shared sets keep. No model is asked.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fedaudit.api.errors import UsageError
from fedaudit.attribution.server.masks import masks
from fedaudit.metrics.attribution import shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.sum_leakage import Span, SumLeakage, sum_leakage

PAIRS = 5
THRESHOLD = 5
STEP = 0.05
"""By how much the limit is raised where shared sets cannot keep it."""
GROUPS = 100
"""So many groups of helpers are tried for each draw."""
FLOAT = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class Round:
    """One protocol's round: its distinct sums, rho of each estimate, the largest share."""

    sets: Sequence[tuple[str, ...]]
    asked: int
    strengths: np.ndarray
    largest: float
    seconds: float

    def exposed(self, names: Sequence[str]) -> SumLeakage:
        """Return what its sums give away, with the round's own over everybody."""
        return sum_leakage([*self.sets, tuple(names)], THRESHOLD)


def pairs(names: Sequence[str], limit: float, seed: int) -> Round:
    """Draw the paper's design for every client of a round."""
    began = time.perf_counter()
    designs = [
        subset_design.draw(
            names,
            who,
            mask_size=THRESHOLD,
            queries=PAIRS,
            threshold=THRESHOLD,
            seed=seed,
            number=1,
            limit=limit,
        )
        for who in names
    ]
    seconds = time.perf_counter() - began
    alike = dict.fromkeys(names, 1.0)
    c = [masks(one.combination, alike) for one in designs]
    return Round(
        sets=[members for one in designs for members in (*one.include, *one.exclude)],
        asked=2 * PAIRS * len(names),
        strengths=np.array([subset_design.masking_strength(own) for own in c]),
        largest=max(float(np.abs(own).max()) for own in c),
        seconds=seconds,
    )


def shared(names: Sequence[str], queries: int, limit: float, seed: int) -> Round:
    """Draw shared sets for a round."""
    began = time.perf_counter()
    rule = SharedSetsRule(
        participants=len(names), queries=queries, threshold=THRESHOLD, limit=limit
    )
    found = shared_sets.draw(rule, names, seed=seed, number=1)
    return Round(
        sets=found.sets,
        asked=len(found.sets),
        strengths=shared_sets.masking_strengths(found.rows),
        largest=float(np.abs(shared_sets.masks(found.rows)).max()),
        seconds=time.perf_counter() - began,
    )


def equal(count: int, strength: float) -> int:
    """Return the most shared sets whose typical strength is at least this."""
    fits = (q for q in range(count - 2, 0, -1))
    return next(q for q in fits if shared_sets.typical_strength(count, q) >= strength)


def row(name: str, count: int, limit: float, drawn: Sequence[Round], numbers: int) -> str:
    """Return the table's row for the same protocol drawn a few times."""
    names = [f"c{at:03}" for at in range(count)]
    found = [one.exposed(names) for one in drawn]
    rho = np.array([one.strengths for one in drawn])
    held = max(one.largest for one in drawn)
    determined = sorted({len(one.determined) for one in found})
    groups = min(len(one.group.members) for one in found)
    proved = all(one.group.exact for one in found)
    sums = drawn[0].asked
    uploads = sums * numbers * FLOAT / 2**20
    seconds = np.mean([one.seconds for one in drawn])
    return (
        f"| {count} | {name} | {limit:g} | {sums} | {uploads:,.0f} | {rho.mean():.2f} "
        f"({rho.min():.2f}) | {held:.2f} | {' to '.join(map(str, determined))} | {groups}"
        f"{'' if proved else ' found'} | {seconds:.2f} |"
    )


def rows(count: int, limit: float, seeds: int, numbers: int) -> list[str]:
    """Return the rows of both protocols for rounds of so many clients."""
    names = [f"c{at:03}" for at in range(count)]
    paper = [pairs(names, limit, seed) for seed in range(seeds)]
    queries = equal(count, float(np.mean([one.strengths.mean() for one in paper])))
    own, ours = nearest(names, queries, limit, seeds)
    return [
        row(f"{PAIRS} pairs", count, limit, paper, numbers),
        row(f"{queries} shared", count, own, ours, numbers),
    ]


def nearest(
    names: Sequence[str], queries: int, limit: float, seeds: int
) -> tuple[float, list[Round]]:
    """Return shared sets with the lowest limit, from this one on in steps, that is found."""
    for own in np.arange(limit, 1 + STEP / 2, STEP).tolist():
        try:
            return own, [shared(names, queries, min(1, own), seed) for seed in range(seeds)]
        except UsageError:
            continue
    raise UsageError(f"No {queries} shared sets were found for {len(names)} clients.")


def drawn_uniformly(count: int, queries: int, draws: int) -> str:
    """Return a line on sets that nothing was rejected for: their strength, and how many pass."""
    rng = np.random.default_rng(0)
    found = [shared_sets.uniform_sets(count, queries, rng) for _ in range(draws)]
    rho = np.array([shared_sets.masking_strengths(one) for one in found])
    passed = np.mean([shared_sets.is_accepted(one, queries) for one in found])
    typical = shared_sets.typical_strength(count, queries)
    return (
        f"{count} clients, {queries} sets: rho_0 {typical:.2f}, mean rho {rho.mean():.2f} of "
        f"{draws} uniform draws, {passed:.0%} accepted without a limit"
    )


def collusion(
    count: int, queries: int, limit: float, helpers: Sequence[int], seeds: int = 5
) -> Iterator[str]:
    """Yield a line on a server that knows so many clients' updates, in random groups of them."""
    names = [f"c{at:03}" for at in range(count)]
    rng = np.random.default_rng(0)
    rule = SharedSetsRule(participants=count, queries=queries, threshold=THRESHOLD, limit=limit)
    rows = [shared_sets.draw(rule, names, seed=seed, number=1).rows for seed in range(seeds)]
    for many in helpers:
        left = [one[:, rng.permutation(count)[many:]] for one in rows for _ in range(GROUPS)]
        broken = [bool(Span(count - many).extend(one, range(len(one)))) for one in left]
        yield (
            f"{count} clients, {queries} sets, limit {limit:g}: {many} who help the server "
            f"determine somebody in {np.mean(broken):.0%} of {len(broken)} cases"
        )


def main() -> None:
    """Print a table of both protocols."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--numbers", type=int, default=782_336, help="of an update")
    parser.add_argument("--clients", type=int, nargs="*", default=[10, 20, 50, 100])
    parser.add_argument("--uniform", action="store_true", help="only what uniform draws are")
    parser.add_argument("--collusion", action="store_true", help="only what helpers change")
    given = parser.parse_args()
    if given.uniform:
        for count, queries in ((10, 5), (20, 10), (50, 20), (100, 40)):
            print(drawn_uniformly(count, queries, 20_000 // count), flush=True)
        return
    if given.collusion:
        told = (collusion(20, 8, 1.0, (5, 8, 10, 11)), collusion(10, 5, 0.4, range(1, 5)))
        for line in chain.from_iterable(told):
            print(line, flush=True)
        return
    print(
        "| clients | sets | limit | sums asked | MiB of sums | rho, mean (weakest) | largest share "
        "| determined | smallest group | s to draw |\n" + "| --: | --- " + "| --: " * 8 + "|"
    )
    for count in given.clients:
        for limit in (1.0, 0.4):
            print("\n".join(rows(count, limit, given.seeds, given.numbers)), flush=True)


if __name__ == "__main__":
    main()
