"""Files of torch.save and numpy.savez: opened, and made safetensors, in a process with limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.importer import StateDump
from fedaudit.system import sandbox

SECONDS, RATE = 30.0, 10e6
"""How long opening may take: these seconds, and one more for every RATE bytes."""
MEMORY_EACH = 6
"""Bytes of memory for each byte of the largest file, beside what any trial may take."""
MAX_ADAPTER_BYTES = 2**34
"""Bytes of one adapter."""
_PROCESS_MODULE = "fedaudit.engine.loading.dumps_process"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A file to be made safetensors, and how: with names and shapes for arrays without any."""

    source: Path
    target: Path
    shapes: Mapping[str, Shape] | None = None


def look(paths: Sequence[Path]) -> list[StateDump | InputError]:
    """Return what each file holds, or the error that says why it is refused.

    Raises InputError, naming the file, where one ends the process that looks.
    """
    try:
        result = sandbox.attempt(
            f"{_PROCESS_MODULE}.look", [str(p) for p in paths], **_limits(paths)
        )
    except sandbox.TrialEnded as error:
        raise InputError(f"{error.step or paths[0]} cannot be opened: {error.reason}.") from None
    return [_dump(entry) for entry in _checked_list(result, paths)]


def _dump(entry: Mapping[str, Any]) -> StateDump | InputError:
    if "refused" in entry:
        return InputError(entry["refused"])
    return StateDump(
        keys=tuple(entry["keys"]),
        numbers=entry["numbers"],
        shapes={name: tuple(shape) for name, shape in entry["shapes"]},
        lora=entry["lora"],
        ordered=entry["ordered"],
    )


def read_table(path: Path) -> list[list[float]]:
    """Return the rows of a .npy file; raises InputError for one of another form."""
    try:
        result = sandbox.attempt(f"{_PROCESS_MODULE}.read_table", str(path), **_limits([path]))
    except sandbox.TrialEnded as error:
        raise InputError(f"{path} cannot be opened: {error.reason}.") from None
    return [[float(value) for value in row] for row in _checked_list(result, [path])]


def convert(conversions: Sequence[Conversion]) -> list[int]:
    """Write the LoRA weights of each file as safetensors; return how many other tensors it had.

    Raises InputError, naming the file, for one that cannot be opened or holds no adapter.
    """
    paths = [c.source for c in conversions]
    requests = [
        {"path": str(c.source), "shapes": None if c.shapes is None else [*c.shapes.items()]}
        for c in conversions
    ]
    places = [c.target for c in conversions]
    try:
        result = sandbox.receive(
            f"{_PROCESS_MODULE}.convert", requests, places, most=MAX_ADAPTER_BYTES, **_limits(paths)
        )
    except sandbox.TrialEnded as error:
        raise InputError(f"{error.step or paths[0]} cannot be opened: {error.reason}.") from None
    return [int(count) for count in _checked_list(result, paths)]


def _limits(paths: Sequence[Path]) -> dict[str, Any]:
    sizes = [path.stat().st_size for path in paths]
    return {
        "seconds": SECONDS + sum(sizes) / RATE,
        "memory": sandbox.MEMORY + MEMORY_EACH * max(sizes, default=0),
    }


def _checked_list(result: Any, paths: Sequence[Path]) -> list[Any]:
    if not isinstance(result, list):  # the trial raised what it did not expect
        raise InputError(f"{paths[0]} cannot be opened: it is not what its name says.")
    return result
