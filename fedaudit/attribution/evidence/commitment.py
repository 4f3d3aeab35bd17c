"""What a decision may believe of the keys: those committed to beforehand, and how many there were.

Whoever may choose a key after the answers finds one that accuses anybody. A key that was committed
to before cannot be chosen; one of many that were committed to can, so all of them count as tests.
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
from fedaudit.metrics.attribution import stouffer

ANYBODY = (
    "no commitments were given: nobody vouches that the keys were fixed before training, and who "
    "may try keys on these answers can find one that accuses anybody"
)
OPENED = (
    "that a score was made with the mark whose commitment it names is its owner's word until the "
    "mark is opened (`fedaudit attribute verify`)"
)


def settings_of(mark: Mark) -> dict[str, Any]:
    """Return a mark's settings with the plugin's defaults spelled out."""
    return table_of(registry.create("watermark", mark.name, mark.options))


def commitment_digests(marks: Sequence[Mark]) -> dict[str, str]:
    """Return the commitment of each mark that has a salt, by id."""
    return {mark.id: files.digest(mark, settings_of(mark)) for mark in marks if mark.salt}


def public_commitments(marks: Sequence[Mark]) -> Commitments:
    """Return what an owner publishes of marks that all have a salt, said to be made now."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    own = tuple(files.commitment(mark, settings_of(mark)) for mark in marks)
    return Commitments(made=made, commitments=own)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentCheck:
    """The marks that were tested, held against published commitments; without any, None is."""

    path: Path
    published: Commitments
    tested: tuple[str, ...]
    committed: frozenset[str]
    """The tested marks that were published as they are."""
    asked: str = ""
    """When the first sum was asked for, as the estimates say."""

    @property
    def bare(self) -> tuple[str, ...]:
        """The tested marks that nobody can tell from ones that were chosen afterwards."""
        return tuple(mark for mark in self.tested if mark not in self.committed)

    @property
    def unopened(self) -> int:
        """Published commitments that no tested mark is of: keys that may have been tried."""
        return len(self.published.commitments) - len(self.committed)


def check(path: Path, marks: Iterable[str]) -> None:
    """Raise InputError for a file that holds no commitments, or none of any of these marks."""
    known = {one.id for one in files.read(path).commitments}
    if not known & (names := set(marks)):
        told = ", ".join(sorted(names))
        raise InputError(f"{path} has no commitment of any of the marks that are tested: {told}.")


def check_commitments(scores: Scores, path: Path) -> CommitmentCheck:
    """Return the marks of scores, held against the commitments in `path`."""
    found = files.read(path)
    known = {one.id: one.sha256 for one in found.commitments}
    matching = (mark for mark, own in scores.commitments.items() if known.get(mark) == own)
    return CommitmentCheck(
        path=path,
        published=found,
        tested=tuple(scores.marks),
        committed=frozenset(matching),
        asked=scores.asked,
    )


def withhold_uncommitted(
    decision: Decision, found: CommitmentCheck | None, alpha: float
) -> Decision:
    """Return a decision in which uncommitted marks flag nobody, and unopened ones are tests too.

    A published commitment that was not opened counts as one test of every client, with p = 1: by
    Holm that is what it costs to have had more keys to choose from. Where there are such, a client
    stays flagged only if its p after Holm over all of them is at most `alpha`.
    """
    if found is None:
        return decision
    clients = len({one.client for one in decision.tests})
    more = [1.0] * (found.unopened * clients)
    adjusted = stouffer.holm([*(one.p_value for one in decision.tests), *more])
    tests = tuple(
        replace(
            one,
            adjusted=p if more else one.adjusted,
            flagged=one.flagged and one.mark in found.committed and (not more or p <= alpha),
        )
        for one, p in zip(decision.tests, adjusted, strict=False)
    )
    return replace(decision, tests=tests)


def drop_threshold(
    rows: Sequence[Measurement], before: Decision, after: Decision, found: CommitmentCheck | None
) -> list[Measurement]:
    """Return rows without a threshold where none counts.

    That is so for marks that are not committed, and for clients that were flagged `before` the
    unopened commitments were counted and are not `after`.
    """
    if found is None:
        return list(rows)
    freed = {
        (one.client, one.mark)
        for one, now in zip(before.tests, after.tests, strict=True)
        if one.flagged and not now.flagged
    }
    bare = set(found.bare)
    return [
        replace(one, baseline=None)
        if one.metric == "stouffer_z" and (_whom(one) in freed or one.scope.get("mark") in bare)
        else one
        for one in rows
    ]


def _whom(one: Measurement) -> tuple[object, object]:
    return one.scope.get("client"), one.scope.get("mark")


def commitment_counts(scores: Scores, found: CommitmentCheck | None) -> Iterator[Measurement]:
    """Yield how many marks were tested and, where commitments are known, which are committed."""
    yield row(PROTOCOL, "marks", float(len(scores.marks)))
    if found is None:
        return
    yield row(PROTOCOL, "unopened", float(found.unopened), n=len(found.published.commitments))
    for mark in found.tested:
        yield row(PROTOCOL, "committed", float(mark in found.committed), {"mark": mark})


def key_caveats(scores: Scores, found: CommitmentCheck | None, *, opened: bool) -> list[str]:
    """Return what a reader must know of the keys; `opened` if the marks themselves were at hand."""
    count = len(scores.marks)
    tried = f"{count} mark{'s' * (count > 1)} of one key each on {len(scores.clients)} clients"
    if found is None:
        return [f"{ANYBODY}; scores of {tried} were given, of other keys nothing is known"]
    told = [f"{tried} were tested; published commitments match {len(found.committed)} of them"]
    told += [
        f"mark {mark} is uncommitted: {_why(mark, found, scores.commitments)}; it flags nobody"
        for mark in found.bare
    ]
    if found.unopened:
        told.append(
            f"{found.unopened} of {len(found.published.commitments)} published commitments were "
            "not opened: each counts as one more test of every client"
        )
    return [*told, _dated(found), *([] if opened else [OPENED])]


def _why(mark: str, found: CommitmentCheck, own: Mapping[str, str]) -> str:
    if mark not in own:
        return "its scores name no commitment, as the owner's file has no salt for it"
    if mark not in {one.id for one in found.published.commitments}:
        return "no commitment of it is published"
    return "the published commitment is of another key, other prompts or other settings"


def _dated(found: CommitmentCheck) -> str:
    """Return what the files say of when the commitments were made and the first sum asked for."""
    said, asked = files.parse_time(found.published.made), files.parse_time(found.asked)
    if said is None:
        return "the published commitments do not say when they were made"
    own = f"the published commitments say that they were made at {found.published.made}"
    if asked is None:
        return f"{own}; nothing says when the first sum was asked for"
    order = "before" if said < asked else "NOT before"
    return (
        f"{own}, {order} the first sum was asked for ({found.asked}, as the estimates say); "
        "nobody vouches for either time"
    )
