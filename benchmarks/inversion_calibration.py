"""Inversion of attributes: how often the test accuses a model that learned nothing, and its power.

    python benchmarks/inversion_calibration.py [--trials 1000]

Made-up people have an attribute each, which takes one of some values; some values are more common
than others. The base finds values likely at random, or by how common they are (skill). The tuned
model agrees with the base but for noise, and has learned a share of the people's own values. For
every case it prints how often the tests of the attack `inversion` both reject at 1 %.
"""

import argparse

import numpy as np
from fedaudit_plugins.attacks.inversion import Inversion, inversion_tests
from fedaudit_plugins.attacks.ranking.cloze import ClozeQuestion, ClozeWindow, Occurrence
from fedaudit_plugins.attacks.ranking.scoring import CandidateLosses, Pick

from fedaudit.api import Document

LEVEL = 0.01
VALUES = Inversion.candidates
QUESTION = ClozeQuestion(Occurrence(Document(id="", text="x"), 0, "x", "DATA"), (), 0)
WINDOW = ClozeWindow(("", ""), at_start=True)
LEARNED = 10.0
"""How much likelier, in units of the models' noise, a value is that was learned."""


def people(
    rng: np.random.Generator, count: int, share: float, *, skill: float, common: float
) -> list[Pick]:
    """Return attributes of people, a share of which the tuned model has learned.

    The k-th value is had by a share of people proportional to k ** -common, and `skill` is how much
    the base makes of that.
    """
    frequency = np.arange(1, VALUES + 1) ** -common
    frequency /= frequency.sum()
    answers = []
    for _ in range(count):
        truth = rng.choice(VALUES, p=frequency)
        order = [truth, *(value for value in range(VALUES) if value != truth)]
        base = rng.normal(size=VALUES) - skill * np.log(frequency)[order]
        tuned = (base + rng.normal(size=VALUES)) / 2**0.5
        if rng.random() < share:
            tuned[0] -= LEARNED
        most = np.isclose(frequency, frequency.max())
        by_frequency = most[truth] / most.sum()
        losses = CandidateLosses(QUESTION, WINDOW, tuple(tuned), tuple(base))
        answers.append(Pick(losses, len(tuned), max(1 / len(tuned), float(by_frequency))))
    return answers


def main() -> None:
    """Print a table of cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    print("people  learned  skill  common  rejected")
    for skill, common in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        for count in (12, 36, 100):
            for share in (0.0, 0.1, 0.3):
                rejected = 0
                for seed in range(trials):
                    rng = np.random.default_rng([seed, count, int(100 * share)])
                    answers = people(rng, count, share, skill=skill, common=common)
                    rejected += max(p for _, p in inversion_tests(answers)) <= LEVEL
                rate = rejected / trials
                print(f"{count:6}  {share:7.0%}  {skill:5.1f}  {common:6.1f}  {rate:8.1%}")


if __name__ == "__main__":
    main()
