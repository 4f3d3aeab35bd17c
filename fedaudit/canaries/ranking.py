"""How likely a model finds each secret among all, or a sample, of its space.

Carlini et al. 2019, section 4: the log-perplexity of the sentence with each secret in its place.
The text after the secret is left out.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.engine import Engine
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Target
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.canaries.kinds import SECRET


@dataclass(frozen=True, slots=True)
class SlotReferences:
    """What stands in one sentence: its canaries, and secrets that no one was given."""

    text: str
    canaries: tuple[Canary, ...]
    references: tuple[str, ...]

    def secrets(self) -> tuple[str, ...]:
        """Return every secret that is scored, once."""
        return tuple(dict.fromkeys((*(c.secret for c in self.canaries), *self.references)))


@dataclass(frozen=True, slots=True)
class ScoredCanary:
    """A secret's log-probability in nats, and those of the references that it is ranked among."""

    canary: Canary
    score: float
    references: tuple[float, ...]


def is_enumerable(canaries: CanarySet, limit: int) -> bool:
    """Tell whether so few secrets are in the space that each is scored."""
    return canaries.space.size <= limit


def slot_references(
    canaries: CanarySet, *, limit: int, count: int, seed: int
) -> list[SlotReferences]:
    """Return the references of every sentence: the whole space up to `limit`, else `count` of it.

    No reference was given to anybody in any sentence. So a ranked secret that was never trained on
    has every rank with the same probability. A sample contains no control either, and depends only
    on the sentence and the seed. Raises ValueError if the space has too few secrets.
    """
    planted_secrets = {canary.secret for canary in canaries.planted}
    all_secrets = {canary.secret for canary in canaries.canaries}
    is_whole = is_enumerable(canaries, limit)
    unplanted = tuple(s for s in canaries.space if s not in planted_secrets) if is_whole else ()
    slots = []
    for text in dict.fromkeys(canary.text for canary in canaries.canaries):
        slot_canaries = tuple(c for c in canaries.canaries if c.text == text)
        rng = random.Random(f"references {seed} {text}")
        references = unplanted or tuple(canaries.space.sample(count, rng, all_secrets))
        slots.append(SlotReferences(text, slot_canaries, references))
    return slots


def score(
    engine: Engine,
    target: Target,
    slots: Sequence[SlotReferences],
    *,
    begin: Sequence[int] = (),
    heading: str = "",
    progress: Progress = no_progress,
) -> list[ScoredCanary]:
    """Return the scores that `target` gives every canary and its references.

    Every sentence is preceded by the tokens `begin` and then the text `heading`.
    """
    groups = [_rows(engine, slot, begin, heading) for slot in slots]
    answers = engine.score_groups(target, groups, progress=progress)
    scored = []
    for slot, rows in zip(slots, answers, strict=True):
        scores = dict(zip(slot.secrets(), map(sum, rows), strict=True))
        all_scores = tuple(scores[reference] for reference in slot.references)
        indices = {reference: i for i, reference in enumerate(slot.references)}
        for canary in slot.canaries:
            index = indices.get(canary.secret)
            references = (
                all_scores if index is None else all_scores[:index] + all_scores[index + 1 :]
            )
            scored.append(ScoredCanary(canary, scores[canary.secret], references))
    return scored


def _rows(
    engine: Engine, slot: SlotReferences, begin: Sequence[int], heading: str
) -> list[tuple[int, ...]]:
    """Return the sentence with each secret, up to the last token of the secret.

    The tokens are those of the whole sentence, as in training.
    """
    secrets = slot.secrets()
    start = len(heading) + slot.text.index(SECRET)
    tokenized = engine.tokenize([heading + slot.text.replace(SECRET, secret) for secret in secrets])
    return [
        (
            *begin,
            *(
                token
                for token, (first, _) in zip(tokens.ids, tokens.offsets, strict=True)
                if first < start + len(secret)
            ),
        )
        for secret, tokens in zip(secrets, tokenized, strict=True)
    ]
