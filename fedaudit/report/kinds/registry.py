"""All kinds in reading order: the built-in ones, and those that installed attacks bring."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

from fedaudit.api.errors import PluginError
from fedaudit.api.kind import Kind, Row
from fedaudit.api.plugin import Attack
from fedaudit.api.records import Measurement
from fedaudit.config.registry import distribution, plugins
from fedaudit.report.kinds.counterfactual import Counterfactual
from fedaudit.report.kinds.epsilon import Epsilon
from fedaudit.report.kinds.exposure import Exposure
from fedaudit.report.kinds.forget import Forget
from fedaudit.report.kinds.inversion import Inversion
from fedaudit.report.kinds.membership import Membership
from fedaudit.report.kinds.memorization import Memorization
from fedaudit.report.kinds.persons import Persons
from fedaudit.report.kinds.reconstruction import Reconstruction
from fedaudit.report.kinds.source import Source
from fedaudit.report.kinds.watch import Watch

FIRST: tuple[Kind, ...] = (Watch(), Forget(), Memorization(), Exposure(), Epsilon())
"""Our kinds that a report shows before extraction, in reading order."""
OTHERS: tuple[Kind, ...] = (
    Membership(),
    Inversion(),
    Reconstruction(),
    Source(),
    Counterfactual(),
    Persons(),
)
"""Our kinds that it shows after extraction."""
BUILT_IN: Mapping[str, Kind] = {kind.name: kind for kind in (*FIRST, *OTHERS)}
"""Our kinds by name, in reading order."""

OURS = frozenset(
    {
        *BUILT_IN,
        *("extraction", "utility", "cost", "probability", "defense", "attribution"),
        "instrument",
    }
)
"""All kinds of rows that are ours; some have their tables and rules elsewhere."""

_METRICS = {
    "rouge_l": "regurgitation",
    "edit_distance": "regurgitation",
    "extractable": "regurgitation",
    "coverage": "exfiltration",
    "extraction_recall": "exfiltration",
}
"""Metrics of extraction."""


def is_ours(name: str) -> bool:
    """Tell whether a kind of rows is a built-in one, which no plugin may define."""
    return name in OURS


def kind_of(name: str) -> Kind | None:
    """Return the kind with this name; None if no installed plugin defines it."""
    if is_ours(name):
        return BUILT_IN.get(name)
    return _kinds_of_plugins().get(name)


def kinds_in(names: Iterable[str]) -> list[Kind]:
    """Return our kinds in reading order, and behind them those of plugins that have these names.

    Plugins are loaded only if a name is not built in.
    """
    foreign = sorted({name for name in names if not is_ours(name)})
    return [*BUILT_IN.values(), *(kind for name in foreign if (kind := kind_of(name)))]


def rows_of(kind: Kind, rows: Iterable[Measurement]) -> list[Measurement]:
    """Return those of some rows that are of a kind, in their order."""
    return [row for row in rows if row.kind == kind.name]


def kinds_of(report: Row) -> list[Kind]:
    """Return our kinds in reading order, and those of plugins that a report has rows of."""
    return kinds_in(row["kind"] for row in report["measurements"])


def kind_of_rule(rule: str, kinds: Iterable[Kind]) -> Kind | None:
    """Return which of some kinds a rule judges; None for a rule of no kind."""
    return next((kind for kind in kinds if rule in kind.rules), None)


def unknown_kinds(report: Row) -> list[str]:
    """Return the kinds of a report's rows that neither we nor installed plugins define."""
    names = {row["kind"] for row in report["measurements"]}
    return sorted(name for name in names if not is_ours(name) and kind_of(name) is None)


def class_of(row: Measurement) -> str:
    """Return the class of attacks that a row is a result of; "" for other rows, such as utility.

    The classes are those of EDPB Opinion 28/2024, paragraph 55. Coverage of whole records, whose
    scope names no set of strings, is regurgitation.
    """
    if (kind := kind_of(row.kind)) is not None:
        return kind.attack_class
    if row.metric == "inference_accuracy":
        return "attribute_inference"
    if row.kind != "extraction":
        return ""
    whole_records = "threshold" in row.scope or ("records" in row.scope and "set" not in row.scope)
    attack_class = _METRICS.get(row.metric, "")
    return "regurgitation" if attack_class and whole_records else attack_class


@cache
def _kinds_of_plugins() -> Mapping[str, Kind]:
    """Return the kinds that installed attacks bring, by name.

    Raises PluginError if two classes define a kind of one name, or one a built-in kind, and for a
    kind that has tests and does not judge them.
    """
    owners: dict[str, tuple[type[Kind], type[Attack]]] = {}
    for attack in cast("Iterable[type[Attack]]", plugins("attack").values()):
        for cls in attack.kinds:
            other, owner = owners.setdefault(cls.name, (cls, attack))
            if is_ours(cls.name) or other is not cls:
                by = "fedaudit itself" if is_ours(cls.name) else distribution(owner)
                raise PluginError(
                    f"The kind {cls.name!r} of {distribution(attack)} is also one of {by}."
                )
            if cls.tests is not Kind.tests and cls.judge_test is Kind.judge_test:
                raise PluginError(
                    f"The kind {cls.name!r} of {distribution(attack)} has tests and no judge_test."
                )
    return {name: cls() for name, (cls, _) in owners.items()}
