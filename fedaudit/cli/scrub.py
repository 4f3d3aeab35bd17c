"""fedaudit scrub: a data set without the personal data that anybody marked or found in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import DETECTOR
from fedaudit.cli.console import print_lines, print_note, progress_bars
from fedaudit.cli.options import (
    Detector,
    Quiet,
    Settings,
    Template,
    file_to_write,
    json_to_write,
    settings_by_plugin,
    takes_options,
)
from fedaudit.system.files import existing_parent
from fedaudit.system.numbers import count_of
from fedaudit.system.outputs import COUNTS, write_output

if TYPE_CHECKING:
    from fedaudit.data.scrubbing import ScrubRequest, ScrubResult


@takes_options("settings", Settings, Settings)
def scrub(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The records, as JSONL or CSV.")],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            parser=file_to_write,
            help="Where the scrubbed records go, as JSONL, or as .csv if the records are a .csv.",
        ),
    ],
    style: Annotated[
        str, typer.Option("--style", help="mask, asterisks, label or pseudonym.")
    ] = "mask",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="LABEL", help="Mask only this kind; may be repeated."),
    ] = None,
    excluding: Annotated[
        list[str] | None,
        typer.Option(
            "--except", metavar="LABEL", help="Leave this kind unmasked; may be repeated."
        ),
    ] = None,
    detector: Detector = DETECTOR,
    *,
    settings: Settings,
    template: Template = "fed_pii",
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Makes pseudonyms repeatable for anybody who knows it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT if it exists.")] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit code 1 if OUT still holds a masked string in a spelling that is compared, "
            "or if the annotation cuts words.",
        ),
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", help="Also write the counts to this JSON file.", callback=json_to_write
        ),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Write records with their personal data masked.

    Styles: mask writes [MASK], asterisks as many as there were characters, label the kind as
    <PERSON>, pseudonym something invented of the same kind, the same for the same. Records with a
    pii list are masked by it; in others the detector looks. What neither marked stays in OUT.
    Options of the detector are set as --set NAME.OPTION=VALUE.
    """
    from fedaudit.data import scrubbing
    from fedaudit.data.corpus import EMPTY, empty_caveat, unread_caveat

    set_, _ = settings.split(detector, ())
    request = scrubbing.ScrubRequest(
        source=source,
        out=out,
        style=style,
        detector=detector,
        options=settings_by_plugin(set_, "detector in use", [detector]).get(detector, {}),
        only=tuple(only or ()),
        excluding=tuple(excluding or ()),
        template=template,
        seed=seed,
        force=force,
    )
    scrubbing.check(request)
    _check_json(json, request)
    with progress_bars(quiet) as bar:
        done = scrubbing.scrub(request, bar)
    if json:
        _save(json, request, done)
    print_lines(_facts(request, done))
    for line in done.cut:
        print_note(f"{line}.", quiet=quiet and not strict)  # the reason for exit code 1
    for line in empty_caveat(request.source, done.unread):
        print_note(f"{line}.", quiet=quiet)
    fields = {name: count for name, count in done.unread.items() if name != EMPTY}
    for line in unread_caveat(request.source, fields):
        print_note(f"{line}; scrub keeps them and masks the PII in their text.", quiet=quiet)
    if done.numbers:
        counts = sorted(done.numbers.items())
        listed = ", ".join(f"{name!r} ({count_of(n, 'record')})" for name, n in counts)
        print_note(
            f"Not masked, for they are numbers rather than text: {listed}. Write them as text to "
            "have them masked.",
            quiet=quiet,
        )
    left = [done.remaining, done.pii_in_ids, done.people_as_fields, done.cut, done.numbers]
    return 1 if strict and any(left) else 0


def _check_json(json: Path | None, request: "ScrubRequest") -> None:
    if json is None:
        return
    if json.resolve() in (request.source.resolve(), request.out.resolve()):
        raise InputError(f"{json} cannot hold both the records and the counts.")
    existing_parent(json.absolute().parent)


def _save(path: Path, request: "ScrubRequest", done: "ScrubResult") -> None:
    from fedaudit.data.scrubbing import table
    from fedaudit.report.document import dumps

    write_output(path, dumps(table(request, done)), COUNTS)


def _facts(request: "ScrubRequest", done: "ScrubResult") -> Iterator[str]:
    pieces = count_of(sum(done.masked.values()), "piece")
    records = count_of(done.records, "record")
    yield f"{request.out}: {records}, {pieces} of PII masked ({request.style})"
    yield from _label_facts(done)
    if done.annotated:
        records = count_of(done.annotated, "record")
        yield f"Masked by the data's own annotation alone: {records}."
    if done.partly_annotated:
        yield (
            f"In {done.partly_annotated:,} of them, the detector also searched the other fields."
        )
    if done.annotation and done.records == done.annotated:
        yield f"The detector: {done.annotation}."
    elif done.annotation:
        records = count_of(done.records - done.annotated, "record")
        yield f"Annotated by {done.annotation}: {records}."
    masked = (
        "1 string that was masked"
        if done.strings == 1
        else f"{done.strings:,} different strings that were masked"
    )
    if done.remaining:
        yield (
            f"Still there: of {masked}, {done.remaining:,} are elsewhere in OUT, unmarked or as a "
            "part of other words."
        )
        if done.respelt:
            yield (
                f"Of these, {done.respelt:,} only in other spellings: escaped or encoded, "
                "transliterated, in another case or width, with characters that look alike, "
                "invisible ones, or other marks between words."
            )
    elif done.strings:
        yield (
            f"Of {masked}, none is in OUT: neither as it was nor encoded, transliterated, in other "
            "case, in look-alikes, or with other marks between words."
        )
    if done.strings:
        yield (
            "Not compared: nicknames, initials, names in another script, dates and numbers written "
            "otherwise (in words, in another order, without a country code), and encrypted, "
            "compressed or hexadecimal data."
        )
    if done.pii_in_ids:
        yield f"Not masked: ids, groups or tasks with PII in {count_of(done.pii_in_ids, 'record')}."
    if done.people_as_fields:
        records = count_of(done.people_as_fields, "record")
        yield f"Not masked: names of fields that are names of people in {records}."
    yield "PII that no one marked and the detector did not find is in OUT unchanged."


def _label_facts(done: "ScrubResult") -> Iterator[str]:
    from fedaudit.pii.taxonomy import category

    width = max(map(len, (*done.masked, *done.kept)), default=0)
    for status, counts in (("masked", done.masked), ("kept", done.kept)):
        for label, count in counts.items():
            yield f"  {status:<6} {label:<{width}} {count:>9,}"
    unknown = sorted(label for label in {*done.masked, *done.kept} if category(label) is None)
    if unknown:
        yield f"In no category of the taxonomy: {', '.join(unknown)}."
