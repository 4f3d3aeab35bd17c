"""What a generated text has of a training text: word for word, as an idea, or paraphrased."""

from .decision import Overlap, Steps, Verdict, compare, compare_prepared, explain
from .paraphrase import (
    Category,
    EntityFinder,
    Paraphrase,
    ParaphraseScorer,
    Scores,
    SentencePair,
    categories,
    paraphrases,
    sentence_pairs,
)
from .prepared import Prepared, prepare
from .sentences import splitter
from .settings import DEFAULT, ORIGINAL, Settings

__all__ = [
    "DEFAULT",
    "ORIGINAL",
    "Category",
    "EntityFinder",
    "Overlap",
    "Paraphrase",
    "ParaphraseScorer",
    "Prepared",
    "Scores",
    "SentencePair",
    "Settings",
    "Steps",
    "Verdict",
    "categories",
    "compare",
    "compare_prepared",
    "explain",
    "paraphrases",
    "prepare",
    "sentence_pairs",
    "splitter",
]
