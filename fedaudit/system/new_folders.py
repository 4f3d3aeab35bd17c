"""Folders that are made for some work, and go again where it leaves nothing in them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedaudit.system.files import make_folder


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give `path` as a folder; after the block those that were made for it and are empty go.

    Raises InputError where it cannot be made.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield make_folder(path)
    finally:
        for folder in made:
            with suppress(OSError):  # it is not empty, or was not made
                folder.rmdir()
