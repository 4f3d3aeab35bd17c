"""The estimator that an extraction uses, and the attacks that support it."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from fedaudit.api.errors import UsageError, unknown_name_error
from fedaudit.config import registry
from fedaudit.extraction.prefix_attack import NO_TARGETS, Estimator, PrefixAttack

Options = Mapping[str, Mapping[str, Any]]


def estimator_options(
    estimator: str | None, attacks: Sequence[str], options: Options
) -> dict[str, Any]:
    """Return the options of all plugins, with the estimator added for attacks that have one.

    Raises UsageError for an unknown estimator, and for "exact" with an attack that does not look
    for targets at the beginning of answers.
    """
    if estimator is None:
        return dict(options)
    if estimator not in get_args(Estimator):
        raise unknown_name_error("estimator", estimator, get_args(Estimator))
    result: dict[str, Any] = dict(options)
    for name in attacks:
        if isinstance(registry.create("attack", name, options.get(name)), PrefixAttack):
            result[name] = {**options.get(name, {}), "estimator": estimator}
        elif estimator == "exact":
            raise UsageError(
                f"--estimator exact goes with attacks that continue prefixes and look for known "
                f"strings, as contextual does; {name} has no such targets."
            )
    return result


def check(attacks: Sequence[str], options: Options, *, victim: object) -> None:
    """Raise UsageError if an attack uses the exact estimator without a victim."""
    plugins = (registry.create("attack", name, options.get(name)) for name in attacks)
    exact = any(
        isinstance(plugin, PrefixAttack) and plugin.estimator == "exact" for plugin in plugins
    )
    if exact and victim is None:
        raise UsageError(NO_TARGETS)
