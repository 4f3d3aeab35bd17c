"""Scoring made-up examples: what each answer costs with its prompt and without (FewFedPIT, 3.3)."""

from collections.abc import Sequence

from fedaudit.api import Engine, Target, text_start

from .selection_criteria import Losses, losses


def scores(engine: Engine, target: Target, pairs: Sequence[tuple[str, str]]) -> list[Losses | None]:
    """Return the losses of every (prompt, answer), scored in batches, two sequences a pair.

    Both begin as the tokenizer begins a text, and hold the answer as it is tokenised by itself, so
    that the two losses are of the same tokens. Without a token that begins texts, the answer's
    first is behind nothing and counts in neither. None for an answer without a token to score, and
    for a pair that the model's context does not hold.
    """
    begin = text_start(engine)
    prompts = [tokens.ids for tokens in engine.tokenize([prompt for prompt, _ in pairs])]
    answers = [tokens.ids for tokens in engine.tokenize([answer for _, answer in pairs])]
    sequences = [(*begin, *x, *y) for x, y in zip(prompts, answers, strict=True)]
    fits = [i for i, sequence in enumerate(sequences) if len(sequence) <= engine.context_length]
    direct_sequences = [(*begin, *answers[i]) for i in fits]
    rows = engine.score(target, [*(sequences[i] for i in fits), *direct_sequences])
    results: list[Losses | None] = [None] * len(pairs)
    for position, index in enumerate(fits):
        behind, direct = rows[position], rows[len(fits) + position]
        results[index] = losses(behind[len(behind) - len(direct) :], direct)
    return results
