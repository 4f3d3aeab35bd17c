"""Which keys a decision may trust: those committed to beforehand, and how many there were.

Anyone who can choose a key after seeing the answers can find one that accuses anybody. A key that
was committed to beforehand cannot be chosen like that, but one of many committed keys can, so all
of them count as tests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Measurement
from fedaudit.api.watermark import Mark
from fedaudit.attribution.decision.decision import Decision
from fedaudit.attribution.measurements import PROTOCOL, row
from fedaudit.attribution.scores import Scores
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.federation import commitments as files
from fedaudit.federation.commitments import Commitments
from fedaudit.system.files import sha256

NO_COMMITMENTS_CAVEAT = (
    "no commitments were given: nothing shows that the keys were fixed before training, and "
    "anyone who can try keys on these answers can find one that accuses anybody"
)
UNOPENED_CAVEAT = (
    "until a mark is opened (`fedaudit attribute verify`), only its owner's word says that its "
    "scores were made with the mark whose commitment they name"
)


def settings_of(mark: Mark) -> dict[str, Any]:
    """Return a mark's settings with the plugin's defaults spelled out."""
    return table_of(registry.create("watermark", mark.name, mark.options))


def commitment_digests(marks: Sequence[Mark]) -> dict[str, str]:
    """Return the commitment of each mark, by id."""
    return {mark.id: files.digest(mark, settings_of(mark)) for mark in marks}


def public_commitments(marks: Sequence[Mark]) -> Commitments:
    """Return the commitments that an owner publishes, dated now."""
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    commitments = tuple(files.commitment(mark, settings_of(mark)) for mark in marks)
    return Commitments(made=timestamp, commitments=commitments)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentCheck:
    """The result of comparing tested marks with published commitments."""

    path: Path
    published: Commitments
    tested: tuple[str, ...]
    matching: frozenset[str]
    """The tested marks whose published commitments match."""
    asked: str = ""
    """When the first sum was asked for, as the estimates say."""
    trained: str = ""
    """When the first round began, as the estimates say; empty if that is not known."""
    noted: bool = False
    """Whether the server noted this very file with the first sum, as the estimates say."""
    replaced: bool = False
    """Whether the server noted another file with the first sum, by its ledger or the estimates."""

    @property
    def late(self) -> str:
        """What the commitments are dated no earlier than, with its time; empty if they are not."""
        began = f"the first round began ({self.trained}"
        asked = f"the first sum was asked for ({self.asked}"
        made_at = files.parse_time(self.published.made)
        for what, text in ((began, self.trained), (asked, self.asked)):
            time = files.parse_time(text)
            if made_at is not None and time is not None and made_at >= time:
                return f"{what}, as the estimates say)"
        return ""

    @property
    def unproven(self) -> str:
        """Why nothing shows that the commitments came first; empty if a time or the ledger does.

        Without this, a file that is late would count again once its time is deleted.
        """
        if self.noted:
            return ""
        if files.parse_time(self.published.made) is None:
            return "the published commitments do not say when they were made"
        if not any(map(files.parse_time, (self.trained, self.asked))):
            return (
                "the scores say neither when the first round began nor when the first sum was "
                "asked for"
            )
        return ""

    @property
    def committed(self) -> frozenset[str]:
        """The tested marks that were committed to beforehand, according to the files."""
        return frozenset() if self.late or self.unproven or self.replaced else self.matching

    @property
    def bare(self) -> tuple[str, ...]:
        """The tested marks without a matching commitment: they may have been chosen afterwards."""
        return tuple(mark for mark in self.tested if mark not in self.committed)

    @property
    def unopened(self) -> int:
        """How many published commitments have no tested mark: their keys may have been tried."""
        return len(self.published.commitments) - len(self.matching)


def check(path: Path, marks: Iterable[str]) -> None:
    """Raise InputError for a file without commitments, or with none for any of these marks."""
    published_ids = {c.id for c in files.read(path).commitments}
    if not published_ids & (names := set(marks)):
        listing = ", ".join(sorted(names))
        raise InputError(
            f"{path} has no commitment of any of the marks that are tested: {listing}."
        )


def check_commitments(scores: Scores, path: Path, noted: str = "") -> CommitmentCheck:
    """Return the marks of scores, compared with the commitments in `path`.

    `noted` is the file's SHA-256 that a ledger noted when the first sum was asked for; without it,
    that of the scores counts.
    """
    published = files.read(path)
    first = noted or scores.noted
    digests = {c.id: c.sha256 for c in published.commitments}
    matching = (mark for mark, digest in scores.commitments.items() if digests.get(mark) == digest)
    return CommitmentCheck(
        path=path,
        published=published,
        tested=tuple(scores.marks),
        matching=frozenset(matching),
        asked=scores.asked,
        trained=scores.trained,
        noted=bool(scores.noted) and sha256(path) == scores.noted,
        replaced=bool(first) and sha256(path) != first,
    )


def withhold_uncommitted(decision: Decision, status: CommitmentCheck | None) -> Decision:
    """Return the decision, changed so that uncommitted marks flag no client."""
    if status is None:
        return decision
    tests = tuple(
        replace(test, flagged=test.flagged and test.mark in status.committed)
        for test in decision.tests
    )
    return replace(decision, tests=tests)


def drop_threshold(
    rows: Sequence[Measurement], before: Decision, after: Decision, status: CommitmentCheck | None
) -> list[Measurement]:
    """Return the rows of Z, without the value to exceed where exceeding it flags no client.

    This concerns marks that are not committed, and clients that were flagged `before` the unopened
    commitments were counted as tests but not `after`, for which that value is not known.
    """
    if status is None:
        return list(rows)
    freed = {
        (test.client, test.mark)
        for test, now in zip(before.tests, after.tests, strict=True)
        if test.flagged and not now.flagged
    }
    bare = set(status.bare)
    return [
        replace(m, baseline=None)
        if m.metric == "stouffer_z"
        and ((m.scope.get("client"), m.scope.get("mark")) in freed or m.scope.get("mark") in bare)
        else m
        for m in rows
    ]


def commitment_counts(scores: Scores, status: CommitmentCheck | None) -> Iterator[Measurement]:
    """Yield how many marks were tested and, with published commitments, which are committed."""
    yield row(PROTOCOL, "marks", float(len(scores.marks)))
    if status is None:
        return
    yield row(PROTOCOL, "unopened", float(status.unopened), n=len(status.published.commitments))
    for mark in status.tested:
        yield row(PROTOCOL, "committed", float(mark in status.committed), {"mark": mark})


def key_caveats(scores: Scores, status: CommitmentCheck | None, *, opened: bool) -> list[str]:
    """Return the limits that concern the keys; `opened` says if the marks themselves were read."""
    count = len(scores.marks)
    description = (
        f"{count} mark{'s' * (count > 1)} of one key each on {len(scores.clients)} clients"
    )
    if status is None:
        return [
            f"{NO_COMMITMENTS_CAVEAT}; scores of {description} were given; nothing is known of "
            "other keys"
        ]
    caveats = [
        f"{description} were tested; published commitments match {len(status.matching)} of them"
    ]
    caveats += [
        f"mark {mark} is uncommitted: {_bare_reason(mark, status, scores.commitments)}; "
        "it flags no client"
        for mark in status.bare
    ]
    if status.unopened:
        caveats.append(
            f"{status.unopened} of {len(status.published.commitments)} published commitments were "
            "not opened: each counts as one more test of every client"
        )
    return [*caveats, _describe_dates(status), *([] if opened else [UNOPENED_CAVEAT])]


def _bare_reason(mark: str, status: CommitmentCheck, digests: Mapping[str, str]) -> str:
    if status.replaced:
        return "the server noted another file of commitments with the first sum (SHA-256)"
    if mark in status.matching and status.unproven:
        return f"{status.unproven}, and no entry of the server's ledger vouches for them"
    if mark in status.matching:
        return (
            f"the published commitments say that they were made at {status.published.made}, NOT "
            f"before {status.late}"
        )
    if mark not in digests:
        return "the scores contain no commitment for it"
    if mark not in {c.id for c in status.published.commitments}:
        return "no commitment of it is published"
    return "the published commitment is of another key, other prompts or other settings"


def _describe_dates(status: CommitmentCheck) -> str:
    """Return in words whether the commitments were made before training, as far as files tell."""
    made = status.published.made
    statement = "the published commitments " + (
        f"say that they were made at {made}" if made else "do not say when they were made"
    )
    if status.late:
        return f"{statement}, NOT before {status.late}"
    noted = (
        f"the server's ledger has this very file from the first sum on ({status.asked}, as the "
        "estimates say), so its keys were not chosen by the answers that were tested"
    )
    if made and files.parse_time(status.trained) is not None:
        return (
            f"{statement}, before the first round began ({status.trained}, as the estimates say); "
            + (noted if status.noted else "only the file itself vouches for its time")
        )
    return f"{statement}; whether that was before the first round is unknown: " + (
        noted
        if status.noted
        else "no entry of the server's ledger vouches for it, so keys may have been tried on "
        "adapters or answers beforehand, and the one that accuses someone committed to"
    )
