"""Which made-up examples are trained on, and how near to the client's own they are."""

from collections.abc import Sequence

from fedaudit.api import Document, Engine, PromptTemplate, Target

from .filter_counts import FilterCounts
from .generation import GeneratedExamples, Recipe
from .instruction_following import scores
from .selection_criteria import Losses, Method, select_examples
from .similarity import SimilarityIndex, whole_text


def select_candidates(
    engine: Engine,
    target: Target,
    template: PromptTemplate,
    candidates: Sequence[Document],
    *,
    keep: int,
    method: Method = "ifs",
    seed: int = 0,
) -> list[Document]:
    """Return the `keep` candidates that `method` prefers under `target`, in the order they came in.

    Training uses that order and not the score's, so that it depends only on which candidates are
    kept. A candidate that the model's context does not hold is never kept.
    """
    losses: Sequence[Losses | None] = [Losses(0.0, 0.0)] * len(candidates)
    if method != "random":  # which looks at no score
        pairs = [(template.prompt(d.instruction, d.input), d.output) for d in candidates]
        losses = scores(engine, target, pairs)
    keys = [whole_text(candidate) for candidate in candidates]
    return [
        candidates[i] for i in sorted(select_examples(losses, keep, method, keys=keys, seed=seed))
    ]


def count_selection(
    generation: GeneratedExamples,
    selected: Sequence[Document],
    examples: Sequence[Document],
    recipe: Recipe,
) -> FilterCounts:
    """Return the counts of a round that keeps `selected` of what was made from `examples`."""
    text_index, answers = (
        SimilarityIndex(map(whole_text, examples)),
        SimilarityIndex(d.output for d in examples),
    )
    counts = generation.counts
    counts.drop("selection", len(generation.candidates) - len(selected))
    counts.highest = max((text_index(whole_text(example)) for example in selected), default=0.0)
    counts.alike = sum(answers(example.output) > recipe.similarity for example in selected)
    return counts
