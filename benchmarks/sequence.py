"""What the sequence of global models adds to the last one: membership, where clients come and go.

    python benchmarks/sequence.py --out DIR [--seeds 11 12 13] [--nulls 1000]

Federations of clients that train in some rounds only, or in all, on random parts of one pool of
invented records; half of the pool is held out. Every client is a victim: its records are compared
with those held out, by the loss of the last model less the base's (`reference`) and by the score
over the rounds (`rounds`), with the mean area and rates over clients. With the correlations of
rounds left as they are, or ignored, the score is shown as well.

Null sets: a random part of the held-out records, as many as a client has, is said to be a client's
that trained in the rounds of a real one. It prints how often each test has p at 1 % or less, and at
5 %. What is there already is not trained again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import text_start
from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.metrics.privacy.membership_tests import permutation_p_values
from fedaudit.metrics.privacy.roc import auc, tpr_at_fpr
from fedaudit.metrics.privacy.round_changes import round_scores

Array = npt.NDArray[np.float64]
PROFILE = """
name = "sequence"
title = "Clients that train in some rounds"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "nano"
clients = {clients}
rounds = {rounds}
participation = {participation}
held_out = 0.5
evaluated = 0
central = false
workers = 1
device = "cpu"
records = {{ cases = 480, documents_per_case = 1, languages = ["en"], domains = ["legal"] }}
partition = {{ method = "iid" }}
training = {{ epochs = {epochs}, batch_size = 16, learning_rate = 5e-3, warmup = 1, rank = 16, \
alpha = 32, max_length = 128, targets = ["q_proj", "k_proj", "v_proj", "o_proj"] }}
"""
CASES = {
    "2 of 8 clients in each of 12 rounds": (8, 12, 0.25, 2),
    "2 of 4 clients in each of 8 rounds": (4, 8, 0.5, 1),
    "4 of 4 clients in each of 6 rounds": (4, 6, 1.0, 1),
}
"""Clients, rounds, participation, epochs a round."""


@dataclass(frozen=True, slots=True)
class Federation:
    """What the models of a federation say of its clients' records and of those held out."""

    gains: Array
    """The mean ln p of a record's tokens less the base's, (records, rounds)."""
    clients: npt.NDArray[np.str_]
    """The client of each record; empty for those held out."""
    took_part: dict[str, list[bool]]

    def trained(self) -> list[tuple[str, list[bool]]]:
        """Return the clients that trained in some round, and in which."""
        return [(client, rounds) for client, rounds in self.took_part.items() if any(rounds)]

    def sides(self) -> Iterator[tuple[Array, int, list[bool]]]:
        """Yield, client by client, the gains of its records and of held-out ones, and its rounds.

        The number is how many of them, the first, are the client's. A client that was drawn for no
        round is left out.
        """
        others = self.gains[self.clients == ""]
        for client, rounds in self.trained():
            own = self.gains[self.clients == client]
            yield np.concatenate([own, others]), len(own), rounds


def federation(out: Path, case: str, seed: int, engine: LocalEngine) -> Federation:
    """Return a federation, trained and scored where that was not done."""
    clients, rounds, participation, epochs = CASES[case]
    run = out / f"{clients}-{rounds}-{seed}"
    if not run.exists():
        profile = out / f"{clients}-{rounds}.toml"
        profile.write_text(
            PROFILE.format(
                clients=clients, rounds=rounds, participation=participation, epochs=epochs
            )
        )
        words = ["simulate", "--profile", profile, "--seed", seed, "--out", run, "--quiet"]
        command = [sys.executable, "-m", "fedaudit", *map(str, words)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    manifest = json.loads((run / "federation.json").read_text())
    files = {c["id"]: run / c["data"] for c in manifest["clients"]}
    texts = {
        json.loads(line)["text"]: client
        for client, file in {"": run / "data" / "held_out.jsonl", **files}.items()
        for line in file.read_text().splitlines()
    }
    trained = manifest["rounds"][1:]
    targets = [Target(name="base")]
    targets += [Target(name=r["adapter"], adapter=str(run / r["adapter"])) for r in trained]
    start = text_start(engine)
    ids = [(*start, *one.ids) for one in engine.tokenize(list(texts))]
    means = np.array([[fmean(row) for row in engine.score(t, ids)] for t in targets])
    return Federation(
        gains=(means[1:] - means[0]).T,
        clients=np.array(list(texts.values())),
        took_part={c: [c in r["participants"] for r in trained] for c in files},
    )


def scores(gains: Array, took_part: list[bool]) -> dict[str, list[float]]:
    """Return every score by its name."""
    found = {"reference": gains[:, -1].tolist(), "rounds": round_scores(gains, took_part)}
    for name, shrinkage in (("rounds, correlations kept", 0.0), ("rounds, none", 1.0)):
        found[name] = round_scores(gains, took_part, shrinkage)
    return found


def power(every: Sequence[Federation]) -> Iterator[str]:
    """Yield a line for each score: means over all clients of all federations."""
    by_score: dict[str, list[tuple[float, float, float]]] = {}
    for one in every:
        for gains, own, took_part in one.sides():
            for name, values in scores(gains, took_part).items():
                sides = values[:own], values[own:]
                low, high = (tpr_at_fpr(*sides, fpr).value for fpr in (0.01, 0.1))
                by_score.setdefault(name, []).append((auc(*sides).value, low, high))
    for name, found in by_score.items():
        area, low, high = np.mean(found, axis=0)
        yield f"  {name:26} {len(found):3} victims  AUC {area:.3f}  TPR {low:5.1%} {high:5.1%}"


def size(every: Sequence[Federation], nulls: int) -> str:
    """Return how often each test of null sets rejects at 1 % and at 5 %."""
    rng, rejected = np.random.default_rng(0), np.zeros((2, 2))
    for trial in range(nulls):
        one = every[trial % len(every)]
        others = one.gains[one.clients == ""]
        client, took_part = one.trained()[rng.integers(len(one.trained()))]
        own = int((one.clients == client).sum())
        gains = others[rng.permutation(len(others))]
        values = round_scores(gains, took_part)
        names = [str(n) for n in range(len(values))]
        p = permutation_p_values(
            values[:own], values[own:], (names[:own], names[own:]),
            fpr=0.01, seed=trial, draws=999,
        )  # fmt: skip
        rejected += np.less_equal.outer([p.ranks, p.tail], [0.01, 0.05])
    ranks, tail = rejected / nulls
    return f"null sets: ranks {ranks[0]:.1%} {ranks[1]:.1%}, tail {tail[0]:.1%} {tail[1]:.1%}"


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--nulls", type=int, default=1000)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    engine = LocalEngine(load_base("fedaudit-nano"))
    known: list[Federation] = []
    for case in CASES:
        every = [federation(asked.out, case, seed, engine) for seed in asked.seeds]
        print(case, *power(every), sep="\n", flush=True)
        known += every
    print(size(known, asked.nulls))


if __name__ == "__main__":
    main()
