"""Which copies of a client's canaries training learns from, told from its batches."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.errors import unknown_name_error
from fedaudit.canaries.canary_file import CanarySet

IGNORED = -100
"""The label of a token that the loss leaves out."""

SHOWN_CANARIES = 8
"""Canaries that are named one by one."""

Decode = Callable[[Sequence[int]], str]
TrainedTokens = tuple[Sequence[int], Sequence[int]]
"""The tokens of one row of a batch, and its labels, as transformers has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryCoverage:
    """What became of one canary's copies; each copy is counted once."""

    number: int
    """Its place in the file, from 1."""
    planned: int
    learned: int = 0
    """The loss is over its secret, and the sentence stands before it."""
    cut: int = 0
    """The loss is over its secret, but the beginning of the sentence is missing."""
    masked: int = 0
    """The model reads the secret; the loss leaves it out."""

    @property
    def missing(self) -> int:
        """Copies that no batch has: truncated, dropped as duplicates, or of a form not read."""
        return max(0, self.planned - self.learned - self.cut - self.masked)

    @property
    def is_whole(self) -> bool:
        """Whether training learns from as many copies as were planned."""
        return self.learned >= self.planned


def loss_coverage(
    canaries: CanarySet, client: str, rows: Iterable[TrainedTokens], decode: Decode
) -> list[CanaryCoverage]:
    """Return how many copies of each of a client's canaries receive loss in one epoch's rows.

    Texts are compared as the tokenizer decodes them, without their white space: so it does not
    matter how a corpus was tokenised, packed or padded. Raises UsageError for a client that was
    given none.
    """
    numbered_canaries = [(n, c) for n, c in enumerate(canaries.canaries, 1) if c.client == client]
    numbered_canaries = [(n, c) for n, c in numbered_canaries if c.times]
    if not numbered_canaries:
        clients = dict.fromkeys(canary.client for canary in canaries.planted)
        raise unknown_name_error("client of the canaries", client, clients)
    named = {
        _drop_spaces(canary.secret): (number, _drop_spaces(canary.prefix))
        for number, canary in numbered_canaries
    }
    # The longest first, so that no secret is found inside another one.
    secrets = re.compile("|".join(map(re.escape, sorted(named, key=len, reverse=True))))
    learned, cut, masked = Counter[int](), Counter[int](), Counter[int]()
    for ids, labels in rows:
        read = _drop_spaces(decode(list(ids)))
        if not (copy_counts := Counter(secrets.findall(read))):
            continue
        runs = [_drop_spaces(decode(run)) for run in _learned_runs(ids, labels)]
        with_loss = Counter(secret for run in runs for secret in secrets.findall(run))
        for secret, copies in copy_counts.items():
            number, prefix = named[secret]
            complete_copies = min(with_loss[secret], read.count(prefix + secret))
            learned[number] += complete_copies
            cut[number] += with_loss[secret] - complete_copies
            masked[number] += max(0, copies - with_loss[secret])
    return [
        CanaryCoverage(
            number=number,
            planned=canary.times,
            learned=learned[number],
            cut=cut[number],
            masked=masked[number],
        )
        for number, canary in numbered_canaries
    ]


def _learned_runs(ids: Sequence[int], labels: Sequence[int]) -> Iterator[list[int]]:
    """Yield the tokens that the loss is over, each unbroken run of them by itself.

    The first token of a row is foretold by nothing, so it is never learned.
    """
    run: list[int] = []
    for index, (token, label) in enumerate(zip(ids, labels, strict=True)):
        if index and label != IGNORED:
            run.append(token)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _drop_spaces(text: str) -> str:
    return "".join(text.split())


def describe(coverages: Sequence[CanaryCoverage], client: str) -> str:
    """Return in a few words what becomes of a client's canaries; no secret is in it."""
    planned, learned = sum(c.planned for c in coverages), sum(c.learned for c in coverages)
    text = f"Training on {client}'s records learns {learned:,} of {planned:,} copies of canaries"
    reasons = {
        "stand without the beginning of their sentence": sum(c.cut for c in coverages),
        "are read, but masked from the loss": sum(c.masked for c in coverages),
        "are in no batch": sum(c.missing for c in coverages),
    }
    why = "; ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    short = [c for c in coverages if not c.is_whole]
    named = ", ".join(f"{c.number} ({c.learned} of {c.planned})" for c in short[:SHOWN_CANARIES])
    tail = f" and {len(short) - SHOWN_CANARIES} others" if len(short) > SHOWN_CANARIES else ""
    return f"{text}.{f' Of the others {why}.' if why else ''}" + (
        f" Canaries by their place in the file: {named}{tail}." if short else ""
    )
