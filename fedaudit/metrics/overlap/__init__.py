"""What a generated text has of a training text: word for word, as an idea, or paraphrased.

* `classifier`: Classifies overlaps: word for word, as an idea, or a candidate for paraphrase.
* `filtering`: Drops passages that overlap in the training text, and those that are too short.
* `paraphrase`: Candidates that say the same in other words: a paraphrase scorer and an entity
  finder decide.
* `passages`: Seeds that lie near each other become passages.
* `prepared_text`: A text made ready for comparing: its units, their terms, and where they stand.
* `punkt`: The decisions of the Punkt sentence splitter (Kiss and Strunk 2006), with its English
  model.
* `seeds`: Which sentences of two texts are alike: one sparse product over their common terms.
* `sentences`: Texts into sentences: Punkt for alphabets, punctuation marks for Chinese.
* `settings`: The thresholds of the detector, and whether the original's defects are reproduced.
* `stemming`: NLTK's Porter stems, without the steps that a word's ending rules out.
* `tokenization`: Words and terms of a sentence, remembered by the piece between two spaces.
* `treebank`: Words as in the Penn Treebank: the rules of NLTK's TreebankWordTokenizer, in its
  order.
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
