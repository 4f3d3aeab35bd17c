"""How often the interval of a mean over seeds holds the truth, in studies that are made up.

    python benchmarks/seed_intervals.py [--studies 4000] [--seed 0] [--pairs]

A study has k seeds. Each trains a model whose rate of leaks is the true rate moved by a normal
error of training on the logit, and counts the leaks among n records, drawn anew for each seed or
the same for all (as with a file of records: a record's own propensity is then the same in all
seeds). The interval is that of `fedaudit.reproduction.seeds`, of Wilson's intervals of the counts.
It should hold the mean rate over trainings and records in at least 95 of 100 studies.

--pairs has claims that are `paired`, a <= b: a seed's a and b are perplexities of one federation,
which have its training and records in common and something of their own, which for a may be
skewed. Where both are alike on average such a claim should hold and fail in 2.5 % each; where b is
higher by so many standard deviations of the difference it should hold.
"""

import argparse
from statistics import fmean

import numpy as np

from fedaudit.api.records import Measurement
from fedaudit.config.profile import parse
from fedaudit.metrics.intervals import wilson
from fedaudit.reproduction.claims import check_claims
from fedaudit.reproduction.seeds import interval

SPREADS = (0.0, 0.3, 1.0)
"""Standard deviations of training, on the logit."""
RATES = (0.0, 0.02, 0.2, 0.5)
PAIR = parse({
    "name": "pairs",
    "scale": {},
    "study": [{"name": "v"}],
    "claims": [
        {
            "id": "c",
            "source": "s",
            "statement": "t",
            "left": {"variant": "v", "metric": "perplexity", "scope": {"side": "a"}},
            "compare": "<=",
            "right": {"variant": "v", "metric": "perplexity", "scope": {"side": "b"}},
            "paired": True,
        }
    ],
})  # fmt: skip
PROPENSITY = 1.5
"""Standard deviation of records' propensity to leak, on the logit."""


def study(
    rng: np.random.Generator, *, rate: float, spread: float, seeds: int, n: int, same: bool
) -> tuple[float, float, float]:
    """Return the value and the interval of one study."""
    if not rate:
        hits = np.zeros(seeds, dtype=int)
    else:
        middle = np.log(rate / (1 - rate)) + spread * rng.standard_normal((seeds, 1))
        own = PROPENSITY * rng.standard_normal((1 if same else seeds, n))
        chance = 1 / (1 + np.exp(-(middle + own)))
        hits = (rng.random((seeds, n)) < chance).sum(axis=1)
    found = [wilson(int(one), n) for one in hits]
    low, high = interval(
        [one.value for one in found],
        [one.low for one in found],
        [one.high for one in found],
        same_records=same,
    )
    assert low is not None
    assert high is not None
    return fmean(one.value for one in found), low, high


def truth(rng: np.random.Generator, rate: float, spread: float) -> float:
    """Return the mean rate over trainings and records."""
    if not rate:
        return 0.0
    middle = np.log(rate / (1 - rate))
    moved = middle + np.hypot(spread, PROPENSITY) * rng.standard_normal(1_000_000)
    return float(np.mean(1 / (1 + np.exp(-moved))))


def paired_outcomes(
    rng: np.random.Generator, *, seeds: int, studies: int, skew: float, ahead: float
) -> tuple[float, float]:
    """Return the shares of studies in which a paired claim holds and fails.

    `skew` is the standard deviation of a's own part on the log scale, 0 for a normal one.
    """
    common = 10 * np.exp(0.2 * rng.standard_normal((studies, seeds)))
    own = rng.standard_normal((studies, seeds))
    if skew:
        own = np.exp(skew * own)
        own = (own - np.exp(skew**2 / 2)) / np.sqrt(np.expm1(skew**2) * np.exp(skew**2))
    a, b = common + 0.2 * own, common + 0.2 * ahead
    outcomes = [_paired(*pair) for pair in zip(a, b, strict=True)]
    return outcomes.count(True) / studies, outcomes.count(False) / studies


def _paired(a: np.ndarray, b: np.ndarray) -> bool | None:
    by_seed = [
        {"v": [_perplexity("a", left), _perplexity("b", right)]}
        for left, right in zip(a.tolist(), b.tolist(), strict=True)
    ]
    means = {"v": [_perplexity("a", float(a.mean())), _perplexity("b", float(b.mean()))]}
    [found] = check_claims(PAIR, means, by_seed)
    return found.holds


def _perplexity(side: str, value: float) -> Measurement:
    return Measurement(
        kind="utility", plugin="p", metric="perplexity", value=value, scope={"side": side}
    )


def print_pairs(rng: np.random.Generator, studies: int) -> None:
    """Print how often paired claims hold and fail."""
    print("| seeds | a's own part | b ahead by | holds | fails |\n| --- | --- | --- | --: | --: |")
    for seeds in (2, 3, 5, 10):
        for skew in (0.0, 0.5, 1.0):
            for ahead in (0.0, 1.0, 3.0):
                held, failed = paired_outcomes(
                    rng, seeds=seeds, studies=studies, skew=skew, ahead=ahead
                )
                own = f"log-normal, {skew}" if skew else "normal"
                print(f"| {seeds} | {own} | {ahead:g} | {held:.1%} | {failed:.1%} |", flush=True)


def main() -> None:
    """Print the shares of studies whose interval holds the truth, and how wide it is."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--studies", type=int, default=4000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--pairs", action="store_true", help="paired claims in place of means")
    given = options.parse_args()
    rng = np.random.default_rng(given.seed)
    if given.pairs:
        print_pairs(rng, given.studies)
        return
    print("| seeds | records | rate | training | held, own records | width | held, same | width |")
    print("| --- " * 8 + "|")
    for seeds, n in ((2, 100), (3, 30), (3, 100), (3, 1000), (6, 100), (20, 100)):
        for rate in RATES:
            for spread in SPREADS if rate else (0.0,):
                true, cells = truth(rng, rate, spread), []
                for same in (False, True):
                    some = [
                        study(rng, rate=rate, spread=spread, seeds=seeds, n=n, same=same)
                        for _ in range(given.studies)
                    ]
                    held = fmean(low <= true <= high for _, low, high in some)
                    width = fmean(min(1.0, high) - low for _, low, high in some)
                    cells += [f"{held:.1%}", f"{width:.3f}"]
                print(
                    f"| {seeds} | {n} | {true:.3f} | {spread} | {' | '.join(cells)} |", flush=True
                )


if __name__ == "__main__":
    main()
