"""A folder to import as an importer sees it: its files, without links, and their contents."""

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.importer import ForeignFolder, StateDump
from fedaudit.federation import manifest
from fedaudit.system.files import read_json

MAX_FILES, MAX_DEPTH = 200_000, 12
"""The most files below a folder, and the most folders in a file's path."""
DUMPS = (".bin", ".ckpt", ".npz", ".pt", ".pth")
"""Endings of file names that are only opened in a process with limits."""
NON_MODEL_PREFIXES = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")
"""Beginnings of the names of such files without a model, which are never opened."""


class SourceFolder(ForeignFolder):
    """A folder on disk; no link is followed, and nothing is written."""

    def __init__(self, path: Path, above: "SourceFolder | None" = None) -> None:
        """List the files below `path`, except those of fedaudit's own federations.

        If a folder `above` is given, the files are taken from its list.
        """
        self.path, self.name, self._above = path, path.resolve().name, above
        self.links: list[str] = []
        """The links below the folder, which are not followed."""
        self.empty: list[str] = []
        """The folders below it that hold nothing."""
        if above is None:
            self.files = tuple(sorted(self._walk()))
        else:
            self._inside = f"{path.relative_to(above.path).as_posix()}/"
            self.files = tuple(self._inner_names(above.files))
            self.links = list(self._inner_names(above.links))
            self.empty = list(self._inner_names(above.empty))

    def _inner_names(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the names in the list of a folder above that lie in this folder, relative to it."""
        for name in names:
            if name.startswith(self._inside):
                yield name.removeprefix(self._inside)

    def _walk(self) -> Iterator[str]:
        """Yield the regular files and note the links; pipes and devices are left out."""
        waiting, count = [(self.path, PurePosixPath())], 0
        while waiting:
            folder, below = waiting.pop()
            with os.scandir(folder) as entries:
                children = list(entries)
            if any(child.name == manifest.NAME for child in children):
                continue
            if not children:
                self.empty.append(below.as_posix())
            for child in children:
                count += 1
                if count > MAX_FILES or len(below.parts) > MAX_DEPTH:
                    raise InputError(
                        f"{self.path} is too large to look through: it has over {MAX_FILES:,} "
                        f"files, or folders {MAX_DEPTH} deep. Name the run's own folder."
                    )
                if child.is_symlink():
                    self.links.append((below / child.name).as_posix())
                elif child.is_dir(follow_symlinks=False):
                    waiting.append((Path(child.path), below / child.name))
                elif child.is_file(follow_symlinks=False):
                    yield (below / child.name).as_posix()

    def file_path(self, name: str) -> Path:
        """Return the path of one of the files; raises InputError for any other name."""
        if name not in self._file_names:
            raise InputError(f"{self.path} has no file {name}.")
        return self.path / name

    def below(self, name: str) -> "SourceFolder":
        """Return the folder `name` below this one, or this one for ""."""
        return SourceFolder(self.path / name, self) if name else self

    def read_json(self, name: str) -> Any:
        """Return the contents of a JSON file."""
        path = self.file_path(name)
        return read_json(path, f"There is no {path}.")

    def read_table(self, name: str) -> list[list[float]]:
        """Return the rows of a .npy file, read in a process with limits."""
        from fedaudit.engine.loading import dumps

        return dumps.read_table(self.file_path(name))

    def look(self, name: str) -> StateDump:
        """Return the contents of a torch.save or numpy.savez file; one process opens all files."""
        self.file_path(name)
        if self._above is not None:
            return self._above.look(self._inside + name)
        dump = self._dumps.get(name)
        if dump is None:
            raise InputError(f"{self.path / name} is not a file of torch.save or numpy.savez.")
        if isinstance(dump, InputError):
            raise dump
        return dump

    @cached_property
    def _file_names(self) -> frozenset[str]:
        return frozenset(self.files)

    @cached_property
    def _dumps(self) -> dict[str, StateDump | InputError]:
        from fedaudit.engine.loading import dumps

        names = [name for name in self.files if is_dump(name)]
        return dict(zip(names, dumps.look([self.path / name for name in names]), strict=True))


def is_dump(name: str) -> bool:
    """Tell by a file's name whether it may hold a model saved by torch.save or numpy.savez."""
    last = PurePosixPath(name).name
    return last.endswith(DUMPS) and not last.startswith(NON_MODEL_PREFIXES)
