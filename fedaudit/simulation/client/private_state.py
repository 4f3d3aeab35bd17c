"""What a client keeps to itself: its private adapters, and what it sends less than it trained."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.plugin import Update
from fedaudit.federation import adapters
from fedaudit.simulation.client import local_round
from fedaudit.system.files import restrict_to_owner

if TYPE_CHECKING:
    from fedaudit.simulation.context import Run

PRIVATE = "private"
"""The folder below the run's folder for everything that no server sees."""


def private_folder(out: Path, client: str, name: str, number: int) -> Path:
    """Return the private folder of a client for one round and kind of file."""
    return out / PRIVATE / client / name / f"{number:03d}"


def training_folder(run: "Run", client: str, number: int) -> Path:
    """Return where a client's shared adapter is trained: in private if a defence follows up."""
    if local_round.follow_up_defense(run.defenses):
        return private_folder(run.out, client, local_round.OWN, number)
    return run.out / f"rounds/{number:03d}/clients" / client


def private_folders(run: "Run", client: str, number: int) -> dict[str, Path]:
    """Return the folders of a client's private and further adapters after round `number`."""
    defense = local_round.follow_up_defense(run.defenses)
    names = (
        *run.tokens.private.get(client, {}),
        *(defense.auxiliary_adapters if defense else ()),
    )
    return {name: private_folder(run.out, client, name, number) for name in names}


def private_leftovers(run: "Run", clients: Sequence[str], number: int) -> Iterator[Path]:
    """Yield every folder that the clients of a round keep to themselves."""
    for client in clients:
        yield from private_folders(run, client, number).values()
        if local_round.follow_up_defense(run.defenses):
            yield from (
                private_folder(run.out, client, name, number)
                for name in (local_round.OWN, local_round.TURN)
            )


def restrict_private(run: "Run") -> None:
    """Make the clients' private folders, if any, readable only by their owner."""
    if any(run.tokens.private.values()) or local_round.follow_up_defense(run.defenses):
        restrict_to_owner(run.out / PRIVATE)


def upload(run: "Run", start: Update, client: str, number: int) -> Update:
    """Return the update that a client sends, and write it where the server sees it."""
    source, target = (
        training_folder(run, client, number),
        run.out / f"rounds/{number:03d}/clients" / client,
    )
    sent = adapter = adapters.read(source)
    for defense in run.defenses:
        private = {n: adapters.read(p) for n, p in private_folders(run, client, number).items()}
        sent = dict(defense.upload(start, sent, private))
    if source != target or any(not sent[name].equal(tensor) for name, tensor in adapter.items()):
        adapters.write(sent, adapters.check(source), target)
    return sent
