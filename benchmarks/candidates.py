"""Scoring candidates: fedaudit's groups beside one perplexity at a time.

    python benchmarks/candidates.py [--records 16] [--candidates 50] [--repeats 5] [--threads 1]

The work is an inference attack's: in each record, one place is filled with every candidate in
turn, and the text that the model finds least surprising wins. The peer is how published code does
it: one forward a text, `exp(model(ids, labels=ids).loss)`. Ours reads what the texts of a record
begin with once, and many texts at once. They take turns in this process, on `fedaudit-nano`; both
must give the same perplexities.
"""

import argparse
import math
import random

import torch
from turns import in_turn, line

from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import LoadedBase, load_base, quiet
from fedaudit.engine.local import LocalEngine
from fedaudit.nano import BASE
from fedaudit.nano.generator import corpus

BEFORE, AFTER = 60, 20
"""Tokens of the record around the place, as in a record of nano's length."""


def filled(base: LoadedBase, records: int, candidates: int) -> list[list[list[int]]]:
    """Return for each record its text with each candidate (2 to 6 tokens) in the one place."""
    draw = random.Random(2)
    made = corpus(cases=8 + records, documents_per_case=4, seed=5, tasks=("record",))
    ids = base.tokenizer("\n".join(one.text for one in made), add_special_tokens=False)["input_ids"]
    groups = []
    for start in draw.sample(range(len(ids) - BEFORE - AFTER), records):
        before, after = ids[start : start + BEFORE], ids[start + BEFORE :][:AFTER]
        middles = (ids[at : at + draw.randint(2, 6)] for at in draw.sample(range(2000), candidates))
        groups.append([[1, *before, *middle, *after] for middle in middles])
    return groups


def main() -> None:
    """Print the times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("records", 16), ("candidates", 50), ("repeats", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    quiet()
    torch.set_num_threads(given.threads)
    engine = LocalEngine(load_base(BASE, device="cpu"))
    groups = filled(engine.base, given.records, given.candidates)
    target = Target(name="base")

    def one_by_one() -> list[float]:
        with torch.inference_mode():
            rows = (torch.tensor([text]) for group in groups for text in group)
            return [math.exp(float(engine.base.model(row, labels=row).loss)) for row in rows]

    def together() -> list[float]:
        scores = engine.score_groups(target, groups)
        return [math.exp(-sum(row) / len(row)) for group in scores for row in group]

    def alone() -> list[float]:
        scores = engine.score(target, [text for group in groups for text in group])
        return [math.exp(-sum(row) / len(row)) for row in scores]

    ways = {"one by one": one_by_one, "in groups": together, "in batches": alone}
    spent, found = in_turn(ways, given.repeats)
    apart = max(
        abs(a / b - 1) for a, b in zip(found["one by one"], found["in groups"], strict=True)
    )
    print(f"{given.records} records x {given.candidates} candidates, {BASE}")
    print(line("  one by one / in groups", spent, "one by one", "in groups"))
    print(line("  one by one / in batches without sharing", spent, "one by one", "in batches"))
    print(f"  perplexities differ by at most {apart:.1e} of themselves")


if __name__ == "__main__":
    main()
