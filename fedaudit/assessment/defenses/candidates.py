"""The defences that a federation can be trained under, and why not the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import FedauditError, UsageError, unknown_name_error
from fedaudit.config import registry
from fedaudit.simulation import runner
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
        """Return the settings of a federation that is trained under it."""
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

    One that the federation was `trained` under has the options that it had; `options` win. Raises
    UsageError for one that is not installed, and for one that is named and cannot be tried.
    """
    known = registry.plugins("defense")
    for name in (*names, *(options or {})):
        if name not in known:
            raise unknown_name_error("defense", name, known)
    wanted = list(dict.fromkeys(names)) or list(known)
    if unused := [name for name in options or {} if name not in wanted]:
        raise UsageError(f"--set {unused[0]}: that defence is not among those that are tried.")
    kept = dict(name_and_options(one, "") for one in trained)
    found = list(_checked(config, wanted, {**kept, **(options or {})}))
    refused = next((one for one in found if one.reason), None)
    if names and refused:
        raise UsageError(f"The defence {refused.name} cannot be tried here: {refused.reason}")
    if all(one.reason for one in found):
        raise UsageError("No installed defence can be tried on this federation.")
    return found


def _checked(
    config: Simulation, names: Sequence[str], options: Mapping[str, Mapping[str, Any]]
) -> Iterator[DefenseCandidate]:
    for name in names:
        one = DefenseCandidate(name=name, options=options.get(name, {}))
        try:
            runner.prepare(one.settings(config, config.seed), Path("unused"))
        except FedauditError as error:
            if name in options:  # a wrong option is no property of the federation
                registry.create("defense", name, options[name])
            one = replace(one, reason=str(error))
        yield one
