"""What the models say of every record that is long enough."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api import AttackContext, Document, Tokens, TokenStatistics

from . import neighbours
from .scored_record import ScoredRecord


def read_records(
    case: AttackContext,
    documents: Sequence[Document],
    *,
    tokens: int,
    shortest: int,
    near: int = 0,
) -> list[ScoredRecord]:
    """Return the records of `shortest` tokens or more, as all models read their first `tokens`.

    `near` is how many neighbours of each are read as well.
    """
    begin = len(case.with_start((), at_start=True))
    room = min(tokens, case.engine.context_length - begin)
    tokenized = case.engine.tokenize([one.text for one in documents])
    cut = [
        (document, _text(document, found, room), found.ids[:room])
        for document, found in zip(documents, tokenized, strict=True)
        if len(found.ids[:room]) >= shortest
    ]
    sequences = [case.with_start(ids, at_start=True) for *_, ids in cut]
    progress = case.progress("reading records")
    tuned = case.engine.token_statistics(case.tuned, sequences, progress=progress)
    base: Sequence[Sequence[float] | None] = [None] * len(cut)
    if case.base is not None:
        base = case.engine.score(case.base, sequences, progress=case.progress("their base"))
    without: Sequence[TokenStatistics | None] = [None] * len(cut)
    if case.counterfactual is not None:
        progress = case.progress(f"their model {case.counterfactual.name}")
        without = case.engine.token_statistics(case.counterfactual, sequences, progress=progress)
    rounds = {
        number: case.engine.score(model, sequences, progress=case.progress(model.name))
        for number, model in case.rounds.items()
    }
    references = [
        case.engine.score(one.target, sequences, progress=case.progress(one.target.name))
        for one in case.references
    ]
    read = [
        ScoredRecord(
            document,
            text,
            tuned[at],
            base[at],
            without[at],
            {number: rows[at] for number, rows in rounds.items()},
            [rows[at] for rows in references],
        )
        for at, (document, text, _) in enumerate(cut)
    ]
    return _with_neighbours(case, read, [ids for *_, ids in cut], near)


def _text(document: Document, found: Tokens, room: int) -> str:
    """Return as much of a record's text as is read."""
    if len(found.ids) <= room:
        return document.text
    return document.text[: found.offsets[room - 1][1]]


def _with_neighbours(
    case: AttackContext, read: Sequence[ScoredRecord], ids: Sequence[Sequence[int]], count: int
) -> list[ScoredRecord]:
    """Return the same with what the tuned model says of so many neighbours of each."""
    if not count:
        return list(read)
    every = neighbours.dictionary(ids)
    rows = [
        case.with_start(text, at_start=True)
        for own in ids
        for text in neighbours.near(own, every, count=count, seed=case.seed)
    ]
    scored = case.engine.score(case.tuned, rows, progress=case.progress("their neighbours"))
    return [
        replace(record, neighbours=scored[at * count : (at + 1) * count])
        for at, record in enumerate(read)
    ]
