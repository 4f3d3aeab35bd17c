"""Outcomes of variants, kept so that a study that was stopped runs only the rest."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import distributions, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Finding, Measurement
from fedaudit.config.profile import Variant
from fedaudit.config.registry import GROUP
from fedaudit.engine.loading.checkpoint import fingerprint
from fedaudit.federation import manifest
from fedaudit.simulation.config import Simulation
from fedaudit.system.files import atomic_text, json_sha256, read_json, sha256

if TYPE_CHECKING:
    from fedaudit.report.redaction import Redactor

SPACY = ("meta.json", "config.cfg")
"""Files at the top of spaCy's models."""
FOLDER = "outcomes"
"""Where they are kept, beside the folder of federations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOutcome:
    """The outcome of one variant; its rows and findings name it."""

    measurements: tuple[Measurement, ...]
    findings: tuple[Finding, ...]
    data: tuple[Mapping[str, Any], ...]
    limits: tuple[str, ...]


def outcome_path(variant: Variant, config: Simulation, folder: Path, redactor: "Redactor") -> Path:
    """Return where an outcome is kept: its name changes with all that it depends on.

    That is the variant, its federation as it stands in its folder, the files and models that either
    names, the key that masks findings, the code and files of fedaudit and of every plugin, and
    every installed package. A federation that is not there has another name than one that is.
    """
    settings = {key: value for key, value in config.table().items() if key != "workers"}
    named = [config.base, config.partition.embedding, config.watermark.teacher]
    named += _texts([variant.options, variant.memorize, variant.infer])
    manifest_path = folder / manifest.NAME
    dependencies = [
        asdict(variant),
        settings,
        config.sha256(),
        sha256(manifest_path) if manifest_path.is_file() else "",
        [content for name in named for path in _paths(name) if (content := _content(path))],
        hashlib.sha256(redactor.key).hexdigest(),
        code_sha256(),
    ]
    return folder.parent.parent / FOLDER / f"{json_sha256(dependencies, default=str)[:16]}.json"


def _texts(value: object) -> list[str]:
    """Return every string in a table of options."""
    if isinstance(value, Mapping):
        return _texts(list(value.values()))
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _paths(name: str) -> Iterator[Path]:
    """Yield the paths that a text may name, such as FOLDER in "de=spacy:FOLDER"."""
    parts = {name, name.rpartition("=")[2], name.partition(":")[2], name.rpartition(":")[2]}
    yield from (Path(part) for part in sorted(parts) if part)


def _content(path: Path) -> object:
    """Return a value that identifies the content of a file or model folder; None for others."""
    try:
        if path.is_file():
            return sha256(path)
        if (path / "config.json").is_file():
            return fingerprint(path)
        if any((path / marker).is_file() for marker in SPACY):
            return [(str(one.relative_to(path)), sha256(one)) for one in sorted(_files(path))]
        return None
    except OSError:  # a text that is not a path, such as one that is too long
        return None


def read_outcome(path: Path) -> VariantOutcome | None:
    """Return a kept outcome; None where there is none, or none that can be read."""
    try:
        table = read_json(path, "")
        return VariantOutcome(
            measurements=tuple(Measurement(**row) for row in table["measurements"]),
            findings=tuple(
                Finding(**{**row, "safe": tuple(row["safe"])}) for row in table["findings"]
            ),
            data=tuple(table["data"]),
            limits=tuple(table["limits"]),
        )
    except (InputError, KeyError, TypeError):
        return None


def write_outcome(outcome: VariantOutcome, path: Path) -> None:
    """Keep an outcome; its findings are masked, as in every report."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_text(path, json.dumps(asdict(outcome)) + "\n", mode=0o600)


@cache
def code_sha256() -> str:
    """Return a hash of fedaudit's files, of every plugin's, and of what else is installed."""
    digest = hashlib.sha256()
    for path in sorted(set(_code())):
        digest.update(sha256(path).encode())
    installed = sorted(f"{d.name} {d.version}" for d in distributions())
    digest.update("\n".join(installed).encode())
    return digest.hexdigest()


def _code() -> Iterator[Path]:
    yield from _files(Path(__file__).parents[1])
    for entry in entry_points(group=GROUP):
        spec = find_spec(entry.value.partition(":")[0].partition(".")[0])
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from _files(Path(folder))
        if spec and spec.origin:
            yield Path(spec.origin)


def _files(folder: Path) -> Iterator[Path]:
    paths = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    yield from (path for path in paths if path.is_file())
