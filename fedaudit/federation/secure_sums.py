"""Sums over sets of clients, as secure aggregation gave them to the server, on disk."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic
from fedaudit.system.tensor_files import reading_tensors

if TYPE_CHECKING:
    from fedaudit.api.plugin import Update
    from fedaudit.federation.manifest import Round

Members = tuple[str, ...]
FOLDER, LABEL = "sums", "sum"


@dataclass(frozen=True, slots=True)
class StoredSums:
    """The sums that were asked for while a round ran; no others can be had afterwards."""

    path: Path
    """The federation's folder."""
    round: "Round"

    def __call__(self, members: Members) -> "Update":
        """Return the sum over `members`; raises InputError if it was not asked for."""
        query = tuple(sorted(members))
        for name, stored_members in self.round.sums.items():
            if tuple(sorted(stored_members)) == query:
                return read(self.path / name, stored_members, self.round.round)
        raise InputError(
            f"{self.path}: round {self.round.round} has no sum over {', '.join(query)}; its sums "
            "are those of the design that its manifest names, so give the same --others, "
            "--queries, --sets, --limit and --seed, or none."
        )


def write(update: "Update", members: Members, number: int, folder: Path) -> str:
    """Write one sum with its member list; return the file's name, a hash of round and members."""
    from safetensors.torch import save_file

    label = _label(members, number)
    name = hashlib.sha256(label.encode()).hexdigest()[:16] + ".safetensors"
    with atomic(folder / name) as temporary:
        tensors = {key: tensor.contiguous() for key, tensor in sorted(update.items())}
        save_file(tensors, temporary, metadata={LABEL: label})
    return name


def read(path: Path, members: Members, number: int) -> "Update":
    """Return a sum; raises InputError unless the file says that it is over `members`."""
    from safetensors import safe_open

    with reading_tensors(path), safe_open(path, framework="pt") as file:
        metadata: Mapping[str, str] = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    expected = _label(members, number)
    if metadata.get(LABEL) != expected:
        raise InputError(
            f"{path} is not the sum that the manifest says: it holds "
            f"{metadata.get(LABEL, 'nothing that it names')!r}, not {expected!r}."
        )
    return tensors


def _label(members: Members, number: int) -> str:
    """Return a file's metadata as one entry, because safetensors writes several in any order."""
    return json.dumps({"members": sorted(members), "round": number})
