"""The federations of `attribution_study.py`, and the tables that are made of their figures."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import binomtest

SEEDS = (3, 4, 5, 6, 7, 8)
MARKED = {"nobody": 0, "one": 1, "all": 10}
"""Clients with marked documents, beside the three of the main table."""
PROFILE = "fed_attr"
ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "docs/studies/attribution", ROOT / "docs/fed-attr-study.md"
START, END = "<!-- attribution study -->\n", "<!-- end -->"
ABLATIONS = "<!-- ablations -->\n", "<!-- end of ablations -->"
FRESH_TABLE = "<!-- fresh -->\n", "<!-- end of fresh -->"
ABLATED = (
    "fictitious-fedit", "others-1", "others-2", "others-4", "others-6", "others-8",
    "pairs-2", "pairs-3", "pairs-10", "pairs-20", "ratio-0.05", "ratio-0.1", "ratio-0.3",
    "rank-16", "rank-128", "clients-1", "clients-5", "alike", "dirichlet-0.5", "dirichlet-0.3",
    "dirichlet-0.1", "dirichlet-0.3-rounds-10", "participation-0.7", "participation-0.5", "size-20",
)  # fmt: skip
"""What the paper varies: variants of the profile, the first of which is its own setting."""
ABLATION_SEED = 3
FRESH = (9, 10, 11, 12)
"""Seeds that were locked before any of them was run (lock.json), on which restated claims are
judged; by seed the cheapest claims come first."""
MAIN = ("kgw-fedit", "kgw-flora", "fictitious-fedit", "fictitious-flora")
PUBLISHED = "-published"
RESTATED = ("participation-0.7", "participation-0.5", "clients-5")
"""Variants beside the main table's that restated claims are about."""


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
        for base in MAIN:
            yield Task(base, base, seed)
        for kind in MARKED:
            yield Task(kind, "fictitious-fedit" if seed % 2 else "kgw-fedit", seed)


def ablations() -> Iterator[Task]:
    """Yield the federations of what the paper varies, the first that of the main table."""
    for name in ABLATED:
        yield Task(name, name, ABLATION_SEED)


def fresh() -> Iterator[Task]:
    """Yield the federations of seeds that were locked first, each as published, too."""
    for seed in FRESH:
        for base in MAIN:
            yield Task(base, base, seed)
            yield Task(f"{base}{PUBLISHED}", f"{base}-0{PUBLISHED}", seed)
            if (base, seed) == ("fictitious-fedit", FRESH[0]):  # a federation of the same settings
                yield Task("pairs-2", "pairs-2", seed)
        yield Task("nobody", "fictitious-fedit" if seed % 2 else "kgw-fedit", seed)
        if seed == FRESH[0]:
            for name in RESTATED:
                yield Task(name, name, seed)


def table(out: Path, seeds: Sequence[int]) -> Iterator[str]:
    """Yield the rows of what is kept, in Markdown."""
    done = _done(out, tasks(seeds))
    yield from _rows(done)
    yield _row("all together", [(task.seed, figures) for task, figures in done])


def _done(out: Path, every: Iterable[Task]) -> list[tuple[Task, Mapping[str, Any]]]:
    """Return the federations whose figures are kept, with these."""
    paths = [(task, out / f"{task.name}.json") for task in every]
    return [(task, json.loads(path.read_text())) for task, path in paths if path.exists()]


def _rows(done: Sequence[tuple[Task, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the head of a table and a row for each kind of federation."""
    yield "| federations | seeds | marked flagged | innocent flagged | federations with one | by Z > 4 | weakest marked | nearest innocent |"  # noqa: E501
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for kind in dict.fromkeys(task.kind for task, _ in done):
        yield _row(kind, [(task.seed, figures) for task, figures in done if task.kind == kind])


def _row(kind: str, federations: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    rows = [figures["rows"] for _, figures in federations]
    caught, accused, published = (
        _counts(rows, plugin, metric)
        for plugin, metric in ((PROFILE, "tpr"), (PROFILE, "fpr"), ("paper_rule", "fpr"))
    )
    wrong = sum(_counts([federation], PROFILE, "fpr")[0] > 0 for federation in rows)
    near = [_relative_z(figures) for _, figures in federations]
    marked = [value for values, _ in near for value in values]
    innocent = [value for _, values in near for value in values]
    seeds = ", ".join(map(str, sorted({seed for seed, _ in federations})))
    cells = [
        kind, seeds, _share(*caught), _share(*accused), f"{wrong} of {len(federations)}",
        f"{published[0]} of {published[1]}",
        f"{min(marked):.2f}" if marked else "-", f"{max(innocent):.2f}" if innocent else "-",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _counts(rows: Sequence[Sequence[Mapping[str, Any]]], plugin: str, metric: str) -> list[int]:
    counted = [
        row
        for federation in rows
        for row in federation
        if (row["plugin"], row["metric"]) == (plugin, metric) and row["n"]
    ]
    return [sum(row["hits"] for row in counted), sum(row["n"] for row in counted)]


def _relative_z(figures: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return Z over the value that it must exceed, of marked clients and of innocent ones."""
    ratios: tuple[list[float], list[float]] = ([], [])
    for row in figures["rows"]:
        is_client = row["plugin"] == PROFILE and row["metric"] == "stouffer_z" and row["client"]
        if is_client and row["baseline"] and row["value"] is not None:
            ratios[not figures["truth"].get(row["client"])].append(row["value"] / row["baseline"])
    return ratios


def _share(hits: int, n: int) -> str:
    if not n:
        return "-"
    interval = binomtest(hits, n).proportion_ci(method="exact")
    return f"{hits} of {n} [{interval.low:.1%}, {interval.high:.1%}]"


def ablation_table(out: Path) -> Iterator[str]:
    """Yield a row for each variant that is kept, in Markdown."""
    yield "| variant | marked flagged | innocent flagged | mean Z of marked | mean Z of innocent | weakest marked | nearest innocent |"  # noqa: E501
    yield "| --- | --- | --- | --: | --: | --: | --: |"
    for task in ablations():
        path = out / f"{task.name}.json"
        if not path.exists():
            continue
        figures = json.loads(path.read_text())
        tpr, fpr = (_counts([figures["rows"]], PROFILE, metric) for metric in ("tpr", "fpr"))
        values: tuple[list[float], list[float]] = ([], [])
        for row in figures["rows"]:
            if row["metric"] == "stouffer_z" and row["client"] and row["value"] is not None:
                values[not figures["truth"].get(row["client"])].append(row["value"])
        marked, innocent = _relative_z(figures)
        cells = [
            task.kind, f"{tpr[0]} of {tpr[1]}", f"{fpr[0]} of {fpr[1]}",
            *(f"{fmean(part):.1f}" if part else "-" for part in values),
            f"{min(marked):.2f}" if marked else "-", f"{max(innocent):.2f}" if innocent else "-",
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def page_with_table(page: str, kept: Path) -> str:
    """Return the page with the tables of what is kept in their places."""
    page = with_block(page, (START, END), table(kept, SEEDS))
    page = with_block(page, FRESH_TABLE, _rows(_done(kept, fresh())))
    return with_block(page, ABLATIONS, ablation_table(kept))


def with_block(page: str, marks: tuple[str, str], lines: Iterable[str]) -> str:
    """Return the page with these lines between two marks."""
    start, end = marks
    before, rest = page.split(start)
    _, after = rest.split(end, 1)
    return "".join([before, start, "\n".join(lines), "\n", end, after])
