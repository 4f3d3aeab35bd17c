"""Overlap of a generated text with a training text: verbatim, as an idea, or paraphrased."""

from fedaudit.metrics.overlap.classifier import (
    Overlap,
    Verdict,
    compare,
    compare_prepared,
)
from fedaudit.metrics.overlap.prepared_text import PreparedText, prepare_text, prepare_texts

from .paraphrase import (
    CachedScores,
    Category,
    EntityFinder,
    Paraphrase,
    ParaphraseScorer,
    SentencePair,
    hit_categories,
    paraphrases,
    sentence_pairs,
)
from .sentences import SPLITTER
from .settings import DEFAULT, ORIGINAL, OverlapSettings

__all__ = [
    "DEFAULT",
    "ORIGINAL",
    "SPLITTER",
    "CachedScores",
    "Category",
    "EntityFinder",
    "Overlap",
    "OverlapSettings",
    "Paraphrase",
    "ParaphraseScorer",
    "PreparedText",
    "SentencePair",
    "Verdict",
    "compare",
    "compare_prepared",
    "hit_categories",
    "paraphrases",
    "prepare_text",
    "prepare_texts",
    "sentence_pairs",
]
