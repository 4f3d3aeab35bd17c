"""What models say of a member's records after it left, before, and where it never was.

In a row's scope, `model` is "after", "before" or "retrained", the last with the `number` of the
model; `unit` is what is counted ("record", "group" or "canary"), `fpr` the share of held-out
records (or secrets that no client was given) that may stand as high, `others` how many there are,
and `limit` the share that may be left. `unread` is as for `watch.rounds`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from fedaudit.api.engine import LogProbabilities
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement, Target
from fedaudit.metrics.expected import samples_needed
from fedaudit.metrics.privacy import attributable_effect, retrain_distance
from fedaudit.watch.records import WatchedRecords
from fedaudit.watch.rounds import (
    CANARY,
    LEVEL,
    RoundScorer,
    RoundScores,
    bound_rows,
    exposure_row,
    obstacle_row,
)

KIND = "forget"
AFTER, BEFORE, RETRAINED = "after", "before", "retrained"
CONTINUED, SHORTEST = 50, 10
"""How many tokens of a record's second half have to come out, and how many there must be."""
DRAWS, CHANCE = 100, 0.5
"""A record comes out that this many draws continue at least once with this probability."""
CAVEATS = (
    "The bounds hold if the held-out records were set aside at random, from the same records as "
    "those that were trained on; no program can check that.",
    "A record that a remaining member has as well counts as still learnt.",
    "What a model does not show to these tests another attack may still find in it.",
    "Whether the model that was verified is the one in use, and whether the retrained ones were "
    "trained as they should have been, without these records, rests on the word of their makers.",
)
"""What every such verification rests on."""


@dataclass(frozen=True, slots=True)
class ModelScores:
    """What one model says of own and held-out units, and of the canaries."""

    scores: RoundScores
    own_out: Sequence[bool]
    """Whether each own unit that is long enough has a record that comes out word for word."""
    held_out_out: Sequence[bool]

    @property
    def standing(self) -> float:
        """The mean gain of own units less that of held-out ones, in nats per token."""
        return fmean(self.scores.own) - fmean(self.scores.held_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedModels:
    """The scores of the model after a member left, of that before, and of retrained ones."""

    after: ModelScores
    before: ModelScores
    retrained: Sequence[ModelScores] = ()


def score_model(
    scorer: RoundScorer,
    records: WatchedRecords,
    tuned: Target,
    base: Target,
    progress: Progress = no_progress,
) -> ModelScores:
    """Return what a model says; of records that are not comparable it is not asked."""
    if records.refusal:
        ranked = scorer.rank_canaries(tuned, progress)
        return ModelScores(RoundScores([], [], ranked), [], [])
    read = scorer.read(tuned, base, progress)
    own, held_out = scorer.gains(read)
    own_out, held_out_out = (
        [out for out in units if out is not None]
        for units in scorer.by_unit(comes_out(read), _any_of_long)
    )
    ranked = scorer.rank_canaries(tuned, progress)
    return ModelScores(RoundScores(own, held_out, ranked, scorer.unread), own_out, held_out_out)


def _any_of_long(records: Iterable[bool | None]) -> bool | None:
    """Tell whether any record of a unit comes out; None if none of them is long enough."""
    tried = [out for out in records if out is not None]
    return any(tried) if tried else None


def comes_out(read: LogProbabilities) -> list[bool | None]:
    """Tell of each record whether it is (100, 0.5)-extractable (Hayes et al., arXiv:2410.19482).

    Its first half is given, and up to 50 tokens after it must be drawn word for word at a
    temperature of 1. None for a record with fewer than 10 tokens to come, which is not tried.
    """
    found: list[bool | None] = []
    for row in read:
        tail = row[len(row) // 2 :][:CONTINUED]
        if len(tail) < SHORTEST:
            found.append(None)
            continue
        probability = math.exp(min(0.0, math.fsum(tail)))
        log_miss = math.log1p(-probability) if probability < 1 else -math.inf
        needed = samples_needed(log_miss, CHANCE) if math.isfinite(log_miss) else 1
        found.append(needed is not None and needed <= DRAWS)
    return found


def rows(
    models: VerifiedModels, records: WatchedRecords, *, limit: float, obstacle: str = ""
) -> list[Measurement]:
    """Return the rows: what is still learnt, what comes out, canaries, and the residual.

    `obstacle` says why too little of the records is read for a pass.

    All bounds on the model after hold together with 95 % confidence; those on the others, which
    show what these tests can see, hold by model.
    """
    has_canaries = bool(models.after.scores.canaries)
    parts = (1 if records.refusal else 3) + has_canaries
    found: list[Measurement] = []
    scope: dict[str, object] = {"limit": limit}
    named = [(AFTER, 0, models.after), (BEFORE, 0, models.before)]
    named += [(RETRAINED, n, one) for n, one in enumerate(models.retrained, 1)]
    for name, number, model in named:
        of_model = {**scope, "model": name, **({"number": number} if number else {})}
        level = LEVEL / parts
        found += _record_rows(model, records, of_model, level)
        if has_canaries:
            found += _canary_rows(model, of_model, level)
    if not records.refusal:
        of_after = {**scope, "model": AFTER}
        found.append(_residual_row(models, of_after, LEVEL / parts))
        if obstacle:
            found.append(obstacle_row(KIND, obstacle, of_after))
    return found


def _record_rows(
    model: ModelScores, records: WatchedRecords, scope: dict[str, object], level: float
) -> Iterator[Measurement]:
    scope = {**scope, "unit": records.unit}
    if records.refusal:
        if scope["model"] == AFTER:
            yield Measurement.missing(
                records.refusal, kind=KIND, plugin=KIND, metric="learnt", scope=scope
            )
        return
    own, held_out = model.scores.own, model.scores.held_out
    bounds = attributable_effect.score_bounds(own, held_out, level=level)
    yield from bound_rows(KIND, bounds, len(own), len(held_out), scope, unread=model.scores.unread)
    yield _extractable_row(model, scope, level)


def _extractable_row(model: ModelScores, scope: dict[str, object], level: float) -> Measurement:
    own, held_out = model.own_out, model.held_out_out
    if not own or not held_out:
        whose = "held-out records" if own else "the member's records"
        return Measurement.missing(
            f"none of {whose} has {SHORTEST} tokens in its second half, so that none could come out"
            " word for word",
            kind=KIND,
            plugin=KIND,
            metric="extractable",
            scope=scope,
        )
    hits, other_hits = sum(own), sum(held_out)
    least = attributable_effect.attributable_hits(
        hits, len(own), other_hits, len(held_out), level=level
    )
    return Measurement(
        kind=KIND,
        plugin=KIND,
        metric="extractable",
        value=hits / len(own),
        low=least / len(own),
        high=hits / len(own),
        n=len(own),
        hits=hits,
        chance=other_hits / len(held_out),
        scope={**scope, "others": len(held_out)},
    )


def _canary_rows(
    model: ModelScores, scope: dict[str, object], level: float
) -> Iterator[Measurement]:
    ranked, scope = model.scores.canaries, {**scope, "unit": CANARY}
    bounds = attributable_effect.ranked_bounds(ranked, level=level)
    yield from bound_rows(KIND, bounds, len(ranked), len(ranked[0][1]), scope)
    yield exposure_row(KIND, ranked, scope)


def _residual_row(models: VerifiedModels, scope: dict[str, object], level: float) -> Measurement:
    scope = {**scope, "retrained": len(models.retrained)}
    try:
        left = retrain_distance.residual(
            models.after.standing,
            models.before.standing,
            [one.standing for one in models.retrained],
            level=level,
        )
    except ValueError as error:
        return Measurement.missing(
            str(error), kind=KIND, plugin=KIND, metric="residual", scope=scope
        )
    return Measurement(
        kind=KIND,
        plugin=KIND,
        metric="residual",
        value=left.value,
        low=left.low,
        high=left.high,
        n=len(models.retrained),
        scope={**scope, "p": left.p_value, "detectable": left.detectable},
    )
