"""What makes two reports less comparable than they look: order, seeds, settings, policies."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.verdict.criteria import DEFAULT, without_name

MOST_SETTINGS = 5
"""At most so many settings are named in one note."""


def setting_notes(first: Row, second: Row) -> Iterator[str]:
    """Yield in what the two audits differ beside what they found."""
    if _started(second) < _started(first):
        yield "The second report is of an earlier audit than the first: is this order meant?"
    if _seeds(first) != _seeds(second):
        yield "The audits had different seeds: other questions and answers were drawn."
    options = _attack_options(first), _attack_options(second)
    if only := sorted(options[0].keys() ^ options[1].keys()):
        yield f"Of one audit only: {make_visible(', '.join(only))}."
    if changes := list(_changes(*options)):
        more = len(changes) - MOST_SETTINGS
        text = ", ".join(changes[:MOST_SETTINGS]) + (f", and {more} more" if more > 0 else "")
        yield f"Attacks had different settings: {make_visible(text)}."
    if policies := policy_difference(first, second):
        yield policies


def questions_differ(first: Row, second: Row) -> bool:
    """Tell whether two audits drew other questions or answers: by seed, or by attacks' options.

    One model then gives other strings in each, so that a string of one alone tells of no change.
    """
    options = _attack_options(first), _attack_options(second)
    return _seeds(first) != _seeds(second) or any(_changes(*options))


def policy_difference(first: Row, second: Row) -> str:
    """Return that two verdicts were made under different limits; empty where they were not."""
    if _limits(first) == _limits(second):
        return ""
    names = [make_visible(str(_policy(report).get("name", ""))) for report in (first, second)]
    if names[0] == names[1]:
        return f"The reports were judged under different limits, both called {names[0]}."
    return f"The reports were judged under different policies: {', then '.join(names)}."


def _seeds(report: Row) -> set[str]:
    """Return the seeds; what they are called depends on the command."""
    return {str(seed) for seed in report["seeds"].values()}


def _started(report: Row) -> datetime:
    return datetime.fromisoformat(report["run"]["started"])


def _policy(report: Row) -> dict[str, Any]:
    """Return the policy of a verdict; what it leaves out, as earlier versions do, is the default.

    It need not be a valid one: `Policy` may refuse what an earlier version took.
    """
    return {**DEFAULT.table(), **report["verdict"].get("policy", {})}


def _limits(report: Row) -> dict[str, Any]:
    return without_name(_policy(report))


def _attack_options(report: Row) -> dict[str, Mapping[str, Any]]:
    """Return the options of each attack; those of steps of one audit are put together."""
    config = report["run"]["config"]
    steps = config.get("steps")
    tables = list(steps.values()) if isinstance(steps, Mapping) else [config]
    attacks = [table.get("attacks") for table in tables if isinstance(table, Mapping)]
    named = [pair for table in attacks if isinstance(table, Mapping) for pair in table.items()]
    return {name: options for name, options in named if isinstance(options, Mapping)}


def _changes(
    first: Mapping[str, Mapping[str, Any]], second: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for attack in sorted(first.keys() & second.keys()):
        before, after = first[attack], second[attack]
        for name in sorted(before.keys() & after.keys()):
            if before[name] != after[name]:
                yield f"{attack}.{name} {before[name]}, then {after[name]}"
