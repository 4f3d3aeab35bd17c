"""Is a claimed epsilon refuted where it is wrong, and not where it is right? Several seeds.

    python benchmarks/dp_claims.py --out DIR [--first 1] [--seeds 5]

For every seed three federations are trained on records with canaries by coin, each claiming epsilon
8, and audited by the commands that anybody would give:

* noiseless  sigma 1e-9: the claim must be refuted
* honest     the noise that the claim takes: it must not be
* batch      a planted bug: the noise of the claim, but what is clipped to C is the mean gradient of
             a step, whose noise is that of the sum over the expected batch. One document then moves
             the mean by up to 2 C, not by C over the batch. The claim must be refuted

With `--position server --score gradient` and the settings in docs/dp-audit.md the audit goes by the
canaries' gradients in the client's updates, which sees the bug; by losses it does not.

A line an audit. Everything that is there already is kept, so the script can be stopped and given
again, seed by seed. Settings were chosen on seed 0, which judges nothing.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedaudit.nano import generator

PROFILE = """
name = "dp_claims"
title = "A federation that claims an epsilon"
paper = "none"

[scale.nano]
base = "fedaudit-nano"
data = "{data}"
clients = 2
rounds = {rounds}
held_out = 0.0
evaluated = 0
central = false
workers = 1
device = "cpu"
partition = {{ method = "corpus" }}
training = {{ epochs = {epochs}, batch_size = {batch_size}, learning_rate = {learning_rate}, \
warmup = {warmup}, \
rank = {rank}, alpha = {alpha}, max_length = 40, targets = {targets} }}
"""
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
KINDS = {"noiseless": "noise_multiplier=1e-9", "honest": "epsilon={epsilon}",
         "batch": "epsilon={epsilon}"}  # fmt: skip
WANTED = {"noiseless": True, "honest": False, "batch": True}
"""Whether the claim must be refuted."""


def fedaudit(*words: object, program: Sequence[str] = ("-m", "fedaudit")) -> tuple[int, str]:
    """Run a command, and return its exit code and what it printed."""
    command = [sys.executable, *program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.returncode, done.stdout


def with_bug(words: Sequence[str]) -> None:
    """Run a command of fedaudit in which the mean gradient of a batch is clipped, not each one."""
    import torch
    from opacus import optimizers

    from fedaudit import cli

    class BatchClip(optimizers.DPOptimizer):  # type: ignore[misc]
        """Adds up unclipped gradients, and clips their mean when the noise comes."""

        def clip_and_accumulate(self) -> None:
            for weight in self.params:
                summed = self._get_flat_grad_sample(weight).sum(0)
                before = weight.summed_grad
                weight.summed_grad = summed if before is None else before + summed

        def add_noise(self) -> None:
            size = self.expected_batch_size
            means = [weight.summed_grad / size for weight in self.params]
            norm = torch.stack([mean.norm(2) for mean in means]).norm(2)
            scale = (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
            for weight, mean in zip(self.params, means, strict=True):
                noise = torch.normal(0, self.noise_multiplier * self.max_grad_norm, mean.shape,
                                     generator=self.generator)  # fmt: skip
                # `scale_grad` divides by the expected batch.
                weight.grad = (mean * scale * size + noise).view_as(weight)

    optimizers.DPOptimizer = BatchClip  # the defence imports it when it trains
    sys.argv = ["fedaudit", *words]
    cli.main()


def records(place: Path, seed: int, count: int) -> None:
    """Write `count` records of c0, and of c1 a sixteenth but 16 at least, each in a file."""
    others = max(16, count // 16)
    made = list(
        generator.corpus(
            cases=(count + others + 1) // 2,
            documents_per_case=2,
            seed=1000 + seed,
            languages=("en",),
            domains=("legal",),
            tasks=("record",),
        )
    )
    for name, own in (("c1", made[:others]), ("c0", made[others : others + count])):
        rows = [
            {"id": one.id, "text": one.text, "pii": [], "group": f"{name}/{one.id}"} for one in own
        ]
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def planted(place: Path, args: argparse.Namespace, seed: int) -> str:
    """Make and plant the canaries where that was not done, and return their commitment."""
    said = place / "said.txt"
    if not said.exists():
        records(place, seed, args.documents)
        coins = place / "coins.json"
        coins.unlink(missing_ok=True)
        _, printed = fedaudit("dp", "make", "--out", coins, "--corpus", place / "c0.jsonl",
                              "--client", "c0", "--count", args.canaries,
                              "--position", args.position, "--score", args.score,
                              "--suffix-tokens", args.suffix_tokens)  # fmt: skip
        (place / "c0p.jsonl").unlink(missing_ok=True)
        fedaudit("dp", "plant", coins, "--records", place / "c0.jsonl", "--out",
                 place / "c0p.jsonl")  # fmt: skip
        both = (place / name for name in ("c0p.jsonl", "c1.jsonl"))
        (place / "all.jsonl").write_text("".join(one.read_text() for one in both))
        said.write_text(printed)
    return said.read_text().split("commitment is ")[1].split(":")[0]


def federation(place: Path, kind: str, args: argparse.Namespace, seed: int) -> float:
    """Train a federation, once; return the seconds that it took."""
    seconds = place / f"{kind}.seconds"
    if not seconds.exists():
        profile = place / "profile.toml"
        profile.write_text(
            PROFILE.format(
                data=place / "all.jsonl",
                rounds=args.rounds,
                epochs=args.epochs,
                learning_rate=args.learning_rate,
                warmup=args.warmup,
                batch_size=args.batch_size,
                rank=args.rank,
                alpha=2 * args.rank,
                targets=json.dumps(args.targets),
            )
        )
        options = KINDS[kind].format(epsilon=args.epsilon)
        options += f', max_grad_norm={args.max_grad_norm}, optimizer="{args.optimizer}"'
        begun = time.perf_counter()
        program = (__file__, "--with-bug") if kind == "batch" else ("-m", "fedaudit")
        fedaudit("simulate", "--profile", profile, "--out", place / kind, "--set",
                 f'defenses=[{{name="dp", delta=1e-5, {options}}}]', "--seed", seed, "--quiet",
                 program=program)  # fmt: skip
        seconds.write_text(f"{time.perf_counter() - begun:.0f}")
    return float(seconds.read_text())


def describe(report: dict[str, Any]) -> str:
    """Return an audit in one line."""
    rows = [row for row in report["measurements"] if row["scope"].get("source") == "tuned"]
    low = {row["scope"]["estimator"]: row for row in rows if row["metric"] == "epsilon_low"}
    caps = [row for row in report["measurements"] if row["metric"] == "epsilon_cap"]
    cap = next(row["value"] for row in caps if row["scope"]["judged"])
    area = next(row for row in rows if row["metric"] == "auc")["value"]
    scope = low["f_dp"]["scope"]
    return (
        f"{report['verdict']['status']:12}  AUC {area:.3f}  right {scope['correct']:>3} / "
        f"{scope['guesses']:<3}  f-DP {low['f_dp']['value']:5.2f}  any "
        f"{low['one_run']['value']:5.2f}  at most {cap:.2f}"
    )


def trial(args: argparse.Namespace, seed: int) -> list[bool]:
    """Train and audit the federations of one seed; return which audits say what they must."""
    place = args.out / f"seed{seed}"
    place.mkdir(parents=True, exist_ok=True)
    key = planted(place, args, seed)
    right = []
    for kind in args.kinds:
        seconds = federation(place, kind, args, seed)
        report = place / f"{kind}.json"
        if not report.exists():
            control = [] if kind == "noiseless" else ["--noiseless", place / "noiseless"]
            fedaudit("dp", "audit", place / "coins.json", "--target", place / kind, "--epsilon",
                     args.epsilon, "--commitment", key, *control, "--json", report, "--out",
                     place / f"audit-{kind}", "--quiet")  # fmt: skip
        found = json.loads(report.read_text())
        right.append((found["verdict"]["status"] == "fail") == WANTED[kind])
        mark = "as it must" if right[-1] else "NOT AS IT MUST"
        print(f"seed {seed}  {kind:9}  {describe(found)}  {seconds:.0f} s  {mark}", flush=True)
    return right


def main(words: Sequence[str] | None = None) -> None:
    """Run every seed that is args for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--canaries", type=int, default=600)
    parser.add_argument("--documents", type=int, default=16)
    parser.add_argument("--position", default="outsider")
    parser.add_argument("--score", default="loss")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--suffix-tokens", type=int, default=16)
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    args = parser.parse_args(words)
    args.out = args.out.absolute()
    right = [one for seed in range(args.first, args.first + args.seeds)
             for one in trial(args, seed)]  # fmt: skip
    print(f"{sum(right)} of {len(right)} audits as they must be")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--with-bug"]:
        with_bug(sys.argv[2:])
        sys.exit()
    main()
