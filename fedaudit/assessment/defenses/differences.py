"""What a defence changes, over seeds: leak, held-out loss and cost, compared with no defence.

Seeds are paired: a difference is taken between two federations of one seed, on the same records and
under the same questions, and then averaged over seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from fedaudit.api.estimates import Estimate
from fedaudit.assessment.defenses.outcome import DefenseOutcome
from fedaudit.metrics.intervals import bootstrap_mean, difference
from fedaudit.metrics.replication import mean_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanChange:
    """A number under a defence, as a mean over seeds, and its difference from no defence."""

    mean: Estimate
    difference: Estimate | None = None
    """None for training without a defence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefenseEffect:
    """What one defence gained and cost, over the seeds measured both with it and without any."""

    leaks: Mapping[str, MeanChange]
    loss: MeanChange | None
    seconds: float | None
    tokens: float
    bytes: float | None
    flops: float | None


def effect(
    outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None = None
) -> DefenseEffect:
    """Return a defence's numbers as means over seeds, with differences to `none` seed by seed.

    `outcomes` and `none` must have the same seeds in the same order. An attack that is missing in
    either is left out. Raises ValueError for different seeds and for no outcomes at all.
    """
    if none is not None and [o.seed for o in none] != [o.seed for o in outcomes]:
        raise ValueError("Differences are paired: both sides need the same seeds.")
    if not outcomes:
        raise ValueError("Without a seed there is nothing to compare.")
    every = [*outcomes, *(none or ())]
    attacks = [name for name in outcomes[0].leaks if all(name in o.leaks for o in every)]
    return DefenseEffect(
        leaks={name: _leak(name, outcomes, none) for name in attacks},
        loss=_loss(outcomes, none),
        seconds=_mean(outcomes, lambda o: o.seconds),
        tokens=fmean(o.tokens for o in outcomes),
        bytes=_mean(outcomes, lambda o: o.bytes),
        flops=_mean(outcomes, lambda o: o.flops),
    )


def _leak(
    attack: str, outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None
) -> MeanChange:
    shares = [o.leaks[attack].share for o in outcomes]
    mean = _clip_interval(mean_estimate(shares, same_records=True), 0.0)
    if none is None:
        return MeanChange(mean=mean)
    # Both have the same targets, but `difference` assumes independence: the interval is too wide.
    gaps = [
        difference(share, before.leaks[attack].share)
        for before, share in zip(none, shares, strict=True)
    ]
    return MeanChange(
        mean=mean, difference=_clip_interval(mean_estimate(gaps, same_records=True), -1.0)
    )


def _loss(
    outcomes: Sequence[DefenseOutcome], none: Sequence[DefenseOutcome] | None
) -> MeanChange | None:
    losses = [o.loss for o in outcomes if o.loss]
    if len(losses) < len(outcomes):
        return None
    mean = mean_estimate(losses, same_records=True)
    if none is None:
        return MeanChange(mean=mean)
    gaps = [_loss_gap(before, after) for before, after in zip(none, outcomes, strict=True)]
    measured_gaps = [gap for gap in gaps if gap]
    if len(measured_gaps) < len(gaps):
        return MeanChange(mean=mean)
    return MeanChange(mean=mean, difference=mean_estimate(measured_gaps, same_records=True))


def _loss_gap(before: DefenseOutcome, after: DefenseOutcome) -> Estimate | None:
    """Return how much the loss rose: document by document where both sides have such losses."""
    if before.losses and len(before.losses) == len(after.losses):
        rises = [b - a for a, b in zip(before.losses, after.losses, strict=True)]
        return bootstrap_mean(rises, seed=0)
    if before.loss is None or after.loss is None:
        return None
    return difference(after.loss, before.loss)


def _mean(
    outcomes: Sequence[DefenseOutcome], number: Callable[[DefenseOutcome], float | None]
) -> float | None:
    values = [value for o in outcomes if (value := number(o)) is not None]
    return fmean(values) if len(values) == len(outcomes) else None


def _clip_interval(estimate: Estimate, least: float) -> Estimate:
    """Return the estimate with its interval clipped to the possible values, `least` to 1."""
    return Estimate(estimate.value, max(least, estimate.low), min(1.0, estimate.high))
