"""Foreign folders given to a command in place of a federation: imported first, once."""

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
from fedaudit.federation import adapter_origin, adapters
from fedaudit.federation.folder import is_federation, name_rounds
from fedaudit.system.files import make_folder

FOLDER = "imported"
"""Where imported federations are kept, below an output folder."""
MODEL = "config.json"


def may_be_foreign(folder: Path) -> bool:
    """Tell whether a folder may be another framework's: not a federation, model or adapter.

    A `config.json` may be a run's own, so without a model's weights beside it an importer decides.
    """
    if not folder.is_dir() or is_federation(folder) or (folder / adapters.CONFIG).exists():
        return False
    if not (folder / MODEL).exists():
        return True
    whole = any(adapter_origin.is_whole_model(path.name) for path in folder.iterdir())
    return not whole and recognition.is_known(SourceFolder(folder))


def check_native(folder: Path) -> None:
    """Raise InputError for a foreign folder, since each import of it would have its own ledger."""
    if may_be_foreign(folder) and recognition.is_known(SourceFolder(folder)):
        raise InputError(
            f"{folder} is another framework's: import it once (`fedaudit import {folder} FED`) and "
            "give FED, which keeps the ledger of what was asked for."
        )


def native_folder(
    folder: Path, below: Path, tell: Callable[[str], None], *, template: str = ""
) -> Path:
    """Return `folder`, or the federation's folder that a foreign one is imported into.

    A foreign folder is imported into a folder `imported/` below `below`, unless that was done
    already, and `tell` gets a line that says so. `template` is the prompt template of its records,
    if it differs from the framework's. Raises InputError for a folder that no importer knows, with
    a description of its contents.
    """
    if not may_be_foreign(folder):
        return folder
    source = SourceFolder(folder)
    if not recognition.is_known(source):
        raise InputError(
            f"{folder} is neither a federation (federation.json) nor a model, and "
            f"{recognition.why_unknown(source)}"
        )
    request = ImportRequest(source=folder, out=below, template=template)
    found_run = pipeline.find(request, source)
    imported = below / FOLDER / f"{found_run.layout}-{_digest(found_run, template)}"
    if not is_federation(imported):
        make_folder(imported.parent)
        with tempfile.TemporaryDirectory(dir=imported.parent, prefix=".") as scratch:
            staged = Path(scratch) / imported.name
            pipeline.write(found_run, replace(request, out=staged))
            with suppress(OSError):  # another process was faster
                staged.rename(imported)
    rounds = name_rounds([r.round for r in found_run.federation.rounds])
    tell(f"{folder} is imported ({found_run.layout}, {rounds}) into {imported}.")
    return imported


def _digest(found_run: FoundRun, template: str) -> str:
    """Return a hash of everything that determines the imported federation, and nothing else."""
    files = sorted(found_run.hashes().items())
    text = json.dumps([found_run.base, template, files, found_run.notes])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
