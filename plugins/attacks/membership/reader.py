"""What the models say of every record that is long enough."""

from collections.abc import Sequence
from dataclasses import replace

from fedaudit.api import AttackContext, Document, Tokens, TokenStatistics

from . import neighbours
from .scored_record import ScoredRecord


def read_records(
    context: AttackContext,
    documents: Sequence[Document],
    *,
    tokens: int,
    shortest: int,
    near: int = 0,
) -> list[ScoredRecord]:
    """Return the records of `shortest` tokens or more, as all models read their first `tokens`.

    `near` is how many neighbours of each are read as well.
    """
    begin = len(context.with_start((), at_start=True))
    room = min(tokens, context.engine.context_length - begin)
    tokenized = context.engine.tokenize([document.text for document in documents])
    cut = [
        (document, _text(document, encoding, room), encoding.ids[:room])
        for document, encoding in zip(documents, tokenized, strict=True)
        if len(encoding.ids[:room]) >= shortest
    ]
    sequences = [context.with_start(ids, at_start=True) for *_, ids in cut]
    progress = context.progress("reading records")
    tuned = context.engine.token_statistics(context.tuned, sequences, progress=progress)
    base: Sequence[Sequence[float] | None] = [None] * len(cut)
    if context.base is not None:
        base = context.engine.score(
            context.base, sequences, progress=context.progress("their base")
        )
    without: Sequence[TokenStatistics | None] = [None] * len(cut)
    if context.counterfactual is not None:
        progress = context.progress(f"their model {context.counterfactual.name}")
        without = context.engine.token_statistics(
            context.counterfactual, sequences, progress=progress
        )
    rounds = {
        number: context.engine.score(model, sequences, progress=context.progress(model.name))
        for number, model in context.rounds.items()
    }
    references = [
        context.engine.score(
            reference.target, sequences, progress=context.progress(reference.target.name)
        )
        for reference in context.references
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
    return _with_neighbours(context, read, [ids for *_, ids in cut], near)


def _text(document: Document, encoding: Tokens, room: int) -> str:
    """Return the part of a record's text that is read."""
    if len(encoding.ids) <= room:
        return document.text
    return document.text[: encoding.offsets[room - 1][1]]


def _with_neighbours(
    context: AttackContext, read: Sequence[ScoredRecord], ids: Sequence[Sequence[int]], count: int
) -> list[ScoredRecord]:
    """Return the records with the tuned model's scores of `count` neighbours of each."""
    if not count:
        return list(read)
    every = neighbours.dictionary(ids)
    rows = [
        context.with_start(text, at_start=True)
        for record_ids in ids
        for text in neighbours.sample_neighbours(record_ids, every, count=count, seed=context.seed)
    ]
    scored = context.engine.score(
        context.tuned, rows, progress=context.progress("their neighbours")
    )
    return [
        replace(record, neighbours=scored[index * count : (index + 1) * count])
        for index, record in enumerate(read)
    ]
