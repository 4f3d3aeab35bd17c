"""Overlap of a generated text with a training text: verbatim, as an idea, or paraphrased.

* `classifier`: Classifies overlaps as verbatim, as an idea, or as a candidate for paraphrase.
* `filtering`: Filtering passages: drops those that overlap in the training text, and short ones.
* `paraphrase`: Paraphrases among candidate passages, decided by a paraphrase scorer and an entity
  finder.
* `passages`: Passages, which are formed from seeds that are close to each other.
* `prepared_text`: A text prepared for comparison: its units, their terms, and their positions.
* `punkt`: The decisions of the Punkt sentence splitter (Kiss and Strunk 2006), with its English
  model.
* `seeds`: Similar units of two texts (seeds), from one sparse product over their common terms.
* `sentences`: Splitting texts into sentences: by Punkt, and for Chinese by punctuation marks.
* `settings`: The thresholds of the detector, and whether the original's defects are reproduced.
* `stemming`: NLTK's Porter stemmer, which skips the steps that cannot change a word of its ending.
* `tokenization`: Words and terms of a sentence, with a cache of the pieces between two spaces.
* `treebank`: Penn Treebank tokenization: the rules of NLTK's TreebankWordTokenizer, in its order.
* `word_runs`: Common runs of words, found by hashing.
"""

from fedaudit.metrics.overlap.classifier import (
    Overlap,
    OverlapSteps,
    Verdict,
    compare,
    compare_prepared,
    explain,
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
from .sentences import splitter
from .settings import DEFAULT, ORIGINAL, OverlapSettings

__all__ = [
    "DEFAULT",
    "ORIGINAL",
    "CachedScores",
    "Category",
    "EntityFinder",
    "Overlap",
    "OverlapSettings",
    "OverlapSteps",
    "Paraphrase",
    "ParaphraseScorer",
    "PreparedText",
    "SentencePair",
    "Verdict",
    "compare",
    "compare_prepared",
    "explain",
    "hit_categories",
    "paraphrases",
    "prepare_text",
    "prepare_texts",
    "sentence_pairs",
    "splitter",
]
