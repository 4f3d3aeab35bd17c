"""What clients that hide, and servers that collude, do to attribution.

    python benchmarks/attribution_adversaries.py [--known] [--federations 400] [--jobs 1]
        [--out FILE]
    python benchmarks/attribution_adversaries.py --collusion

Updates are vectors: what a round's clients have in common, what is each one's own (both random),
and a direction for its mark. Estimates are formed of them as the server forms them, by the tool's
own designs (N 10, m 5, K 5, limit 0.4). Every estimate is tested for every mark and 64 null ones,
by what it has in a mark's direction ("size"), or by its cosine with it ("cosine"), which no scale
changes and which ends at 1. Three clients of ten have a mark of their own, or all of them one ("one
mark"), and a mean Z of 14 in five rounds, or in one; the first of them hides in one of `WAYS` or
`BOOSTED`. Of "linear" and "saturating" tests scores are made up, by federations.py, with S 1.5. A
row has the mean Z of who hides, how often it is found (one identity at least, where it has two),
how often the other marked clients are, and how often somebody innocent is, in per cent. With
--known whoever decides knows the sets.

--collusion counts the sums of a round after which updates follow, with clients that tell theirs.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from zlib import crc32

import federations
import numpy as np
from attribution_tables import ADVERSARY_HEADER, Record, adversary_line
from federations import Federation, Shares, federation

from fedaudit.attribution.decision.decision import ClientVerdict, verdicts
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

CLIENTS, ROUNDS, MARKED, NUMBERS, NULLS = 10, 5, 3, 600, 64
NOISE = 1.25
"""The standard deviation of an honest estimate in any direction, where a client's own is 1."""
BLOCK = 50
Way = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""What a client sends in the place of its update."""


def _scaled(by: float) -> Way:
    return lambda update, _rng: by * update


def _clipped(share: float) -> Way:
    most = share * NUMBERS**0.5
    return lambda update, _rng: update * min(1.0, most / float(np.linalg.norm(update)))


def _noisy(sd: float) -> Way:
    return lambda update, rng: update + sd * rng.standard_normal(len(update))


WAYS: dict[str, Way] = {
    "honest": _scaled(1),
    "sends 0.3 times its update": _scaled(0.3),
    "sends 3 times its update": _scaled(3),
    "sends 10 times its update": _scaled(10),
    "clips it to half of the usual length": _clipped(0.5),
    "adds noise as large as its update": _noisy(1),
    "adds noise three times as large": _noisy(3),
    "splits its documents over two identities": _scaled(1),
}
SPLIT = next(reversed(WAYS))
ONE_MARK, ONE_ROUND = ", one mark", ", one round"
BOOSTED = [
    f"sends {gain} times its update{mark}"
    for mark in (ONE_MARK, ONE_MARK + ONE_ROUND)
    for gain in (3, 10)
]
"""Ways in which a client may also accuse others: those who have its mark, too, hide theirs less."""


def made(rng: np.random.Generator, way: str, test: str) -> tuple[Scores, dict[str, str], Shares]:
    """Return a federation's scores, the mark of each marked client, and what estimates hold.

    The first marked client hides.
    """
    names, numbers = [f"c{n}" for n in range(CLIENTS)], range(1, _rounds(way) + 1)
    truth = {f"c{n}": "m0" if ONE_MARK in way else f"m{n}" for n in range(MARKED)}
    strength = np.zeros((CLIENTS, MARKED))
    for n, mark in enumerate(truth.values()):
        strength[n, int(mark[1:])] = federations.SIGNAL / len(numbers) ** 0.5 * NOISE
    if way == SPLIT:
        truth["c3"] = "m0"
        strength[[0, 3], 0] = strength[0, 0] / 2
    marks = rng.standard_normal((MARKED + NULLS, NUMBERS))
    marks /= np.linalg.norm(marks, axis=1, keepdims=True)
    shares: Shares = {}
    rounds = tuple(
        _round(rng, n, names, strength @ marks[:MARKED], marks, way=way, test=test, known=shares)
        for n in numbers
    )
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(names),
        marks={f"m{n}": "kgw" for n in range(MARKED)},
        dimension=NUMBERS,
        rounds=rounds,
    )
    return scores, truth, shares


def _round(
    rng: np.random.Generator,
    number: int,
    names: list[str],
    learned: np.ndarray,
    marks: np.ndarray,
    *,
    way: str,
    test: str,
    known: Shares,
) -> RoundScores:
    updates = learned + rng.standard_normal(learned.shape) + rng.standard_normal(NUMBERS) / 2
    for at in (0, 3) if way == SPLIT else (0,):
        updates[at] = WAYS[way.partition(ONE_MARK)[0]](updates[at], rng)
    kind = Federation(name="", clients=CLIENTS)
    settings, held = federations.drawn(rng, kind, CLIENTS)
    known[number] = federations.share_table(names, held)
    estimates = updates + held @ updates
    z = estimates @ marks.T / NOISE
    if test == "cosine":
        z *= NOISE * NUMBERS**0.5 / np.linalg.norm(estimates, axis=1, keepdims=True)
    return RoundScores(
        round=number,
        reference={f"m{n}": federations.score(np.zeros(1 + NULLS)) for n in range(MARKED)},
        clients={
            who: {
                f"m{n}": federations.score(np.append(row[n], row[MARKED:])) for n in range(MARKED)
            }
            for who, row in zip(names, z, strict=True)
        },
        strength=dict(zip(names, np.square(held).sum(axis=1).round(2).tolist(), strict=True)),
        effective=dict.fromkeys(names, 1.0),
        **settings,
    )


def block(way: str, test: str, count: int, seed: tuple[int, ...], *, known: bool) -> np.ndarray:
    """Return a row for each federation.

    Whether the client that hides is found (either identity, for two), the share of the other marked
    clients that are, whether somebody innocent is flagged, and the mean Z of who hides.
    """
    rng = np.random.default_rng([*seed, crc32(f"{way}, {test}".encode())])
    rows = np.zeros((count, 4))
    for row in rows:
        if test in ("linear", "saturating"):
            scores, truth, shares = federation(rng, _made_up(way, test))
        else:
            scores, truth, shares = made(rng, way, test)
        found = verdicts(scores, up_to=0.01, shares=shares if known else None)
        hiding = [who for who in truth if way == SPLIT and truth[who] == "m0"]
        row[:] = _outcome(found, truth, hiding or list(truth)[:1])
    return rows


def _made_up(way: str, law: str) -> Federation:
    """Return the federation in which scores, not updates, are made up."""
    by = 1.0 if way == "honest" else float(way.split()[1])
    marks = 1 if ONE_MARK in way else MARKED
    return Federation(name=way, spread=1.5, leak=law, scale=by, marks=marks, rounds=_rounds(way))


def _rounds(way: str) -> int:
    return 1 if way.endswith(ONE_ROUND) else ROUNDS


def _outcome(
    found: dict[tuple[str, str], ClientVerdict], truth: dict[str, str], hiding: list[str]
) -> tuple[float, float, float, float]:
    hidden = [found[who, truth[who]] for who in hiding]
    rest = [found[pair].flagged for pair in truth.items() if pair[0] not in hiding]
    return (
        any(one.flagged for one in hidden),
        float(np.mean(rest)),
        any(one.flagged for (who, _), one in found.items() if who not in truth),
        float(np.mean([one.z for one in hidden])),
    )


def kinds() -> Iterator[tuple[str, str]]:
    """Yield every way with every test."""
    for test in ("size", "cosine"):
        for way in (*WAYS, *BOOSTED):
            yield way, test
    for test in ("linear", "saturating"):
        for way in (*list(WAYS)[:3], *BOOSTED):
            yield way, test


def records(count: int, seed: int, jobs: int, *, known: bool = False) -> Iterator[Record]:
    """Yield what is kept of each way and test: counts of federations, and shares of clients."""
    sizes = [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
    work = [(*kind, size, (seed, at)) for kind in kinds() for at, size in enumerate(sizes)]
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(partial(block, known=known), *zip(*work, strict=True))
        for way, test in kinds():
            rows = np.concatenate(list(islice(found, len(sizes))))
            caught, rest, _, z = rows.mean(axis=0).tolist()
            yield {
                "test": test,
                "way": way,
                "known": known,
                "seed": seed,
                "federations": count,
                "z": z,
                "found": caught,
                "others_found": rest,
                "innocent_flagged": int(rows[:, 2].sum()),
            }


def collusion(draws: int = 20) -> Iterator[str]:
    """Yield a line for each design: after how many sums the first and all updates follow."""
    for clients, m, pairs in ((10, 5, 5), (20, 5, 5), (50, 5, 5)):
        names = [f"c{n:02}" for n in range(clients)]
        for helpers in (0, 1, clients // 4, clients // 2):
            first, last = [], []
            for seed in range(draws):
                found = sum_leakage(_asked(names, m, pairs, seed), 5, colluders=names[:helpers])
                first.append(found.queries_until_determined or np.inf)
                whole = len(found.determined) == clients - helpers
                last.append(max(found.determined.values()) if whole else np.inf)
            yield (
                f"| {clients}, {m}, {pairs} | {helpers} | {np.median(first):.0f} "
                f"({min(first):.0f}) | {np.median(last):.0f} ({max(last):.0f}) |"
            )


def _asked(names: list[str], others: int, pairs: int, seed: int) -> list[tuple[str, ...]]:
    """Return the sums of a round in the order asked, the round's own first."""
    drawn = (
        subset_design.draw(
            names, who, mask_size=others, queries=pairs, threshold=5, seed=seed, number=1, limit=0.4
        )
        for who in names
    )
    sets = [s for one in drawn for s in (*one.include, *one.exclude)]
    return [tuple(names), *sets]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--federations", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="whoever decides knows the sets")
    parser.add_argument("--collusion", action="store_true")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, for attribution_tables.py")
    given = parser.parse_args()
    if given.collusion:
        print("| N, m, K | who tells | first after, median (least) | all after, median (most) |")
        print("| --- | --: | --: | --: |")
        for line in collusion():
            print(line, flush=True)
        return
    kept = []
    print("\n".join(ADVERSARY_HEADER))
    for one in records(given.federations, given.seed, given.jobs, known=given.known):
        print(adversary_line(one), flush=True)
        kept.append(json.dumps(one))
    if given.out:
        given.out.write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
