"""What the filters of a federation let through, as rows of the report."""

from collections.abc import Iterable, Mapping, Sequence

from fedaudit.api import Measurement

from .filter_counts import FILTERS, FilterCounts

Turns = Mapping[tuple[int, str], FilterCounts]
"""The counts of each round's clients."""


def rows(plugin: str, turns: Turns) -> list[Measurement]:
    """Return what every filter dropped, in all rounds and in each, and what was kept in each.

    `dropped` is a share of the new examples of all clients that reached the filter; one that
    nothing reached has no row. `kept` is of the client that kept fewest.
    """
    measurements = list(_dropped_rows(plugin, {}, list(turns.values())))
    for number in sorted({number for number, _ in turns}):
        counts_by_client = {client: counts for (n, client), counts in turns.items() if n == number}
        measurements += _dropped_rows(plugin, {"round": number}, list(counts_by_client.values()))
        measurements.append(_fewest_kept(plugin, number, counts_by_client))
    return measurements


def _dropped_rows(
    plugin: str, shared_scope: Mapping[str, object], all_counts: Sequence[FilterCounts]
) -> Iterable[Measurement]:
    reached = [counts.reached() for counts in all_counts]
    for name in FILTERS:
        n, hits = (sum(by_filter[name][index] for by_filter in reached) for index in (0, 1))
        if not n:
            continue
        yield Measurement.rate(
            hits,
            n,
            kind="defense",
            plugin=plugin,
            metric="dropped",
            scope={**shared_scope, "filter": name},
        )


def _fewest_kept(
    plugin: str, number: int, counts_by_client: Mapping[str, FilterCounts]
) -> Measurement:
    client = min(counts_by_client, key=lambda name: (counts_by_client[name].kept_count, name))
    return Measurement(
        kind="defense",
        plugin=plugin,
        metric="kept",
        value=counts_by_client[client].kept_count,
        scope={
            "round": number,
            "client": client,
            "clients": len(counts_by_client),
            "mean": round(
                sum(counts.kept_count for counts in counts_by_client.values())
                / len(counts_by_client),
                3,
            ),
            "highest": round(max(counts.highest for counts in counts_by_client.values()), 4),
            "alike": sum(counts.alike for counts in counts_by_client.values()),
        },
    )


def filter_caveats(plugin: str, turns: Turns, keep: int) -> list[str]:
    """Return in which turns fewer than `keep` examples were left, and what dropped most there."""
    short = [turn for turn in sorted(turns) if turns[turn].kept_count < keep]
    if not short:
        return []
    dropped = {
        name: sum(turns[turn].dropped.get(name, 0) for turn in short)
        for name in FILTERS
        if name != "selection"
    }
    most = max(dropped, key=lambda name: dropped[name])
    attempts = sum(turns[turn].asked for turn in short)
    numbers = sorted({number for number, _ in short})
    return [
        f"{plugin}: in {len(short):,} of {len(turns):,} turns (rounds {_list_numbers(numbers)}) "
        f"a client kept fewer than {keep} examples of its own making; of {attempts:,} new "
        f"instructions asked for there, {dropped[most]:,} were lost because {FILTERS[most]}."
    ]


def _list_numbers(numbers: Sequence[int]) -> str:
    """Return numbers separated by commas, runs of three or more as first and last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spelt = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(spelt)
