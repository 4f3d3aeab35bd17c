"""How often `attribute` flags somebody by a mark that nobody has, on the answers of trained models.

    python benchmarks/attribution_null_marks.py [--each] [--only NAME]

The study of attribution keeps the scores of its federations, those under null marks among them.
Nobody trained on a null mark, so whoever is flagged by one is innocent. Each null mark in turn
takes the place of the owner's, the others stay null marks, and the federation is decided. Nothing
is made up here: the answers are those of models that federations trained, and the sets are the
tool's own. Without --only the table of docs/attribution-errors.md is written.

A row has, of all clients and marks, those whose p-value is at most 1, 0.1 and 0.033 % (Holm's level
for the first of 30 tests), the highest Z over its spread, and the decisions that flag somebody: by
Holm's p-value alone, and by Z > 4 S beside it, as `attribute` decides, who does not know the sets
and who does. The first row has p-values by chance alone, which allow for nobody else's mark.
Intervals are of 95 % (Wilson). They take decisions for independent, which those of one federation
are not quite: its keys are tried on the same answers, and its clients share masks.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from attribution_study import read_kept
from attribution_study_tables import KEPT, ROOT, with_block

from fedaudit.api.watermark import Score
from fedaudit.attribution.decision.contamination import Shares
from fedaudit.attribution.decision.decision import verdicts
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.intervals import wilson

LEVELS = (0.01, 0.001, 0.01 / 30)
PAGE = ROOT / "docs/attribution-errors.md"
OTHER_PROTOCOLS = ("others-", "pairs-")
"""What variants are called that ask for other sums of a federation that is there already."""
BLOCK = "<!-- null marks -->\n", "<!-- end of null marks -->"


@dataclass(frozen=True, slots=True)
class Tally:
    """What came of the null marks of one federation."""

    p_values: np.ndarray
    by_chance: np.ndarray
    """The same by chance alone, without what estimates may hold of others' marks."""
    highest: float
    """The highest Z, in its standard deviations by chance."""
    by_holm: np.ndarray
    """Of each decision, whether it flags anybody by Holm's p-value alone."""
    flagged: np.ndarray
    """Of each decision, whether it flags anybody."""


def with_null_mark(scores: Scores, index: int) -> Scores:
    """Return a federation's scores as if its null mark `index` were the owner's, for each mark."""

    def swapped(score: Score) -> Score:
        null = np.asarray(score.null)
        return replace(score, z=float(null[index]), null=tuple(np.delete(null, index).tolist()))

    def of_round(one: RoundScores) -> RoundScores:
        clients = {
            client: {mark: swapped(score) for mark, score in own.items()}
            for client, own in one.clients.items()
        }
        reference = {mark: swapped(score) for mark, score in one.reference.items()}
        return replace(one, clients=clients, reference=reference)

    return replace(scores, rounds=tuple(of_round(one) for one in scores.rounds))


def tally(scores: Scores, shares: Shares | None) -> Tally:
    """Decide a federation once for each of its null marks; without `shares`, sets are not known."""
    first = next(iter(scores.rounds[0].reference.values()))
    decisions = [
        list(verdicts(with_null_mark(scores, index), up_to=max(LEVELS), shares=shares).values())
        for index in range(len(first.null))
    ]
    every = [one for own in decisions for one in own]
    return Tally(
        p_values=np.array([one.p_value for one in every]),
        by_chance=np.array([replace(v.chance, leak_distributions=()).p_value(v.z) for v in every]),
        highest=max(one.z / one.chance.spread for one in every),
        by_holm=np.array([any(one.p_value <= one.level for one in own) for own in decisions]),
        flagged=np.array([any(one.flagged for one in own) for own in decisions]),
    )


def rows(name: str, by_sets: Mapping[str, list[Tally]]) -> Iterator[str]:
    """Yield the rows of some federations: by chance alone, and for each that decides."""
    [first, *_] = by_sets.values()
    start = f"| {name} | {len(first)} | {sum(len(one.by_chance) for one in first):,}"
    highest = f"{max(one.highest for one in first):.2f}"
    yield f"{start} | - | {_low([one.by_chance for one in first])} | {highest} | - | - |"
    for sets, tallies in by_sets.items():
        yield (
            f"{start} | {sets} | {_low([one.p_values for one in tallies])} | {highest} | "
            f"{_count([one.by_holm for one in tallies])} | "
            f"{_count([one.flagged for one in tallies])} |"
        )


def _low(p_values: Sequence[np.ndarray]) -> str:
    p = np.concatenate(p_values)
    return " | ".join(f"{100 * (p <= level).mean():.3f}" for level in LEVELS)


def _count(flags: Sequence[np.ndarray]) -> str:
    hits = np.concatenate(flags)
    share = wilson(int(hits.sum()), len(hits))
    return f"{hits.sum()} of {len(hits):,} ({100 * share.low:.2f} to {100 * share.high:.2f} %)"


def table(names: list[str], kept: Path, *, each: bool = False) -> Iterator[str]:
    """Yield rows for each watermark and, where asked for, for each federation."""
    yield (
        "| watermark | federations | clients × marks × null marks | sets | p up to 1 %, % | 0.1 % "
        "| 0.033 % | highest Z / S | flags somebody by Holm alone | flags somebody |"
    )
    yield "| --- | --: | --: | --- | --: | --: | --: | --: | --: | --: |"
    found: dict[str, dict[str, list[Tally]]] = {}
    for name in names:
        _, scores, shares = read_kept(kept, name)
        [kind] = set(scores.marks.values())
        one = {"not known": [tally(scores, None)], "known": [tally(scores, shares)]}
        if each:
            yield from rows(f"{kind}: {name}", one)
        for sets, tallies in one.items():
            found.setdefault(kind, {}).setdefault(sets, []).extend(tallies)
    for kind in sorted(found, reverse=True):
        yield from rows(kind, found[kind])


def kept_names(kept: Path) -> list[str]:
    """Return the names of the federations whose scores are kept, each federation once."""
    names = (path.name.removesuffix(".json.gz") for path in (kept / "scores").glob("*.gz"))
    return sorted(name for name in names if not name.startswith(OTHER_PROTOCOLS))


def main() -> None:
    """Print the table, and write it into its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kept", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--each", action="store_true", help="a row for each federation, too")
    parser.add_argument("--only", default="", help="a part of a federation's name")
    given = parser.parse_args()
    names = [one for one in kept_names(given.kept) if given.only in one]
    found = list(table(names, given.kept, each=given.each))
    print("\n".join(found))
    if given.kept == KEPT and not given.each and not given.only:
        PAGE.write_text(with_block(PAGE.read_text("utf-8"), BLOCK, found), "utf-8")


if __name__ == "__main__":
    main()
