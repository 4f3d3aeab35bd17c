"""Paraphrases among candidate passages, decided by a paraphrase scorer and an entity finder."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fedaudit.api.scripts import has_han
from fedaudit.metrics.overlap.classifier import Overlap
from fedaudit.metrics.overlap.word_runs import Run

from .sentences import sentences

Category = Literal["verbatim", "idea", "paraphrase_high", "paraphrase_low"]


class ParaphraseScorer(Protocol):
    """Scores pairs of sentences; provided by a plugin."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the probability, in [0, 1], that each (generated, training) pair says the same."""


class EntityFinder(Protocol):
    """Finds names, places, dates and similar strings; provided by a plugin."""

    def find(self, texts: Sequence[str]) -> Sequence[Collection[str]]:
        """Return the entities of each text, as strings."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A generated and a training sentence, with the probability that they say the same."""

    generated: str
    training: str
    probability: float


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """A candidate passage with a pair of sentences whose entities agree."""

    span: Run
    high: SentencePair | None
    """The first such pair with p > 0.5."""
    low: SentencePair | None
    """The first such pair with p <= 0.5, as published; only with `compat`."""


@dataclass(frozen=True)
class CachedScores:
    """A scorer that looks up probabilities, which were scored in one batch for many comparisons."""

    scores: Mapping[tuple[str, str], float]

    def score(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the stored probabilities; raises KeyError for an unknown pair."""
        return [self.scores[pair] for pair in pairs]


def sentence_pairs(
    training: str, generated: str, overlap: Overlap, *, compat: bool = False
) -> list[tuple[str, str]]:
    """Return the (generated, training) sentence pairs that `paraphrases` passes to a scorer."""
    if overlap.verdict != "candidate":
        return []
    pairs = [_pairs(training, generated, span, compat=compat) for span in overlap.spans]
    return [pair for group in pairs for pair in group if not _equal(*pair)]


def paraphrases(
    training: str,
    generated: str,
    overlap: Overlap,
    scorer: ParaphraseScorer,
    entities: EntityFinder,
    *,
    compat: bool = False,
) -> tuple[Paraphrase, ...]:
    """Return the passages of a candidate that contain a paraphrase (Lee et al. 2023, section 3).

    A pair of sentences counts if p > 0.5 and one set of entities contains the other; an empty set
    only agrees with an empty one. `compat` applies the published rules: pairs with p > 0.99 are
    skipped, p <= 0.5 counts as low, equal sentences get the score 0, entities are found in lower
    case, and a passage inherits the pairs of earlier passages. Other verdicts have no paraphrase.
    """
    if overlap.verdict != "candidate":
        return ()
    candidates = [_pairs(training, generated, span, compat=compat) for span in overlap.spans]
    scored = [_score_pairs(pairs, scorer, compat=compat) for pairs in candidates]
    if compat:
        scored = [[pair for group in scored[: k + 1] for pair in group] for k in range(len(scored))]
    finder = _Agreement(entities, lower=compat)
    passages = [
        Paraphrase(span, *_firsts(pairs, finder, compat=compat))
        for span, pairs in zip(overlap.spans, scored, strict=True)
    ]
    return tuple(p for p in passages if p.high or p.low)


def hit_categories(overlap: Overlap, passages: Sequence[Paraphrase] = ()) -> tuple[Category, ...]:
    """Return the categories of memorization for which a comparison counts; empty for no hit."""
    if overlap.verdict == "verbatim":
        return ("verbatim",)
    if overlap.verdict == "idea":
        return ("idea",)
    high, low = any(p.high for p in passages), any(p.low for p in passages)
    return (*(("paraphrase_high",) if high else ()), *(("paraphrase_low",) if low else ()))


def _pairs(training: str, generated: str, span: Run, *, compat: bool) -> list[tuple[str, str]]:
    """Return all (generated, training) pairs of a passage's sentences, by generated sentence."""
    ours = _sentence_texts(training[span[0] : span[1]], compat=compat)
    return [
        (sentence, counterpart)
        for sentence in _sentence_texts(generated[span[2] : span[3]], compat=compat)
        for counterpart in ours
    ]


def _score_pairs(
    pairs: list[tuple[str, str]], scorer: ParaphraseScorer, *, compat: bool
) -> list[SentencePair]:
    """Return pairs with their probabilities, without equal sentences, or with 0 if `compat`."""
    differing = [pair for pair in pairs if not _equal(*pair)]
    scores = iter(scorer.score(differing) if differing else ())
    scored_pairs = [(pair, 0.0 if _equal(*pair) else float(next(scores))) for pair in pairs]
    return [SentencePair(*pair, p) for pair, p in scored_pairs if compat or not _equal(*pair)]


def _sentence_texts(passage: str, *, compat: bool) -> list[str]:
    """Return the sentences of a passage without line breaks, which stay with `compat`."""
    passage = passage.replace("\0", " ")
    spans = sentences(passage, han=not compat and has_han(passage))
    texts = [passage[start:end] for start, end in spans]
    return texts if compat else [" ".join(text.split()) for text in texts]


def _equal(a: str, b: str) -> bool:
    return a.lower().strip() == b.lower().strip()


def _firsts(
    pairs: list[SentencePair], agree: "_Agreement", *, compat: bool
) -> tuple[SentencePair | None, SentencePair | None]:
    """Return the first high and the first low pair whose entities agree."""
    most = 0.99 if compat else 1.0
    high = [pair for pair in pairs if 0.5 < pair.probability <= most]
    low = [pair for pair in pairs if pair.probability <= 0.5] if compat else []
    first, second = (next((p for p in side if agree(p)), None) for side in (high, low))
    return first, second


@dataclass(frozen=True)
class _Agreement:
    """Tells whether one of two sentences contains all entities of the other."""

    finder: EntityFinder
    lower: bool

    def __call__(self, pair: SentencePair) -> bool:
        sides = [pair.generated, pair.training]
        entities = self.finder.find([side.lower() for side in sides] if self.lower else sides)
        generated, training = (
            {n if self.lower else n.casefold() for n in names} for names in entities
        )
        return generated == training or (
            bool(generated) and bool(training) and (generated <= training or training <= generated)
        )
