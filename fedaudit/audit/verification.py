"""Verifying a report against its own content and the files that are at hand."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.api.errors import FedauditError, InputError
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.api.templates import TEMPLATES, PromptTemplate
from fedaudit.audit.coverage import coverage
from fedaudit.audit.policy_file import built_in_policy
from fedaudit.audit.request import ReleaseContext
from fedaudit.data import corpus
from fedaudit.federation import adapters
from fedaudit.report.check import Check, verdict
from fedaudit.report.checklist.leaks import PASSAGES
from fedaudit.report.redaction import KEY_FILE, Redactor, config_folder, is_mask, load_key
from fedaudit.report.verdict.criteria import same_limits
from fedaudit.report.verdict.policy import RULE
from fedaudit.report.verdict.recheck import judged_rows, stated_policy
from fedaudit.system.files import sha256

_RECORD = re.compile(r"record-([0-9a-f]{16})")


def record_template(report: Mapping[str, Any]) -> PromptTemplate:
    """Return the template with which a report's records were rendered, or the default."""
    named = report["run"]["config"].get("template")
    return TEMPLATES[named if isinstance(named, str) and named in TEMPLATES else "fed_pii"]


def stated_masks(report: Mapping[str, Any]) -> set[str]:
    """Return the HMACs of masks and keyed names in a report's findings and scopes."""
    scopes = [row["scope"] for row in report["measurements"]]
    return set(_hmacs([report["findings"], scopes]))


def key_at_hand() -> bytes | None:
    """Return the user's masking key, or None if it cannot be read."""
    try:
        path = config_folder() / KEY_FILE
        return load_key(path) if path.is_file() else None
    except InputError:  # a key that others can read, or no config folder
        return None


def known_masks(files: Iterable[Path], form: PromptTemplate, key: bytes) -> set[str]:
    """Return the HMACs of all annotated strings and record ids in files of records."""
    mask = Redactor(key).mask
    texts: set[str] = set()
    for path in files:
        try:
            for document in corpus.read(path, form):
                texts.add(document.id)
                texts.update(string for string, _ in document.strings())
        except InputError:  # not a file of records, but of labels or scores
            continue
    return {str(mask(text, "")["hmac"]) for text in texts}


def _hmacs(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _RECORD.findall(value)
    elif isinstance(value, Mapping):
        if isinstance(value.get("hmac"), str) and (is_mask(value) or "length" in value):
            yield value["hmac"]
        for item in value.values():
            yield from _hmacs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _hmacs(item)


Report = Mapping[str, Any]
Hash = Callable[[Path], str]
MOST_ENTRIES = 50_000
"""The most files and folders below a folder of adapters that is hashed: a report may name /."""
NO_HASH = "the report has no hash of it"
OTHER_DIGESTS_REASON = (
    "of strings in these records; others were made with another key or are of no record"
)


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


def _masks(report: Report, files: Sequence[Path]) -> Iterator[Check]:
    """Yield the number of masks that belong to strings in the files of records, if any."""
    findings = report["findings"]
    passages = {f["evidence"].get("hmac") for f in findings if f["label"] in PASSAGES} - {None}
    stated = stated_masks(report) - passages
    if not stated and not passages:
        return
    key = key_at_hand()
    matches = stated & known_masks(files, record_template(report), key) if key else set()
    check = Check(state="same", kind="masks", name=f"{len(matches):,} of {len(stated):,}")
    more = f"; {len(passages):,} more, of passages, are not looked up" if passages else ""
    if stated and matches == stated:
        yield replace(check, why=f"of strings in these records{more}")
        return
    why = OTHER_DIGESTS_REASON if key else "the key that they were made with is not here"
    yield replace(check, state="not checked", why=why + more)


def _target(target: Report, folders: Sequence[Path]) -> Iterator[Check]:
    if base := target["base"]:
        stated = target.get("base_sha256") or (None if target["adapter"] else target["sha256"])
        yield _base(base, stated, folders)
    if target["adapter"]:
        folder = _at_hand(target["adapter"], folders)
        yield _folder("adapter", target["adapter"], target["sha256"], folder, _of_adapter)
    for row in target.get("models", ()):
        folder = _at_hand(row["path"], folders)
        yield _folder("model", row["path"], row["sha256"], folder, _of_adapter)


def _base(name: str, stated: str | None, folders: Sequence[Path]) -> Check:
    from fedaudit.engine.loading.checkpoint import fingerprint

    folder = nano.folder() if name == nano.BASE else _at_hand(name, folders) or _cached(name)
    return _folder("base", name, stated, folder, fingerprint)


def _folder(
    kind: str, name: str, stated: str | None, folder: Path | None, hash_folder: Hash
) -> Check:
    at_hand = folder if folder is not None and folder.is_dir() else None
    return _compare(kind, name, {"dirHash": stated}, at_hand, hash_folder)


def _compare(
    kind: str, name: str, stated: Mapping[str, str | None], path: Path | None, hash_path: Hash
) -> Check:
    """Compare the digest of a path with the stated one, which is named by its algorithm."""
    [(algorithm, digest)] = stated.items()
    check = Check(state="not checked", kind=kind, name=name, why=NO_HASH)
    if not digest:
        return check
    check = replace(check, state="not at hand", why="", digest={algorithm: digest})
    if path is None:
        return check
    try:
        found = hash_path(path)
    except (InputError, OSError) as error:
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        return replace(check, why=why)
    if found == digest:
        return replace(check, state="same")
    why = f"its SHA-256 is {found[:12]}…, not {digest[:12]}…"
    return replace(check, state="differs", why=why, digest={})


def _of_adapter(folder: Path) -> str:
    """Return the fingerprint of an adapter's folder, or of all adapters below another folder.

    Raises InputError if there is too much below it to be the adapters of a round or a client.
    """
    if (folder / adapters.WEIGHTS).exists():
        return adapters.fingerprint(folder)
    folder = folder.resolve()
    if any(islice(folder.rglob("*"), MOST_ENTRIES, None)):
        raise InputError(f"more than {MOST_ENTRIES:,} files are below {folder}")
    return adapters.fingerprint_below(folder)


def _file(kind: str, row: Report, folders: Sequence[Path]) -> Check:
    name = row["path"]
    return _compare(kind, name, {"sha256": row["sha256"]}, _at_hand(name, folders), sha256)


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


def verify_assessment(report: Report) -> Iterator[Check]:
    """Check the name of a report's policy, and the classes of attacks that it says were run.

    Classes are checked in reports of today's rule only: another version may have had others.
    """
    try:
        policy, (measurements, _) = stated_policy(report), judged_rows(report)
    except (FedauditError, TypeError):  # the check of the verdict reports this
        return
    if "policy" in report["verdict"]:
        yield from _policy(policy)
    if report["verdict"].get("rule") == RULE:
        yield from _coverage(report, measurements)
    elif report.get("coverage"):
        why = "the verdict is by another rule, whose classes may have been others"
        yield Check(state="not checked", kind="attacks", name="of all classes", why=why)


def _policy(policy: Policy) -> Iterator[Check]:
    """Yield a check if the policy has the name of a built-in one, whose limits everybody knows."""
    built_in = built_in_policy(policy)
    if built_in is None:
        return
    if not same_limits(policy, built_in):
        why = f"its limits are not those of fedaudit's policy {built_in.name}"
    elif policy.description != built_in.description:
        why = f"its description is not that of fedaudit's policy {built_in.name}"
    else:
        why = ""
    yield Check(state="differs" if why else "same", kind="policy", name=policy.name, why=why)


def _coverage(report: Report, measurements: Sequence[Measurement]) -> Iterator[Check]:
    """Yield a check of each class of attacks that ran or should have, and of each gap's status."""
    stated = report.get("coverage") or []
    if not stated:
        return
    stated_rows = {row["class"]: row for row in stated}
    counts = Counter(row["class"] for row in stated)
    has_round = report["run"]["config"].get("round") is not None
    # Without a round in the report, a federation may have been at hand or not.
    possible = [
        coverage(measurements, {}, ReleaseContext(), updates=updates)
        for updates in ((True,) if has_round else (True, False))
    ]
    for rows in zip(*possible, strict=True):
        row, statuses = rows[0], {row["status"] for row in rows}
        name, stated_row = row["class"], stated_rows.get(row["class"], {})
        if counts[name] > 1:
            why = "the report tells of it more than once"
        elif _runs(row) != _runs(stated_row):
            why = "its measurements are of other attacks, or of another number"
        elif _runs(row) is None and stated_row.get("status") not in statuses:
            why = (
                f"by the measurements it is {row['status'].replace('_', ' ')}: "
                f"{row['reason'].rstrip('.')}"
            )
        else:
            why = ""
        if why or _runs(row) is not None:
            yield Check(state="differs" if why else "same", kind="attacks", name=name, why=why)


def _runs(row: Report) -> tuple[list[str], int | None] | None:
    """Return the attacks that a class was run by and its largest n; None where none was."""
    return (list(row["by"]), row["n"]) if row and row["status"] == "run" else None
