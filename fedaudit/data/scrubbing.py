"""Scrubbing a data set: every record's personal data masked, and what is known of the rest."""

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.plugin import DETECTOR
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document
from fedaudit.api.scripts import has_han
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.data import corpus, record_scrubbing, tables
from fedaudit.data.annotation import annotate
from fedaudit.data.corpus import CorpusRecord
from fedaudit.data.record_scrubbing import MarkedRecord, MaskedRecord
from fedaudit.pii import masking, spellings
from fedaudit.pii.field_names import names_a_person
from fedaudit.pii.normalized_search import normalize
from fedaudit.system.files import (
    atomic_text,
    check_target,
    existing_parent,
    sha256,
    umask,
)

BATCH = 64
"""Records that are annotated at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubRequest:
    """A data set to scrub."""

    source: Path
    out: Path
    style: str = "mask"
    detector: str = DETECTOR
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the detector."""
    only: tuple[str, ...] = ()
    """The labels to mask; all where none is named."""
    excluding: tuple[str, ...] = ()
    """Labels to leave as they are."""
    template: str = "fed_pii"
    seed: int | None = None
    """With it one can test whom a pseudonym stands for; None draws a key at random."""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubResult:
    """What was masked, and what may be left."""

    records: int
    masked: Mapping[str, int]
    """Pieces of personal data by label."""
    kept: Mapping[str, int]
    """The same of labels that were not to be masked."""
    annotated: int
    """Records that came annotated."""
    partly_annotated: int
    """Of them, those with text in other fields, which the annotation does not cover."""
    annotation: str | None
    """What annotated the others."""
    strings: int
    """Different strings that were masked, whatever their white space and Unicode forms."""
    remaining: int
    """Of them, those that still stand somewhere in the result, where no one had marked them."""
    respelt: int
    """Of these, those that stand there in other spellings only, as look-alikes."""
    pii_in_ids: int
    """Records whose id, group or task contains personal data that is masked in them."""
    people_as_fields: int
    """Records with a field that is called by a person's name, which stays."""
    unread: Mapping[str, int]
    """How many records have an unknown field, which may hold personal data, by its name; and how
    many have no text at all and were left out, by `corpus.EMPTY`."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """How many records have a number in a field whose name says that it is personal, by the
    field's name; numbers are not masked."""
    cut: Sequence[str] = ()
    """A line on annotated spans that begin or end inside a word, of which a part is left."""


def check(request: ScrubRequest) -> None:
    """Raise UsageError or InputError for what can be found before anything is read or written."""
    if request.style not in masking.STYLES:
        raise unknown_name_error("style", request.style, masking.STYLES)
    if request.only and request.excluding:
        raise UsageError("--only and --except cannot be given together.")
    registry.create("detector", request.detector, request.options)
    template(request.template)
    corpus.existing_file(request.source)
    if request.out.is_dir():
        raise InputError(f"{request.out} is a folder; a file is needed for the scrubbed records.")
    if request.out.exists() and os.path.samefile(request.source, request.out):
        raise InputError(f"{request.out} is the input itself; choose another place for the result.")
    if tables.is_csv(request.out) and not tables.is_csv(request.source):
        raise InputError(
            f"{request.out} cannot be CSV, for {request.source} is not; call it .jsonl."
        )
    if request.force:
        _check_replaceable(request)
    elif os.path.lexists(request.out):
        raise InputError(f"{request.out} exists already; choose another place, or add --force.")
    existing_parent(request.out.absolute().parent)


def _check_replaceable(request: ScrubRequest) -> None:
    """Raise InputError unless OUT is free, empty or a file of records, which --force replaces."""
    check_target(request.out)
    if not request.out.exists() or not request.out.stat().st_size:
        return
    try:
        next(corpus.read_records(request.out, template(request.template)))
    except (InputError, StopIteration):
        raise InputError(
            f"{request.out} exists and does not hold records: it stays as it is; choose another "
            "place."
        ) from None


def scrub(
    request: ScrubRequest, watch: Callable[[str], Progress] = lambda title: no_progress
) -> ScrubResult:
    """Write the scrubbed records and return what was done; the input stays as it is."""
    check(request)
    empty: Counter[str] = Counter()
    records = list(corpus.read_records(request.source, template(request.template), empty))
    marked, annotator = _mark_records(records, request, watch("finding PII"))
    everything = [document for m in marked for document in m.documents()]
    chosen = _label_filter(request, everything)
    key = secrets.token_hex(32) if request.seed is None else f"seed {request.seed}"
    style: Any = request.style
    written = masking.substitution(style, everything, key)
    done = [record_scrubbing.mask_record(m, written, chosen) for m in marked]
    masked = [pair for d in done for pair in d.masked]
    strings = {normalize(string) for string, _ in masked} - {""}
    exact, remaining = _find_remaining(strings, records, done, watch("looking for what is left"))
    _write(request, _renew_ids(records, done))
    return ScrubResult(
        records=len(done),
        masked=_sorted_counts(Counter(label for _, label in masked)),
        kept=_sorted_counts(Counter(label for d in done for label in d.kept_labels)),
        annotated=sum(record.document.pii is not None for record in records),
        partly_annotated=sum(
            bool(m.other_strings) for m in marked if m.record.document.pii is not None
        ),
        annotation=annotator,
        strings=len(strings),
        remaining=len(remaining),
        respelt=len(remaining - exact),
        pii_in_ids=sum(record_scrubbing.names_masked_string(m, chosen) for m in marked),
        people_as_fields=_count_people_as_fields(records, request),
        unread=empty + Counter(name for record in records for name in set(record.content.unread)),
        numbers=Counter(
            name
            for record in records
            for name in set(record_scrubbing.personal_numbers(record, chosen))
        ),
        cut=_cut_lines(request.source, records),
    )


def _cut_lines(source: Path, records: Sequence[CorpusRecord]) -> list[str]:
    """Return a line that says how many spans cut words, and in which records; none without."""
    positions = [
        record.position.rpartition(", ")[2]
        for record in records
        if corpus.cut_spans(record.document)
    ]
    more = len(positions) - corpus.MAX_LISTED
    listed = ", ".join(positions[: corpus.MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
    caveats = corpus.cut_caveat(source, (record.document for record in records))
    return [f"{line}: {listed}" for line in caveats]


def table(request: ScrubRequest, scrubbed: ScrubResult) -> dict[str, Any]:
    """Return what was done for JSON, without any text of a record and without the key."""
    return {
        "in": {"path": str(request.source), "sha256": sha256(request.source)},
        "out": {"path": str(request.out), "sha256": sha256(request.out)},
        "style": request.style,
        "records": scrubbed.records,
        "masked": dict(scrubbed.masked),
        "kept": dict(scrubbed.kept),
        "annotation": {
            "given": scrubbed.annotated,
            "beside": scrubbed.partly_annotated,
            "by": scrubbed.annotation,
        },
        "strings": {
            "masked": scrubbed.strings,
            "left": scrubbed.remaining,
            "other_spellings": scrubbed.respelt,
        },
        "named": scrubbed.pii_in_ids,
        "people_as_fields": scrubbed.people_as_fields,
        "unread": {name: n for name, n in sorted(scrubbed.unread.items()) if name != corpus.EMPTY},
        "numbers": dict(sorted(scrubbed.numbers.items())),
        "left_out": scrubbed.unread.get(corpus.EMPTY, 0),
    }


def _mark_records(
    records: Sequence[CorpusRecord], request: ScrubRequest, progress: Progress
) -> tuple[list[MarkedRecord], str | None]:
    """Return the records with their personal data marked, and what annotated the unmarked ones.

    Ready-made prompts are annotated too, and so are strings beside the text, which no annotation
    in the data covers.
    """
    result: list[MarkedRecord] = []
    annotator = None
    for first in range(0, len(records), BATCH):
        batch = records[first : first + BATCH]
        around = [record_scrubbing.other_strings(record) for record in batch]
        bare = [
            *(replace(record.document, is_prompt=False) for record in batch),
            *(Document(id="", text=text) for strings in around for text in strings.values()),
        ]
        documents = [replace(document, id=str(number)) for number, document in enumerate(bare)]
        annotated, how = annotate(documents, request.detector, request.options)
        beside = iter(annotated[len(batch) :])
        for record, document, strings in zip(batch, annotated, around, strict=False):
            own = tuple(span for span in document.pii or () if record.content.holds(span))
            text_document = replace(document, id=record.document.id, pii=own)
            labels = dict(record_scrubbing.quotations(record.fields))
            others = {
                path: record_scrubbing.with_field_name(path, next(beside), labels.get(path))
                for path in strings
            }
            marked = MarkedRecord(record, text_document, others)
            result.append(record_scrubbing.with_parts_of_names(marked))
        annotator = annotator or how
        if how:
            progress(len(result), len(records))
    return result, annotator


def _count_people_as_fields(records: Sequence[CorpusRecord], request: ScrubRequest) -> int:
    """Return how many records have a field called by what the detector finds to be a name.

    One word alone is too often a heading.
    """
    named = [
        {name for name in record_scrubbing.field_names(record.fields) if names_a_person(name)}
        for record in records
    ]
    headings = [Document(id=name, text=f"Name: {name}") for name in sorted(set().union(*named))]
    found, _ = annotate(headings, request.detector, request.options)
    people = {
        heading.id
        for heading in found
        if " " in heading.id.strip() or has_han(heading.id)
        for string, _ in heading.strings()
        if string == heading.id.strip()
    }
    return sum(not names.isdisjoint(people) for names in named)


def _label_filter(request: ScrubRequest, documents: Sequence[Document]) -> Callable[[str], bool]:
    """Return whether a label is to be masked; raises UsageError for one that no record has."""
    present = {span.label for document in documents for span in document.pii or ()}
    for label in (*request.only, *request.excluding):
        if label not in present:
            raise unknown_name_error("kind of PII in the data", label, present)
    if request.only:
        return lambda label: label in request.only
    return lambda label: label not in request.excluding


def _write(request: ScrubRequest, fields: Sequence[Mapping[str, Any]]) -> None:
    """Write the result, at no time readable by anybody who may not read the input.

    Only its owner can read it until the group that the file system gave it is known.
    """
    source = request.source.stat()
    if tables.is_csv(request.out):
        atomic_text(request.out, tables.csv_text(request.source, fields), mode=0o600)
    else:
        corpus.write_fields(request.out, fields, array=corpus.is_array(request.source))
    same = request.out.stat().st_gid == source.st_gid
    # A group that is shut out of the input would be among the others of a file of another group.
    others_read = 0o004 if same or source.st_mode & 0o040 else 0
    mode = 0o600 | source.st_mode & (others_read | (0o040 if same else 0))
    request.out.chmod(mode & ~umask())


def _find_remaining(
    strings: set[str],
    records: Sequence[CorpusRecord],
    done: Sequence[MaskedRecord],
    progress: Progress,
) -> tuple[set[str], set[str]]:
    """Return which of the normalized `strings` are in the records, and which in any spelling."""
    from fedaudit.metrics.document_frequency import absent_strings

    texts = [
        list(record_scrubbing.readable_strings(record, masked.fields))
        for record, masked in zip(records, done, strict=True)
    ]
    exact = strings - absent_strings(
        strings, ["\n".join(map(normalize, values)) for values in texts]
    )
    progress(1, 3)
    forms = {string: spellings.forms(string) for string in strings}
    read = [
        "\n".join(form for text in values for form in spellings.readings(text)) for values in texts
    ]
    progress(2, 3)
    gone = absent_strings(set().union(*forms.values()), read)
    progress(3, 3)
    return exact, exact | {string for string in strings if forms[string] - gone}


def _renew_ids(
    records: Sequence[CorpusRecord], done: Sequence[MaskedRecord]
) -> list[dict[str, Any]]:
    """Return the fields of the records, with new ids where fedaudit had made them.

    Such an id is a hash of the whole record: with it, a guess of what was masked could be tested.
    """
    copies: Counter[str] = Counter()
    result = []
    for record, masked in zip(records, done, strict=True):
        name = record.content.names.get("id", "")
        fields = masked.fields
        if name and corpus.DERIVED.fullmatch(str(fields[name])):
            digest = hashlib.sha256(masked.text.encode()).hexdigest()[:12]
            copies[digest] += 1
            number = f"-{copies[digest]}" if copies[digest] > 1 else ""
            fields = {**fields, name: f"scrubbed-{digest}{number}"}
        result.append(fields)
    return result


def _sorted_counts(labels: Counter[str]) -> dict[str, int]:
    return dict(sorted(labels.items(), key=lambda item: (-item[1], item[0])))
