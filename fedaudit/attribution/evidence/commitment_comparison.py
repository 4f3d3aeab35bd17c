"""The commitments of a bundle, compared with the published ones, the marks and the decision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedaudit.api.watermark import Mark
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.scores import Scores
from fedaudit.federation import commitments as commitments_file
from fedaudit.federation.commitments import Commitment, Commitments
from fedaudit.report.check import Check, State
from fedaudit.system.files import sha256

PUBLISHED = "as published"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentFiles:
    """Where commitments are read from; None where there are none."""

    bundled: Path | None
    """The bundle's own commitments, which its owner chose."""
    published: Path | None
    """The commitments that another party received before training."""

    @property
    def trusted(self) -> Path | None:
        """The published commitments, or else those of the bundle."""
        return self.published or self.bundled


def compare_commitments(
    files: CommitmentFiles,
    marks: Sequence[Mark],
    scores: Scores,
    *,
    committed: bool,
    rests: str,
) -> Iterator[Check]:
    """Yield checks of the commitments against published ones, the decision and the opened marks.

    `committed` says whether the decision was made with commitments; `rests` is the sentence that
    rests on the keys having been fixed beforehand. Raises InputError for files
    without commitments.
    """
    yield _compare_published(files, scores, rests)
    if files.trusted and not committed:
        why = "it was made without them, so unopened ones do not count as tests"
        yield Check(state="differs", kind="decision", name="by commitments", why=why)
    entries = commitments_file.read(files.trusted).commitments if files.trusted else ()
    yield from _check_marks(marks, scores, {e.id: e for e in entries}, files.trusted)


def _compare_published(files: CommitmentFiles, scores: Scores, rests: str) -> Check:
    check = Check(state="not checked", kind="commitments", name=PUBLISHED)
    if files.bundled is None:
        why = f"the bundle has no {commitments_file.NAME}"
        return Check(
            state="differs" if files.published else "not checked",
            kind=check.kind, name=check.name, why=why, rests="" if files.published else rests,
        )  # fmt: skip
    bundled = commitments_file.read(files.bundled)
    count = len(bundled.commitments)
    if files.published is None and sha256(files.bundled) == scores.noted:
        why = f"{count:,}, as the server noted them with the first sum, by the estimates"
        return Check(state="same", kind=check.kind, name=check.name, why=why)
    if files.published is None:
        why = (
            f"the bundle's own file, {count:,} of SHA-256 {sha256(files.bundled)}: give with "
            "--commitments the one that you received before training"
        )
        return replace(check, why=why, rests=rests)
    published = commitments_file.read(files.published)
    odd = _differences(_digests(bundled), _digests(published))
    if not odd and bundled == published:
        return Check(state="same", kind=check.kind, name=check.name, why=f"{count:,}")
    why = f"not as in {files.published}: {odd or 'when they were made, or their order'}"
    return Check(state="differs", kind=check.kind, name=check.name, why=why)


def _digests(commitments: Commitments) -> dict[str, str]:
    return {entry.id: entry.sha256 for entry in commitments.commitments}


def _differences(bundled: Mapping[str, str], published: Mapping[str, str]) -> str:
    """Return in words how many commitments are missing, new or changed; empty for none."""
    counts = {
        "lacking": len(set(published) - set(bundled)),
        "not published": len(set(bundled) - set(published)),
        "of another key": sum(bundled[i] != published[i] for i in set(bundled) & set(published)),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _check_marks(
    marks: Sequence[Mark], scores: Scores, published: Mapping[str, Commitment], path: Path | None
) -> Iterator[Check]:
    """Yield whether each opened mark is the one that was committed to and tested."""
    digests = commitment.commitment_digests(marks)
    opened = {mark.id for mark in marks}
    for mark, plugin in scores.marks.items():
        digest, entry = digests.get(mark), published.get(mark)
        state: State = "differs"
        why = ""
        if entry and entry.plugin != plugin:
            why = f"the scores are of a mark by {plugin}, {path} has one by {entry.plugin}"
        elif mark not in opened:
            state, why = "not checked", "the mark is not opened"
        elif digest != scores.commitments.get(mark):
            why = "the opened mark, or its settings, are not those that the scores name"
        elif digest is None:
            state, why = "not checked", "the mark has no salt: nothing was committed to"
        elif not path:
            state, why = "not checked", f"the bundle has no {commitments_file.NAME}"
        elif entry is None or digest != entry.sha256:
            why = f"{path.name} has none of it or that of another"
        else:
            state = "same"
        yield Check(state=state, kind="commitment", name=f"of mark {mark}", why=why)
