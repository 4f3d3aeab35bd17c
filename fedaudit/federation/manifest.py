"""federation.json: a federation's description of itself, read and written without heavy imports."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config.options import build
from fedaudit.system.files import Read, atomic_text, check_version, read_json, read_regular
from fedaudit.system.names import check_inside, check_name

SCHEMA_VERSION = "1.0"
NAME = "federation.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """The model that everybody started from; `sha256` covers its configuration and weights."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestClient:
    """A client of the federation."""

    id: str
    examples: int
    weight: float
    data: str = ""
    """The path of its documents within the federation's folder; simulations only."""
    watermark: str = ""
    """The mark whose documents it trained on; simulations only, where the truth is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A finished round; round 0 is the initial adapter, or the first of an imported federation."""

    round: int
    adapter: str
    participants: tuple[str, ...] = ()
    clients: Mapping[str, str] = field(default_factory=dict)
    """The adapter folder of each client whose update the server saw."""
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The file of each sum that secure aggregation gave the server, with the clients summed."""
    loss: Mapping[str, float] = field(default_factory=dict)
    """The mean training loss of each participant, where the server saw its update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The prompt template that instruction records were rendered with."""

    name: str
    with_input: str
    without_input: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of federation.json; `files` maps each file named in it to its SHA-256."""

    schema_version: str = SCHEMA_VERSION
    status: Literal["running", "complete"] = "running"
    base: BaseModel
    clients: tuple[ManifestClient, ...]
    rounds: tuple[Round, ...] = ()
    aggregation: Mapping[str, Any]
    secure_aggregation: Mapping[str, Any] | None = None
    deployment: Mapping[str, Any] | None = None
    """The defence (name, options) through which the model answers, if there is one."""
    template: Template
    seeds: Mapping[str, int]
    files: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """The simulation's settings; empty for a federation that was not simulated here."""
    config_sha256: str = ""
    imported: Mapping[str, Any] | None = None
    """The federation's origin, if another framework ran it: `layout`, `files`, `notes`. Only such
    a federation may lack rounds."""
    recorded: Mapping[str, Any] | None = None
    """How the federation was recorded while it ran elsewhere: `framework`, `version`, `strategy`,
    `privacy` (as stated by a wrapper of differential privacy), `notes`."""
    counterfactual: Mapping[str, Any] | None = None
    """The original federation if this is a counterfactual, and the clients that are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """The origin of a counterfactual federation, which was trained without some clients."""

    without: tuple[str, ...]
    config_sha256: str
    """The SHA-256 of the original federation's settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPlugin:
    """A plugin that the federation was run with."""

    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumQueries:
    """The sums that the server asked secure aggregation for, or would have asked for."""

    protocol: str = ""
    """"pairs" of sets for each client, which is what empty means, or "shared" ones."""
    others: int = 5
    pairs: int = 5
    sets: int = 0
    """Q of shared sets; 0 for half as many as there are clients."""
    limit: float | None = None
    weights: str = ""
    """What the sums are of: "equal" for updates, "size" for updates times the clients' weights."""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not 0 < self.limit <= 1:
            raise ValueError("limit must be above 0 and at most 1.")


def chosen_plugin(manifest: Manifest, key: str) -> ChosenPlugin | None:
    """Return the plugin that a manifest names as its `key`; UsageError for a malformed table."""
    table = getattr(manifest, key)
    return None if table is None else build(ChosenPlugin, _known_entries(ChosenPlugin, table), key)


def counterfactual(manifest: Manifest) -> Counterfactual | None:
    """Return the origin of a counterfactual's manifest, else None; UsageError if malformed."""
    table = manifest.counterfactual
    return None if table is None else build(Counterfactual, table, "counterfactual")


def trained_tokens(manifest: Manifest) -> int:
    """Return how many tokens of a text a simulation's training read; 0 where it is not stated."""
    training = manifest.config.get("training")
    stated = training.get("max_length") if isinstance(training, Mapping) else None
    return stated if isinstance(stated, int) and stated > 1 else 0


def sum_queries(manifest: Manifest) -> SumQueries:
    """Return the sums that were asked for or, if every update is kept, a simulation's settings."""
    queries = (manifest.secure_aggregation or {}).get("queries") or manifest.config.get("queries")
    return build(
        SumQueries, _known_entries(SumQueries, {} if queries is None else queries), "queries"
    )


def _known_entries(cls: type, table: Any) -> Any:
    """Return the entries of a table that are fields of `cls`."""
    if not isinstance(table, Mapping):
        return table
    names = {f.name for f in fields(cls)}
    return {key: value for key, value in table.items() if key in names}


def write(manifest: Manifest, folder: Path) -> None:
    """Write federation.json into `folder`, whole or not at all."""
    table = asdict(manifest)
    for key in ("counterfactual", "recorded"):
        if table[key] is None:
            del table[key]
    text = json.dumps(table, indent=2, ensure_ascii=False, allow_nan=False)
    atomic_text(folder / NAME, text + "\n")


def read(folder: Path, read_file: Read = read_regular) -> Manifest:
    """Return the manifest of `folder`; raises InputError for one that is not well-formed."""
    path = folder / NAME
    if folder.is_file():
        its = f", {folder.parent}" if folder.name == NAME else ""
        raise InputError(f"{folder} is a file: name the federation's folder{its}.")
    table = read_json(path, f"{folder} is not a federation: it has no {NAME}.", read_file)
    if not isinstance(table, dict):
        raise InputError(f"{path} must hold a JSON object.")
    check_version(table, path, SCHEMA_VERSION)
    try:
        manifest = build(Manifest, _with_nested(table, path), NAME)
        for key in ("aggregation", "secure_aggregation", "deployment"):
            chosen_plugin(manifest, key)
        sum_queries(manifest)
        counterfactual(manifest)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    _check(manifest, path)
    return manifest


def _with_nested(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return `table` with its clients and rounds as dataclasses."""
    result = dict(table)
    for key, cls in (("clients", ManifestClient), ("rounds", Round)):
        items = table.get(key)
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise InputError(f"{path} needs a list of objects {key!r}.")
        result[key] = tuple(
            build(cls, _member_tuples(item, path), f"{NAME} {key}") for item in items
        )
    return result


def _member_tuples(item: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return a client's or round's table with the member lists of its sums as tuples."""
    sums = item.get("sums")
    if not isinstance(sums, dict):
        return item
    for name, members in sums.items():
        if (
            not isinstance(members, list)
            or not members
            or not all(isinstance(m, str) for m in members)
        ):
            raise InputError(f"{path}: {name!r} needs a list of the clients that it sums up.")
    return {**item, "sums": {name: tuple(members) for name, members in sums.items()}}


def _check(manifest: Manifest, path: Path) -> None:
    """Raise InputError for a manifest that contradicts itself or points outside its folder."""
    ids = [client.id for client in manifest.clients]
    if len(set(ids)) != len(ids):
        raise InputError(f"{path} names a client twice.")
    for client in manifest.clients:
        check_name(client.id, path, "the client")
        if client.watermark:
            check_name(client.watermark, path, "the mark")
    before = -1
    for finished in manifest.rounds:
        number = finished.round
        if number <= before or (number > before + 1 and manifest.imported is None):
            raise InputError(f"{path} misses round {before + 1}.")
        before = number
        if missing := {*finished.participants, *finished.clients} - set(ids):
            raise InputError(f"{path}: round {number} names {sorted(missing)[0]!r}, no client.")
        if len(set(finished.participants)) != len(finished.participants):
            raise InputError(f"{path}: round {number} names a participant twice.")
        _check_sums(finished, path)
    if not manifest.rounds:
        raise InputError(f"{path} has no finished round yet; there is nothing to audit.")
    for name in _manifest_paths(manifest):
        check_inside(name, path)


def _check_sums(finished: Round, path: Path) -> None:
    """Raise InputError for a sum over a non-participant of its round, or over a client twice."""
    for name, members in finished.sums.items():
        if strangers := set(members) - set(finished.participants):
            raise InputError(
                f"{path}: {name!r} sums up {sorted(strangers)[0]!r}, who took no part in "
                f"round {finished.round}."
            )
        if len(set(members)) != len(members):
            raise InputError(f"{path}: {name!r} sums up a client twice.")


def _manifest_paths(manifest: Manifest) -> Iterator[Any]:
    """Yield every path in the manifest."""
    yield from manifest.files
    yield from (client.data for client in manifest.clients)
    for finished in manifest.rounds:
        yield from (finished.adapter, *finished.clients.values(), *finished.sums)
