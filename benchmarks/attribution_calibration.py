"""How often the attribution's decision flags somebody innocent, and how often somebody marked.

    python benchmarks/attribution_calibration.py [--federations 1000] [--only NAME]

Federations are made up: designs are the tool's own, and a client's score in a round is chance, the
mark it trained on, and what its estimate holds of marked clients' updates. Chance has the standard
deviation S, and 256 null marks show it where S is not taken for 1. A leak is linear (the share of a
marked update that an estimate holds), or it has a threshold: an estimate that holds half of what a
marked client shows answers as that client does, any other answers nothing.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from fedaudit.attribution.decision import decide
from fedaudit.attribution.scores import Scored, Scores
from fedaudit.metrics import subsets
from fedaudit.metrics.intervals import wilson
from fedaudit.watermark import Score

NULLS = 256
SIGNAL = 14.0
"""The mean Z of a marked client (the paper's: 14.12)."""
LIMIT = 0.4


@dataclass(frozen=True, kw_only=True)
class Federation:
    """What is simulated."""

    name: str
    clients: int = 10
    rounds: int = 5
    marked: int = 3
    marks: int = 3
    """Marked clients share these evenly."""
    spread: float = 1.0
    repeat: float = 0.0
    """The share of chance's variance that is the same in every round."""
    nulls: bool = True
    leak: str = "linear"
    signal: float = SIGNAL
    heavy: bool = False
    """Whether clients' weights are log-normal (sd 0.75 nats)."""
    present: float = 1.0
    """The share of the clients that takes part in a round."""
    pairs: int = 5
    limit: float = LIMIT


def federation(rng: np.random.Generator, one: Federation) -> tuple[Scores, dict[str, str]]:
    """Return a federation's scores, and the mark of each marked client."""
    names = [f"c{n:02}" for n in range(one.clients)]
    marks = [f"m{n}" for n in range(one.marks)]
    truth = {who: marks[n % one.marks] for n, who in enumerate(names[: one.marked])}
    heavy = rng.lognormal(0, 0.75, one.clients) if one.heavy else np.ones(one.clients)
    weights = dict(zip(names, heavy, strict=True))
    shape = (len(names), len(marks), 1 + (NULLS if one.nulls else 0))
    common = rng.standard_normal(shape) * one.repeat**0.5
    rounds = tuple(
        _round(rng, one, number, weights=weights, truth=truth, marks=marks, common=common)
        for number in range(1, one.rounds + 1)
    )
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(names),
        marks=dict.fromkeys(marks, "kgw"),
        dimension=1,
        weights=weights if one.heavy else {},
        rounds=rounds,
    )
    return scores, truth


def _round(
    rng: np.random.Generator,
    one: Federation,
    number: int,
    *,
    weights: dict[str, float],
    truth: dict[str, str],
    marks: Sequence[str],
    common: np.ndarray,
) -> Scored:
    size = max(4, round(one.present * one.clients))
    names = sorted(rng.choice(list(weights), size=size, replace=False))
    others = size // 2
    each = one.signal / one.rounds**0.5
    held = {who: _held(rng, who, names, others, one, weights) for who in names}
    luck = common + rng.standard_normal(common.shape) * (1 - one.repeat) ** 0.5
    order, found = list(weights), {}
    for who in names:
        found[who] = {}
        for at, mark in enumerate(marks):
            own = each if truth.get(who) == mark else 0.0
            took = sum(c for other, c in held[who].items() if truth.get(other) == mark)
            row = one.spread * luck[order.index(who), at]
            z = own + each * _leak(took, own > 0, one.leak) + row[0]
            null = tuple(row[1:].tolist())
            found[who][mark] = Score(z=float(z), p_value=0.5, n=1, hits=0, chance=0.5, null=null)
    nothing = Score(z=0.0, p_value=0.5, n=1, hits=0, chance=0.5)
    reference = replace(nothing, null=(0.0,) * (luck.shape[-1] - 1))
    rho = {who: sum(c * c for c in own.values()) for who, own in held.items()}
    return Scored(
        round=number,
        reference=dict.fromkeys(marks, reference),
        clients=found,
        strength={who: round(value, 2) for who, value in rho.items()},
        effective=dict.fromkeys(names, 1.0),
        others=others,
        pairs=one.pairs,
        limit=one.limit,
    )


def _leak(took: float, own: bool, law: str) -> float:
    """Return what an estimate shows of others' marked updates, in marked clients' scores."""
    if law == "none":
        return 0.0
    if law == "linear" or own:
        return took
    return 1.0 if took >= float(law) else 0.0


def _held(
    rng: np.random.Generator,
    who: str,
    names: Sequence[str],
    others: int,
    one: Federation,
    weights: dict[str, float],
) -> dict[str, float]:
    """Return how much of every other client's update an estimate holds."""
    rest = [name for name in names if name != who]
    relative = np.array([weights[name] for name in rest]) / weights[who]
    while True:
        [c] = subsets.sample(len(names), others, one.pairs, draws=1, seed=int(rng.integers(2**63)))
        # What is accepted is decided by equal weights: that is the harder case for the decision.
        if subsets.accepted(c * one.pairs, others, one.pairs, one.limit):
            return dict(zip(rest, (c * relative).tolist(), strict=True))


def scenarios() -> Iterator[Federation]:
    """Yield every kind of federation."""
    for spread in (1.0, 1.5, 2.4):
        for rounds in (1, 5, 20):
            at = f"S {spread:g}, {rounds} rounds"
            own = Federation(name="", spread=spread, rounds=rounds)
            yield replace(own, name=f"nobody marked, {at}", marked=0)
            yield replace(own, name=f"three marks, linear, {at}")
            yield replace(own, name=f"one mark of three, linear, {at}", marks=1)
            for law in ("0.4", "0.5"):
                yield replace(own, name=f"three marks, from {law}, {at}", leak=law)
                yield replace(own, name=f"one mark of three, from {law}, {at}", leak=law, marks=1)
    for clients in (5, 50):
        own = Federation(name="", clients=clients, spread=1.5)
        yield replace(own, name=f"nobody marked, {clients} clients", marked=0)
        yield replace(own, name=f"three marks, linear, {clients} clients")
        yield replace(
            own, name=f"one mark of three, from 0.4, {clients} clients", leak="0.4", marks=1
        )
    own = Federation(name="", spread=1.5)
    yield replace(own, name="weights differ, three marks, linear", heavy=True)
    yield replace(
        own, name="weights differ, one mark of three, from 0.4", heavy=True, leak="0.4", marks=1
    )
    yield replace(own, name="six of ten a round, three marks, linear", present=0.6)
    yield replace(
        own,
        name="six of ten a round, one mark of three, from 0.4",
        present=0.6,
        leak="0.4",
        marks=1,
    )
    yield replace(own, name="chance repeats, three marks, linear", repeat=0.5)
    yield replace(own, name="limit 1, three marks, linear", limit=1.0)
    yield replace(own, name="limit 1, one mark of three, from 0.5", limit=1.0, leak="0.5", marks=1)
    yield replace(own, name="no null marks, S 1, three marks, linear", nulls=False, spread=1.0)
    yield replace(own, name="stronger, three marks, linear", signal=30.0)
    yield replace(own, name="weaker, three marks, linear", signal=7.0)


def run(one: Federation, count: int) -> str:
    """Return a row of the table."""
    rng = np.random.default_rng(crc32(one.name.encode()))
    accused = paper = caught = 0
    p_values: list[float] = []
    for _ in range(count):
        scores, truth = federation(rng, one)
        found = decide(scores)
        innocent = [t for t in found.tests if t.client not in truth]
        accused += any(t.flagged for t in innocent)
        paper += any(t.z > max(4.0, 4.0 * t.spread) for t in innocent)
        p_values += [t.p_value for t in innocent]
        caught += sum(truth[who] in found.marks.get(who, ()) for who in truth)
    share, old = wilson(accused, count), paper / count
    power = f"{100 * caught / (count * one.marked):.1f} %" if one.marked else "-"
    least = np.mean(np.array(p_values) <= 0.01)
    return (
        f"| {one.name} | {100 * share.value:.1f} % ({100 * share.low:.1f} to "
        f"{100 * share.high:.1f} %) | {100 * old:.1f} % | {100 * least:.2f} % | {power} |"
    )


def main() -> None:
    """Print a row for every kind of federation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--federations", type=int, default=1000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print(
        "| federation | somebody innocent is flagged | by Z > 4 S | innocents with p at most 1 % | "
        "marked clients flagged |\n| --- | --: | --: | --: | --: |"
    )
    for one in scenarios():
        if given.only in one.name:
            print(run(one, given.federations), flush=True)


if __name__ == "__main__":
    main()
