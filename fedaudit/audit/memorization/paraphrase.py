"""The paraphrase stage, in which a sentence scorer and an entity finder judge candidates."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fedaudit.api.plugin import Paraphraser, PiiDetector
from fedaudit.metrics.overlap import (
    CachedScores,
    Category,
    Overlap,
    hit_categories,
    paraphrases,
    sentence_pairs,
)

Overlaps = Mapping[tuple[str, str], Overlap]
"""By (suffix, continuation)."""

OFF = (
    "Paraphrases were not looked for: no scorer was named with --paraphraser. Passages that are "
    "similar without being copied or expanded do not count."
)


@dataclass(frozen=True)
class Entities:
    """An entity finder that returns the strings a PII detector finds, with a cache."""

    detector: PiiDetector
    cache: dict[str, frozenset[str]] = field(default_factory=dict)

    def find(self, texts: Sequence[str]) -> Sequence[Collection[str]]:
        """Return the entities of each text."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self.cache]:
            for text, spans in zip(missing, self.detector.detect(missing), strict=True):
                self.cache[text] = frozenset(text[span.start : span.end] for span in spans)
        return [self.cache[text] for text in texts]


def pair_categories(
    overlaps: Overlaps,
    scorer: Paraphraser | None,
    detector: Callable[[], PiiDetector],
    *,
    compat: bool,
) -> dict[tuple[str, str], tuple[Category, ...]]:
    """Return the categories of each (suffix, continuation) pair, without pairs that have none."""
    if scorer is None:
        categories = {pair: hit_categories(overlap) for pair, overlap in overlaps.items()}
        return {pair: names for pair, names in categories.items() if names}
    pairs = {
        pair: None
        for (suffix, text), overlap in overlaps.items()
        for pair in sentence_pairs(suffix, text, overlap, compat=compat)
    }
    scores = CachedScores(dict(zip(pairs, map(float, scorer.score(list(pairs))), strict=True)))
    finder = Entities(detector())
    finder.find([s.lower() if compat else s for s in dict.fromkeys(s for p in pairs for s in p)])
    categories = {
        (suffix, text): hit_categories(
            overlap, paraphrases(suffix, text, overlap, scores, finder, compat=compat)
        )
        for (suffix, text), overlap in overlaps.items()
    }
    return {pair: names for pair, names in categories.items() if names}


def paraphrase_caveats(scorer: Paraphraser | None, detector: Callable[[], PiiDetector]) -> str:
    """Return the report's caveat about this stage."""
    if scorer is None:
        return OFF
    return (
        f"Paraphrases were judged by {scorer.describe()}. Two sentences count as the same only if "
        "the entities of one are among those of the other; they were found by "
        f"{detector().describe()}."
    )
