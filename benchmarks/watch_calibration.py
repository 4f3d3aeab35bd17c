"""How often `fedaudit watch` raises a false alarm or a bound is wrong, and when leaks are found.

    python benchmarks/watch_calibration.py [--trials 1000] [--rounds 50]

Simulated federations: a member has N records that are trained on and M that it set aside at random
from the same. A score moves from round to round as the scenario says; every round is tested, and
an alarm is any round whose lower bound is above the limit. The truth is known, because each record
also has the score that it would have if it had not been trained on.

* lasting      a record keeps what it has, and 1 % of its variance is new in each round
* afresh       scores of a round say nothing of the next
* walk         a random walk of Cauchy steps
* elsewhere    half of all records, on either side, are like those that another member trains on
* few values   rounded scores, with many ties
* canaries     24 secrets among 1,000, of which 976 were given to no client, in one sentence
* sentences    24 secrets of 1,000, each in a sentence of its own

A planted leak raises the scores of some of the member's records, by a tenth of its size more in
each round; sizes are standard deviations of a record's score.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedaudit.metrics.privacy.attributable_effect import (
    AttributableCount,
    ranked_bounds,
    round_level,
    score_bounds,
)

LEVEL = 0.05
Array = npt.NDArray[np.float64]
Walk = Callable[[np.random.Generator, int, int], Array]


def lasting(rng: np.random.Generator, records: int, rounds: int) -> Array:
    """Return scores (rounds, records) that hardly change."""
    rows = [rng.normal(size=records)]
    for _ in range(rounds - 1):
        rows.append(0.99**0.5 * rows[-1] + 0.1 * rng.normal(size=records))
    return np.array(rows)


def afresh(rng: np.random.Generator, records: int, rounds: int) -> Array:
    """Return independent scores."""
    return rng.normal(size=(rounds, records))


def walk(rng: np.random.Generator, records: int, rounds: int) -> Array:
    """Return random walks of Cauchy steps."""
    return np.cumsum(rng.standard_cauchy((rounds, records)), axis=0)


def elsewhere(rng: np.random.Generator, records: int, rounds: int) -> Array:
    """Return scores of which a random half rises, as another member's records do."""
    rising = rng.random(records) < 0.5
    return lasting(rng, records, rounds) + 0.3 * np.arange(1, rounds + 1)[:, None] * rising


def few_values(rng: np.random.Generator, records: int, rounds: int) -> Array:
    """Return scores of few values."""
    return np.round(lasting(rng, records, rounds))


NULLS: dict[str, Walk] = {
    "lasting": lasting,
    "afresh": afresh,
    "walk": walk,
    "elsewhere": elsewhere,
    "few values": few_values,
}


@dataclass(frozen=True, slots=True)
class Leak:
    """The share of the member's records that training raises, and by how much in ten rounds."""

    share: float
    size: float


def trial(
    rng: np.random.Generator, drift: Walk, members: int, others: int, rounds: int, leak: Leak
) -> Iterator[tuple[list[AttributableCount], list[int]]]:
    """Yield the bounds of each round, and the true numbers."""
    scores = drift(rng, members + others, rounds)
    raised = np.arange(members) < round(leak.share * members)
    for number in range(1, rounds + 1):
        before, outside = scores[number - 1, :members], scores[number - 1, members:]
        after = before + raised * leak.size * number / 10
        level = round_level(LEVEL, number)
        found = score_bounds(after.tolist(), outside.tolist(), level=level)
        yield found, [_true_count(before, after, outside, count.rate) for count in found]


def _true_count(before: Array, after: Array, outside: Array, rate: float) -> int:
    limit = np.sort(outside)[::-1][int(np.floor(rate * len(outside) + 1e-9))]
    return int((after > limit).sum() - (before > limit).sum())


def canary_trial(rng: np.random.Generator, rounds: int, *, shared: bool) -> bool:
    """Tell whether there is ever an alarm for 24 canaries that taught nothing."""
    planted, space = 24, 1000
    orders = lasting(rng, space * (1 if shared else planted), rounds)
    for number in range(1, rounds + 1):
        row = orders[number - 1].reshape(-1, space)
        compared = [
            (float(row[0 if shared else i, i]), row[0 if shared else i, planted:].tolist())
            for i in range(planted)
        ]
        if shared:
            compared = [(score, compared[0][1]) for score, _ in compared]
        level = round_level(LEVEL, number)
        if any(found.low for found in ranked_bounds(compared, level=level)):
            return True
    return False


def _share(values: Sequence[bool]) -> str:
    return f"{np.mean(values):.1%}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table of false alarms, then that of leaks found by round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=50)
    asked = parser.parse_args(words)
    print(f"Nothing learnt, {asked.trials} federations of {asked.rounds} rounds each:")
    print(f"{'scores':12} {'N':>4} {'M':>4}  alarm in any round  a bound is wrong in any round")
    for members, others in ((30, 30), (100, 100), (300, 100)):
        for name, drift in NULLS.items():
            alarms, wrong = [], []
            for seed in range(asked.trials):
                rng = np.random.default_rng([seed, members])
                every = list(trial(rng, drift, members, others, asked.rounds, Leak(0, 0)))
                alarms.append(any(one.low for found, _ in every for one in found))
                wrong.append(any(
                    not one.low <= truth <= one.high
                    for found, truths in every for one, truth in zip(found, truths, strict=True)
                ))  # fmt: skip
            print(
                f"{name:12} {members:4} {others:4}  {_share(alarms):>18}  {_share(wrong):>29}",
                flush=True,
            )
    for name, shared in (("canaries", True), ("sentences", False)):
        seeds = range(asked.trials)
        alarms = [
            canary_trial(np.random.default_rng(seed), min(asked.rounds, 10), shared=shared)
            for seed in seeds
        ]
        print(f"{name:12} {24:4} {976:4}  {_share(alarms):>18}", flush=True)
    print("\nLeaks (scores: lasting), share found by round 1, 3, 10 and 30:")
    print(f"{'leak':26} {'N':>4} {'M':>4}  any at all              a tenth of the records   wrong")
    for members, others in ((30, 30), (100, 100), (300, 300)):
        for leak in (Leak(1.0, 1.0), Leak(1.0, 5.0), Leak(0.25, 5.0), Leak(0.25, 30.0)):
            print(_power_line(members, others, leak, max(30, asked.rounds), asked.trials // 5))


def _power_line(members: int, others: int, leak: Leak, rounds: int, trials: int) -> str:
    found_any, found_tenth, wrong = [], [], []
    for seed in range(trials):
        rng = np.random.default_rng([seed, members, 1])
        every = list(trial(rng, lasting, members, others, rounds, leak))
        lows = np.array([max(one.low for one in found) for found, _ in every])
        found_any.append([bool(lows[:by].max() > 0) for by in (1, 3, 10, 30)])
        found_tenth.append([bool(lows[:by].max() > 0.1 * members) for by in (1, 3, 10, 30)])
        wrong.append(any(
            not one.low <= truth <= one.high
            for found, truths in every for one, truth in zip(found, truths, strict=True)
        ))  # fmt: skip
    shares = [
        " ".join(f"{share:5.0%}" for share in np.mean(table, axis=0))
        for table in (found_any, found_tenth)
    ]
    name = f"{leak.share:.0%} of records, {leak.size:g} sd"
    return f"{name:26} {members:4} {others:4}  {shares[0]}  {shares[1]}  {_share(wrong)}"


if __name__ == "__main__":
    main()
