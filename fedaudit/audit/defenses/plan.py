"""What would be trained: the settings, the records, the defences, the seeds and the attack."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import FedauditError, UsageError, unknown_name_error
from fedaudit.audit.material import Material
from fedaudit.audit.request import ExtractionRequest
from fedaudit.config import profile as profiles
from fedaudit.config import registry
from fedaudit.config.options import build_settings, merge_tables
from fedaudit.data import corpus
from fedaudit.report import document
from fedaudit.simulation import preparation
from fedaudit.simulation.config import Simulation, name_and_options

PLAIN_SETTINGS: Mapping[str, Any] = {
    "data": "nano",
    "without": [],
    "central": False,
    "local": "no",
    "held_out": 0.0,
    "test": "",
    "defenses": [],
    "few_shot": {},
    "watermark": {},
    "canaries": {},
    "judge": {},
    "engine": "local",
}
"""What training again leaves out: the split of records, marks and canaries (the records have them
already), models beside the federation, and defences, which are added one at a time."""


def retraining_settings(
    material: Material,
    files: Mapping[str, Path],
    *,
    profile: str = "",
    detector: str,
    device: str = "auto",
    dtype: str = "auto",
) -> Simulation:
    """Return the settings of the federation without any defence, on its clients' own records.

    `profile` (NAME or NAME:SCALE) replaces the settings in the federation's folder. Raises
    UsageError if there are neither.
    """
    federation = material.audited.federation
    table = dict(federation.manifest.config) if federation else {}
    if profile:
        name, _, scale = profile.partition(":")
        table = dict(profiles.load(name).settings(scale or "nano"))
    elif not table:
        where = federation.path if federation else material.audited.adapter or "This model"
        raise UsageError(
            f"{where} was not made by fedaudit simulate and does not say how it was trained: name "
            "settings to train by with --defense-profile NAME[:SCALE] (fedaudit profiles)."
        )
    overrides: dict[str, Any] = {
        "base": federation.manifest.base.name if federation else material.audited.base,
        "client_data": {name: str(path) for name, path in files.items()},
        "clients": len(files),
        "detector": detector,
        **({"test": str(material.held_out)} if material.held_out else {}),
        **({"device": device} if device != "auto" else {}),
        **({"dtype": dtype} if dtype != "auto" else {}),
    }
    cleared = {
        name: value
        for name, value in table.items()
        if not isinstance(PLAIN_SETTINGS.get(name), dict)
    }
    return build_settings(
        Simulation,
        merge_tables(merge_tables(cleared, PLAIN_SETTINGS), overrides),
        "the federation's settings",
    )


def client_files(material: Material, named: Sequence[str] = ()) -> dict[str, Path]:
    """Return each client's file of records: the `named` ones, or those in the federation's folder.

    `named` are NAME=FILE. Raises UsageError where the records of any client are missing.
    """
    if named:
        return _parse_files(named)
    federation, audited = material.audited.federation, material.audited
    where = federation.path if federation else audited.adapter or audited.base
    files = {client.name: Path(client.path) for client in material.clients}
    clients = [client.id for client in federation.manifest.clients] if federation else []
    missing = [name for name in clients if name not in files]
    if not files or missing:
        owner = f"of {missing[0]}" if files else "of any client"
        raise UsageError(
            f"--defenses trains again, and {where} keeps no records {owner}: name every client's "
            "with --defense-data NAME=FILE."
        )
    return files


def _parse_files(named: Sequence[str]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for argument in named:
        name, sign, file = argument.partition("=")
        if not sign or not name or not file:
            raise UsageError(
                f"--defense-data {argument}: it takes NAME=FILE, a client and its records."
            )
        if name in files:
            raise UsageError(f"--defense-data names {name} twice.")
        if not name.replace("-", "").replace("_", "").isalnum():
            raise UsageError(
                f"--defense-data {argument}: a client's name is of letters and digits."
            )
        corpus.existing_file(Path(file))
        files[name] = Path(file)
    return files


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
            if name in options:  # a wrong option is not a property of the federation
                registry.create("defense", name, options[name])
            candidate = replace(candidate, reason=str(error))
        yield candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedPair:
    """A client that attacks another one, by name, and the request by which it does."""

    attacker: str
    victim: str
    request: ExtractionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DefensePlan:
    """The federation's settings without a defence, the defences, the seeds, and the attack."""

    config: Simulation
    candidates: Sequence[DefenseCandidate]
    seeds: Sequence[int]
    pairs: Sequence[AttackedPair]
    """The pairs of clients of the audit, one for each victim; one is attacked after training."""
    earlier: float | None = None
    """Seconds of one training, as measured for the audited federation, if known."""
    size: int | None = None
    """Bytes of that federation's folder."""

    @property
    def applicable(self) -> list[DefenseCandidate]:
        """The defences that can be tried."""
        return [c for c in self.candidates if not c.reason]

    @property
    def trainings(self) -> int:
        """Federations to train, those without a defence included."""
        return (len(self.applicable) + 1) * len(self.seeds)


def earlier_seconds(material: Material, config: Simulation) -> float | None:
    """Return the approximate time of one training, from the report in the federation's folder.

    A central model is not trained again; its training is assumed to have taken as long as that of
    one client, and is subtracted. Returns None if there is no report.
    """
    federation = material.audited.federation
    if federation is None:
        return None
    try:
        seconds = document.read(federation.path / "report.json")["budget"]["seconds"]
    except FedauditError:
        return None
    beside = bool(federation.manifest.config.get("central"))
    return float(seconds) * config.clients / (config.clients + beside) if seconds else None


def folder_size(material: Material) -> int | None:
    """Return the bytes of the federation's folder; every trained one has about as many."""
    federation = material.audited.federation
    if federation is None:
        return None
    return sum(path.stat().st_size for path in Path(federation.path).rglob("*") if path.is_file())
