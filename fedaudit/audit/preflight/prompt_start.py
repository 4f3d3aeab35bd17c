"""How a prompt should begin, measured on text that the auditor knows.

Leaving out the token that training texts began with can hide most of a leak, and putting one
before a crop from a document's middle can too: so both are measured, each for itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedaudit.api.abilities import why_lacking
from fedaudit.api.engine import Engine, text_start
from fedaudit.api.records import PromptStart, Target
from fedaudit.extraction.prefixes import PiiOccurrence

SAMPLE = 128
"""At most this many known texts of each kind are scored."""

LONGEST = 32
"""At most this many tokens of a PII are scored."""


@dataclass(frozen=True, slots=True)
class PromptStartScores:
    """The chosen prompt starts, and the mean log-likelihood of the known PII under each."""

    chosen: PromptStart
    start: Mapping[str, float]
    middle: Mapping[str, float]

    def table(self) -> dict[str, object]:
        """Return what the report says."""
        return {
            "start": self.chosen.start,
            "middle": self.chosen.middle,
            "log_likelihood": {"start": dict(self.start), "middle": dict(self.middle)},
        }


def choose_prompt_start(
    engine: Engine, target: Target, occurrences: Sequence[PiiOccurrence]
) -> PromptStartScores:
    """Return the prompt starts under which `target` finds the auditor's own PII likeliest.

    Without known PII of a kind, or an engine that scores, a text begins as the tokenizer begins it
    and a crop bare.
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
    """Return the mean log-probability of the PII's tokens behind `begin` and their prefix."""
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
    """Order prompt starts so that of two equals the ordinary one is chosen."""
    return ("bos", "bare", "template").index(name)


def _order(occurrence: PiiOccurrence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return occurrence.prefix, occurrence.tokens
