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
    tokenized = case.engine.tokenize([document.text for document in documents])
    cut = [
        (document, _text(document, encoding, room), encoding.ids[:room])
        for document, encoding in zip(documents, tokenized, strict=True)
        if len(encoding.ids[:room]) >= shortest
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
        case.engine.score(
            reference.target, sequences, progress=case.progress(reference.target.name)
        )
        for reference in case.references
    ]
    read = [
        ScoredRecord(
            document,
            text,
            tuned[index],
            base[index],
            without[index],
            {number: rows[index] for number, rows in rounds.items()},
            [rows[index] for rows in references],
        )
        for index, (document, text, _) in enumerate(cut)
    ]
    return _with_neighbours(case, read, [ids for *_, ids in cut], near)


def _text(document: Document, encoding: Tokens, room: int) -> str:
    """Return the part of a record's text that is read."""
    if len(encoding.ids) <= room:
        return document.text
    return document.text[: encoding.offsets[room - 1][1]]


def _with_neighbours(
    case: AttackContext, read: Sequence[ScoredRecord], ids: Sequence[Sequence[int]], count: int
) -> list[ScoredRecord]:
    """Return the records with the tuned model's scores of `count` neighbours of each."""
    if not count:
        return list(read)
    every = neighbours.dictionary(ids)
    rows = [
        case.with_start(text, at_start=True)
        for record_ids in ids
        for text in neighbours.sample_neighbours(record_ids, every, count=count, seed=case.seed)
    ]
    scored = case.engine.score(case.tuned, rows, progress=case.progress("their neighbours"))
    return [
        replace(record, neighbours=scored[index * count : (index + 1) * count])
        for index, record in enumerate(read)
    ]
