"""Foreign folders where a command takes a federation: imported first, once."""

import hashlib
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.conversion import pipeline, recognition
from fedaudit.conversion.pipeline import FoundRun, ImportRequest
from fedaudit.conversion.source import SourceFolder
from fedaudit.federation import adapters
from fedaudit.federation.folder import is_federation, name_rounds
from fedaudit.system.files import make_folder

FOLDER = "imported"
"""Where imported federations are kept, below an output folder."""
MODEL = "config.json"


def may_be_foreign(place: Path) -> bool:
    """Tell whether importers are asked about a folder: it is no federation, model or adapter."""
    own = (MODEL, adapters.CONFIG)
    return (
        place.is_dir()
        and not is_federation(place)
        and not any((place / name).exists() for name in own)
    )


def native_folder(
    place: Path, below: Path, tell: Callable[[str], None], *, template: str = ""
) -> Path:
    """Return the federation's folder that `place` is or is made; what is no foreign one stays.

    A foreign folder is imported into a folder `imported/` below `below`, unless it is there
    already, and `tell` gets a line that says so. `template` is that of its records, where it is not
    the framework's. Raises InputError for a folder that no importer
    knows, saying what is in it.
    """
    if not may_be_foreign(place):
        return place
    source = SourceFolder(place)
    if not recognition.is_known(source):
        raise InputError(
            f"{place} is neither a federation (federation.json) nor a model, and "
            f"{recognition.why_unknown(source)}"
        )
    request = ImportRequest(source=place, out=below, template=template)
    found = pipeline.find(request, source)
    kept = below / FOLDER / f"{found.layout}-{_digest(found, template)}"
    if not is_federation(kept):
        make_folder(kept.parent)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as own:
            made = Path(own) / kept.name
            pipeline.write(found, replace(request, out=made))
            with suppress(OSError):  # another process was faster
                made.rename(kept)
    rounds = name_rounds([one.round for one in found.federation.rounds])
    tell(f"{place} is imported ({found.layout}, {rounds}) into {kept}.")
    return kept


def _digest(found: FoundRun, template: str) -> str:
    """Return what changes with what is imported, and with nothing else."""
    said = json.dumps([found.base, template, sorted(found.hashes().items())])
    return hashlib.sha256(said.encode()).hexdigest()[:12]
