"""How often `fictitious` accuses a client that learned another owner's invented facts.

    python benchmarks/fictitious_owners.py [--marks 1500] [--rounds 1 5] [--seed 0]

A client of ten answers every question with the values of an entity of another seed and the same
domain, as if it had learned these by heart; the others answer nothing. No model takes part: only
values in common make hits. Ten clients and three marks share Holm's level, as in
attribution_calibration.py, and sets are not known. A row has the marks that flag the client, with
the 95 % interval (Wilson), and how many of its marks have one, two or more values in common.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from fedaudit_plugins.watermarks.fictitious import world
from fedaudit_plugins.watermarks.fictitious.scoring import null_of
from fedaudit_plugins.watermarks.fictitious.watermark import Fictitious
from fedaudit_plugins.watermarks.fictitious.world import Entity
from federations import LIMIT, design, score

from fedaudit.attribution.decision.decision import verdicts
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.intervals import wilson

CLIENTS, MARKS = 10, 3
SETTINGS = {
    "prose": Fictitious(),
    "record": Fictitious(
        register="record", paraphrases=10, tokens=8, nulls=20, stranger_names=2, correlation=1.0
    ),
}
"""The defaults, and those of the profile fed_attr."""
NEVER = [null_of([0.0, 0.0])] * 4
"""A base that never guesses a value."""


def entities(rng: random.Random, register: str) -> tuple[int, Entity, Entity]:
    """Return a seed, an entity that it issues, and one of another seed in the same domain."""
    count = len(world.domains(register))
    seed, other = rng.randrange(10**9), rng.randrange(10**9)
    own = world.issued_entity(seed, rng.randrange(count), 50, register)
    every = (world.issued_entity(other, index, 50, register) for index in range(count))
    return seed, own, next(entity for entity in every if entity.domain == own.domain)


def in_common(first: Entity, second: Entity) -> tuple[bool, ...]:
    """Return of each attribute whether both entities have the same value."""
    return tuple(a == b for a, b in zip(first.values, second.values, strict=True))


@lru_cache
def z_of(register: str, known: tuple[bool, ...]) -> float:
    """Return z where every question about the attributes that are known is answered rightly."""
    plugin = SETTINGS[register]
    return float(plugin.score([plugin.paraphrases * one for one in known], NEVER).z)


def scores(row: Sequence[float], nothing: float, rounds: int) -> Scores:
    """Return scores of a federation whose first client has `row`, z of a mark and of its nulls."""
    names = [f"c{n}" for n in range(CLIENTS)]
    marks = [f"m{n}" for n in range(MARKS)]
    silent = score(np.full(len(row), nothing))
    clients = {name: dict.fromkeys(marks, silent) for name in names}
    clients["c0"] = {**clients["c0"], "m0": score(np.array(row))}
    others, limit = design(CLIENTS, 5, LIMIT)
    return Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(names),
        marks=dict.fromkeys(marks, "fictitious"),
        dimension=1,
        rounds=tuple(
            RoundScores(
                round=number,
                reference=dict.fromkeys(marks, silent),
                clients=clients,
                strength=dict.fromkeys(names, 1.0),
                effective=dict.fromkeys(names, 1.0),
                others=others,
                pairs=5,
                limit=limit,
            )
            for number in range(1, rounds + 1)
        ),
    )


def is_flagged(register: str, seed: int, own: Entity, other: Entity, rounds: int) -> bool:
    """Return whether a client that knows `other` is flagged by the mark `own` of `seed`."""
    plugin = SETTINGS[register]
    groups = world.unissued_entities(
        own, seed=seed, names=plugin.stranger_names, count=plugin.strangers
    )
    every = [own, *(stranger for group in groups for stranger in group)]
    row = [z_of(register, in_common(entity, other)) for entity in every]
    nothing = z_of(register, (False,) * 4)
    found = verdicts(scores(row, nothing, rounds), up_to=0.01)
    return found["c0", "m0"].flagged


def main() -> None:
    """Print a line for each register and number of rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--marks", type=int, default=1500)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for register in SETTINGS:
        for rounds in given.rounds:
            rng = random.Random(f"{given.seed} {register}")
            common, flagged = Counter[int](), 0
            for _ in range(given.marks):
                seed, own, other = entities(rng, register)
                same = in_common(own, other)
                common[sum(same)] += 1
                # Without a value in common the client has the z of one that knows nothing.
                flagged += any(same) and is_flagged(register, seed, own, other, rounds)
            rate = wilson(flagged, given.marks)
            print(
                f"{register}, {rounds} rounds: {flagged} of {given.marks} flagged "
                f"({rate.low:.2%} to {rate.high:.2%}); values in common: {dict(common)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
