"""A bundle: what an accused client's expert needs to compute a decision again, in one folder.

It holds the estimates, the opened marks, the published commitments, the scores and the report,
under fixed names, and bundle.json with the SHA-256 of every file.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.watermark import Mark
from fedaudit.attribution import estimates as estimates_file
from fedaudit.attribution import scores as scores_file
from fedaudit.attribution.estimates import Estimates
from fedaudit.attribution.evidence import report_file
from fedaudit.attribution.owner.detection import override_options
from fedaudit.attribution.owner.scoring import settings_digits
from fedaudit.attribution.scores import Scores
from fedaudit.config.options import read_record
from fedaudit.federation import commitments as commitments_file
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.system.failures import raise_unwritable
from fedaudit.system.files import (
    atomic_folder,
    atomic_text,
    check_free,
    restrict_to_owner,
    sha256,
)
from fedaudit.system.names import check_inside

NAME = "bundle.json"
ESTIMATES, MARKS, SCORES, REPORT = "estimates", "watermark.json", "scores.json", "report.json"
COMMITMENTS = commitments_file.NAME
SCHEMA_VERSION = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """bundle.json."""

    schema_version: str = SCHEMA_VERSION
    run: str = ""
    rounds: tuple[int, ...] = ()
    clients: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the decision: alpha, tau (threshold), and what it was given."""
    estimates: str = ""
    """The SHA-256 of estimates.json, which the server printed."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of every file of the bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleParts:
    """Where the parts of a bundle come from."""

    estimates: Path
    marks: Path
    scores: Path
    report: Path
    commitments: Path | None = None
    opened_marks: Sequence[str] = ()
    """The marks that are opened; empty for all."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of the marks' plugins that were overridden when the scores were made."""


def make(parts: BundleParts, out: Path) -> Bundle:
    """Write a bundle into the new folder `out`, for its owner alone: it opens marks.

    Raises InputError for parts that are broken or not of one run, UsageError for an unknown mark.
    """
    check_free(out, "the bundle")
    estimates, scores = estimates_file.read(parts.estimates), scores_file.read(parts.scores)
    check_one_run(estimates, scores, parts.estimates, parts.scores)
    marks = override_options(marks_file.read(parts.marks), parts.options)
    ids = [mark.id for mark in marks]
    for name in parts.opened_marks:
        if name not in ids:
            raise unknown_name_error("mark", name, ids)
    opened = [mark for mark in marks if mark.id in (parts.opened_marks or ids)]
    _check_settings(opened, scores, parts)
    _check_commitments(parts)
    with raise_unwritable(out), atomic_folder(out, 0o700) as folder:
        bundle = _write(parts, estimates, opened, folder)
        restrict_to_owner(folder)
    return bundle


def _check_commitments(parts: BundleParts) -> None:
    """Raise InputError unless the report used commitments exactly if the bundle has some.

    A decision without the commitments would not have counted the unopened ones as tests.
    """
    committed = report_file.read(parts.report)["run"]["config"]["committed"]
    if parts.commitments:
        commitments_file.read(parts.commitments)
    if parts.commitments and not committed:
        raise InputError(
            f"{parts.report} was decided without commitments: give `attribute decide` the same "
            "--commitments as here."
        )
    if committed and not parts.commitments:
        raise InputError(f"{parts.report} was decided with commitments: give --commitments.")


def _write(
    parts: BundleParts, estimates: Estimates, opened: Sequence[Mark], folder: Path
) -> Bundle:
    for name in (estimates_file.NAME, *estimates_file.adapter_files(estimates)):
        (folder / ESTIMATES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(parts.estimates / name, folder / ESTIMATES / name)
    marks_file.write(opened, folder / MARKS)
    single = {SCORES: parts.scores, REPORT: parts.report, COMMITMENTS: parts.commitments}
    for name, path in single.items():
        if path is not None:
            shutil.copyfile(path, folder / name)
    bundle = Bundle(
        run=estimates.run,
        rounds=tuple(r.round for r in estimates.rounds),
        clients=estimates.clients,
        settings=report_file.settings(report_file.read(parts.report)),
        estimates=sha256(folder / ESTIMATES / estimates_file.NAME),
        files={n: sha256(folder / n) for n in sorted(files_below(folder))},
    )
    atomic_text(folder / NAME, json.dumps(asdict(bundle), indent=2) + "\n")
    return bundle


def _check_settings(opened: Sequence[Mark], scores: Scores, parts: BundleParts) -> None:
    """Raise InputError for a mark that was scored with other settings: its scores would differ."""
    for mark in opened:
        if scores.tests.get(mark.id, digits := settings_digits(mark)) != digits:
            raise InputError(
                f"{parts.scores} was made with other settings of the mark {mark.id} than those in "
                f"{parts.marks}: give the --set that the scores were made with."
            )


def files_below(folder: Path) -> Iterator[str]:
    """Yield everything below `folder` that is not a folder itself, as paths relative to it."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def read(folder: Path) -> Bundle:
    """Return the bundle in `folder`, after checking that every file it names or needs exists.

    Raises InputError for a folder without a bundle, for a missing file, and for a bundle.json that
    does not name a file that every bundle has. Hashes are compared elsewhere.
    """
    path = folder / NAME
    missing = f"{folder} is not a bundle; `fedaudit attribute bundle` makes one."
    bundle = read_record(Bundle, path, SCHEMA_VERSION, missing)
    for name in bundle.files:
        check_inside(name, path)
    required = (f"{ESTIMATES}/{estimates_file.NAME}", MARKS, SCORES, REPORT)
    for name in dict.fromkeys((*required, *bundle.files)):
        if not (folder / name).is_file():
            raise InputError(f"{folder} misses {name}, which a bundle needs.")
        if name not in bundle.files:
            raise InputError(f"{path} has no SHA-256 of {name}, which a bundle needs.")
    return bundle


def check_one_run(estimates: Estimates, scores: Scores, folder: Path, path: Path) -> None:
    """Raise InputError unless estimates and scores are of one run and of the same rounds."""
    if scores.run != estimates.run:
        raise InputError(f"{path} has scores of another run than {folder}.")
    have, scored = {r.round for r in estimates.rounds}, {r.round for r in scores.rounds}
    if lacking := sorted(scored - have):
        raise InputError(f"{folder} misses round {lacking[0]}, which {path} has scores of.")
    if lacking := sorted(have - scored):
        raise InputError(f"{path} misses round {lacking[0]}, which {folder} has.")
