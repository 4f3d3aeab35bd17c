"""What the filters of a federation let through, as rows of the report."""

from collections.abc import Iterable, Mapping, Sequence

from fedaudit.api import Measurement

from .filter_counts import FILTERS, FilterCounts

Turns = Mapping[tuple[int, str], FilterCounts]
"""The tally of each round's clients."""


def rows(plugin: str, turns: Turns) -> list[Measurement]:
    """Return what every filter dropped, in all rounds and in each, and what was kept in each.

    `dropped` is a share of the new examples of all clients that reached the filter; one that
    nothing reached has no row. `kept` is of the client that kept fewest.
    """
    found = list(_dropped(plugin, {}, list(turns.values())))
    for number in sorted({number for number, _ in turns}):
        own = {client: tally for (at, client), tally in turns.items() if at == number}
        found += _dropped(plugin, {"round": number}, list(own.values()))
        found.append(_kept(plugin, number, own))
    return found


def _dropped(
    plugin: str, at: Mapping[str, object], tallies: Sequence[FilterCounts]
) -> Iterable[Measurement]:
    reached = [tally.reached() for tally in tallies]
    for name in FILTERS:
        n, hits = (sum(one[name][part] for one in reached) for part in (0, 1))
        if not n:
            continue
        yield Measurement.rate(
            hits,
            n,
            kind="defense",
            plugin=plugin,
            metric="dropped",
            scope={**at, "filter": name},
        )


def _kept(plugin: str, number: int, own: Mapping[str, FilterCounts]) -> Measurement:
    client = min(own, key=lambda who: (own[who].kept, who))
    return Measurement(
        kind="defense",
        plugin=plugin,
        metric="kept",
        value=own[client].kept,
        scope={
            "round": number,
            "client": client,
            "clients": len(own),
            "mean": round(sum(tally.kept for tally in own.values()) / len(own), 3),
            "highest": round(max(tally.highest for tally in own.values()), 4),
            "alike": sum(tally.alike for tally in own.values()),
        },
    )


def filter_caveats(plugin: str, turns: Turns, keep: int) -> list[str]:
    """Return in which turns fewer than `keep` examples were left, and what dropped most there."""
    few = [one for one in sorted(turns) if turns[one].kept < keep]
    if not few:
        return []
    dropped = {
        name: sum(turns[one].dropped.get(name, 0) for one in few)
        for name in FILTERS
        if name != "selection"
    }
    most = max(dropped, key=lambda name: dropped[name])
    asked = sum(turns[one].asked for one in few)
    numbers = sorted({number for number, _ in few})
    return [
        f"{plugin}: in {len(few):,} of {len(turns):,} turns (rounds {_listed(numbers)}) a client "
        f"kept fewer than {keep} examples of its own making; of {asked:,} new instructions asked "
        f"for there, {dropped[most]:,} were lost because {FILTERS[most]}."
    ]


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers as people list them: runs of three or more as their ends."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spelt = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(spelt)
