"""Which estimator an extraction takes, and what that goes with."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.config import registry
from fedaudit.extraction.prefix_attack import NO_TARGETS, Estimator, PrefixAttack

Options = Mapping[str, Mapping[str, Any]]


def estimator_options(
    estimator: str | None, attacks: Sequence[str], own: Options
) -> dict[str, Any]:
    """Return the options of all plugins, with the estimator for those attacks that draw by it.

    Raises UsageError for an estimator that there is not, and for "exact" with an attack that looks
    for no targets at the beginning of answers.
    """
    if estimator is None:
        return dict(own)
    if estimator not in get_args(Estimator):
        raise unknown_name_error("estimator", estimator, get_args(Estimator))
    found: dict[str, Any] = dict(own)
    for name in attacks:
        if isinstance(registry.create("attack", name, own.get(name)), PrefixAttack):
            found[name] = {**own.get(name, {}), "estimator": estimator}
        elif estimator == "exact":
            raise UsageError(
                f"--estimator exact goes with attacks that continue prefixes and look for known "
                f"strings, as contextual does; {name} has no such targets."
            )
    return found


def check(attacks: Sequence[str], own: Options, *, victim: object) -> None:
    """Raise UsageError where the exact estimator lacks a victim."""
    made = (registry.create("attack", name, own.get(name)) for name in attacks)
    exact = any(isinstance(one, PrefixAttack) and one.estimator == "exact" for one in made)
    if exact and victim is None:
        raise UsageError(NO_TARGETS)
