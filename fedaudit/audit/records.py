"""Documents of an audit: annotated by the detector, held out, and those of other members."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, Measurement
from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.request import attacks_with
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.data import corpus, near_duplicates
from fedaudit.data.annotation import annotate
from fedaudit.federation import manifest
from fedaudit.pii.normalized_search import fold

if TYPE_CHECKING:
    from fedaudit.audit.request import AuditRequest


def annotated(file: InputFile, request: "AuditRequest") -> InputFile:
    """Return a file's documents; the detector annotates those without annotations."""
    options = request.options.get(request.detector)
    documents, annotator = annotate(file.documents, request.detector, options)
    return replace(file, documents=documents, annotation=annotator)


def label_rows(
    files: Sequence[InputFile], request: "AuditRequest", measurements: Sequence[Measurement]
) -> list[Measurement]:
    """Return a row with the labels that the detector can give, if it annotated what was tried.

    These are in the victim's file, or in any file without a victim. There is no row if no strings
    were searched for, or if the records had annotations.
    """
    tried = [f for f in files if request.victim_path is None or f.path == request.victim_path]
    searched = any(row.metric in ("coverage", "extraction_recall") for row in measurements)
    if not searched or not any(file.annotation for file in tried):
        return []
    options = request.options.get(request.detector)
    texts = [document.text for file in tried for document in file.documents]
    labels = sorted(registry.create("detector", request.detector, options).labels(texts))
    return [
        Measurement(
            kind="extraction",
            plugin=request.detector,
            metric="annotation_labels",
            value=float(len(labels)),
            scope={"labels": labels},
        )
    ]


def reading_caveats(files: Sequence[InputFile]) -> list[str]:
    """Return caveats about reading the files: PII found by a detector, and unread fields."""
    template = "{} was not annotated; PII in it was found by {}"
    limits = [template.format(file.path.name, file.annotation) for file in files if file.annotation]
    given = [file for file in files if not file.annotation]
    return [
        *limits,
        *(limit for file in given for limit in corpus.cut_caveat(file.path, file.documents)),
        *(limit for file in files for limit in corpus.unread_caveat(file.path, file.unread)),
    ]


RELATED = (
    "held out: training saw other documents of these records' groups, so the model may know "
    "more of them than of strangers; such a comparison can show a leak, not rule one out."
)

HELD_OUT_ATTACKS = ("compares", "asks_held_out")
"""The attributes of attacks that need held-out records."""
HELD_OUT = "data/held_out.jsonl"
"""The file of a simulation's records that no client was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The usable held-out records, and the caveats about them."""

    file: InputFile
    documents: Sequence[Document]
    related: bool
    limits: tuple[str, ...]

    def add_to(self, context: AttackContext) -> AttackContext:
        """Return `context` with these records."""
        return replace(context, held_out=self.documents, related=self.related)


def check_held_out(request: "AuditRequest") -> None:
    """Raise UsageError for --held-out if no attack compares with such records or queries them."""
    if request.held_out_path is not None and not _needs_held_out(request):
        names = ", ".join(sorted(attacks_with(*HELD_OUT_ATTACKS)))
        raise UsageError(f"--held-out needs an attack that uses such records: {names}.")


def held_out_path(request: "AuditRequest", audited: AuditTarget) -> Path | None:
    """Return the file of held-out records: the given one, or, with a victim, the simulation's.

    A member's own test needs no victim.
    """
    if request.held_out_path is not None:
        return request.held_out_path
    if audited.federation is None or not _needs_held_out(request):
        return None
    if request.victim_path is None and not request.compares_held_out:
        return None
    path = audited.federation.path / HELD_OUT
    return path if path.is_file() else None


def read_held_out(
    request: "AuditRequest",
    audited: AuditTarget,
    form: PromptTemplate,
    input_files: Sequence[InputFile],
    members: Sequence[InputFile] = (),
    *,
    reader: InputReader,
) -> HeldOut | None:
    """Return the held-out records, or None if there is no file of them.

    Records are left out if a client trained on their text, as far as the files at hand show
    (ignoring case, white space and Unicode form), or if they have the same group (person) as a
    tried record, which are those of the last of `input_files`. `members` are files of other
    members. Raises InputError if no record is left, except for the federation's own file, which
    the user did not choose: attacks that need such records then report it.
    """
    path = held_out_path(request, audited)
    if path is None:
        return None
    documents = [d for d in reader.corpus(path, form).documents if not d.is_prompt]
    given = [document for file in (*input_files, *members) for document in file.documents]
    dealt = [reader.corpus_or_empty(path, form).documents for path in audited.record_files.values()]
    trained = [*given, *chain.from_iterable(dealt)]
    texts, groups = {fold(d.text) for d in trained}, _groups(input_files[-1].documents)
    new = [d for d in documents if fold(d.text) not in texts]
    remaining = [d for d in new if d.group not in groups]
    if not remaining and not _is_of_federation(path, audited):
        raise InputError(
            f"Nothing in {path} is held out: every record was trained on, or is of the same group "
            "as records that are tried."
        )
    related = bool(_groups(remaining) & _groups(trained))
    compared = request.compares_held_out or bool(attacks_with("compares", among=request.attacks))
    # A member's own test says itself which of them it could not read.
    limits = _describe_held_out(
        path,
        remaining,
        len(documents) - len(new),
        len(new) - len(remaining),
        compared=compared,
        could_be="could be" if request.compares_held_out else "were",
    )
    if request.held_out_path is None:
        use = "compared with" if compared else "used"
        limits = (f"{path.name}, which the simulation held out, was {use}.", *limits)
    if related and compared:
        limits = (*limits, RELATED)
    file = InputFile(path=path, documents=documents, sha256=reader.sha256(path))
    return HeldOut(file=file, documents=remaining, related=related, limits=limits)


def _is_of_federation(path: Path, audited: AuditTarget) -> bool:
    federation = audited.federation
    return federation is not None and path.resolve() == (federation.path / HELD_OUT).resolve()


def _needs_held_out(request: "AuditRequest") -> bool:
    attacks = attacks_with(*HELD_OUT_ATTACKS, among=request.attacks)
    return request.compares_held_out or bool(attacks)


def _groups(documents: Iterable[Document]) -> set[str]:
    return {document.group for document in documents} - {""}


def _describe_held_out(
    path: Path,
    remaining: Sequence[Document],
    trained: int,
    grouped: int,
    *,
    compared: bool,
    could_be: str,
) -> tuple[str, ...]:
    asked = sum(bool(document.instruction) for document in remaining)
    different = len({document.text for document in remaining})
    twice = f" ({different:,} different texts)" if different < len(remaining) else ""
    use = (
        f"{len(remaining):,} records of {path.name}{twice} {could_be} compared with"
        if compared
        else f"the requests of {asked:,} records of {path.name} could be asked"
    )
    return (
        f"held out: {use}; {trained:,} were left out because they were trained on, {grouped:,} "
        "because they are of the same groups as the records tried.",
    )


NO_MEMBERS_CAVEAT = (
    "No other member's documents were at hand (--member): strings that other members also have "
    "count as the victim's."
)


MOST = 0.5
"""With a greater share of records that are near duplicates of the victim's, a member is the victim.

In simulated corpora (docs/extraction-attacks.md) copies have 0.8 or more, other clients that write
with the same templates have 0, and those with other records of the same people at most 0.4.
"""


def member_files(request: "AuditRequest", audited: AuditTarget) -> dict[str, Path]:
    """Return the files of members other than attacker and victim, by name.

    They are those given by the user, or else those in the federation's folder whose hashes are in
    its manifest. There are none without a victim.
    """
    if request.victim_path is None:
        return {}
    named = {path.stem: path for path in request.members}
    if len(named) < len(request.members):
        named = {str(path): path for path in request.members}
    return _unless_attacked(request, named or _vouched(audited))


def victim_copies(victim: "InputFile | None", members: Mapping[str, "InputFile"]) -> list[str]:
    """Return the members whose records are mostly near duplicates of the victim's.

    They are the victim itself: its records may have been given as another file than this one, in
    part, with later ones, masked, cut off or re-wrapped. All files are annotated.
    """
    if victim is None:
        return []
    return [
        name
        for name, file in members.items()
        if near_duplicates.share_of_copies(file.documents, victim.documents) > MOST
    ]


def victim_copies_caveat(names: Sequence[str]) -> str:
    """Return the caveat that says which members were taken for the victim."""
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
    have = "have" if names[1:] else "has"
    return (
        f"{listed} {have} the victim's own records, most of them at least (as they are, masked, "
        "cut off or re-wrapped): taken for the victim, not for another member."
    )


def unvouched_caveats(request: "AuditRequest", audited: AuditTarget) -> list[str]:
    """Return a caveat that names the federation's data files that its manifest has no hash of."""
    if request.victim_path is None or request.members:
        return []
    known = _vouched(audited)
    files = _unless_attacked(request, audited.record_files)
    names = [name for name in files if name not in known]
    if not names:
        return []
    return [
        f"{manifest.NAME} has no hash of the data of {', '.join(names)}: strings in these files "
        "still count as the victim's (--member names other members' files)."
    ]


def shared_records_caveats(attacker: "InputFile", victim: "InputFile | None") -> list[str]:
    """Return a caveat with the number of the victim's records that the attacker has, if any."""
    if victim is None:
        return []
    known = {fold(document.text) for document in attacker.documents}
    count = sum(fold(document.text) in known for document in victim.documents)
    if not count:
        return []
    return [
        f"{count:,} of the victim's {len(victim.documents):,} records are in the attacker's file "
        "as well: extraction does not look for what is in them."
    ]


def check_files(request: "AuditRequest") -> None:
    """Raise InputError for a given file that does not exist or is not a file."""
    for path in (*request.members, *([request.control] if request.control else [])):
        corpus.existing_file(path)


def _unless_attacked(request: "AuditRequest", files: Mapping[str, Path]) -> dict[str, Path]:
    """Return `files` without those of attacker and victim."""
    excluded = {path.resolve() for path in (request.input_path, request.victim_path) if path}
    return {name: path for name, path in files.items() if path.resolve() not in excluded}


def _vouched(audited: AuditTarget) -> dict[str, Path]:
    """Return the clients' files whose hashes are in the manifest, checked when it was opened."""
    if audited.federation is None:
        return {}
    hashes = audited.federation.manifest.files
    data = {client.id: client.data for client in audited.federation.manifest.clients}
    return {name: path for name, path in audited.record_files.items() if data[name] in hashes}
