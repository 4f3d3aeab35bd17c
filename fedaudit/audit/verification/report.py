"""Verifying a report against its own measurements and the files that are at hand."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.audit.verification import masks
from fedaudit.federation import adapters
from fedaudit.federation.folder import DEPLOYED
from fedaudit.system.files import hash_files, sha256

Report = Mapping[str, Any]
State = Literal["same", "differs", "not at hand", "not checked"]

NO_HASH = "the report has no hash of it"
OTHER_DIGESTS_REASON = (
    "of strings in these records; others were made with another key or are of no record"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A statement of a report, and the result of checking it."""

    state: State
    kind: str
    """For example "verdict", "adapter" or "data"."""
    name: str
    why: str = ""
    rests: str = ""
    """The sentence of the report that rests on this statement, where one does."""
    digest: Mapping[str, str] = field(default_factory=dict)
    """The digest that was recomputed or that the report states, under its in-toto name."""

    def __str__(self) -> str:
        text = f"{self.state}: {self.kind} {self.name}" + (f" ({self.why})" if self.why else "")
        return f'{text}; "{self.rests}" rests on it' if self.rests else text


def verify_report(report: Report, folder: Path, root: Path | None = None) -> Iterator[Check]:
    """Yield the checks of a valid report in `folder`: its verdict and all files that it names.

    Relative names start at `root`; without one, at the working directory, or else at the nearest
    folder from `folder` upwards that contains them. Nothing is fetched, and no model is loaded.
    """
    yield verdict(report)
    folders = [root] if root else [Path(), folder, *folder.absolute().parents]
    yield from _target(report["target"], folders)
    data = [_file("data", row, folders) for row in report["data"]]
    yield from data
    same = [_at_hand(check.name, folders) for check in data if check.state == "same"]
    yield from _masks(report, [path for path in same if path])
    for row in report["artifacts"]:
        yield _file("artifact", row, [folder, *folders])


def verdict(report: Report) -> Check:
    """Judge a report's measurements again and compare the verdict.

    A report that cannot be judged counts as different: otherwise one forged row would get any
    verdict past this check.
    """
    from fedaudit.report.verdict.recheck import recheck

    result = recheck(report)
    state: State = "same" if result.holds else "differs"
    name = report["verdict"]["status"]
    return Check(state=state, kind="verdict", name=name, why=result.message.rstrip("."))


def _masks(report: Report, files: Sequence[Path]) -> Iterator[Check]:
    """Yield the number of masks that belong to strings in the files of records, if any."""
    stated = masks.stated_masks(report)
    if not stated:
        return
    key = masks.key_at_hand()
    matches = (
        stated & masks.known_masks(files, masks.record_template(report), key) if key else set()
    )
    check = Check(state="same", kind="masks", name=f"{len(matches):,} of {len(stated):,}")
    if matches == stated:
        yield replace(check, why="of strings in these records")
        return
    why = OTHER_DIGESTS_REASON if key else "the key that they were made with is not here"
    yield replace(check, state="not checked", why=why)


def _target(target: Report, folders: Sequence[Path]) -> Iterator[Check]:
    if base := target["base"]:
        stated = target.get("base_sha256") or (None if target["adapter"] else target["sha256"])
        yield _base(base, stated, folders)
    if target["adapter"]:
        folder = _at_hand(target["adapter"], folders)
        yield _folder("adapter", target["adapter"], target["sha256"], folder, _of_adapter)


def _base(name: str, stated: str | None, folders: Sequence[Path]) -> Check:
    from fedaudit.engine.loading.checkpoint import fingerprint

    folder = nano.folder() if name == nano.BASE else _at_hand(name, folders) or _cached(name)
    return _folder("base", name, stated, folder, fingerprint)


def _folder(
    kind: str, name: str, stated: str | None, folder: Path | None, digest: Callable[[Path], str]
) -> Check:
    """Compare a folder's fingerprint with the stated one."""
    check = Check(state="not checked", kind=kind, name=name, why=NO_HASH)
    if not stated:
        return check
    check = replace(check, state="not at hand", why="", digest={"dirHash": stated})
    if folder is None or not folder.is_dir():
        return check
    try:
        found = digest(folder)
    except (InputError, OSError) as error:
        return replace(check, why=_reason(error))
    return (
        replace(check, state="same") if found == stated else _mark_differing(check, found, stated)
    )


def _of_adapter(folder: Path) -> str:
    """Return the fingerprint of an adapter's folder, or of all adapters of a deployment."""
    deployed = folder.resolve()
    if deployed.parent.name != DEPLOYED or (folder / adapters.WEIGHTS).exists():
        return adapters.fingerprint(folder)
    paths = [p for name in ("*.safetensors", adapters.CONFIG) for p in deployed.rglob(name)]
    return hash_files({path.relative_to(deployed).as_posix(): sha256(path) for path in paths})


def _file(kind: str, row: Report, folders: Sequence[Path]) -> Check:
    name, stated = row["path"], row["sha256"]
    check = Check(state="not checked", kind=kind, name=name, why=NO_HASH)
    if not stated:
        return check
    check = replace(check, state="not at hand", why="", digest={"sha256": stated})
    path = _at_hand(name, folders)
    if path is None:
        return check
    try:
        digest = sha256(path)
    except (InputError, OSError) as error:
        return replace(check, why=_reason(error))
    return (
        replace(check, state="same") if digest == stated else _mark_differing(check, digest, stated)
    )


def _mark_differing(check: Check, digest: str, stated: str) -> Check:
    why = f"its SHA-256 is {digest[:12]}…, not {stated[:12]}…"
    return replace(check, state="differs", why=why, digest={})


def _reason(error: InputError | OSError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _at_hand(name: str, folders: Sequence[Path]) -> Path | None:
    """Return the path of `name` in the first of `folders` that contains it, or None."""
    for folder in folders:
        try:
            if (folder / name).exists():
                return folder / name
        except (OSError, ValueError):  # a name that is too long or invalid
            return None
    return None


def _cached(name: str) -> Path | None:
    """Return the cached folder of a hub id, or None; nothing is fetched."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (HFValidationError, OSError, ValueError):
        return None
