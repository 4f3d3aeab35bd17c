"""How often the attribution's decision flags somebody innocent, and how often somebody marked.

    python benchmarks/attribution_calibration.py [--known] [--federations 1000] [--jobs 1]
        [--tau 4] [--grid] [--shared] [--only PART_OF_A_NAME]

The federations are made up, see federations.py. A row has, in per cent: the federations in which
somebody innocent is flagged by the decision, with the 95 % interval; the same by Z > 4 S alone;
innocent clients' p-values up to 1 and 5 %, with two standard errors (over federations); federations
in which a marked client is flagged by a mark that it has not; marked clients that are flagged by
their own.

--shared asks for sets that a round's estimates share, in the kinds of equal weights and of the
usual limit. --grid varies everything together: the size of the federation, S, rounds, weights and
who takes part, in 540 kinds. It ends in a line for each law of answers, over all its kinds. --seed
draws other federations: what was decided by trial was tried on seeds 7 and 9. OMP_NUM_THREADS=1
keeps numpy from sharing small products among threads, which takes twice as long beside other work.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice, product
from zlib import crc32

import numpy as np
from federations import LIMIT, Federation, federation

from fedaudit.attribution.decision.decision import verdicts
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.metrics.intervals import wilson

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
            for law in ("linear", "0.5", "0.4"):
                says = law if law == "linear" else f"from {law}"
                yield replace(own, name=f"own marks, {says}, {at}", leak=law)
                yield replace(own, name=f"one mark of three, {says}, {at}", leak=law, marks=1)
    for clients in (5, 50):
        yield from _kinds(Federation(name=f"{clients} clients", clients=clients, spread=1.5))
    yield from _kinds(Federation(name="weights differ", spread=1.5, heavy=True))
    yield from _kinds(Federation(name="six of ten a round", spread=1.5, present=0.6))
    yield from _kinds(Federation(name="limit 1", spread=1.5, limit=1.0))
    yield from _kinds(Federation(name="no null marks, S 1", nulls=False))
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


def summary(kinds: Sequence[Federation], rows: Sequence[np.ndarray]) -> Iterator[str]:
    """Yield a line for each law of answers: the worst kind, and all of them together."""
    laws = dict.fromkeys(_law(one) for one in kinds)
    yield (
        "| answers | kinds | federations | somebody innocent is flagged | in the worst kind | "
        "kinds surely above 1 % | p up to 1 %, at most | marked, found |"
    )
    yield "| --- | --: | --: | --: | --- | --: | --: | --: |"
    for law in laws:
        own = [(one, found) for one, found in zip(kinds, rows, strict=True) if _law(one) == law]
        hits = [int(found[:, 0].sum()) for _, found in own]
        n = [len(found) for _, found in own]
        worst = max(range(len(own)), key=lambda at: hits[at] / n[at])
        everywhere, there = wilson(sum(hits), sum(n)), wilson(hits[worst], n[worst])
        above = sum(wilson(k, size).low > LOW for k, size in zip(hits, n, strict=True))
        power = np.mean([found[:, 5].mean() for _, found in own])
        yield (
            f"| {law} | {len(own)} | {sum(n):,} | {sum(hits)} ({100 * everywhere.low:.2f} to "
            f"{100 * everywhere.high:.2f} %) | {100 * there.value:.1f} % ({100 * there.low:.1f} to "
            f"{100 * there.high:.1f}): {own[worst][0].name} | {above} | "
            f"{100 * max(found[:, 2].mean() for _, found in own):.2f} % | "
            f"{'-' if not own[0][0].marked else f'{100 * power:.1f} %'} |"
        )


def _law(one: Federation) -> str:
    if not one.marked:
        return "nobody marked"
    of = "own marks" if one.marks > 1 else "one mark of three"
    return f"{of}, {one.leak if one.leak == 'linear' else f'from {one.leak}'}"


def _kinds(own: Federation) -> Iterator[Federation]:
    yield replace(own, name=f"{own.name}, nobody marked", marked=0)
    yield replace(own, name=f"{own.name}, own marks, linear")
    yield replace(own, name=f"{own.name}, own marks, from 0.5", leak="0.5")
    yield replace(own, name=f"{own.name}, one mark of three, from 0.5", marks=1, leak="0.5")
    yield replace(own, name=f"{own.name}, one mark of three, from 0.4", marks=1, leak="0.4")


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


def line(one: Federation, rows: np.ndarray) -> str:
    """Return a row of the table."""
    count, mean = len(rows), 100 * rows.mean(axis=0)
    share = wilson(int(rows[:, 0].sum()), count)
    error = 200 * rows.std(axis=0) / count**0.5
    power = f"{mean[5]:.1f}" if one.marked else "-"
    return (
        f"| {one.name} | {mean[0]:.1f} ({100 * share.low:.1f} to {100 * share.high:.1f}) | "
        f"{mean[1]:.1f} | {mean[2]:.2f} ± {error[2]:.2f} | {mean[3]:.2f} ± {error[3]:.2f} | "
        f"{mean[4]:.1f} | {power} |"
    )


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
    """Print a row for every kind of federation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--federations", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="whoever decides knows the sets")
    parser.add_argument("--tau", type=float, default=THRESHOLD, help="in S")
    parser.add_argument("--grid", action="store_true", help="everything varies together")
    parser.add_argument(
        "--shared", action="store_true", help="a round's estimates share their sets"
    )
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print(
        "| per cent of federations or clients | somebody innocent is flagged | by Z > 4 S | "
        "p up to 1 % | p up to 5 % | flagged by another's mark | marked, found |\n"
        "| --- | --: | --: | --: | --: | --: | --: |"
    )
    kinds = [one for one in (grid() if given.grid else scenarios()) if given.only in one.name]
    if given.shared:
        kinds = [replace(one, shared=True) for one in kinds if not one.heavy and one.limit == LIMIT]
    found = blocks(
        kinds,
        given.federations,
        given.seed,
        given.jobs,
        known=given.known,
        threshold=given.tau,
    )
    kept = []
    for one, rows in zip(kinds, found, strict=True):
        print(line(one, rows), flush=True)
        kept.append(rows)
    if given.grid:
        print("\n".join(["", *summary(kinds, kept)]))


if __name__ == "__main__":
    main()
