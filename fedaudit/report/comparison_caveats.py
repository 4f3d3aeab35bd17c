"""What makes two reports less comparable than they look: order, seeds, settings, policies."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from fedaudit.report.query import Row
from fedaudit.report.redaction import make_visible
from fedaudit.report.verdict.criteria import DEFAULT, drop_name

MOST_SETTINGS = 5
"""The maximum number of settings named in one note."""


def setting_notes(first: Row, second: Row) -> Iterator[str]:
    """Yield a note on each difference between two audits other than their results."""
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
    """Tell whether two audits drew different questions or answers, by seed or attack options.

    Then even the same model gives different strings in each, so a string that only one of them
    found is no sign of a change.
    """
    options = _attack_options(first), _attack_options(second)
    return _seeds(first) != _seeds(second) or any(_changes(*options))


def policy_difference(first: Row, second: Row) -> str:
    """Return a note that two verdicts were made under different limits; empty if they were not."""
    if _limits(first) == _limits(second):
        return ""
    names = [make_visible(str(_policy(report).get("name", ""))) for report in (first, second)]
    if names[0] == names[1]:
        return f"The reports were judged under different limits, both called {names[0]}."
    return f"The reports were judged under different policies: {', then '.join(names)}."


def _seeds(report: Row) -> set[str]:
    """Return the seeds of a report, whose setting has a different name in each command."""
    return {str(seed) for seed in report["seeds"].values()}


def _started(report: Row) -> datetime:
    return datetime.fromisoformat(report["run"]["started"])


def _policy(report: Row) -> dict[str, Any]:
    """Return the policy of a verdict, with defaults for limits that earlier versions did not write.

    The policy need not be valid: `Policy` may refuse values that an earlier version accepted.
    """
    return {**DEFAULT.table(), **report["verdict"].get("policy", {})}


def _limits(report: Row) -> dict[str, Any]:
    return drop_name(_policy(report))


def _attack_options(report: Row) -> dict[str, Mapping[str, Any]]:
    """Return the options of each attack, merged over the steps of an audit."""
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
