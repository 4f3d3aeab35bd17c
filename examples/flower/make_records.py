"""Writes invented court records for three clients: c0.jsonl, c1.jsonl, c2.jsonl, with their PII."""

import random
import sys
from pathlib import Path

from fedaudit.data import corpus
from fedaudit.nano import generator

CLIENTS = 3


def main(folder: Path) -> None:
    """Deal the documents of invented case files to the clients."""
    made = list(
        generator.corpus(
            cases=12,
            documents_per_case=6,
            seed=0,
            languages=["en"],
            domains=["legal"],
            kinds=3,
        )
    )
    random.Random(0).shuffle(made)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(CLIENTS):
        corpus.write(folder / f"c{number}.jsonl", made[number::CLIENTS])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
