"""The round loop: broadcast, train, aggregate, save; every finished round is kept."""

import hashlib
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import State
from fedaudit.federation import adapters, manifest
from fedaudit.federation.manifest import Manifest, Round
from fedaudit.simulation.client import local_round, private_state
from fedaudit.simulation.client.trainer import ClientTraining, FollowUpTraining
from fedaudit.simulation.client.training_pool import train_jobs, workers
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.context import Event, Listener, Run
from fedaudit.simulation.data.datasets import Sequences
from fedaudit.simulation.initialization import INITIAL, file_hashes
from fedaudit.simulation.server import secure_aggregation
from fedaudit.simulation.server import state as server_state

_log = logging.getLogger(__name__)

CENTRAL = "central"
"""The folder of the model that was trained on everybody's documents, below the run's folder."""


def run_rounds(run: Run, start_manifest: Manifest, listener: Listener) -> Manifest:
    """Train the rounds that `start_manifest` lacks, and return the manifest with all of them.

    If interrupted, it leaves a manifest of complete rounds, from which it can continue later.
    """
    config, current = run.config, start_manifest
    if len(current.rounds) > config.rounds:
        return current
    counts = [len(list(local_trainings(run, n))) for n in range(1, config.rounds + 1)]
    with workers(config) as pool:
        for number in range(len(current.rounds), config.rounds + 1):
            losses: dict[str, float] = {}
            for job, loss in train_jobs(pool, _jobs(run, current, number)):
                losses[job.model_name] = loss
                event = Event(
                    done=sum(counts[: number - 1]) + len(losses),
                    total=sum(counts),
                    model_name=job.model_name,
                    round=number,
                    loss=loss,
                )
                listener(event)
            current = _finish(run, current, number, losses)
            _log.info("round %d: %d trainings, aggregated", number, len(losses))
    return current


def participants(config: Simulation, number: int) -> list[str]:
    """Return the clients drawn for a round: a function of the seed and the round.

    A client that is left out is drawn like every other, and is then missing.
    """
    names, absent = config.client_names, set(config.without)
    return [names[i] for i in sorted(_draw_participants(config, number)) if names[i] not in absent]


def check_participants(config: Simulation) -> None:
    """Refuse a federation in which all clients drawn for some round are left out."""
    without = set(config.without)
    absent = {i for i, name in enumerate(config.client_names) if name in without}
    if len(absent) < config.participants_per_round:
        return
    for number in range(1, config.rounds + 1):
        if absent.issuperset(_draw_participants(config, number)):
            raise UsageError(f"Round {number} draws no one but {', '.join(config.without)}.")


def _draw_participants(config: Simulation, number: int) -> list[int]:
    """Return the indices of a round's clients among all names."""
    draw = random.Random(f"participants {config.seed} {number}")
    return draw.sample(range(config.clients), config.participants_per_round)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraining:
    """One training of a round: its client, its data, and where its adapter is kept."""

    model_name: str
    sequences: Sequences
    chain: Path | None = None
    """The folder that keeps an adapter from round to round; None for the shared adapter."""
    client: str = ""


def local_trainings(run: Run, number: int) -> Iterator[LocalTraining]:
    """Yield the round's trainings, longest first, so that workers finish at about the same time."""
    shared = run.tokens.shared
    if run.config.central and run.config.compares_utility:
        all_sequences = [sequence for sequences in shared.values() for sequence in sequences]
        yield LocalTraining(model_name=CENTRAL, sequences=all_sequences, chain=run.out / CENTRAL)
    chosen = participants(run.config, number)
    for client in chosen:
        yield LocalTraining(model_name=client, sequences=shared[client], client=client)
    for client in chosen:
        for name, sequences in run.tokens.private.get(client, {}).items():
            chain = run.out / private_state.PRIVATE / client / name
            yield LocalTraining(
                model_name=f"{client}/{name}", sequences=sequences, chain=chain, client=client
            )


def follow_up_trainings(run: Run, number: int) -> Iterator[LocalTraining]:
    """Yield the follow-up trainings of a finished round.

    Their sequences are as long as those that were trained on, and hold other tokens.
    """
    for client in (
        participants(run.config, number) if local_round.follow_up_defense(run.defenses) else ()
    ):
        lengths_by_adapter = local_round.sequence_lengths(
            private_state.private_folder(run.out, client, local_round.TURN, number)
        )
        for name, lengths in lengths_by_adapter.items():
            sequences = [[0] * length for length in lengths]
            chain = run.out / private_state.PRIVATE / client / name
            yield LocalTraining(
                model_name=f"{client}/{name}", sequences=sequences, chain=chain, client=client
            )


def _jobs(run: Run, current: Manifest, number: int) -> Iterator[ClientTraining]:
    """Yield the round's trainings as jobs for a worker."""
    config = run.config
    private_state.restrict_private(run)
    for task in local_trainings(run, number):
        training = config.training
        if task.model_name == CENTRAL:
            # The same passes over the data in the same number of steps: larger batches.
            training = replace(training, batch_size=training.batch_size * config.clients)
        begin, below = run.out / current.rounds[-1].adapter, None
        if task.chain:
            begin, out = _before(run, task.chain, number), task.chain / f"{number:03d}"
        else:
            out = private_state.training_folder(run, task.client, number)
            if run.aggregator.merges_each_round:
                begin, below = run.out / INITIAL, begin
        yield ClientTraining(
            model_name=task.model_name,
            base=config.base,
            start=begin,
            out=out,
            merged=below,
            sequences=task.sequences,
            training=training,
            round=number,
            rounds=config.rounds,
            seed=seed_of(config.seed, number, task.model_name),
            aggregator=run.aggregator,
            state_files=None if task.chain else _state_files(run, number, task.client),
            defenses=() if task.chain else run.defenses,
            follow_up=None if task.chain else _shared_follow_up(run, task.client, number),
            device=config.device,
            dtype=config.dtype,
            threads=config.threads,
        )


def _state_files(run: Run, number: int, client: str) -> tuple[Path, Path] | None:
    """Return the files of the server's and the client's state at the round's begin, if any."""
    if not run.aggregator.stateful_clients:
        return None
    return server_state.server_state_path(
        run.out, number - 1
    ), server_state.initial_client_state_path(run.out, number, client)


def _before(run: Run, chain: Path, number: int) -> Path:
    """Return a chain's adapter of the last round before `number`, or the initial one."""
    folders = (chain / f"{n:03d}" for n in range(number - 1, 0, -1))
    return next((folder for folder in folders if folder.is_dir()), run.out / INITIAL)


def seed_of(seed: int, number: int, name: str) -> int:
    """Return the seed of one training: of one adapter in one round."""
    digest = hashlib.sha256(f"{seed} {number} {name}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _finish(run: Run, current: Manifest, number: int, losses: Mapping[str, float]) -> Manifest:
    """Aggregate the round, write its adapter, and only then add the round to the manifest."""
    round_path, chosen = f"rounds/{number:03d}", participants(run.config, number)
    sums = _aggregate(run, current, number, chosen)
    folders = {} if run.secure else {c: f"{round_path}/clients/{c}" for c in chosen}
    finished = Round(
        round=number,
        adapter=f"{round_path}/global",
        participants=tuple(chosen),
        clients=folders,
        sums=sums,
        loss={c: round(losses[c], 6) for c in folders if isfinite(losses[c])},
    )
    files = {**current.files, **file_hashes(run.out, round_path)}
    for folder in private_state.private_leftovers(run, chosen, number):
        files |= file_hashes(run.out, folder.relative_to(run.out).as_posix())
    private_state.restrict_private(run)
    after = replace(current, rounds=(*current.rounds, finished), files=files)
    manifest.write(after, run.out)
    return after


def _aggregate(
    run: Run, current: Manifest, number: int, chosen: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    """Write the round's global adapter, the server's state and, under secure aggregation, the sums.

    Return the files of the sums, as listed in the manifest.
    """
    out = run.out / f"rounds/{number:03d}"
    start_folder = run.out / current.rounds[-1].adapter
    start, config = adapters.read(start_folder), adapters.check(start_folder)
    client_start = adapters.read(run.out / INITIAL) if run.aggregator.merges_each_round else start
    examples = {client.id: float(client.examples) for client in current.clients}
    updates = {c: private_state.upload(run, client_start, c, number) for c in chosen}
    differences = {c: run.aggregator.difference(client_start, u) for c, u in updates.items()}
    state: State = {}
    if run.secure and run.aggregator.merges_each_round:
        # A stacked adapter would show every client's factors; here only their sum may be known.
        result = run.aggregator.moved(
            start, secure_aggregation.weighted_mean(differences, examples)
        )
    else:
        weights = [examples[c] for c in chosen]
        earlier_state = adapters.read_state(server_state.server_state_path(run.out, number - 1))
        result, state = run.aggregator.step(start, list(updates.values()), weights, earlier_state)
    if run.aggregator.stateful_clients:
        state = server_state.collect_states(
            run.aggregator, run.out, number, state, examples, chosen
        )
    adapters.write(result, adapters.resized_config(config, start, result), out / "global")
    adapters.write_state(state, server_state.server_state_path(run.out, number))
    if not run.secure:
        return {}
    weights_of_sums = secure_aggregation.update_weights(examples)
    return secure_aggregation.store_sums(
        run.secure, differences, weights_of_sums, run.config, number, out
    )


def _shared_follow_up(run: Run, client: str, number: int) -> FollowUpTraining | None:
    def folder_of(name: str) -> Path:
        return private_state.private_folder(run.out, client, name, number)

    return follow_up(run, run.defenses, client, number, client, folder_of)


def follow_up(
    run: Run,
    defenses: Sequence[Defense],
    client: str,
    number: int,
    model_name: str,
    folder_of: Callable[[str], Path],
) -> FollowUpTraining | None:
    """Return what the one of a client's `defenses` that follows up trains in a round, if any.

    `folder_of` gives the folder of an adapter or of the turn's own files by its name.
    """
    if not (defense := local_round.follow_up_defense(defenses)):
        return None
    return FollowUpTraining(
        defense=defense,
        documents=run.documents[client],
        template=run.config.prompt_template,
        folder=folder_of(local_round.TURN),
        adapters={
            name: (folder_of(name), seed_of(run.config.seed, number, f"{model_name}/{name}"))
            for name in defense.auxiliary_adapters
        },
    )
