"""Whether `attribute` names marked clients and no innocent one, on models, seed by seed.

    python benchmarks/attribution_study.py [--seeds 3 4 5 6 7 8] [--jobs 2] [--only NAME]
    python benchmarks/attribution_study.py --ablations          what the paper varies, with seed 3
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from scipy.stats import binomtest

if TYPE_CHECKING:
    from fedaudit.attribution.decision.contamination import Shares
    from fedaudit.attribution.scores import Scores

SEEDS = (3, 4, 5, 6, 7, 8)
MARKED = {"nobody": 0, "one": 1, "all": 10}
"""Clients with marked documents, beside the three of the main table."""
PROFILE = "fed_attr"
ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "docs/studies/attribution", ROOT / "docs/fed-attr-study.md"
LOG, SCORES = "log.json", "scores.json"
START, END = "<!-- attribution study -->\n", "<!-- end -->"
ABLATIONS = "<!-- ablations -->\n", "<!-- end of ablations -->"
ABLATED = (
    "fictitious-fedit", "others-1", "others-2", "others-4", "others-6", "others-8",
    "pairs-2", "pairs-3", "pairs-10", "pairs-20", "ratio-0.05", "ratio-0.1", "ratio-0.3",
    "rank-16", "rank-128", "clients-1", "clients-5", "alike", "dirichlet-0.5", "dirichlet-0.3",
    "dirichlet-0.1", "dirichlet-0.3-rounds-10", "participation-0.7", "participation-0.5", "size-20",
)  # fmt: skip
"""What the paper varies: variants of the profile, the first of which is its own setting."""
ABLATION_SEED = 3


@dataclass(frozen=True)
class Task:
    """One federation: a variant of the profile, with a seed and so many marked clients."""

    kind: str
    base: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its file of figures."""
        return f"{self.kind}-{self.seed}"


def tasks(seeds: Sequence[int]) -> Iterator[Task]:
    """Yield every federation, the main table's of a seed before the others of that seed."""
    for seed in seeds:
        for base in ("kgw-fedit", "kgw-flora", "fictitious-fedit", "fictitious-flora"):
            yield Task(base, base, seed)
        for kind in MARKED:
            yield Task(kind, "fictitious-fedit" if seed % 2 else "kgw-fedit", seed)


def ablations() -> Iterator[Task]:
    """Yield the federations of what the paper varies, the first that of the main table."""
    for name in ABLATED:
        yield Task(name, name, ABLATION_SEED)


def run(task: Task, out: Path, work: Path) -> str:
    """Train and score a federation, keep scores and figures, drop its weights, return its name."""
    import torch

    from fedaudit.attribution import pipeline
    from fedaudit.attribution.measurements import PROTOCOL
    from fedaudit.attribution.owner import scoring
    from fedaudit.attribution.owner.worker_pool import DetectionPool, WorkerOptions
    from fedaudit.attribution.request import AttributionRequest, resolve_request
    from fedaudit.attribution.scores import write
    from fedaudit.attribution.server import estimation, sum_plan
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
    protocol_config = build(
        sum_plan.ProtocolConfig, dict(variant.options.get(PROTOCOL, {})), task.name
    )
    limit = config.queries.limit if protocol_config.limit is None else protocol_config.limit
    protocol_config = replace(protocol_config, seed=task.seed, limit=limit)
    resolved = resolve_request(AttributionRequest(rounds=place, protocol_config=protocol_config))
    plan = sum_plan.draw_sum_plan(resolved.federation, protocol_config)
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


def _text(figures: Mapping[str, Any]) -> str:
    """Return a federation's figures as they are kept: a line for each row."""
    rows = ",\n  ".join(json.dumps(row) for row in figures["rows"])
    return f'{{"truth": {json.dumps(figures["truth"])},\n "rows": [\n  {rows}]}}\n'


def table(out: Path, seeds: Sequence[int]) -> Iterator[str]:
    """Yield the rows of what is kept, in Markdown."""
    yield "| federations | seeds | marked flagged | innocent flagged | federations with one | by Z > 4 | weakest marked | nearest innocent |"  # noqa: E501
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    kept = [(one, out / f"{one.name}.json") for one in tasks(seeds)]
    done = [(one, json.loads(path.read_text())) for one, path in kept if path.exists()]
    for kind in dict.fromkeys(one.kind for one, _ in done):
        yield _row(kind, [(one.seed, found) for one, found in done if one.kind == kind])
    yield _row("all together", [(one.seed, found) for one, found in done])


def _row(kind: str, found: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    rows = [one["rows"] for _, one in found]
    caught, accused, published = (
        _counts(rows, plugin, metric)
        for plugin, metric in ((PROFILE, "tpr"), (PROFILE, "fpr"), ("paper_rule", "fpr"))
    )
    wrong = sum(_counts([own], PROFILE, "fpr")[0] > 0 for own in rows)
    near = [_near(one) for _, one in found]
    marked = [value for own, _ in near for value in own]
    innocent = [value for _, own in near for value in own]
    seeds = ", ".join(map(str, sorted({seed for seed, _ in found})))
    cells = [
        kind, seeds, _share(*caught), _share(*accused), f"{wrong} of {len(found)}",
        f"{published[0]} of {published[1]}",
        f"{min(marked):.2f}" if marked else "-", f"{max(innocent):.2f}" if innocent else "-",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _counts(rows: Sequence[Sequence[Mapping[str, Any]]], plugin: str, metric: str) -> list[int]:
    found = [
        row
        for own in rows
        for row in own
        if (row["plugin"], row["metric"]) == (plugin, metric) and row["n"]
    ]
    return [sum(row["hits"] for row in found), sum(row["n"] for row in found)]


def _near(one: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return Z over what it must exceed, of marked clients and of innocent ones."""
    found: tuple[list[float], list[float]] = ([], [])
    for row in one["rows"]:
        own = row["plugin"] == PROFILE and row["metric"] == "stouffer_z" and row["client"]
        if own and row["baseline"] and row["value"] is not None:
            found[not one["truth"].get(row["client"])].append(row["value"] / row["baseline"])
    return found


def _share(hits: int, n: int) -> str:
    if not n:
        return "-"
    found = binomtest(hits, n).proportion_ci(method="exact")
    return f"{hits} of {n} [{found.low:.1%}, {found.high:.1%}]"


def ablation_table(out: Path) -> Iterator[str]:
    """Yield a row for each variant that is kept, in Markdown."""
    yield "| variant | marked flagged | innocent flagged | mean Z of marked | mean Z of innocent | weakest marked | nearest innocent |"  # noqa: E501
    yield "| --- | --- | --- | --: | --: | --: | --: |"
    for task in ablations():
        path = out / f"{task.name}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text())
        tpr, fpr = (_counts([found["rows"]], PROFILE, metric) for metric in ("tpr", "fpr"))
        values: tuple[list[float], list[float]] = ([], [])
        for row in found["rows"]:
            if row["metric"] == "stouffer_z" and row["client"] and row["value"] is not None:
                values[not found["truth"].get(row["client"])].append(row["value"])
        marked, innocent = _near(found)
        cells = [
            task.kind, f"{tpr[0]} of {tpr[1]}", f"{fpr[0]} of {fpr[1]}",
            *(f"{fmean(part):.1f}" if part else "-" for part in values),
            f"{min(marked):.2f}" if marked else "-", f"{max(innocent):.2f}" if innocent else "-",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def page_with_table(page: str, kept: Path) -> str:
    """Return the page with the tables of what is kept in their places."""
    page = with_block(page, (START, END), table(kept, SEEDS))
    return with_block(page, ABLATIONS, ablation_table(kept))


def with_block(page: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    """Return the page with these lines between two marks."""
    start, end = marks
    before, rest = page.split(start)
    _, after = rest.split(end, 1)
    return "".join([before, start, "\n".join(lines), "\n", end, after])


def main() -> None:
    """Run what is missing, and write the page's table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=KEPT, help="where figures are kept")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/attribution_study")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="a kind of federation: kgw-fedit, nobody, ...")
    parser.add_argument("--ablations", action="store_true", help="what the paper varies")
    parser.add_argument("--decide", action="store_true", help="decide anew from kept scores")
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    out, work = given.out.absolute(), given.work.absolute()
    every = ablations() if given.ablations else tasks(given.seeds)
    missing = [
        one
        for one in every
        if not (out / f"{one.name}.json").exists() and given.only in (None, one.kind)
    ]
    if given.decide:
        for task in {one.name: one for one in (*tasks(SEEDS), *ablations())}.values():
            if _packed(out, task.name).exists():
                decide_again(task, out)
    elif not given.table:
        work.mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(given.jobs) as pool:
            for name in pool.map(run, missing, [out] * len(missing), [work] * len(missing)):
                print(name, flush=True)
        shutil.rmtree(work)
    if out == KEPT:
        PAGE.write_text(page_with_table(PAGE.read_text("utf-8"), out), "utf-8")
    print("\n".join(table(out, given.seeds)))


if __name__ == "__main__":
    main()
