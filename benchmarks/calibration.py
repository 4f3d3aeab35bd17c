"""How often an audit fails a model that holds nothing of the victim, and how often one that does.

    python benchmarks/calibration.py --out DIR [--texts COURT.jsonl] [--seeds 3 4 5] [--nulls 240]

Federations of three invented courts are trained on the built-in model (kept in DIR, as all verdicts
are: a run goes on where another stopped), then audited by client c0's prefixes against many
victims. Nulls: people whom no client has ("fresh"), the others of `calibration_cases.NULLS`, and
texts of real courts (where --texts has annotated ones), against federations of invented courts and
of real ones. Positives: documents about people of their own that c1 trained on 1, 5 or 20 times, 1
to 12 of them among 40 strings that no client trained on; five people whom a scrubber missed; a base
that knows the victim already.
"""

import argparse
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibration_cases import (
    CONTEXT,
    FORM,
    OPTIONS,
    Audit,
    all_audits,
    federations,
    read_documents,
)

from fedaudit.api.engine import EngineWrapper, GenerationBatch
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Attack, AttackContext
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Target
from fedaudit.audit import preflight
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.metrics.intervals import wilson
from fedaudit.report.verdict.policy import LEVEL, verdict


class CachingEngine(EngineWrapper):
    """An engine that runs no request twice, whoever the victim is."""

    def __init__(self, engine: LocalEngine) -> None:
        super().__init__(engine)
        self._completions = dict[Any, Completion]()

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt to its end, whatever strings are looked for."""
        key = target, batch.seed, batch.decoding
        new = [new for new in dict.fromkeys(batch.requests) if (key, new) not in self._completions]
        whole = replace(batch, requests=new, stop_strings=None)
        for request, completion in zip(new, self.engine.generate(target, whole), strict=True):
            self._completions[key, request] = completion
        return [self._completions[key, request] for request in batch.requests]


class Auditor:
    """Audits one federation as its client c0."""

    def __init__(self, engine: CachingEngine, folder: Path) -> None:
        self.engine, self.folder, self.own = engine, folder, read_documents(folder, "c0")
        rounds = sorted((folder / "rounds").glob("*/global"))
        self.tuned = Target(name="tuned", adapter=str(rounds[-1]))
        known = pii_occurrences(engine, self.own, CONTEXT)
        self.beginning = preflight.choose_prompt_start(engine, self.tuned, known).chosen
        held_out = folder / "data" / "held_out.jsonl"
        self.held_out = list(corpus.read(held_out, FORM)) if held_out.exists() else []

    def run(self, audit: Audit) -> dict[str, Any]:
        """Return the verdict of one audit."""
        base = Target(name="base")
        if audit.base_round is not None:
            adapter = self.folder / "rounds" / f"{audit.base_round:03}" / "global"
            base = Target(name="base", adapter=str(adapter))
        context = AttackContext(
            engine=self.engine,
            tuned=self.tuned if audit.scale == 1.0 else self._scaled(audit.scale),
            base=base,
            attacker=self.own,
            victim=audit.victim,
            members=audit.members,
            # The simulation holds out records, not case files: training saw others of their groups.
            held_out=self.held_out or None,
            related=True,
            beginning=self.beginning,
            detector=registry.create("detector", "presidio", None),
        )
        attack: Attack = registry.create("attack", audit.attack, OPTIONS.get(audit.attack))
        result = attack.run(context)
        return verdict(result.measurements, result.findings)

    def _scaled(self, by: float) -> Target:
        """Return the tuned model with its adapter at another scale."""
        scaled = self.folder / f"scaled-{by}"
        if not scaled.exists():
            shutil.copytree(str(self.tuned.adapter), scaled)
            config = json.loads((scaled / "adapter_config.json").read_text("utf-8"))
            config["lora_alpha"] *= by
            (scaled / "adapter_config.json").write_text(json.dumps(config), "utf-8")
        return Target(name="tuned", adapter=str(scaled))


def table(rows: Iterable[tuple[str, str, dict[str, Any]]]) -> str:
    """Return how often audits of each kind failed, passed or told nothing."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for kind, name, result in rows:
        counts[kind, name][result["status"]] += 1
    lines = ["| audits | | n | fail | pass | inconclusive | refused | fail, 95 % |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for (kind, name), own in counts.items():
        n = own.total()
        share = wilson(own["fail"], n)
        lines.append(
            f"| {kind} | {name} | {n} | {own['fail']} | {own['pass']} | {own['inconclusive']} | "
            f"{own['refused']} | {100 * share.low:.1f} to {100 * share.high:.1f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, run every audit that DIR does not have yet, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--nulls", type=int, default=240)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    texts = list(corpus.read(given.texts, FORM)) if given.texts else []
    folders = federations(given.out, given.seeds, texts)
    engine = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    log = given.out / "audits.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    rows = [(line["kind"], line["name"], line) for line in done]
    auditor, last = None, ""
    with log.open("a") as file:
        for audit in list(all_audits(folders, given.seeds, texts, given.nulls))[len(rows) :]:
            if audit.federation != last:
                auditor = Auditor(CachingEngine(engine), folders[audit.federation])
                last = audit.federation
            assert auditor is not None
            try:
                result = auditor.run(audit)
            except InputError:  # the command ends in one line: it has no verdict
                result = {"status": "refused"}
            kind = "positive" if audit.leaks else "null"
            name = audit.name if audit.leaks else f"{audit.name}, {audit.attack}"
            rows.append((kind, name, result))
            line = {"kind": kind, "name": name, "federation": audit.federation, **result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{len(rows):4} {kind} {audit.federation} {name}: {result['status']}", flush=True)
    whole = [("all", "nulls", r) for kind, _, r in rows if kind == "null"]
    whole += [("all", "positives", r) for kind, _, r in rows if kind == "positive"]
    print(f"\nLevel {LEVEL}.\n\n{table([*rows, *whole])}")


if __name__ == "__main__":
    main()
