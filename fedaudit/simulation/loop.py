"""The round loop: broadcast, train, aggregate, save; every finished round is kept."""

import hashlib
import multiprocessing
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit import corpus
from fedaudit.annotation import annotated
from fedaudit.errors import Interrupted
from fedaudit.federation import adapters, manifest
from fedaudit.federation.manifest import Client, Manifest, Round
from fedaudit.interfaces import Aggregator, Defense
from fedaudit.simulation.client import Job, forget, train
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.setup import hashes

CENTRAL = "central"
SERVER = "server/state.safetensors"
"""What a round's aggregation remembers for the next, below the round's folder."""
BROKEN = (
    "A training process ended unexpectedly (out of memory?); give the same command to go on after "
    "the last finished round, perhaps with --set workers=1."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of a simulation: `done` of `total` trainings, with the last one's loss."""

    done: int
    total: int
    who: str
    round: int
    loss: float


Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What every round needs: the settings, the folder, and each client's training tokens."""

    config: Simulation
    out: Path
    aggregator: Aggregator
    tokens: Mapping[str, Sequence[Sequence[int]]]


def tokenized(
    config: Simulation,
    out: Path,
    clients: Sequence[Client],
    base: Any,
    defenses: Sequence[Defense] = (),
) -> Any:
    """Return what each client trains on as sequences, and "central" for all of it together.

    Defences see a client's documents one client at a time, as the client itself would.
    """
    from fedaudit.prompts import template

    form, result = template(config.template), {}
    length = min(config.training.max_length, base.context_length)
    for client in clients:
        documents = list(corpus.read(out / client.data, form))
        if any(defense.needs_annotation for defense in defenses):
            documents, _ = annotated(documents, config.detector)
        for defense in defenses:
            documents = defense.prepare(documents)
        texts = [document.text for document in documents]
        result[client.id] = sequences(base.tokenizer, texts, length)
    if config.central:
        result[CENTRAL] = [s for client in clients for s in result[client.id]]
    return result


def sequences(tokenizer: Any, texts: Sequence[str], max_length: int) -> list[list[int]]:
    """Return each text as the tokenizer begins it, then its end token, cut to `max_length`."""
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return [[*tokenizer(text)["input_ids"], *end][:max_length] for text in texts]


def run_rounds(run: Run, started: Manifest, listener: Listener) -> Manifest:
    """Train the rounds that `started` has not finished, and return the complete manifest.

    Stopped at any moment, it leaves a manifest of whole rounds, from which it goes on later.
    """
    config, current = run.config, started
    each = len(run.tokens)
    per_round = round(max(1, round(config.participation * config.clients)) + each - config.clients)
    with workers(config) as pool:
        for number in range(len(current.rounds), config.rounds + 1):
            done = (number - 1) * per_round
            chosen = participants(config, number)
            losses: dict[str, float] = {}
            for job, loss in _trained(pool, _jobs(run, current, number, chosen)):
                losses[job.who] = loss
                event = Event(
                    done=done + len(losses),
                    total=config.rounds * per_round,
                    who=job.who,
                    round=number,
                    loss=loss,
                )
                listener(event)
            current = _finish(run, current, number, chosen, losses)
    if current.status != "complete":
        current = replace(current, status="complete")
        manifest.write(current, run.out)
    return current


def participants(config: Simulation, number: int) -> list[str]:
    """Return the clients drawn for a round: a function of the seed and the round."""
    ids = [f"c{index}" for index in range(config.clients)]
    count = max(1, round(config.participation * config.clients))
    drawn = random.Random(f"participants {config.seed} {number}").sample(ids, count)
    return sorted(drawn, key=ids.index)


def _jobs(run: Run, current: Manifest, number: int, chosen: Sequence[str]) -> Iterator[Job]:
    """Yield the round's trainings, the longest first, so that workers end together."""
    config, here = run.config, run.out / f"rounds/{number:03d}"
    start = run.out / current.rounds[-1].adapter
    central = [CENTRAL] if CENTRAL in run.tokens else []
    for who in [*central, *chosen]:
        own, training = run.tokens[who], config.training
        begin, out = start, here / "clients" / who
        if who == CENTRAL:
            # The same passes over the data in the same number of steps: larger batches.
            training = replace(training, batch_size=training.batch_size * config.clients)
            begin = start if number == 1 else run.out / f"central/{number - 1:03d}"
            out = run.out / f"central/{number:03d}"
        yield Job(
            who=who,
            base=config.base,
            start=begin,
            out=out,
            sequences=own,
            training=training,
            round=number,
            rounds=config.rounds,
            seed=_seed(config.seed, number, who),
            aggregator=run.aggregator,
            device=config.device,
            dtype=config.dtype,
            threads=config.threads,
        )


def _seed(seed: int, number: int, who: str) -> int:
    digest = hashlib.sha256(f"{seed} {number} {who}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _finish(
    run: Run, current: Manifest, number: int, chosen: Sequence[str], losses: Mapping[str, float]
) -> Manifest:
    """Aggregate the round, write its adapter, and only then name the round in the manifest."""
    here = f"rounds/{number:03d}"
    folders = {who: f"{here}/clients/{who}" for who in chosen}
    start_folder = run.out / current.rounds[-1].adapter
    examples = {client.id: client.examples for client in current.clients}
    updates = [adapters.read(run.out / folder) for folder in folders.values()]
    weights = [float(examples[who]) for who in chosen]
    remembered = adapters.read_state(run.out / f"rounds/{number - 1:03d}" / SERVER)
    result, state = run.aggregator.step(adapters.read(start_folder), updates, weights, remembered)
    adapters.write(result, adapters.check(start_folder), run.out / here / "global")
    adapters.write_state(state, run.out / here / SERVER)
    finished = Round(
        round=number,
        adapter=f"{here}/global",
        participants=tuple(chosen),
        clients=folders,
        loss={who: round(losses[who], 6) for who in chosen},
    )
    after = replace(
        current,
        rounds=(*current.rounds, finished),
        files={**current.files, **hashes(run.out, here)},
        status="complete" if number == run.config.rounds else "running",
    )
    manifest.write(after, run.out)
    return after


def _trained(pool: Executor | None, jobs: Iterable[Job]) -> Iterator[tuple[Job, float]]:
    """Yield each job with its loss as it is done: in the pool's processes, or one by one here."""
    if pool is None:
        for job in jobs:
            yield job, train(job)
        return
    futures = {pool.submit(train, job): job for job in jobs}
    for finished in as_completed(futures):
        yield futures[finished], finished.result()


@contextmanager
def workers(config: Simulation) -> Iterator[Executor | None]:
    """Give the pool that clients train in: processes on CPU, none (this process) on a GPU."""
    from fedaudit.engine.loader import device_for

    count = config.workers or len(os.sched_getaffinity(0))
    if device_for(config.device).type != "cpu" or count == 1:
        yield None
        forget()
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_follow_parent)
    try:
        yield pool
    except BaseException as error:
        running = list((pool._processes or {}).values())  # shutdown forgets them
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise Interrupted(BROKEN) from None
        raise
    pool.shutdown()


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it does: a killed parent cannot tell its workers."""
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
