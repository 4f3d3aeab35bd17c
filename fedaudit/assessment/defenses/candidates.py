"""The defences that a federation can be trained under, and why not the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import FedauditError, UsageError, unknown_name_error
from fedaudit.config import registry
from fedaudit.simulation import preparation
from fedaudit.simulation.chosen_plugins import name_and_options
from fedaudit.simulation.config import Simulation

NONE = "none"
"""The name of training without any defence, which every defence is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseCandidate:
    """A defence with its options; `reason` says why it cannot be tried on this federation."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""

    def settings(self, config: Simulation, seed: int) -> Simulation:
        """Return the settings of a federation that is trained under this defence."""
        chosen = () if self.name == NONE else ({"name": self.name, **self.options},)
        return replace(config, defenses=chosen, seed=seed)


def defense_candidates(
    config: Simulation,
    names: Sequence[str] = (),
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    trained: Sequence[str | Mapping[str, Any]] = (),
) -> list[DefenseCandidate]:
    """Return the defences that are named, or all that are installed, checked without training.

    A defence that the federation was `trained` under keeps its options unless `options` has others.
    Raises UsageError for one that is not installed, and for one that is named and cannot be tried.
    """
    plugins = registry.plugins("defense")
    for name in (*names, *(options or {})):
        if name not in plugins:
            raise unknown_name_error("defense", name, plugins)
    selected = list(dict.fromkeys(names)) or list(plugins)
    if unused := [name for name in options or {} if name not in selected]:
        raise UsageError(f"--set {unused[0]}: that defence is not among those that are tried.")
    trained_options = dict(name_and_options(defense, "") for defense in trained)
    candidates = list(_check_candidates(config, selected, {**trained_options, **(options or {})}))
    refused = next((candidate for candidate in candidates if candidate.reason), None)
    if names and refused:
        raise UsageError(f"The defence {refused.name} cannot be tried here: {refused.reason}")
    if all(candidate.reason for candidate in candidates):
        raise UsageError("No installed defence can be tried on this federation.")
    return candidates


def _check_candidates(
    config: Simulation, names: Sequence[str], options: Mapping[str, Mapping[str, Any]]
) -> Iterator[DefenseCandidate]:
    for name in names:
        candidate = DefenseCandidate(name=name, options=options.get(name, {}))
        try:
            preparation.prepare(candidate.settings(config, config.seed), Path("unused"))
        except FedauditError as error:
            if name in options:  # a wrong option is no property of the federation
                registry.create("defense", name, options[name])
            candidate = replace(candidate, reason=str(error))
        yield candidate
