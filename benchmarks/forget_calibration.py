"""How often `fedaudit forget verify` refuses models that forgot a member, and those that did not.

    python benchmarks/forget_calibration.py train --out DIR [--pairs 100] [--first 0]
    python benchmarks/forget_calibration.py judge --out DIR [--retrained 9]
    python benchmarks/forget_calibration.py scores [--trials 500]

`train` simulates, for each pair, a federation of the built-in model that a member takes part in,
and four ways in which it may go on without the member:

* retrained   trained anew by the others alone, with another seed: the truth of having forgotten
* unchanged   the same model
* overwritten  trained further by the others, for as many rounds again
* ascended    the member's loss is raised by gradient ascent until it is that of held-out records

The others' records are the same in all pairs; the member's and those that it set aside are drawn
anew from a pool. Retrained models of other pairs are the retrains that a verification is given:
none was trained on any record of the pool. `judge` verifies all of them, and prints the verdicts.
What is there already is not done again. `scores` simulates the scores in place of models, for size
with more trials than models can be trained for.
"""

import argparse
import json
import math
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from fedaudit.api.engine import Engine, EngineWrapper, LogProbabilities, TokenRows
from fedaudit.api.policy import Policy
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.nano import generator
from fedaudit.report.kinds.forget import Forget
from fedaudit.watch import leaving
from fedaudit.watch.records import WatchedRecords, watched_records
from fedaudit.watch.rounds import RoundScorer, RoundScores

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]

OWN, ASIDE, OTHERS = 30, 100, (20, 20)
"""The records of the member, those that it set aside, and those of the other clients."""
ROUNDS, EPOCHS, RATE = 2, 4, 5e-3
ASCENT = 1e-3
LIMIT = 0.1
WAYS = ("retrained", "unchanged", "overwritten", "ascended")


def records(count: int) -> list[dict[str, Any]]:
    """Return invented court records, the same ones every time."""
    made = generator.corpus(cases=count, documents_per_case=1, seed=7, languages=("en",),
                            domains=("legal",), tasks=("record",))  # fmt: skip
    return [{"id": one.id, "text": one.text, "group": one.id} for one in made]


def drawn(pair: int) -> tuple[list[str], list[str], list[list[str]]]:
    """Return the texts of a pair: the member's, those set aside, and each other client's."""
    texts = [row["text"] for row in records(600)]
    others, at = [], 0
    for count in OTHERS:
        others.append(texts[at : at + count])
        at += count
    pool = texts[at:]
    random.Random(f"forget {pair}").shuffle(pool)
    return pool[:OWN], pool[OWN : OWN + ASIDE], others


class Federation:
    """Trains federations of the built-in model in this process."""

    def __init__(self, scratch: Path) -> None:
        import torch
        from peft import LoraConfig

        from fedaudit.engine.loading.loader import load_base, tensors_of, with_adapter
        from fedaudit.federation import adapters
        from fedaudit.simulation.config import Training

        torch.set_num_threads(1)
        self.scratch = scratch
        self.settings = Training(epochs=EPOCHS, learning_rate=RATE, warmup=3, max_length=96)
        lora = LoraConfig(
            r=self.settings.rank, lora_alpha=self.settings.alpha, task_type="CAUSAL_LM",
            target_modules=sorted(self.settings.targets), base_model_name_or_path="fedaudit-nano",
        )  # fmt: skip
        base = load_base("fedaudit-nano", device="cpu")
        self.tokenizer = base.tokenizer
        table = {k: v for k, v in lora.to_dict().items() if v is not None}
        self.config = json.loads(json.dumps(table, default=lambda x: sorted(map(str, x))))
        self.config |= {"task_type": "CAUSAL_LM", "peft_type": "LORA"}
        self.shapes = tensors_of(with_adapter(base.model, lora, "one", trainable=True), "one")
        adapters.write(self.shapes, self.config, scratch / "check")

    def initial(self, seed: int) -> Path:
        """Write a new adapter, as PEFT initialises it."""
        import torch

        from fedaudit.federation import adapters

        torch.manual_seed(seed)
        tensors = {name: torch.zeros_like(tensor) for name, tensor in self.shapes.items()}
        for name, tensor in tensors.items():
            if "lora_A" in name:
                torch.nn.init.kaiming_uniform_(tensor, a=math.sqrt(5))
        adapters.write(tensors, self.config, self.scratch / f"initial{seed}")
        return self.scratch / f"initial{seed}"

    def sequences(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts, as a simulation trains on them."""
        from fedaudit.simulation.data.datasets import text_sequences

        return text_sequences(self.tokenizer, texts, self.settings.max_length)

    def train(self, start: Path, clients: Sequence[Sequence[str]], seed: int, out: Path) -> None:
        """Train a federation from an adapter on; `out` gets its last global adapter."""
        from fedaudit.config import registry
        from fedaudit.federation import adapters
        from fedaudit.simulation.client.trainer import ClientTraining, train

        rule = registry.create("aggregation", "fedavg", {})
        with tempfile.TemporaryDirectory(dir=self.scratch) as place:
            for number in range(1, ROUNDS + 1):
                updates = []
                for k, texts in enumerate(clients):
                    path = Path(place) / f"{number}-{k}"
                    train(
                        ClientTraining(
                            model_name=f"c{k}", base="fedaudit-nano", start=start, out=path,
                            sequences=self.sequences(texts), training=self.settings,
                            round=number, rounds=ROUNDS, seed=seed * 1000 + number * 10 + k,
                            aggregator=rule, device="cpu", dtype="auto", threads=1,
                        )
                    )  # fmt: skip
                    updates.append(adapters.read(path))
                mean = rule.aggregate(adapters.read(start), updates, [len(c) for c in clients])
                start = Path(place) / f"{number}"
                adapters.write(mean, self.config, start)
            shutil.copytree(start, out)

    def ascend(self, start: Path, own: Sequence[str], aside: Sequence[str], out: Path) -> None:
        """Raise the loss of the member's records until it is that of the others."""
        import torch

        from fedaudit.engine.loading.loader import fit, tensors_of
        from fedaudit.engine.training.loss import mean_loss, pad_batch
        from fedaudit.federation import adapters
        from fedaudit.simulation.client.trainer import ADAPTER, cached_model

        lora = json.dumps(adapters.check(start), sort_keys=True)
        model = cached_model("fedaudit-nano", "cpu", "auto", lora, False)
        fit(model, adapters.read(start), ADAPTER, str(start))
        model.eval()
        batches = [
            pad_batch(rows, [0] * len(rows), "cpu") for rows in map(self.sequences, (own, aside))
        ]
        with torch.no_grad():
            wanted = float(mean_loss(model, batches[1]))
        weights = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=ASCENT, weight_decay=0.0)
        for _ in range(200):
            loss = mean_loss(model, batches[0])
            if loss.item() >= wanted:
                break
            torch.autograd.backward(-loss)
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        adapters.write(tensors_of(model, ADAPTER), self.config, out)


def train(asked: argparse.Namespace) -> None:
    """Train what is missing of every pair."""
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=asked.out) as scratch:
        federation = Federation(Path(scratch))
        for pair in range(asked.first, asked.first + asked.pairs):
            place, begun = asked.out / f"{pair:04d}", time.process_time()
            if (place / "done").exists():
                continue
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            own, aside, others = drawn(pair)
            seed = 10 * pair
            federation.train(federation.initial(seed), [own, *others], seed, place / "before")
            federation.train(federation.initial(seed + 1), others, seed + 1, place / "retrained")
            federation.train(place / "before", others, seed + 2, place / "overwritten")
            federation.ascend(place / "before", own, aside, place / "ascended")
            (place / "done").write_text("")
            print(f"pair {pair}: {time.process_time() - begun:.1f} s", flush=True)


class RememberingEngine(EngineWrapper):
    """Scores each text under each model once: retrained models serve several pairs."""

    def __init__(self, engine: Engine) -> None:
        """Remember nothing yet."""
        super().__init__(engine)
        self._known: dict[tuple[str | None, tuple[int, ...]], list[float]] = {}

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Return the scores, asking about what is not known only."""
        keys = [(target.adapter, tuple(sequence)) for sequence in sequences]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        scored = (
            self.engine.score(target, [row for _, row in new], progress=progress) if new else []
        )
        self._known |= dict(zip(new, scored, strict=True))
        return [self._known[key] for key in keys]


def judge(asked: argparse.Namespace) -> None:
    """Verify every pair, and print the verdicts."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    local = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    engine, base = RememberingEngine(local), Target(name="base")
    pairs = range(asked.first, asked.first + asked.pairs)
    trained = [pair for pair in pairs if (asked.out / f"{pair:04d}/done").exists()]
    results: list[dict[str, Any]] = []
    for at, pair in enumerate(trained):
        own, aside, _ = drawn(pair)
        inside, outside = (
            [Document(id=str(n), text=text) for n, text in enumerate(side)] for side in (own, aside)
        )
        records = watched_records(inside, outside, references=1)
        scorer = RoundScorer(engine, records)

        def ask(path: Path, scorer: RoundScorer = scorer, records: Any = records) -> Any:
            target = Target(name=str(path), adapter=str(path))
            return leaving.score_model(scorer, records, target, base)

        # The next pairs' retrained models, in a circle.
        others = [trained[(at + k) % len(trained)] for k in range(1, asked.retrained + 1)]
        retrained = [ask(asked.out / f"{other:04d}/retrained") for other in others]
        before = ask(asked.out / f"{pair:04d}/before")
        found: dict[str, Any] = {}
        for way in WAYS:
            place = asked.out / f"{pair:04d}" / ("before" if way == "unchanged" else way)
            after = before if way == "unchanged" else ask(place)
            for name, given in (("alone", []), ("retrained", retrained)):
                models = leaving.VerifiedModels(after=after, before=before, retrained=given)
                rows = leaving.rows(models, records, limit=LIMIT)
                found[f"{way} {name}"] = summary(rows)
        results.append(found)
        print(f"pair {pair}: {[one['status'] for one in found.values()]}", flush=True)
    show(results)


def summary(rows: Sequence[Measurement]) -> dict[str, Any]:
    """Return the verdict of some rows, the parts that fail, and the residual."""
    judged = Forget().judge(rows, Policy())
    statuses = {one.status for one in judged}
    left = next((row for row in rows if row.metric == "residual"), None)
    return {
        "status": next((s for s in ("fail", "inconclusive") if s in statuses), "pass"),
        "fails": [one.row.metric for one in judged if one.status == "fail" and one.row],
        "open": [one.reason for one in judged if one.status == "inconclusive"],
        "residual": [left.value, left.low, left.high] if left else None,
        "detectable": left.scope.get("detectable") if left else None,
    }


def show(results: Sequence[dict[str, Any]]) -> None:
    """Print the share of each verdict, with its 95 % interval, by what was done."""
    from fedaudit.metrics.intervals import wilson

    for key in results[0] if results else ():
        found = [one[key] for one in results]
        parts = []
        for status in ("fail", "pass", "inconclusive"):
            count = sum(one["status"] == status for one in found)
            interval = wilson(count, len(found))
            parts.append(f"{status} {count} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]")
        parts += [
            f"by {part} {sum(part in one['fails'] for one in found)}"
            for part in ("learnt", "residual", "extractable")
        ]
        if compared := [one for one in found if one["detectable"] is not None]:
            left, seen = (
                median(values)
                for values in (
                    [one["residual"][0] for one in compared],
                    [one["detectable"] for one in compared],
                )
            )
            parts.append(f"median residual {left:.2f}, detectable {seen:.2f}")
        print(f"{key:24}{len(found)}: {', '.join(parts)}")


@dataclass(frozen=True)
class MadeUpScores:
    """Scores of models: a record has a gain of its own under all, and one under each model.

    A model moves all records together by its seed, and the member's, as far as it had them.
    """

    own: int
    aside: int
    draw: Draw
    rng: np.random.Generator

    def models(self, retrained: int) -> leaving.VerifiedModels:
        """Return one case: the member is not in the model after."""
        lasting = self.draw(self.rng, self.own + self.aside)
        return leaving.VerifiedModels(
            after=self._model(lasting, 0.0),
            before=self._model(lasting, 3.0),
            retrained=[self._model(lasting, 0.0) for _ in range(retrained)],
        )

    def _model(self, lasting: Array, gain: float) -> leaving.ModelScores:
        count = self.own + self.aside
        scores = lasting + 0.3 * self.draw(self.rng, count) + self.draw(self.rng, 1)
        scores[: self.own] += gain
        return leaving.ModelScores(
            RoundScores(scores[: self.own].tolist(), scores[self.own :].tolist()),
            [False] * self.own,
            [False] * self.aside,
        )


TAILS: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(size=count),
    "Student's t with 3": lambda rng, count: rng.standard_t(3, size=count),
    "lognormal": lambda rng, count: rng.lognormal(size=count),
}


def scores(asked: argparse.Namespace) -> None:
    """Print how often models that never had the member are refused, by simulated scores."""
    for name, draw in TAILS.items():
        for own, aside in ((30, 100), (100, 100)):
            records = WatchedRecords(
                own=tuple((Document(id=str(n), text=str(n)),) for n in range(own)),
                held_out=((Document(id="x", text="x"),),),
                references=1,
            )
            for count in (4, 9):
                made = MadeUpScores(own, aside, draw, np.random.default_rng([own, count]))
                found: dict[float, list[str]] = {0.0: [], LIMIT: []}
                for _ in range(asked.trials):
                    models = made.models(count)
                    for limit, statuses in found.items():
                        rows = leaving.rows(models, records, limit=limit)
                        statuses.append(summary(rows)["status"])
                shares = ", ".join(
                    f"limit {limit}: {100 * statuses.count('fail') / asked.trials:.1f} % refused, "
                    f"{100 * statuses.count('pass') / asked.trials:.1f} % pass"
                    for limit, statuses in found.items()
                )
                print(f"{name}, N = {own}, M = {aside}, {count} retrained: {shares}", flush=True)


def main() -> None:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("train", "judge", "scores"))
    parser.add_argument("--out", type=Path, default=Path("forget"))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--retrained", type=int, default=9)
    parser.add_argument("--trials", type=int, default=500)
    asked = parser.parse_args()
    {"train": train, "judge": judge, "scores": scores}[asked.part](asked)


if __name__ == "__main__":
    main()
