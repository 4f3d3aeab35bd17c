"""Whether `attribute` names marked clients and no innocent one, on models, seed by seed.

    python benchmarks/attribution_study.py [--seeds 3 4 5 6 7 8] [--jobs 2] [--only NAME]
    python benchmarks/attribution_study.py --ablations          what the paper varies, with seed 3
    python benchmarks/attribution_study.py --fresh     seeds that restated claims are judged on
    python benchmarks/attribution_study.py --decide             what is kept, by today's decision

The federations are those of the profile fed_attr at nano scale, settings and all: both marks under
FedIT and FLoRA with three of ten clients marked, and, under FedIT, with nobody, one and all of
them, where even seeds have the mark kgw and odd ones fictitious. No setting was chosen by what came
out with these seeds. Each federation's figures are kept as they come, in docs/studies/attribution:
a run goes on where another stopped (ten minutes of a core for each), and the tables of the page
docs/fed-attr-study.md are written from them; --table only does that. A test makes them anew. Scores
are kept as well, with the sets that the estimates are of: what another decision would say of the
same federations takes a second each.

A row has marked clients that are flagged and innocent ones, with intervals of 95 % (Clopper and
Pearson), the federations in which somebody innocent is flagged, the same by the paper's own rule
(Z > 4), and how near it came: the smallest Z of a marked client and the largest of an innocent one,
each over what it had to exceed.
"""

import argparse
import gzip
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import study_tables
from attribution_study_tables import (
    FRESH,
    KEPT,
    MARKED,
    PAGE,
    PROFILE,
    ROOT,
    SEEDS,
    Task,
    ablations,
    fresh,
    page_with_table,
    table,
    tasks,
)
from study_tables import kept_path

if TYPE_CHECKING:
    from fedaudit.attribution.decision.contamination import Shares
    from fedaudit.attribution.scores import Scores

LOG, SCORES = "log.json", "scores.json"


def run(task: Task, out: Path, work: Path) -> str:
    """Train and score a federation, keep scores and figures, drop its weights, return its name."""
    import torch

    from fedaudit.attribution import pipeline
    from fedaudit.attribution.measurements import PROTOCOL
    from fedaudit.attribution.owner import scoring
    from fedaudit.attribution.owner.worker_pool import DetectionPool, WorkerOptions
    from fedaudit.attribution.request import AttributionRequest, resolve_request
    from fedaudit.attribution.scores import write
    from fedaudit.attribution.server import estimation
    from fedaudit.attribution.server.protocol_config import ProtocolConfig
    from fedaudit.audit.input_files import InputReader
    from fedaudit.config import profile
    from fedaudit.config.options import build
    from fedaudit.reproduction.runner import variant_config
    from fedaudit.simulation import runner as simulation

    torch.set_num_threads(1)
    study = profile.load(PROFILE)
    [variant] = [one for one in study.study if one.name in (task.base, f"{task.base}-0")]
    settings: dict[str, Any] = {"seed": task.seed, "workers": 1}
    if task.kind in MARKED:
        marked = MARKED[task.kind]
        settings["watermark"] = {"clients": marked, **({} if marked else {"marks": 3})}
    config = variant_config(study, "nano", variant, settings)
    digest = hashlib.sha256(repr(config).encode()).hexdigest()[:16]
    place, steps = work / "federations" / digest, work / "steps" / task.name
    with simulation.lock_run(place):
        simulation.simulate(config, place, listener=lambda _: None, verdicts=work / "verdicts")
    protocol_config = build(ProtocolConfig, dict(variant.options.get(PROTOCOL, {})), task.name)
    limit = config.queries.limit if protocol_config.limit is None else protocol_config.limit
    protocol_config = replace(protocol_config, seed=task.seed, limit=limit)
    options = {name: table for name, table in variant.options.items() if name != PROTOCOL}
    request = AttributionRequest(rounds=place, protocol_config=protocol_config, options=options)
    resolved = resolve_request(request, InputReader())
    plan = resolved.plan
    assert plan is not None
    steps.mkdir(parents=True, exist_ok=True)
    estimates, _ = estimation.estimate(plan, steps / "estimates", steps / LOG, recorded=False)
    with DetectionPool(WorkerOptions(workers=1)) as pool:
        scores = scoring.score(steps / "estimates", estimates, resolved.marks, pool)
    write(scores, steps / SCORES)
    kept = {
        "truth": pipeline.true_marks(resolved.federation, resolved.marks),
        LOG: json.loads((steps / LOG).read_text()),
        SCORES: json.loads((steps / SCORES).read_text()),
    }
    _packed(out, task.name).parent.mkdir(parents=True, exist_ok=True)
    _packed(out, task.name).write_bytes(gzip.compress(json.dumps(kept).encode(), mtime=0))
    decide_again(task, out)
    shutil.rmtree(steps)
    return task.name


def _packed(out: Path, name: str) -> Path:
    """Return the path of a federation's scores, of its sets and of the truth."""
    return out / "scores" / f"{name}.json.gz"


def read_kept(out: Path, name: str) -> tuple[dict[str, str], "Scores", "Shares"]:
    """Return a kept federation's truth and scores, and what its estimates hold of each client."""
    from fedaudit.attribution.decision import known_designs
    from fedaudit.attribution.scores import read

    kept = json.loads(gzip.decompress(_packed(out, name).read_bytes()))
    with tempfile.TemporaryDirectory() as folder:
        for file in (LOG, SCORES):
            (Path(folder) / file).write_text(json.dumps(kept[file]))
        scores = read(Path(folder) / SCORES)
        combinations = known_designs.read_log(Path(folder) / LOG, scores.run)
    return (
        kept["truth"],
        scores,
        known_designs.estimate_shares(scores, combinations, scores.weights),
    )


def decide_again(task: Task, out: Path) -> None:
    """Write a federation's figures, by what `attribute --rounds` decides from its kept scores."""
    from fedaudit.attribution.committed_decision import decision_rows
    from fedaudit.attribution.decision.decision import decide
    from fedaudit.metrics.attribution.stouffer import THRESHOLD

    truth, scores, shares = read_kept(out, task.name)
    decision = decide(scores, threshold=THRESHOLD, alpha=0.01, shares=shares)
    rows = [
        {
            "plugin": row.plugin, "metric": row.metric, "value": row.value, "n": row.n,
            "hits": row.hits, "baseline": row.baseline, "client": row.scope.get("client", ""),
        }
        for row in decision_rows(decision, scores, THRESHOLD, truth)
        if row.metric in ("tpr", "fpr")
        or ((row.plugin, row.metric) == (PROFILE, "stouffer_z") and "client" in row.scope
            and "round" not in row.scope)
    ]  # fmt: skip
    (out / f"{task.name}.json").write_text(_text({"rows": rows, "truth": truth}))


def lock_fresh() -> None:
    """Keep what every claim and its variants are before the fresh seeds are run."""
    from fedaudit.config import profile
    from fedaudit.reproduction import study_lock

    digests = study_lock.claim_digests(profile.load(PROFILE), "nano", {})
    study_lock.lock(study_lock.lock_path(KEPT, "nano"), digests, FRESH)


def keep_fresh_claims(out: Path) -> None:
    """Judge claims about who is flagged by what is kept of variants that all fresh seeds have."""
    from fedaudit.api.records import Measurement
    from fedaudit.config import profile
    from fedaudit.reproduction.claims import NOT_MEASURED, check_claims
    from fedaudit.reproduction.pooling import pool_counts
    from fedaudit.reproduction.study_lock import lock_path

    study_profile = profile.load(PROFILE)
    rows: dict[str, list[Measurement]] = {}
    seeds: dict[str, list[int]] = {}
    for task in fresh():
        path = out / f"{task.name}.json"
        if task.kind in MARKED or not path.exists():
            continue
        seeds.setdefault(task.base, []).append(task.seed)
        for row in json.loads(path.read_text())["rows"]:
            if row["metric"] in ("tpr", "fpr"):
                rows.setdefault(task.base, []).append(
                    Measurement.rate(
                        row["hits"], row["n"], kind="attribution", plugin=row["plugin"],
                        metric=row["metric"], scope={"seed": task.seed},
                    )
                )  # fmt: skip
    measured = {
        name: pool_counts(rows[name], "seed", "all")
        for name, done in seeds.items()
        if tuple(done) == FRESH
    }
    locked = json.loads(lock_path(out, "nano").read_text())[str(FRESH[0])]
    claims = [
        one
        for one in check_claims(study_profile, measured)
        if one.id in locked and not one.detail.startswith(NOT_MEASURED)
    ]
    path = kept_path(PAGE)
    study = json.loads(path.read_text("utf-8"))
    for one in claims:
        study["fresh"]["claims"].pop(one.id, None)
    study["locked"] = {
        "seeds": list(FRESH),
        "lock": {one.id: locked[one.id] for one in claims},
        "claims": {one.id: {"holds": one.holds, "detail": one.detail} for one in claims},
    }
    path.write_text(json.dumps(study, indent=1) + "\n", "utf-8")
    PAGE.write_text(study_tables.page_with_table(PAGE.read_text("utf-8"), study), "utf-8")


def _text(figures: Mapping[str, Any]) -> str:
    """Return a federation's figures as they are kept: a line for each row."""
    rows = ",\n  ".join(json.dumps(row) for row in figures["rows"])
    return f'{{"truth": {json.dumps(figures["truth"])},\n "rows": [\n  {rows}]}}\n'


def main() -> None:
    """Run what is missing, and write the page's table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/attribution_study")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="a kind of federation: kgw-fedit, nobody, ...")
    parser.add_argument("--ablations", action="store_true", help="what the paper varies")
    parser.add_argument("--fresh", action="store_true", help="seeds that are locked first")
    parser.add_argument("--decide", action="store_true", help="decide anew from kept scores")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    out, work = given.out.absolute(), given.work.absolute()
    every = fresh() if given.fresh else ablations() if given.ablations else tasks(given.seeds)
    if given.fresh:
        lock_fresh()
    missing = [
        one
        for one in every
        if not (out / f"{one.name}.json").exists() and given.only in (None, one.kind)
    ]
    if given.decide:
        for task in {one.name: one for one in (*tasks(SEEDS), *ablations(), *fresh())}.values():
            if _packed(out, task.name).exists():
                decide_again(task, out)
    elif not given.table:
        work.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(given.jobs) as pool:
            for name in pool.map(run, missing, [out] * len(missing), [work] * len(missing)):
                print(name, flush=True)
        shutil.rmtree(work)
    if out == KEPT:
        keep_fresh_claims(out)
        PAGE.write_text(page_with_table(PAGE.read_text("utf-8"), out), "utf-8")
    print("\n".join(table(out, given.seeds)))


if __name__ == "__main__":
    main()
