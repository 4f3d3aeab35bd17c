"""How often `membership` takes two sets of records for sets of two sources by their texts alone.

    python benchmarks/text_shift_calibration.py [--trials 200] [--seed 0]

Both sets are the built-in generator's, of so many people with some records each. Under the null
nothing else tells them apart; under "years" a share of the records of one set has a word of its
year, and the other set's have another. A row has how often sets are refused by the interval of the
area under the curve alone, which takes records as independent, and by the rule, which holds such an
interval against groups dealt anew (at most 2.5 % under the null), and the mean and standard
deviation of that area.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from calibration_cases import invented_people

from fedaudit.api.records import Document
from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.roc import auc

SHAPES = ((20, 3, 3), (40, 8, 8), (40, 8, 3), (100, 3, 3))
"""People of each set, and records of a person of the one and of the other."""
SHARES = (0.0, 0.1, 0.3)


def dated(records: Sequence[Document], year: str, share: float) -> list[Document]:
    """Return records of which a share names a year: the first of each ten, or the first three."""
    return [
        replace(one, text=f"{one.text} {year}") if number % 10 < 10 * share else one
        for number, one in enumerate(records)
    ]


def main(words: Sequence[str] | None = None) -> None:
    """Print a line a case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--shape", type=int, action="append", help="0 for the first, and so on")
    parser.add_argument("--seed", type=int, default=0, help="trials of another seed: other people")
    given = parser.parse_args(words)
    trials, shapes = given.trials, given.shape or range(len(SHAPES))
    first = given.seed * trials
    print("people x records, years | refused by the interval | by the rule | area", flush=True)
    for count, *each in (SHAPES[at] for at in shapes):
        for share in SHARES:
            areas, narrow, refused = [], 0, 0
            for trial in range(first, first + trials):
                ours, theirs = (
                    dated(invented_people(2_000_000 + start + trial, count, size), year, share)
                    for start, year, size in zip(
                        (0, 1_000_000), ("2019", "2024"), each, strict=True
                    )
                )
                found = text_baseline.cross_validated(ours, theirs, seed=trial)
                by_text = auc(*found) if found else None
                areas.append(by_text.value if by_text else 0.5)
                narrow += by_text is not None and by_text.low > 0.5
                refused += bool(text_baseline.texts_differ(ours, theirs, by_text, seed=trial))
            told = [wilson(hits, trials) for hits in (narrow, refused)]
            shares = " | ".join(f"{one.value:.1%} [{one.low:.1%}, {one.high:.1%}]" for one in told)
            area = f"{fmean(areas):.3f} ({pstdev(areas):.3f})"
            shape = f"{count} x {each[0]} and {count} x {each[1]}"
            print(f"{shape}, {share:.0%} | {shares} | {area}", flush=True)


if __name__ == "__main__":
    main()
