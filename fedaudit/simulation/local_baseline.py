"""Local tuning without federation (LocIT): a model of every client's own documents alone.

With `local = "defended"` each client also goes through the defences' stages, as if it were the only
client of the federation: with FedMIT that is local tuning with self-generation (LocIT+SG).
"""

from collections.abc import Iterator
from pathlib import Path

from fedaudit.api.defense import Defense
from fedaudit.api.errors import UsageError
from fedaudit.config import registry
from fedaudit.federation import adapters
from fedaudit.simulation import rounds
from fedaudit.simulation.client import local_round, training_pool
from fedaudit.simulation.client.trainer import ClientTraining
from fedaudit.simulation.context import Event, Listener, Run
from fedaudit.simulation.initialization import INITIAL
from fedaudit.system.files import restrict_to_owner

LOCAL = "local"
"""The folder of the clients' own models, which no server sees, below the run's folder."""
PLAIN = "fedavg"
"""The rule of aggregation that adds nothing to a client's training."""


def local_adapter(out: Path, client: str, number: int) -> Path:
    """Return the folder of a client's own model after a round."""
    return out / LOCAL / client / f"{number:03d}"


def train_local_models(run: Run, listener: Listener) -> None:
    """Train every client's own model for as many rounds as the federation has.

    Each model starts from the federation's initial adapter and continues from its own, with the
    settings of a federated client: the same steps and learning-rate decay, round by round. Finished
    trainings are kept, so that an interrupted run continues after the last one.
    """
    if run.config.local == "no" or not run.config.compares_utility:
        return
    restrict_to_owner(run.out / LOCAL)
    total, done = run.config.rounds * len(run.tokens.shared), 0
    with training_pool.workers(run.config) as pool:
        for number in range(1, run.config.rounds + 1):
            missing = list(_jobs(run, number))
            done += len(run.tokens.shared) - len(missing)
            for job, loss in training_pool.train_jobs(pool, missing):
                _keep(job)
                done += 1
                listener(
                    Event(
                        done=done, total=total, model_name=job.model_name, round=number, loss=loss
                    )
                )
    restrict_to_owner(run.out / LOCAL)


def check(run: Run) -> None:
    """Refuse defences that a client cannot go through alone."""
    if private := [d.name for d in local_defenses(run) if type(d).private is not Defense.private]:
        raise UsageError(
            f"The defence {private[0]} has private adapters, which a client that is alone does not "
            'train: set local to "plain" or "no".'
        )


def local_defenses(run: Run) -> tuple[Defense, ...]:
    """Return the defences whose stages a client goes through when it trains alone."""
    return tuple(run.defenses) if run.config.local == "defended" else ()


def _jobs(run: Run, number: int) -> Iterator[ClientTraining]:
    """Yield the trainings of a round that are not there yet."""
    config, defenses = run.config, local_defenses(run)
    for client, sequences in run.tokens.shared.items():
        folder = local_adapter(run.out, client, number)
        if (folder / adapters.CONFIG).is_file():
            continue
        before = local_adapter(run.out, client, number - 1) if number > 1 else run.out / INITIAL
        model_name = f"{client} alone"
        yield ClientTraining(
            model_name=model_name,
            base=config.base,
            start=before,
            out=folder / local_round.OWN if defenses else folder,
            sequences=sequences,
            training=config.training,
            round=number,
            rounds=config.rounds,
            seed=rounds.seed_of(config.seed, number, model_name),
            aggregator=registry.create("aggregation", PLAIN),
            defenses=defenses,
            follow_up=rounds.follow_up(run, defenses, client, number, model_name, folder.joinpath),
            device=config.device,
            dtype=config.dtype,
            threads=config.threads,
        )


def _keep(job: ClientTraining) -> None:
    """Write what the client would send to a server: its own model."""
    if not job.defenses:  # it is there already
        return
    start, adapter = adapters.read(job.start), adapters.read(job.out)
    places = job.follow_up.adapters if job.follow_up else {}
    for defense in job.defenses:
        auxiliary = {name: adapters.read(folder) for name, (folder, _) in places.items()}
        adapter = dict(defense.upload(start, adapter, auxiliary))
    adapters.write(adapter, adapters.check(job.out), job.out.parent)
