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

    That order, and not the score's, goes into training: what is trained on then follows from which
    are kept alone. A candidate that the model's context does not hold is never kept.
    """
    found: Sequence[Losses | None] = [Losses(0.0, 0.0)] * len(candidates)
    if method != "random":  # which looks at no score
        pairs = [(template.prompt(d.instruction, d.input), d.output) for d in candidates]
        found = scores(engine, target, pairs)
    keys = [whole_text(candidate) for candidate in candidates]
    return [
        candidates[i] for i in sorted(select_examples(found, keep, method, keys=keys, seed=seed))
    ]


def count_selection(
    made: GeneratedExamples, some: Sequence[Document], examples: Sequence[Document], recipe: Recipe
) -> FilterCounts:
    """Return the tally of a round that keeps `some` of what was made from `examples`."""
    known, answers = (
        SimilarityIndex(map(whole_text, examples)),
        SimilarityIndex(d.output for d in examples),
    )
    tally = made.tally
    tally.drop("selection", len(made.candidates) - len(some))
    tally.highest = max((known(whole_text(one)) for one in some), default=0.0)
    tally.alike = sum(answers(one.output) > recipe.similarity for one in some)
    return tally
