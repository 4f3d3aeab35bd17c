"""Whether an organisation took part: size and power of the test, and of the ways to get it wrong.

    python benchmarks/participation_calibration.py [--trials 1000]

Made-up organisations: a record's gain over the base is its organisation's style (what a model that
was tuned on texts like them gains on all of them), its group's part, noise (Student's t with 3
degrees of freedom), and what training on it adds. Units are a record's standard deviation without
style; groups of 1 to 9 records explain half of the variance. The text baseline is not simulated.
For every case it prints how often it is said, at 1 %, that the organisation took part, how often
that nothing can be told because the base tells the sets apart, and the same of two other tests:

* own      the test of `membership.organisation`: own held-out records
* records  the same, but every record is a group of its own
* foreign  the held-out records are another organisation's, whose style differs
* gain     no held-out records: is the mean gain over the base above 0 (a t test over groups)?
"""

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_1samp

from fedaudit.metrics.privacy.participation import participation_test

DRAWS = 999
LEVEL, PLACEBO = 0.01, 0.05
WITHIN = 0.5
STYLE = 1.0
"""The standard deviation of organisations' styles, in the gain and in the base's loss."""


class Side:
    """Records of one organisation: their gain, the base's loss on them, and their groups."""

    def __init__(self, rng: np.random.Generator, groups: int, style: float, base: float) -> None:
        sizes = rng.integers(1, 10, groups)
        self.names = [str(name) for name in np.repeat(np.arange(groups), sizes)]
        self.gain, self.base = (
            np.repeat(rng.normal(shift, WITHIN**0.5, groups), sizes)
            + rng.standard_t(3, sizes.sum()) / 3**0.5 * (1 - WITHIN) ** 0.5
            for shift in (style, base)
        )


def said(claimed: Side, control: Side, seed: int, *, grouped: bool = True) -> tuple[bool, bool]:
    """Return whether it is said that the organisation took part, and that nothing can be told."""
    names = [
        side.names if grouped else [str(n) for n in range(len(side.names))]
        for side in (claimed, control)
    ]
    groups = names[0], names[1]
    placebo = participation_test(claimed.base, control.base, groups, seed=seed, draws=DRAWS)
    if placebo.two_sided <= PLACEBO:
        return False, True
    found = participation_test(claimed.gain, control.gain, groups, seed=seed, draws=DRAWS)
    return found.p_value <= LEVEL, False


def by_gain(claimed: Side) -> bool:
    """Tell whether the mean gain of groups is above 0, without any control."""
    groups: dict[str, list[float]] = {}
    for name, value in zip(claimed.names, claimed.gain, strict=True):
        groups.setdefault(name, []).append(value)
    means = [np.mean(values) for values in groups.values()]
    return bool(ttest_1samp(means, 0.0, alternative="greater").pvalue <= LEVEL)


def trial(
    rng: np.random.Generator, groups: int, effect: float, share: float, seed: int
) -> dict[str, tuple[bool, bool]]:
    """Return what each test says of one organisation."""
    style, base, other, elsewhere = rng.normal(0, STYLE, 4)
    claimed = Side(rng, groups, style, base)
    trained = rng.random(groups) < share
    claimed.gain = claimed.gain + effect * trained[np.array(claimed.names, dtype=int)]
    own, foreign = Side(rng, groups, style, base), Side(rng, groups, other, elsewhere)
    return {
        "own": said(claimed, own, seed),
        "records": said(claimed, own, seed, grouped=False),
        "foreign": said(claimed, foreign, seed),
        "gain": (by_gain(claimed), False),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    asked = parser.parse_args(words)
    print(f"{asked.trials} organisations each; % said to have taken part (% cannot tell)")
    print("groups  trained on                 own           records       foreign       gain")
    for groups in (20, 50, 200):
        for effect, share in ((0.0, 0.0), (0.25, 1.0), (0.5, 1.0), (1.0, 1.0), (1.0, 0.25)):
            rng = np.random.default_rng([groups, int(100 * effect), int(100 * share)])
            every = [trial(rng, groups, effect, share, seed) for seed in range(asked.trials)]
            cells = "".join(
                f"{np.mean([one[name][0] for one in every]):6.1%} "
                f"({np.mean([one[name][1] for one in every]):4.0%}) "
                for name in ("own", "records", "foreign", "gain")
            )
            leak = f"{effect:g} sd, {share:.0%} of groups" if effect else "nothing"
            print(f"{groups:6}  {leak:24}{cells}", flush=True)


if __name__ == "__main__":
    main()
