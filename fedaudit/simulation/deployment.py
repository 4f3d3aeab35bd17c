"""After the last round: what defences deploy, what it costs, and how it answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.defense import ClientState, DeployedClient, FinishedFederation, Responder
from fedaudit.api.engine import ModelEngine
from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Document, Measurement
from fedaudit.federation import manifest
from fedaudit.federation.folder import DEPLOYED
from fedaudit.federation.manifest import Manifest
from fedaudit.simulation.client import local_round
from fedaudit.simulation.client.private_state import PRIVATE, private_folder
from fedaudit.simulation.client.trainer import steps_of
from fedaudit.simulation.context import Run
from fedaudit.simulation.data.datasets import ClientDocuments
from fedaudit.simulation.evaluation import keyed
from fedaudit.simulation.initialization import file_hashes
from fedaudit.system.files import atomic_text, read_json, restrict_to_owner

MEASURED = "measured.json"
"""The file of the defences' measurements at deployment, for a run that is opened again."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A complete federation, with the measurements and caveats of its defences."""

    manifest: Manifest
    measurements: tuple[Measurement, ...] = ()
    limits: tuple[str, ...] = ()


def deploy(
    run: Run,
    finished: Manifest,
    materials: Mapping[str, ClientDocuments],
    engine: ModelEngine,
    held_out: Sequence[Document],
    progress: Callable[[str], Progress],
) -> Deployment:
    """Let every defence deploy, and only then mark the federation as complete.

    An unfinished deployment starts anew, over the files that it wrote. If a defence answers for
    the model, perplexity is measured through the defence. Raises InputError if an adapter is left
    in the deployment's folder that this deployment did not write.
    """
    folder = run.out / DEPLOYED
    if finished.status == "complete":
        return _read(finished, folder / MEASURED)
    restrict_to_owner(folder)  # before anything secret is in it
    state = _state(run, finished, materials, engine, progress)
    before = _written(folder)
    results = [defense.deploy(state) for defense in run.defenses]
    for path, version in _written(folder).items():
        if before.get(path) == version:
            raise InputError(
                f"{path} is not an adapter of this deployment, which would answer with it: move it "
                "elsewhere, then run the command again."
            )
    settings, responders = _responding(run, state)
    rows = (
        *(row for result in results for row in result.measurements),
        *keyed.measure(
            state, responders, held_out, run.config.evaluated, progress("perplexity under keys")
        ),
    )
    limits = tuple(dict.fromkeys(limit for result in results for limit in result.limits))
    if rows or limits:
        table = {"measurements": [asdict(row) for row in rows], "limits": limits}
        atomic_text(folder / MEASURED, json.dumps(table, indent=2) + "\n")
    if any(folder.iterdir()):
        restrict_to_owner(folder)
    else:
        folder.rmdir()
    complete = replace(
        finished,
        status="complete",
        deployment=settings,
        files={**finished.files, **_adapters(run.out)},
    )
    manifest.write(complete, run.out)
    return Deployment(complete, rows, limits)


def _written(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return which file each adapter's path below a folder names, and when it last changed."""
    paths = [path for path in folder.rglob("adapter_*") if path.is_file()]
    return {path: ((found := path.stat()).st_ino, found.st_ctime_ns) for path in paths}


def _read(finished: Manifest, path: Path) -> Deployment:
    if not path.is_file():
        return Deployment(finished)
    table = read_json(path, "")
    rows = tuple(Measurement(**row) for row in table["measurements"])
    return Deployment(finished, rows, tuple(table["limits"]))


def _adapters(out: Path) -> dict[str, str]:
    """Return the hashes of the adapters that were deployed.

    No other file is included: keys are secret and change, and so do the files that depend on them.
    """
    if not (out / DEPLOYED).is_dir():
        return {}
    return {
        name: digest
        for name, digest in file_hashes(out, DEPLOYED).items()
        if name.rpartition("/")[2].startswith("adapter_")
    }


def _state(
    run: Run,
    finished: Manifest,
    materials: Mapping[str, ClientDocuments],
    engine: ModelEngine,
    progress: Callable[[str], Progress],
) -> FinishedFederation:
    config, training = run.config, run.config.training
    return FinishedFederation(
        engine=engine,
        folder=run.out / DEPLOYED,
        adapter=run.out / finished.rounds[-1].adapter,
        parties={
            client: _client_state(run, finished, client, material)
            for client, material in materials.items()
            if any(client in r.participants for r in finished.rounds)
        },
        batch_size=training.batch_size * training.accumulation,
        rounds=config.rounds,
        max_length=min(training.max_length, engine.context_length),
        seed=config.seed,
        progress=progress,
    )


def _client_state(
    run: Run, finished: Manifest, client: str, material: ClientDocuments
) -> ClientState:
    out, took_part = run.out, [r for r in finished.rounds if client in r.participants]
    last = took_part[-1]
    return ClientState(
        documents=material.documents,
        prepared=material.prepared,
        shared=out / last.clients.get(client, last.adapter),
        private={name: private_folder(out, client, name, last.round) for name in material.private},
        rounds=len(took_part),
        steps=steps_of(run.config.training, len(run.tokens.shared[client])),
        turns=dict(local_round.round_folders(out / PRIVATE / client, [r.round for r in took_part])),
    )


def _responding(
    run: Run, state: FinishedFederation
) -> tuple[dict[str, Any] | None, dict[str, Responder]]:
    """Return the defence that answers for the model, and the responder of each client.

    If several defences answer, the first is returned.
    """
    deployed = {
        client: DeployedClient(
            engine=state.engine, folder=state.folder, client=client, seed=state.seed
        )
        for client in state.parties
        if (state.folder / client).is_dir()
    }
    for defense, (name, options) in zip(run.defenses, run.config.defense_plugins(), strict=True):
        responders = {
            client: responder
            for client in deployed
            if (responder := defense.responder(deployed[client])) is not None
        }
        if responders:
            return {"name": name, "options": options}, responders
    return None, {}
