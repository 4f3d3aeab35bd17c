"""How often the attribution's decision flags somebody innocent, and how often somebody marked.

    python benchmarks/attribution_calibration.py [--known] [--federations 1000] [--jobs 1]
        [--tau 4] [--grid] [--tails] [--limits] [--shared] [--only PART_OF_A_NAME] [--out FILE]

The federations are made up, see federations.py. A row has, in per cent: the federations in which
somebody innocent is flagged by the decision, with the 95 % interval; the same by Z > 4 S alone;
innocent clients' p-values up to 1 and 5 %, with two standard errors (over federations); federations
in which a marked client is flagged by a mark that it has not; marked clients that are flagged by
their own.

--tails varies the tails of chance and the number of null marks, and has tests that answer to
negative shares, too. --shared asks for sets that a round's estimates share, in the kinds of equal
weights and of the usual limit. --limits asks for what the decision takes for granted and a
federation may not have:
chance with heavier tails than the normal law, answers that scatter. --grid varies everything
together: the size of the federation, S, rounds, weights and
who takes part, in 648 kinds. It ends in a line for each law of answers, over all its kinds. --seed
draws other federations: what was decided by trial was tried on seeds 7 and 9. OMP_NUM_THREADS=1
keeps numpy from sharing small products among threads, which takes twice as long beside other work.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from attribution_tables import (
    GROUP_HEADER,
    KIND_HEADER,
    Record,
    group_lines,
    kind_line,
    read_records,
)
from federations import ALL, LIMIT, NULLS, SIGNAL, Federation, federation

from fedaudit.attribution.decision.decision import verdicts
from fedaudit.metrics.attribution.stouffer import THRESHOLD

BLOCK = 100
"""Federations that one process makes up at a time."""
LOW, HIGH = 0.01, 0.05


def scenarios() -> Iterator[Federation]:
    """Yield every kind of federation."""
    for spread in (1.0, 1.5, 2.4):
        for rounds in (1, 5, 20):
            at = f"S {spread:g}, {rounds} rounds"
            own = Federation(name="", spread=spread, rounds=rounds)
            yield replace(own, name=f"nobody marked, {at}", marked=0)
            for law in ("linear", "0.5", "0.4", "all 0.5", "all 0.4"):
                yield replace(own, name=f"own marks, {says(law)}, {at}", leak=law)
                yield replace(own, name=f"one mark of three, {says(law)}, {at}", leak=law, marks=1)
    for clients in (5, 50):
        yield from _kinds(Federation(name=f"{clients} clients", clients=clients, spread=1.5))
    yield from _kinds(Federation(name="weights differ", spread=1.5, heavy=True))
    yield from _kinds(Federation(name="six of ten a round", spread=1.5, present=0.6))
    yield from _kinds(Federation(name="limit 1", spread=1.5, limit=1.0))
    yield from _kinds(Federation(name="no null marks, S 1", nulls=0))
    yield from _kinds(Federation(name="chance repeats by half", spread=1.5, repeat=0.5))
    for marks in (1, 3):
        of = "one mark" if marks == 1 else "three marks"
        own = Federation(name="", spread=1.5, marks=marks)
        yield replace(own, name=f"all marked but one, {of}, linear", marked=9)
        yield replace(own, name=f"all marked but one, {of}, from 0.5", marked=9, leak="0.5")
    for law in ("linear", "0.5", "0.4", "saturating"):
        yield Federation(name=f"one marked, {law}", marked=1, marks=1, spread=1.5, leak=law)
    for signal in (7.0, 30.0):
        own = Federation(name="", signal=signal, spread=1.5)
        yield replace(own, name=f"own marks, linear, mean Z {signal:g}")
    for signal in (SIGNAL, 30.0):
        own = Federation(name="", clients=30, rounds=1, marked=5, marks=1, signal=signal)
        yield replace(own, name=f"30 clients, one round, one mark of five, mean Z {signal:g}")


def grid() -> Iterator[Federation]:
    """Yield federations in which size, S, rounds, weights and participation vary together."""
    for clients, spread, rounds, heavy, present in product(
        (5, 10, 50), (1.0, 1.5, 2.4), (1, 5, 20), (False, True), (1.0, 0.6)
    ):
        words = [f"{clients} clients", f"S {spread:g}", f"{rounds} rounds"]
        words += ["weights differ"] * heavy + ["six of ten a round"] * (present < 1)
        yield from _kinds(
            Federation(
                name=", ".join(words),
                clients=clients,
                spread=spread,
                rounds=rounds,
                heavy=heavy,
                present=present,
            )
        )


def limits() -> Iterator[Federation]:
    """Yield federations that have not what the decision takes for granted."""
    for rounds in (1, 5):
        for tails in (3, 5, 10):
            name = f"nobody marked, chance is Student's t, {tails} degrees, {rounds} rounds"
            yield Federation(name=name, marked=0, rounds=rounds, tails=tails)
        for tails in (3, 5):
            name = f"own marks, linear, chance is Student's t, {tails} degrees, {rounds} rounds"
            yield Federation(name=name, rounds=rounds, tails=tails)
    for rounds in (1, 2, 5):
        for scatter in (0.1, 0.2, 0.3):
            name = f"own marks, from 0.4, each answer times 1 ± {scatter:g}, {rounds} rounds"
            yield Federation(name=name, rounds=rounds, leak="0.4", scatter=scatter)


def tails() -> Iterator[Federation]:
    """Yield federations by the tails of chance and the number of null marks, and odd answers."""
    for degrees, nulls, rounds in product((0, 5, 3), (24, 64, 128, NULLS), (1, 5)):
        law = f"Student's t, {degrees} degrees" if degrees else "normal"
        name = f"nobody marked, chance is {law}, {nulls} null marks, {rounds} rounds"
        yield Federation(name=name, marked=0, rounds=rounds, tails=degrees, nulls=nulls)
    for rounds in (5, 7):
        name = f"own marks, negative shares answer, too, {rounds} rounds"
        yield Federation(name=name, rounds=rounds, leak="absolute", spread=1.5)


def says(law: str) -> str:
    """Return a law of answers as a kind's name has it."""
    if law.startswith(ALL):
        return f"{ALL}from {law.removeprefix(ALL)}"
    return law if law == "linear" else f"from {law}"


def group(one: Federation) -> str:
    """Return who is marked, and the law of answers."""
    if not one.marked:
        return "nobody marked"
    return f"{'own marks' if one.marks > 1 else 'one mark of three'}, {says(one.leak)}"


def _kinds(own: Federation) -> Iterator[Federation]:
    yield replace(own, name=f"{own.name}, nobody marked", marked=0)
    yield replace(own, name=f"{own.name}, own marks, linear")
    yield replace(own, name=f"{own.name}, own marks, from 0.5", leak="0.5")
    yield replace(own, name=f"{own.name}, one mark of three, from 0.5", marks=1, leak="0.5")
    yield replace(own, name=f"{own.name}, one mark of three, from 0.4", marks=1, leak="0.4")
    yield replace(own, name=f"{own.name}, one mark of three, all from 0.4", marks=1, leak="all 0.4")


def block(
    one: Federation, count: int, seed: tuple[int, ...], *, known: bool, threshold: float
) -> np.ndarray:
    """Return a row for each of `count` federations.

    Whether somebody innocent is flagged, by the decision and by Z alone; the shares of innocent
    clients' p-values up to LOW and HIGH; whether a mark is found in somebody else; the share of
    marked clients that are found.
    """
    rng = np.random.default_rng([*seed, crc32(one.name.encode())])
    rows = np.zeros((count, 6))
    for row in rows:
        scores, truth, shares = federation(rng, one)
        found = verdicts(scores, threshold=threshold, up_to=HIGH, shares=shares if known else None)
        innocent = [v for (who, _), v in found.items() if who not in truth]
        marked = [v for (who, mark), v in found.items() if truth.get(who) == mark]
        other = [v for (who, mark), v in found.items() if who in truth and truth[who] != mark]
        p = np.array([v.p_value for v in innocent])
        row[:] = (
            any(v.flagged for v in innocent),
            any(v.z > v.chance.floor(THRESHOLD) for v in innocent),
            (p <= LOW).mean(),
            (p <= HIGH).mean(),
            any(v.flagged for v in other),
            np.mean([v.flagged for v in marked]) if marked else 0.0,
        )
    return rows


def record(one: Federation, rows: np.ndarray, run: Mapping[str, Any]) -> Record:
    """Return what is kept of a kind: counts of federations, and means over them with their errors.

    An error is the standard deviation of the mean. `run` has the settings of all kinds.
    """
    mean, error = rows.mean(axis=0), rows.std(axis=0) / len(rows) ** 0.5
    return {
        "kind": one.name,
        "group": group(one),
        "clients": one.clients,
        **run,
        "innocent_flagged": int(rows[:, 0].sum()),
        "innocent_above_z": int(rows[:, 1].sum()),
        "p_low": [float(mean[2]), float(error[2])],
        "p_high": [float(mean[3]), float(error[3])],
        "other_mark": int(rows[:, 4].sum()),
        "found": [float(mean[5]), float(error[5])] if one.marked else None,
    }


def blocks(
    kinds: list[Federation],
    count: int,
    seed: int,
    jobs: int,
    *,
    known: bool = False,
    threshold: float = THRESHOLD,
) -> Iterator[np.ndarray]:
    """Yield the rows of each kind of federation, in order; processes share the work."""
    sizes = [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
    work = [(one, size, (seed, at)) for one in kinds for at, size in enumerate(sizes)]
    with ProcessPoolExecutor(jobs) as pool:
        one_block = partial(block, known=known, threshold=threshold)
        found = pool.map(one_block, *zip(*work, strict=True)) if work else iter(())
        for _ in kinds:
            yield np.concatenate(list(islice(found, len(sizes))))


def main() -> None:
    """Print a row for every kind of federation, and keep what it says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--federations", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="whoever decides knows the sets")
    parser.add_argument("--tau", type=float, default=THRESHOLD, help="in S")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--grid", action="store_true", help="everything varies together")
    which.add_argument("--tails", action="store_true", help="tails of chance and null marks")
    which.add_argument("--limits", action="store_true", help="what is taken for granted fails")
    parser.add_argument(
        "--shared", action="store_true", help="a round's estimates share their sets"
    )
    parser.add_argument("--only", default="", help="a part of a kind's name")
    parser.add_argument("--out", type=Path, help="JSON lines; kinds in it are not run again")
    given = parser.parse_args()
    every = (
        grid()
        if given.grid
        else tails()
        if given.tails
        else limits()
        if given.limits
        else scenarios()
    )
    kinds = [one for one in every if given.only in one.name]
    if given.shared:
        kinds = [replace(one, shared=True) for one in kinds if not one.heavy and one.limit == LIMIT]
    run = {"known": given.known, "seed": given.seed, "federations": given.federations}
    run |= {"tau": given.tau, "shared": given.shared}
    kept = read_records(given.out) if given.out and given.out.exists() else []
    if any(one[name] != value for one in kept for name, value in run.items()):
        parser.error(f"{given.out} is of other settings.")
    there = {one["kind"] for one in kept}
    kinds = [one for one in kinds if one.name not in there]
    found = blocks(
        kinds,
        given.federations,
        given.seed,
        given.jobs,
        known=given.known,
        threshold=given.tau,
    )
    print("\n".join([*KIND_HEADER, *map(kind_line, kept)]), flush=True)
    for one, rows in zip(kinds, found, strict=True):
        kept.append(record(one, rows, run))
        print(kind_line(kept[-1]), flush=True)
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept[-1]) + "\n")
    if given.grid:
        print("\n".join(["", *GROUP_HEADER, *group_lines(kept)]))


if __name__ == "__main__":
    main()
