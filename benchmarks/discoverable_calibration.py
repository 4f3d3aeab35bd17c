"""Size and power of the test behind `discoverable`: differences in differences of Rouge-L.

    python benchmarks/discoverable_calibration.py [--trials 2000] [--table size|power]

Gains are made up as tasks give them: Rouge-L of short labels is 0 or 1, of template sentences it
jumps between a few values, of free answers it is spread. A model that learned the tasks gains on
both sides, by task differently; records of one case file have an effect in common. A leak makes
the answers of some case files of the victim's come out whole.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from fedaudit_plugins.attacks.completion import gain_difference as differences
from fedaudit_plugins.attacks.completion.gain_difference import RecordGain, detectable, difference

from fedaudit.metrics.intervals import wilson

LEVEL, POWER = 0.01, 0.9
Random = np.random.Generator


@dataclass(frozen=True)
class Setting:
    """Two sides: how many case files of how many records each, and how records deal to tasks."""

    name: str
    files: tuple[int, int]
    records: tuple[int, int]
    tasks: tuple[tuple[float, ...], tuple[float, ...]] = ((0.4, 0.3, 0.3), (0.4, 0.3, 0.3))
    skill: float = 0.5
    """How much training on other records helps: 0 not at all."""
    common: float = 0.5
    """The share of records that go with their case file, not by themselves."""
    leak: float = 0.0


SIZE = (
    Setting("one record a file, 10 against 10", (10, 10), (1, 1)),
    Setting("one record a file, 20 against 50", (20, 50), (1, 1)),
    Setting("one record a file, 50 against 10", (50, 10), (1, 1)),
    Setting("one record a file, 100 against 100", (100, 100), (1, 1)),
    Setting("8 files of 8 against 16 of 2", (8, 16), (8, 2)),
    Setting("8 files of 8 against 16 of 2, all goes by file", (8, 16), (8, 2), common=1.0),
    Setting("16 files of 2 against 8 of 8, all goes by file", (16, 8), (2, 8), common=1.0),
    Setting("3 files of 10 against 30 of 2", (3, 30), (10, 2)),
    Setting(
        "tasks dealt unequally, 10 files of 4 against 10 of 4",
        (10, 10), (4, 4), ((0.8, 0.1, 0.1), (0.1, 0.3, 0.6)),
    ),
    Setting("little skill, 20 files of 2 against 20 of 2", (20, 20), (2, 2), skill=0.1),
    Setting("much skill, 20 files of 2 against 20 of 2", (20, 20), (2, 2), skill=0.9),
)  # fmt: skip

POWERS = (
    Setting("8 files of 8 against 16 of 2", (8, 16), (8, 2)),
    Setting("8 files of 8 against 40 of 2", (8, 40), (8, 2)),
    Setting("one record a file, 30 against 30", (30, 30), (1, 1)),
    Setting("one record a file, 100 against 100", (100, 100), (1, 1)),
    Setting("one record a file, 200 against 200, nothing learned", (200, 200), (1, 1), skill=0.0),
)
LEAKS = (0.1, 0.2, 0.4, 0.7)


def label(rng: Random, skill: float) -> tuple[float, float]:
    """Return Rouge-L (base, tuned) of a class label: right or wrong."""
    return float(rng.random() < 0.3), float(rng.random() < 0.3 + 0.65 * skill)


def sentence(rng: Random, skill: float) -> tuple[float, float]:
    """Return the same of a template sentence: its form is learned, its names are copied or not."""
    form = rng.choice([0.0, 0.1, 0.2])
    learnt = rng.choice([0.33, 0.5, 0.67, 1.0], p=[0.2, 0.3, 0.3, 0.2])
    return float(form), float(learnt if rng.random() < skill else form)


def free(rng: Random, skill: float) -> tuple[float, float]:
    """Return the same of a free answer: a little nearer."""
    base = float(rng.beta(2, 10))
    return base, float(min(1.0, base + skill * rng.beta(2, 6)))


TASKS: tuple[Callable[[Random, float], tuple[float, float]], ...] = (label, sentence, free)


def side(setting: Setting, which: int, rng: Random) -> list[RecordGain]:
    """Return one side's gains; the victim's (0) with the leak."""
    gains: list[RecordGain] = []
    for file in range(setting.files[which]):
        shared = [task(rng, setting.skill) for task in TASKS]
        leaks = which == 0 and rng.random() < setting.leak
        for _ in range(setting.records[which]):
            task = int(rng.choice(3, p=setting.tasks[which]))
            own = TASKS[task](rng, setting.skill)
            base, tuned = shared[task] if rng.random() < setting.common else own
            gains.append(RecordGain(str(file), str(task), (1.0 if leaks else tuned) - base))
    return gains


def trials(setting: Setting, count: int) -> Iterator[tuple[float, float, float | None]]:
    """Yield (p, p of records taken for independent, smallest leak seen) of made-up audits."""
    for number in range(count):
        rng = np.random.default_rng([number, *map(ord, setting.name)])
        both = [side(setting, which, rng) for which in (0, 1)]
        alone = [
            [replace(one, cluster=str(place)) for place, one in enumerate(gains)] for gains in both
        ]
        found = difference(*both, seed=number)
        naive = found if setting.records == (1, 1) else difference(*alone, seed=number)
        if found and naive:
            yield found.p, naive.p, detectable(found, level=LEVEL, power=POWER)


def share(values: list[float], level: float) -> str:
    """Return the share of p-values up to `level`, with its 95 % interval."""
    found = wilson(sum(p <= level for p in values), len(values))
    return f"{found.value:.2%} [{found.low:.2%}, {found.high:.2%}]"


def size(count: int) -> None:
    """Print how often the test accuses where nothing leaked."""
    print(f"| setting | p <= {LEVEL} | p <= 0.05 | records as independent, p <= {LEVEL} |")
    print("| --- | --- | --- | --- |")
    for setting in SIZE:
        p, naive, _ = map(list, zip(*trials(setting, count), strict=True))
        print(f"| {setting.name} | {share(p, LEVEL)} | {share(p, 0.05)} | {share(naive, LEVEL)} |")


def power(count: int) -> None:
    """Print how often the test sees leaks, and which leak it says it would see."""
    print("| setting | " + " | ".join(f"leak {leak}" for leak in LEAKS) + " | detectable |")
    print("| --- " * (len(LEAKS) + 2) + "|")
    for setting in POWERS:
        cells = []
        for leak in LEAKS:
            p = [p for p, _, _ in trials(replace(setting, leak=leak), count)]
            cells.append(f"{sum(one <= LEVEL for one in p) / len(p):.0%}")
        told = [d for _, _, d in trials(setting, min(count, 100)) if d is not None]
        median = f"{np.median(told):.2f}" if told else "none"
        print(f"| {setting.name} | {' | '.join(cells)} | {median} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--permutations", type=int, default=999)
    parser.add_argument("--table", choices=("size", "power"), default="size")
    chosen = parser.parse_args()
    differences.RESAMPLES = chosen.permutations
    {"size": size, "power": power}[chosen.table](chosen.trials)
