"""Reading files of torch.save and numpy.savez, and converting them, in a sandboxed process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.importer import StateDump
from fedaudit.system import sandbox

SECONDS, RATE = 30.0, 10e6
"""The time limit of the process: SECONDS, and one more second for every RATE bytes."""
MEMORY_EACH = 6
"""Bytes of memory per byte of the largest file, in addition to the sandbox's usual limit."""
MAX_ADAPTER_BYTES = 2**34
"""The maximum size of one adapter, in bytes."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """A file to convert to safetensors; `shapes` gives names and shapes to arrays without names."""

    source: Path
    target: Path
    shapes: Mapping[str, Shape] | None = None


def look(paths: Sequence[Path]) -> list[StateDump | InputError]:
    """Return a description of each file, or the error that says why it is refused.

    Raises InputError, naming the file, if opening it ends the sandboxed process.
    """
    return [_dump(entry) for entry in _ask("look", [str(p) for p in paths], paths)]


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
    """Return the rows of a .npy file; raises InputError if it is not a two-dimensional array."""
    return [[float(value) for value in row] for row in _ask("read_table", str(path), [path])]


def convert(conversions: Sequence[Conversion]) -> list[int]:
    """Write each file's LoRA weights as safetensors; return the number of other tensors in each.

    Raises InputError, naming the file, if it cannot be opened or holds no adapter.
    """
    requests = [
        {"path": str(c.source), "shapes": None if c.shapes is None else [*c.shapes.items()]}
        for c in conversions
    ]
    paths, places = [c.source for c in conversions], [c.target for c in conversions]
    return [int(count) for count in _ask("convert", requests, paths, places)]


def _ask(
    function: str, question: Any, paths: Sequence[Path], places: Sequence[Path] = ()
) -> list[Any]:
    """Return what a function of `dumps_process` returns, with limits that follow from the files."""
    sizes = [path.stat().st_size for path in paths]
    try:
        result = sandbox.receive(
            f"fedaudit.engine.loading.dumps_process.{function}",
            question,
            places,
            seconds=SECONDS + sum(sizes) / RATE,
            memory=sandbox.MEMORY + MEMORY_EACH * max(sizes, default=0),
            most=MAX_ADAPTER_BYTES,
        )
    except sandbox.TrialEnded as error:
        raise InputError(f"{error.step or paths[0]} cannot be opened: {error.reason}.") from None
    if not isinstance(result, list):  # the sandboxed code raised an unexpected error
        raise InputError(f"{paths[0]} cannot be opened: it is not what its name says.")
    return result
