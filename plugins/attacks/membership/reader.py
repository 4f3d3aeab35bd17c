"""What the models say of every record that is long enough.

Texts near a record: the same with a few tokens that are drawn at random.

Mattern et al. 2023 (arXiv:2305.18462) have a masked language model write them. This is the form of
their published re-implementation (MIMIR, Duan et al. 2024) that needs no second model: a token is
replaced with a probability of 0.15 by one drawn evenly from a dictionary, here of all tokens of the
records that are compared.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedaudit.api import AttackContext, Document, Target, Tokens, TokenStatistics
from fedaudit.metrics.privacy.read_part import tokens_to_read

from .scored_record import ScoredRecord


def read_records(
    context: AttackContext,
    documents: Sequence[Document],
    *,
    tokens: int,
    shortest: int,
    near: int = 0,
) -> list[ScoredRecord]:
    """Return the records of `shortest` tokens or more, as all models read them.

    Of each as much is read as fits into the context and as training read, but at most `tokens`
    unless those are 0. `near` is how many neighbours of each are read as well.
    """
    begin = len(context.with_start((), at_start=True))
    room = tokens_to_read(
        context.engine.context_length, begin, trained=context.trained_tokens, most=tokens
    )
    tokenized = context.engine.tokenize([document.text for document in documents])
    cut = [
        (document, _text(document, encoding, room), encoding)
        for document, encoding in zip(documents, tokenized, strict=True)
        if len(encoding.ids[:room]) >= shortest
    ]
    rows = [encoding.ids[:room] for *_, encoding in cut]
    sequences = [context.with_start(ids, at_start=True) for ids in rows]

    def score(target: Target, title: str) -> Sequence[Sequence[float]]:
        return context.engine.score(target, sequences, progress=context.progress(title))

    def statistics(target: Target, title: str) -> Sequence[TokenStatistics]:
        return context.engine.token_statistics(target, sequences, progress=context.progress(title))

    tuned = statistics(context.tuned, "reading records")
    base = None if context.base is None else score(context.base, "their base")
    left_out = context.counterfactual
    without = None if left_out is None else statistics(left_out, f"their model {left_out.name}")
    rounds = {number: score(model, model.name) for number, model in context.rounds.items()}
    references = [score(one.target, one.target.name) for one in context.references]
    read = [
        ScoredRecord(
            document,
            text,
            tuned[index],
            None if base is None else base[index],
            None if without is None else without[index],
            {number: scored[index] for number, scored in rounds.items()},
            [scored[index] for scored in references],
            ids=rows[index],
            length=len(encoding.ids),
        )
        for index, (document, text, encoding) in enumerate(cut)
    ]
    return _with_neighbours(context, read, rows, near)


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
    every = dictionary(ids)
    rows = [
        context.with_start(text, at_start=True)
        for record_ids in ids
        for text in sample_neighbours(record_ids, every, count=count, seed=context.seed)
    ]
    scored = context.engine.score(
        context.tuned, rows, progress=context.progress("their neighbours")
    )
    return [
        replace(record, neighbours=scored[index * count : (index + 1) * count])
        for index, record in enumerate(read)
    ]


SHARE = 0.15
"""How likely a token is replaced: a share of 0.3 masked, in spans of 2 with 1 left on each side."""

Ids = tuple[int, ...]


def dictionary(texts: Iterable[Sequence[int]]) -> Ids:
    """Return every token of some texts once, in order."""
    return tuple(sorted({token for text in texts for token in text}))


def sample_neighbours(
    text: Sequence[int], tokens: Sequence[int], *, count: int, seed: int
) -> list[Ids]:
    """Return `count` texts near one; they depend on it, the dictionary and the seed alone."""
    rng = random.Random(f"neighbours {seed} {tuple(text)}")
    return [
        tuple(rng.choice(tokens) if rng.random() < SHARE else token for token in text)
        for _ in range(count)
    ]
