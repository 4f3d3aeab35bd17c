"""Choosing how prompts begin, from the likelihood of text that the auditor knows.

Leaving out the token with which training texts began can hide most of a leak, and so can adding it
to a crop from the middle of a document. So prompts at the start of a text and crops are measured
separately.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.abilities import why_lacking
from fedaudit.api.engine import Engine, text_start
from fedaudit.api.records import PromptStart, Target
from fedaudit.extraction.prefixes import PiiOccurrence

SAMPLE = 128
"""The maximum number of known texts of each kind to score."""

LONGEST = 32
"""The maximum number of tokens of a PII string to score."""


@dataclass(frozen=True, slots=True)
class PromptStartScores:
    """The chosen prompt starts, and the mean ln p per token of known PII after each of them."""

    chosen: PromptStart
    start: Mapping[str, float]
    middle: Mapping[str, float]

    def table(self) -> dict[str, object]:
        """Return the report's table."""
        return {
            "start": self.chosen.start,
            "middle": self.chosen.middle,
            "log_likelihood": {"start": dict(self.start), "middle": dict(self.middle)},
        }


def choose_prompt_start(
    engine: Engine, target: Target, occurrences: Sequence[PiiOccurrence]
) -> PromptStartScores:
    """Return the prompt starts after which the auditor's own PII is likeliest under `target`.

    Without known PII of a kind, or with an engine that cannot score, a text gets the BOS token if
    the tokenizer adds special tokens to texts, and a crop gets none.
    """
    names = sorted(engine.prompt_starts.keys() - {"text"}, key=_preference)
    untold = "bos" if text_start(engine) and "bos" in names else "bare"
    if why_lacking(engine, {"score"}):
        occurrences = ()
    scores = {}
    for at_start in (True, False):
        candidates = sorted(
            {p for p in occurrences if p.at_start is at_start and p.tokens}, key=_order
        )
        sample = candidates[:: -(-len(candidates) // SAMPLE)] if candidates else []
        scores[at_start] = {
            name: _mean(engine, target, engine.prompt_starts[name], sample)
            for name in names
            if sample
        }
    chosen = PromptStart(
        start=_best(scores[True], untold),
        middle=_best(scores[False], "bare"),
    )
    return PromptStartScores(chosen, scores[True], scores[False])


def _mean(
    engine: Engine, target: Target, begin: Sequence[int], occurrences: Sequence[PiiOccurrence]
) -> float:
    """Return the mean ln p of the PII's tokens after `begin` and their prefix."""
    rows = engine.score(target, [(*begin, *p.prefix, *p.tokens[:LONGEST]) for p in occurrences])
    values = [
        value
        for occurrence, row in zip(occurrences, rows, strict=True)
        for value in row[len(row) - len(occurrence.tokens[:LONGEST]) :]
    ]
    return sum(values) / len(values)


def _best(scores: Mapping[str, float], otherwise: str) -> str:
    return max(scores, key=lambda name: scores[name]) if scores else otherwise


def _preference(name: str) -> int:
    """Return a sort key, so that of two equally likely prompt starts the ordinary one is chosen."""
    return ("bos", "bare", "template").index(name)


def _order(occurrence: PiiOccurrence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return occurrence.prefix, occurrence.tokens
