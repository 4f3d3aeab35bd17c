"""The tables of a study in its page, as its report has them: no number in them is typed by hand.

    python benchmarks/study_tables.py REPORT docs/cross.md [--again REPORT]
    python benchmarks/study_tables.py REPORT docs/fed-pii.md --more    claims measured apart
    python benchmarks/study_tables.py REPORT docs/fed-pii.md --fresh   claims of a seed locked first
    python benchmarks/study_tables.py REPORT docs/fed-pii.md --small   the study on a real model
    python benchmarks/study_tables.py --judge-again     what is kept, by today's rule of claims

A page may have five places: between `<!-- trade-offs -->` and `<!-- end -->` for the table of
trade-offs, between `<!-- curves -->` and `<!-- end of curves -->` for the same numbers by copies,
between `<!-- claims -->` and `<!-- end of claims -->` for the claims, between
`<!-- other seeds -->` and `<!-- end of other seeds -->` for those that come out differently in a
report of other seeds, and between `<!-- figures -->` and `<!-- end of figures -->` for the paper's
numbers beside ours.
Where --small gave a report, curves, claims and figures are of a real model, too. What they need of
the reports is kept beside the page, in docs/studies/; what other seeds came to stays there until
--again says otherwise, and is compared for the claims that both have. A test makes the tables anew
from what is kept and compares.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedaudit.report.number_format import format_measurement
from fedaudit.report.renderers.markdown import escape, table_lines
from fedaudit.report.tables import tradeoffs
from fedaudit.system.numbers import count_of

TRADEOFFS = "<!-- trade-offs -->\n", "<!-- end -->"
CURVES = "<!-- curves -->\n", "<!-- end of curves -->"
FIGURES = "<!-- figures -->\n", "<!-- end of figures -->"
CLAIMS = "<!-- claims -->\n", "<!-- end of claims -->"
OTHER_SEEDS = "<!-- other seeds -->\n", "<!-- end of other seeds -->"
ROW = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "scope")
CONFIG = ("profile", "scale", "quick", "seed", "seeds", "tradeoffs", "figures", "lock")
BESIDE = {
    "more": "Measured apart",
    "fresh": "Locked before they were run",
    "locked": "Of every locked seed",
}
BASES = {"nano": "fedaudit-nano", "small": "SmolLM2-135M"}
HOLDS = {True: "holds", False: "**fails**", None: "open"}


def kept_report(
    report: Mapping[str, Any], again: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what its tables are made of, of a report and of one of other seeds."""
    config = report["run"]["config"]
    cells = []
    if config.get("tradeoffs"):
        columns = tradeoffs.tradeoff_columns(report)
        cells = [
            cell
            for rows in tradeoffs.rows_by_variant(report).values()
            for column in columns
            if (cell := tradeoffs.find_measurement(rows, column)) is not None
        ]
    other_seeds = (
        {
            "seeds": again["run"]["config"]["seeds"],
            "lock": again["run"]["config"].get("lock", {}),
            "claims": {
                c["id"]: {"holds": c["holds"], "detail": c["detail"]} for c in again["claims"]
            },
        }
        if again
        else {}
    )
    return {
        **({"again": other_seeds} if again else {}),
        "run": {
            "started": report["run"]["started"],
            "config": {name: config[name] for name in CONFIG if name in config},
        },
        "claims": report["claims"],
        "measurements": [{name: row[name] for name in ROW} for row in cells],
    }


def page_with_table(page: str, kept: Mapping[str, Any]) -> str:
    """Return a page with the tables of a kept report in their places."""
    if TRADEOFFS[0] in page:
        table = tradeoffs.tradeoff_table(kept, tradeoffs.tradeoff_columns(kept))
        lines = [line for line in table_lines(table) if not line.startswith("#")]
        page = _with_block(page, TRADEOFFS, "\n".join(lines).strip("\n"))
    if CURVES[0] in page:
        page = _with_block(page, CURVES, "\n".join(_curve_lines(kept)).strip("\n"))
    if CLAIMS[0] in page:
        page = _with_block(page, CLAIMS, "\n".join(_claim_lines(kept)))
    if OTHER_SEEDS[0] in page:
        page = _with_block(page, OTHER_SEEDS, "\n".join(_other_seeds_lines(kept)))
    if FIGURES[0] in page:
        page = _with_block(page, FIGURES, "\n".join(_figure_lines(kept)))
    return page


def _with_block(page: str, marks: tuple[str, str], text: str) -> str:
    start, end = marks
    before, rest = page.split(start)
    _, after = rest.split(end)
    return "".join([before, start, text, "\n", end, after])


def _kept_reports(kept: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the study on the built-in model, and the one on a real model where it is kept."""
    return [kept, *([kept["small"]] if "small" in kept else [])]


def _curve_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table for each of what columns such as "verbatim, 5 copies" measure.

    A line is a variant of one of the bases; one that a base was not measured at has no line.
    """
    reports = _kept_reports(kept)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for column in kept["run"]["config"]["tradeoffs"]:
        groups.setdefault(column["title"].partition(", ")[0], []).append(column)
    for title, columns in groups.items():
        yield f"**{title[0].upper()}{title[1:]}**"
        yield ""
        names = [escape(column["title"].rpartition(", ")[2]) for column in columns]
        yield f"| | base | {' | '.join(names)} |"
        yield f"| --- | --- |{' --: |' * len(columns)}"
        every = [(_base_name(report), tradeoffs.rows_by_variant(report)) for report in reports]
        for variant in every[0][1]:
            for base, by_variant in every:
                if variant not in by_variant:
                    continue
                cells = [tradeoffs.find_measurement(by_variant[variant], c) for c in columns]
                written = ["-" if cell is None else escape(_with_count(cell)) for cell in cells]
                yield f"| {variant} | {base} | {' | '.join(written)} |"
        yield ""


def _with_count(row: Mapping[str, Any]) -> str:
    """Return a measurement with its interval, and what was counted."""
    count = f"{row['hits']} of {row['n']}, " if row["hits"] is not None and row["n"] else ""
    return count + format_measurement(row)


def _base_name(report: Mapping[str, Any]) -> str:
    config = report["run"]["config"]
    seeds = len(config.get("seeds") or [config["seed"]])
    return f"{BASES[config['scale']]}, {count_of(seeds, 'seed')}"


def _claim_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the claims were measured, how many hold, and each of them."""
    config, claims = kept["run"]["config"], kept["claims"]
    seeds = config.get("seeds", ())
    words = _command(config)
    if seeds:
        words += f" --seeds {len(seeds)}"
    elif "seed" in config:
        words += f" --seed {config['seed']}"
    count = Counter(claim["holds"] for claim in claims)
    which = f"seeds {', '.join(map(str, seeds))}" if seeds else "one seed"
    yield (
        f"`{words}` ({kept['run']['started'][:10]}; {which}): "
        f"{count[True]} claims hold, {count[False]} fail, {count[None]} are open."
    )
    yield ""
    yield "| | claim | measured | source |"
    yield "| --- | --- | --- | --- |"
    blocks = [
        (title, kept[name])
        for name, title in BESIDE.items()
        if name in kept and kept[name]["claims"]
    ]
    apart = {name for _, block in blocks for name in block["claims"]}
    for claim in claims:
        if _is_measured(claim) or claim["id"] not in apart:
            cells = (claim["statement"], claim["detail"] or "-", claim["source"])
            yield f"| {HOLDS[claim['holds']]} | {' | '.join(map(escape, cells))} |"
    sources = {claim["id"]: claim for claim in claims}
    for title, block in blocks:
        yield ""
        yield f"{title}, seeds {', '.join(map(str, block['seeds']))}:"
        yield from _block_lines(block["claims"], sources)
    if "small" in kept:
        yield from _small_lines(kept)


def _small_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield the claims that a real model was measured on, those that it contradicts first."""
    config, built_in = kept["small"]["run"]["config"], {c["id"]: c["holds"] for c in kept["claims"]}
    claims = [claim for claim in kept["small"]["claims"] if _is_measured(claim)]
    seeds = ", ".join(map(str, config.get("seeds") or [config["seed"]]))
    count = Counter(claim["holds"] for claim in claims)
    yield ""
    yield (
        f"{BASES['small']} (`{_command(config)}`, {kept['small']['run']['started'][:10]}; seeds "
        f"{seeds}): {count[True]} claims hold, {count[False]} fail, {count[None]} are open."
    )
    yield ""
    yield f"| {BASES['small']} | {BASES['nano']} | claim | measured | source |"
    yield "| --- | --- | --- | --- | --- |"

    def agrees(claim: Mapping[str, Any]) -> tuple[bool, bool]:
        other = built_in.get(claim["id"])
        return None in (claim["holds"], other) or claim["holds"] == other, claim["holds"] == other

    for claim in sorted(claims, key=agrees):
        both = (HOLDS[claim["holds"]], HOLDS[built_in.get(claim["id"])])
        cells = (claim["statement"], claim["detail"], claim["source"])
        yield f"| {' | '.join((*both, *map(escape, cells)))} |"


def _block_lines(
    block: Mapping[str, Any], sources: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the claims that were measured beside a study, as a table."""
    yield ""
    yield "| | claim | measured | source |"
    yield "| --- | --- | --- | --- |"
    for name, claim in block.items():
        if name not in sources:
            continue
        cells = (sources[name]["statement"], claim["detail"], sources[name]["source"])
        yield f"| {HOLDS[claim['holds']]} | {' | '.join(map(escape, cells))} |"


def _command(config: Mapping[str, Any]) -> str:
    scale = "" if config.get("scale", "nano") == "nano" else f" --scale {config['scale']}"
    return f"fedaudit reproduce {config['profile']}{scale}{' --quick' * bool(config.get('quick'))}"


def _other_seeds_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many claims come out the same with other seeds, and the others of them.

    A claim that a quick study leaves out is open with any seeds: it is not counted.
    """
    seeds, other = kept["again"]["seeds"], kept["again"]["claims"]
    own_seeds = kept["run"]["config"]["seeds"]
    pairs = [(claim, other[claim["id"]]) for claim in kept["claims"] if claim["id"] in other]
    pairs = [pair for pair in pairs if all(_is_measured(claim) for claim in pair)]
    turned = [(claim, again) for claim, again in pairs if claim["holds"] != again["holds"]]
    over = sum(None not in (claim["holds"], again["holds"]) for claim, again in turned)
    yield (
        f"With seeds {', '.join(map(str, seeds))} (`{_command(kept['run']['config'])} "
        f"--seeds {len(seeds)} --seed {seeds[0]}`) {len(pairs) - len(turned)} of {len(pairs)} "
        f"claims that both measure come out the same, and {over or 'none'} of those that hold or "
        "fail turn over."
        + "".join(f" Seed {seed} is in both." for seed in seeds if seed in own_seeds)
    )
    if turned:
        yield ""
        yield "| claim | with the first seeds | with the others |"
        yield "| --- | --- | --- |"
    for claim, again in turned:
        cells = (
            escape(claim["statement"]),
            *(f"{HOLDS[one['holds']]}: {escape(one['detail'] or '-')}" for one in (claim, again)),
        )
        yield f"| {' | '.join(cells)} |"


def _is_measured(claim: Mapping[str, Any]) -> bool:
    return not claim["detail"].startswith("not measured")


def _figure_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paper's numbers and those of the study, as far as it has them."""
    reports = _kept_reports(kept)
    names = [BASES[report["run"]["config"]["scale"]] for report in reports]
    heads = names if len(names) > 1 else ["here"]
    yield f"| | the paper | {' | '.join(heads)} | source |"
    yield f"| --- | --: |{' --: |' * len(heads)} --- |"
    every = [report["run"]["config"]["figures"] for report in reports]
    for figures in zip(*every, strict=True):
        if any(figure["ours"] is not None for figure in figures):
            ours = ("-" if f["ours"] is None else f"{f['ours']:.4g}" for f in figures)
            numbers = " | ".join((f"{figures[0]['paper']:.4g}", *ours))
            yield f"| {escape(figures[0]['what'])} | {numbers} | {escape(figures[0]['source'])} |"


def kept_path(page: Path) -> Path:
    """Return where what a page's tables are made of is kept."""
    return page.parent / "studies" / f"{page.stem}.json"


def _brief(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the seeds and the measured claims of a report."""
    config = report["run"]["config"]
    return {
        "seeds": config.get("seeds") or [config["seed"]],
        "lock": config.get("lock", {}),
        "claims": {
            claim["id"]: {"holds": claim["holds"], "detail": claim["detail"]}
            for claim in report["claims"]
            if _is_measured(claim)
        },
    }


def main() -> None:
    """Keep what is needed of a report, and write the page's tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("report", type=Path, nargs="?")
    parser.add_argument("page", type=Path, nargs="?")
    parser.add_argument("--again", type=Path, help="a report of other seeds, judged alike")
    parser.add_argument("--more", action="store_true", help="claims that no other run measured")
    parser.add_argument("--fresh", action="store_true", help="claims of seeds that were locked")
    parser.add_argument("--small", action="store_true", help="the study at --scale small")
    parser.add_argument("--judge-again", action="store_true", help="judge what is kept")
    given = parser.parse_args()
    if given.judge_again:
        from judge_again import judge_again

        for path in sorted((Path(__file__).parents[1] / "docs/studies").glob("*.json")):
            page = path.parents[1] / f"{path.stem}.md"
            _write(page, judge_again(json.loads(path.read_text("utf-8"))))
        return
    report, path = json.loads(given.report.read_text("utf-8")), kept_path(given.page)
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if given.more or given.fresh:
        _write(given.page, before | {"more" if given.more else "fresh": _brief(report)})
        return
    if given.small:
        _write(given.page, before | {"small": kept_report(report)})
        return
    again = json.loads(given.again.read_text("utf-8")) if given.again else None
    beside = {
        name: before[name]
        for name in ("again", "more", "fresh", "small", "published")
        if name in before
    }
    _write(given.page, beside | kept_report(report, again))


def _write(page: Path, kept: Mapping[str, Any]) -> None:
    path = kept_path(page)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    page.write_text(page_with_table(page.read_text("utf-8"), kept), "utf-8")


if __name__ == "__main__":
    main()
