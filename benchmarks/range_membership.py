"""Range membership beside the scores that are there: of trained records, and of edited ones.

    python benchmarks/range_membership.py --out DIR [--targets 3] [--near 10] [--null-sets 1000]

Range membership (Tao and Shokri, arXiv:2408.05131) asks whether any text near a record was trained
on: the score of a record is the mean score of texts near it, the lowest ones trimmed. The base
score is the reference score here, the range the record and `near` texts drawn by one of two
samplers: tokens replaced (those of `neighbourhood`), and a run of 10 to 40 % of the tokens left
out. Federations are those of reference_federations.py, one for each target.

"exact": the auditor has the records that were trained on, or not. "edited": of every record, in or
out, one word in twenty is gone and one in ten is another record's. Each line has the area and the
share recognised at a false-positive rate of 1 %, and of null sets, halves of the records that were
not trained on, the share in which the permutation test of ranks has p at most 5 %.
"""

import argparse
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from fedaudit_plugins.attacks.membership.reader import dictionary, sample_neighbours
from reference_federations import federation, pool

from fedaudit.api.engine import Engine, text_start
from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.privacy.membership_scores import neighbourhood, reference_ratio
from fedaudit.metrics.privacy.membership_tests import permutation_p_values
from fedaudit.metrics.privacy.roc import auc, tpr_at_fpr

Ids = tuple[int, ...]
TRIMS = (0.0, 0.2, 0.5, 0.8)
"""The shares of the lowest scores of a range that are left out."""
TOKENS = 255


def edited(text: str, words: Sequence[str]) -> str:
    """Return a text with one word in twenty left out and one in ten replaced."""
    rng, kept = random.Random(f"edited {text}"), []
    for word in text.split(" "):
        draw = rng.random()
        if draw >= 0.05:
            kept.append(rng.choice(words) if draw < 0.15 else word)
    return " ".join(kept)


def without_a_run(ids: Ids, *, count: int) -> list[Ids]:
    """Return `count` texts that lack 10 to 40 % of the tokens, one run of them."""
    rng, texts = random.Random(f"left out {ids}"), []
    for _ in range(count):
        length = max(1, round(len(ids) * rng.uniform(0.1, 0.4)))
        start = rng.randrange(len(ids) - length + 1)
        texts.append(ids[:start] + ids[start + length :])
    return texts


def range_score(scores: Sequence[float], trim: float) -> float:
    """Return the mean of the scores of a range without the `trim` lowest of them."""
    return float(np.mean(sorted(scores)[int(trim * len(scores)) :]))


def scored(
    engine: Engine, adapter: Path, texts: Sequence[str], near: int
) -> dict[str, list[float]]:
    """Return every score of each text, by its name."""
    ids = [tokens.ids[:TOKENS] for tokens in engine.tokenize(texts)]
    replaced = partial(sample_neighbours, tokens=dictionary(ids), count=near, seed=0)
    samplers: dict[str, Callable[[Ids], list[Ids]]] = {
        "replaced": replaced,
        "left out": partial(without_a_run, count=near),
    }
    begin, tuned, base = (
        text_start(engine),
        Target(name="t", adapter=str(adapter)),
        Target(name="b"),
    )

    def read(model: Target, rows: Sequence[Ids]) -> list[list[float]]:
        return engine.score(model, [(*begin, *row) for row in rows])

    own = read(tuned, ids), read(base, ids)
    reference = [reference_ratio(*pair) for pair in zip(*own, strict=True)]
    scores = {"reference": reference}
    for name, sample in samplers.items():
        rows = [text for one in ids for text in sample(one)]
        said = read(tuned, rows)
        near_scores = [reference_ratio(*p) for p in zip(said, read(base, rows), strict=True)]
        for trim in TRIMS:
            scores[f"range, {name}, {trim:.0%} trimmed"] = [
                range_score([one, *near_scores[i * near : (i + 1) * near]], trim)
                for i, one in enumerate(reference)
            ]
        if name == "replaced":
            scores["neighbourhood"] = [
                neighbourhood(one, said[i * near : (i + 1) * near]) for i, one in enumerate(own[0])
            ]
    return scores


def null_share(others: Sequence[float], sets: int) -> float:
    """Return the share of null sets in which the test of ranks has a p value of at most 5 %."""
    low, half = 0, len(others) // 2
    for number in range(sets):
        dealt = random.Random(number).sample(list(others), len(others))
        sides = [str(i) for i in range(half)], [str(i) for i in range(half, len(others))]
        found = permutation_p_values(
            dealt[:half], dealt[half:], sides, fpr=0.01, seed=number, draws=199
        )
        low += found.ranks <= 0.05
    return low / sets


def lines(name: str, place: Path, near: int, null_sets: int) -> Iterator[str]:
    """Yield a line for each score, of records as they were trained on and of edited ones."""
    engine = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    adapter = place / "run/rounds/002/global"
    sides = [
        [json.loads(line)["text"] for line in (place / file).read_text().splitlines()]
        for file in ("in.jsonl", "out.jsonl")
    ]
    every, members = [*sides[0], *sides[1]], len(sides[0])
    words = sorted({word for text in every for word in text.split(" ")})
    for kind in ("exact", "edited"):
        texts = [edited(text, words) for text in every] if kind == "edited" else every
        for score, values in scored(engine, adapter, texts, near).items():
            ours, theirs = values[:members], values[members:]
            area, rate = auc(ours, theirs), tpr_at_fpr(ours, theirs, 0.01)
            size = f"  null {null_share(theirs, null_sets):.3f}" if null_sets else ""
            yield (
                f"{name}  {kind:6}  {score:28}  {area.value:.3f} [{area.low:.3f}, {area.high:.3f}]"
                f"  {rate.value:.3f}{size}"
            )


def main(words: Sequence[str] | None = None) -> None:
    """Train what is not there, and print a line a score."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--targets", type=int, default=3)
    parser.add_argument("--near", type=int, default=10)
    parser.add_argument("--null-sets", type=int, default=1000)
    parser.add_argument("--records", type=int, default=240)
    parser.add_argument("--epochs", type=int, default=3)
    asked = parser.parse_args(words)
    asked.out = asked.out.absolute()
    rows = pool(asked.records)
    for name in (f"t{k}" for k in range(asked.targets)):
        federation(asked, name, rows)
        for line in lines(name, asked.out / name, asked.near, asked.null_sets):
            print(line, flush=True)


if __name__ == "__main__":
    main()
