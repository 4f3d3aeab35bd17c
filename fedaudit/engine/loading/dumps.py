"""Files of torch.save and numpy.savez: opened, and made safetensors, in a process with limits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.importer import StateDump
from fedaudit.system import sandbox

SECONDS, RATE = 30.0, 10e6
"""How long opening may take: so many seconds, and one more for so many bytes."""
MEMORY_EACH = 6
"""Bytes of memory for each byte of the largest file, beside what any trial may take."""
MOST = 2**34
"""Bytes of one adapter."""
_PLACE = "fedaudit.engine.loading.dumps_process"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A file to be made safetensors, and how: with names and shapes for arrays without any."""

    source: Path
    place: Path
    shapes: Mapping[str, Shape] | None = None


def look(paths: Sequence[Path]) -> list[StateDump | InputError]:
    """Return what each file holds, or the error that says why it is refused.

    Raises InputError, naming the file, where one ends the process that looks.
    """
    try:
        told = sandbox.attempt(f"{_PLACE}.look", [str(p) for p in paths], **_limits(paths))
    except sandbox.Ended as ended:
        raise InputError(f"{ended.at or paths[0]} cannot be opened: {ended.why}.") from None
    return [_dump(one) for one in _given(told, paths)]


def _dump(one: Mapping[str, Any]) -> StateDump | InputError:
    if "refused" in one:
        return InputError(one["refused"])
    return StateDump(
        keys=tuple(one["keys"]),
        numbers=one["numbers"],
        shapes={name: tuple(shape) for name, shape in one["shapes"]},
        lora=one["lora"],
        ordered=one["ordered"],
    )


def read_table(path: Path) -> list[list[float]]:
    """Return the rows of a .npy file; raises InputError for one of another form."""
    try:
        told = sandbox.attempt(f"{_PLACE}.read_table", str(path), **_limits([path]))
    except sandbox.Ended as ended:
        raise InputError(f"{path} cannot be opened: {ended.why}.") from None
    return [[float(value) for value in row] for row in _given(told, [path])]


def convert(conversions: Sequence[Conversion]) -> list[int]:
    """Write the LoRA weights of each file as safetensors; return how many other tensors it had.

    Raises InputError, naming the file, for one that cannot be opened or holds no adapter.
    """
    paths = [one.source for one in conversions]
    asked = [
        {"path": str(one.source), "shapes": None if one.shapes is None else [*one.shapes.items()]}
        for one in conversions
    ]
    places = [one.place for one in conversions]
    try:
        told = sandbox.receive(f"{_PLACE}.convert", asked, places, most=MOST, **_limits(paths))
    except sandbox.Ended as ended:
        raise InputError(f"{ended.at or paths[0]} cannot be opened: {ended.why}.") from None
    return [int(count) for count in _given(told, paths)]


def _limits(paths: Sequence[Path]) -> dict[str, Any]:
    sizes = [path.stat().st_size for path in paths]
    return {
        "seconds": SECONDS + sum(sizes) / RATE,
        "memory": sandbox.MEMORY + MEMORY_EACH * max(sizes, default=0),
    }


def _given(told: Any, paths: Sequence[Path]) -> list[Any]:
    if not isinstance(told, list):  # the trial raised what it did not expect
        raise InputError(f"{paths[0]} cannot be opened: it is not what its name says.")
    return told
