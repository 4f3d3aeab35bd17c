"""Files that Flower's how-to guides have the server write, of torch.save or numpy.savez.

`model_round_<n>.pth`, `round-<n>-weights.npz`, `model.npz`, `model.pt`, `final_model.pt`. Arrays
without names are in the order of `peft.get_peft_model_state_dict`, in which clients send them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api import (
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    Importer,
    InputError,
)

from .adapter_folders import CONFIG, parent, unique_rounds

NUMBERED = re.compile(
    r"(?:(?:global[-_])?model[-_])?(?:round[-_]?)?(\d{1,9})(?:[-_](?:weights|model))?\.(?:npz|pth?)"
)
LAST = re.compile(r"(?:final[-_]|global[-_])?(?:model|weights)\.(?:npz|pth?)")


@dataclass(frozen=True, kw_only=True)
class FlowerDumps(Importer):
    """Read files of torch.save or numpy.savez that a Flower server wrote, one per round."""

    name: ClassVar[str] = "flower"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders of such files; this opens them, in a process with limits."""
        return sorted({parent(name) for name in folder.files if _is_dump(folder, name)})

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return a global adapter a round; nothing is known of clients."""
        config = CONFIG if CONFIG in run.files else ""
        dumps = [name for name in run.files if "/" not in name and _is_dump(run, name)]
        rounds = unique_rounds(_numbers(dumps), run)
        last = [name for name in dumps if LAST.fullmatch(name)]
        notes = [
            f"{name} is left out: which round it is of is not said." for name in last if rounds
        ]
        if not rounds:
            rounds = unique_rounds(((1, name) for name in last), run)
            notes = [f"{rounds[1]} does not say its round: it is imported as round 1."]
        clients = [n for n in run.files if re.fullmatch(r"client[-_]?\d+.*\.(?:npz|pth?)", n)]
        notes += [f"{name} is left out: which round it is of is not said." for name in clients]
        return ForeignFederation(
            rounds=[
                ForeignRound(round=number, adapter=ForeignAdapter(weights=name, config=config))
                for number, name in rounds.items()
            ],
            notes=tuple(notes),
        )


def _numbers(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    for name in names:
        if match := NUMBERED.fullmatch(name):
            yield int(match[1]), name


def _is_dump(folder: ForeignFolder, name: str) -> bool:
    last = name.rpartition("/")[2]
    if not NUMBERED.fullmatch(last) and not LAST.fullmatch(last):
        return False
    try:
        contents = folder.look(name)
    except InputError:  # broken, or more than weights: anyone who reads it says which
        return True
    return (contents.lora or contents.ordered) and "cur_round" not in contents.numbers
