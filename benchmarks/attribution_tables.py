"""The tables of docs/attribution-errors.md on made-up federations: no number is typed by hand.

    python benchmarks/attribution_tables.py

Writes them from what attribution_calibration.py and attribution_adversaries.py keep with --out, in
docs/studies/calibration: a file of JSON lines for each table. A test makes them anew and compares.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.metrics.intervals import Estimate, wilson

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/attribution-errors.md"
KEPT = ROOT / "docs/studies/calibration"

Record = dict[str, Any]
"""What is kept of a kind of federation."""

LEVEL = 0.01
"""How often somebody innocent may be flagged."""
SPREADS, ROUNDS = (1.0, 1.5, 2.4), (1, 5, 20)
SETS = {"unknown": "not known", "known": "known"}
KIND_HEADER = (
    "| per cent of federations or clients | somebody innocent is flagged | by Z > 4 S | "
    "p up to 1 % | p up to 5 % | flagged by another's mark | marked, found |",
    "| --- | --: | --: | --: | --: | --: | --: |",
)
GROUP_HEADER = (
    "| answers | kinds | federations | somebody innocent is flagged | in the worst kind | "
    "kinds surely above 1 % | p up to 1 %, at most | p up to 5 %, at most | marked, found |",
    "| --- | --: | --: | --: | --- | --: | --: | --: | --: |",
)
ADVERSARY_HEADER = (
    "| test | the first marked client | its mean Z | found | other marked clients found | "
    "somebody innocent is flagged |",
    "| --- | --- | --: | --: | --: | --: |",
)


def read_records(path: Path) -> list[Record]:
    """Return the kinds of federations that a file keeps, in its order."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def kind_line(one: Record) -> str:
    """Return a kind's row."""
    n = one["federations"]
    return (
        f"| {one['kind']} | {percent(interval(one))} | {100 * one['innocent_above_z'] / n:.1f} | "
        f"{share(one['p_low'])} | {share(one['p_high'])} | {100 * one['other_mark'] / n:.1f} | "
        f"{found(one)} |"
    )


def group_lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each law of answers: the worst kind, and all of them together."""
    for law in dict.fromkeys(one["group"] for one in records):
        yield f"| {law} | {_together([one for one in records if one['group'] == law])} |"


def _together(records: Sequence[Record]) -> str:
    hits = sum(one["innocent_flagged"] for one in records)
    n = sum(one["federations"] for one in records)
    every = wilson(hits, n)
    worst = max(records, key=lambda one: one["innocent_flagged"] / one["federations"])
    where = f": {worst['kind']}" if hits else ""
    above = sum(interval(one).low > LEVEL for one in records)
    p_low, p_high = (100 * max(one[name][0] for one in records) for name in ("p_low", "p_high"))
    power = [one["found"][0] for one in records if one["found"]]
    return (
        f"{len(records)} | {n:,} | {hits} ({100 * every.low:.2f} to {100 * every.high:.2f} %) | "
        f"{percent(interval(worst))}{where} | {above} | "
        f"{p_low:.2f} | {p_high:.2f} | "
        f"{f'{100 * sum(power) / len(power):.1f}' if power else '-'}"
    )


def totals(tables: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield a row for each table, over all its kinds: no power, which differs too much."""
    header, line = (text.rsplit("|", 2)[0] for text in GROUP_HEADER)
    yield f"{header.replace('answers', 'sets')}|"
    yield f"{line}|"
    for sets, records in tables.items():
        yield f"| {SETS[sets]} | {_together(records).rsplit(' | ', 1)[0]} |"


def spread_by_rounds(records: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each law of answers, with a cell for each S and number of rounds."""
    by_kind = {one["kind"]: one for one in records}
    columns = [f"S {spread:g}, {rounds} rounds" for spread in SPREADS for rounds in ROUNDS]
    yield "| answers | " + " | ".join(columns).replace(" 1 rounds", " one round") + " |"
    yield "| --- |" + " --: |" * len(columns)
    for law in dict.fromkeys(one["group"] for one in records):
        if f"{law}, {columns[0]}" in by_kind:
            cells = [_cell(by_kind[f"{law}, {column}"]) for column in columns]
            yield f"| {law} | {' | '.join(cells)} |"


def _cell(one: Record) -> str:
    n = one["federations"]
    rates = f"{100 * one['innocent_flagged'] / n:.1f}, {100 * one['innocent_above_z'] / n:.0f}"
    return f"{rates}; {100 * one['found'][0]:.0f}" if one["found"] else rates


def other_federations(unknown: Sequence[Record], known: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each other kind, by what whoever decides knows."""
    yield (
        "| federation | somebody innocent is flagged | the same, sets known | by Z > 4 S | "
        "p up to 1 % | the same, sets known | marked, found | the same, sets known |"
    )
    yield "| --- | --: | --: | --: | --: | --: | --: | --: |"
    with_sets = {one["kind"]: one for one in known}
    columns = tuple(f"S {spread:g}, {rounds} rounds" for spread in SPREADS for rounds in ROUNDS)
    for one in unknown:
        if not one["kind"].endswith(columns):
            other = with_sets[one["kind"]]
            above = 100 * one["innocent_above_z"] / one["federations"]
            yield (
                f"| {one['kind']} | {percent(interval(one))} | {percent(interval(other))} | "
                f"{above:.1f} | {share(one['p_low'])} | {share(other['p_low'])} | {found(one)} | "
                f"{found(other)} |"
            )


def grid_lines(tables: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    """Yield a row for each law of answers, size of the federation, and what is known."""
    yield GROUP_HEADER[0].replace("| answers", "| sets | clients | answers")
    yield "| --- | --: " + GROUP_HEADER[1]
    for sets, records in tables.items():
        for clients in dict.fromkeys(one["clients"] for one in records):
            own = [one for one in records if one["clients"] == clients]
            yield from (f"| {SETS[sets]} | {clients} {line}" for line in group_lines(own))


def limit_lines(known: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each kind that has not what the decision takes for granted."""
    yield "| federation | somebody innocent is flagged | p up to 1 % | marked, found |"
    yield "| --- | --: | --: | --: |"
    for one in known:
        cells = f"{percent(interval(one))} | {share(one['p_low'])} | {found(one)}"
        yield f"| {one['kind']} | {cells} |"


def adversary_line(one: Record) -> str:
    """Return the row of a client that hides."""
    return (
        f"| {one['test']} | {one['way']} | {one['z']:.1f} | {100 * one['found']:.1f} | "
        f"{100 * one['others_found']:.1f} | {percent(interval(one))} |"
    )


def adversaries(unknown: Sequence[Record], known: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each client that hides, by what whoever decides knows."""
    yield (
        "| test | the first marked client | its mean Z | found | the same, sets known | "
        "other marked clients found | the same, sets known | somebody innocent is flagged | "
        "the same, sets known |"
    )
    yield "| --- | --- |" + " --: |" * 7
    for one, other in zip(unknown, known, strict=True):
        pairs = [(row["found"], row["others_found"]) for row in (one, other)]
        cells = [f"{100 * share:.1f}" for shares in zip(*pairs, strict=True) for share in shares]
        cells += [percent(interval(row)) for row in (one, other)]
        yield f"| {one['test']} | {one['way']} | {one['z']:.1f} | {' | '.join(cells)} |"


def interval(one: Record) -> Estimate:
    """Return the share of a kind's federations in which somebody innocent is flagged."""
    return wilson(one["innocent_flagged"], one["federations"])


def percent(of: Estimate) -> str:
    """Return a share and its interval in per cent."""
    return f"{100 * of.value:.1f} ({100 * of.low:.1f} to {100 * of.high:.1f})"


def share(of: Sequence[float]) -> str:
    """Return a mean share in per cent, with two standard errors."""
    return f"{100 * of[0]:.2f} ± {200 * of[1]:.2f}"


def found(one: Record) -> str:
    """Return the share of marked clients that are found, in per cent."""
    return f"{100 * one['found'][0]:.1f}" if one["found"] else "-"


def page_with_tables(page: str, kept: Path) -> str:
    """Return the page with all tables as the kept files say."""
    main, grid, hiding = (
        {sets: read_records(kept / f"{table}-{sets}.jsonl") for sets in SETS}
        for table in ("main", "grid", "adversaries")
    )
    blocks: dict[str, Iterable[str]] = {
        "all kinds": totals(main),
        "sets not known": spread_by_rounds(main["unknown"]),
        "sets known": spread_by_rounds(main["known"]),
        "other federations": other_federations(main["unknown"], main["known"]),
        "everything together": grid_lines(grid),
        "adversaries": adversaries(hiding["unknown"], hiding["known"]),
        "limits": limit_lines(read_records(kept / "limits-known.jsonl")),
    }
    for name, lines in blocks.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, rest = page.split(start)
        _, after = rest.split(end)
        page = "".join([before, start, "\n".join(lines), "\n", end, after])
    return page


def main() -> None:
    """Write the page's tables."""
    PAGE.write_text(page_with_tables(PAGE.read_text("utf-8"), KEPT), "utf-8")


if __name__ == "__main__":
    main()
