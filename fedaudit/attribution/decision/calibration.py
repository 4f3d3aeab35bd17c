"""How often a federation's own settings accuse somebody innocent, and whom they find.

Federations like the one that was scored are made up: its clients, rounds, designs and weights, and
its own luck. Nobody is marked at first; then one client is, as strongly as each of `STRENGTHS`
says, and every other client's estimate holds a random share of its update in every round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedaudit.api.errors import UsageError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.attribution.decision.decision import ALPHA, verdicts
from fedaudit.attribution.decision.null_distribution import coefficient_mixture, other_participants
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution import shared_law, stouffer
from fedaudit.metrics.attribution.subset_design import effective_size, masking_strength
from fedaudit.metrics.intervals import Estimate, wilson

if TYPE_CHECKING:
    import numpy as np

STRENGTHS = (0.0, 6.0, 8.0, 10.0, 14.0, 20.0)
"""Mean Z of the marked client; 0: nobody is marked."""
FOUND = 0.9
"""The share of federations in which a strength is found that is reported as found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerPoint:
    """What happened in federations with one client of a strength."""

    strength: float
    accused: Estimate
    """Federations in which somebody innocent was flagged."""
    published: Estimate
    """The same by the paper's rule, Z above the threshold."""
    caught: Estimate | None
    """Federations in which the marked client was; None where nobody is marked."""


def calibrate(
    scores: Scores,
    *,
    threshold: float = stouffer.THRESHOLD,
    alpha: float = ALPHA,
    federations: int = 200,
    seed: int = 0,
    progress: Progress = no_progress,
) -> list[PowerPoint]:
    """Return what decisions on so many made-up federations of each strength come to.

    Raises UsageError where there are no federations to make up, or no scores to make them of.
    """
    import numpy as np

    if federations < 1:
        raise UsageError(f"{federations} federations tell nothing: 1 at least.")
    if not any(one.clients for one in scores.rounds):
        raise UsageError("There are no scores of any client: nothing can be made up of them.")
    found: list[PowerPoint] = []
    total = federations * len(STRENGTHS)
    for strength in STRENGTHS:
        accused = published = caught = 0
        for number in range(federations):
            rng = np.random.default_rng([seed, int(strength * 1000), number])
            made, marked = _federation(scores, strength, rng)
            decision = verdicts(made, threshold=threshold, alpha=alpha, up_to=alpha)
            innocent = [one for (who, _), one in decision.items() if who != marked]
            accused += any(one.flagged for one in innocent)
            published += any(one.z > threshold for one in innocent)
            caught += any(one.flagged for (who, _), one in decision.items() if who == marked)
            progress(len(found) * federations + number + 1, total)
        found.append(
            PowerPoint(
                strength=strength,
                accused=wilson(accused, federations),
                published=wilson(published, federations),
                caught=wilson(caught, federations) if strength else None,
            )
        )
    return found


def least_found(lines: Sequence[PowerPoint]) -> float | None:
    """Return the least strength from which on all are found in FOUND of the federations."""
    good = None
    for line in reversed(lines):
        if line.caught is None or line.caught.value < FOUND:
            break
        good = line.strength
    return good


def _federation(scores: Scores, strength: float, rng: "np.random.Generator") -> tuple[Scores, str]:
    """Return a made-up federation's scores, and its marked client, "" for none."""
    present = sorted({who for one in scores.rounds for who in one.clients})
    marked = str(rng.choice(present)) if strength else ""
    mark = str(rng.choice(sorted(scores.marks)))
    took = sum(marked in one.clients for one in scores.rounds)
    each = strength / took**0.5 if marked else 0.0
    chosen = {name: int(rng.integers(2**31)) for name in sorted(scores.marks)}
    rounds = []
    for drawn in scores.rounds:
        one, held = _drawn(drawn, scores.weights, rng)
        leaked: dict[str, float] = {}
        if marked in one.clients:
            leaked = _leaked(one, marked, each, scores, rng) if held is None else {}
            leaked |= {who: each * own[marked] for who, own in (held or {}).items()}
        rounds.append(_round(one, chosen, {mark: leaked}, rng))
    return replace(scores, rounds=tuple(rounds)), marked


def _drawn(
    one: RoundScores, weights: Mapping[str, float], rng: "np.random.Generator"
) -> tuple[RoundScores, dict[str, dict[str, float]] | None]:
    """Return a round by newly drawn shared sets, and what its estimates hold of each client.

    Estimates by shared sets are of one system, and so are drawn together. With pairs, or where
    none are found, the round is as it was, and each client's estimate is drawn on its own.
    """
    rule = one.rule(len(one.clients))
    c = shared_law.drawn(rule, rng) if rule else None
    if c is None:
        return one, None
    names = sorted(one.clients)
    own = [weights.get(who, 1.0) for who in names]
    x = {who: row * own / by for who, row, by in zip(names, c, own, strict=True)}
    made = replace(
        one,
        strength={who: round(masking_strength(row), 2) for who, row in x.items()},
        effective={who: round(effective_size(row), 2) for who, row in x.items()},
    )
    held = {who: dict(zip(names, row.tolist(), strict=True)) for who, row in x.items()}
    return made, {who: {**row, who: 1.0} for who, row in held.items()}


def _leaked(
    one: RoundScores, marked: str, each: float, scores: Scores, rng: "np.random.Generator"
) -> dict[str, float]:
    """Return what the marked client adds to every client's score, in proportion to its share."""
    found = {marked: each}
    for who in sorted(one.clients):
        if who != marked:
            names = other_participants(one, who)
            draws = coefficient_mixture(one, who, names, scores.weights).draws()
            row = draws[rng.integers(len(draws))]
            found[who] = each * float(row[names.index(marked)])
    return found


def _round(
    one: RoundScores,
    chosen: dict[str, int],
    added: dict[str, dict[str, float]],
    rng: "np.random.Generator",
) -> RoundScores:
    """Return a round in which a null mark takes the place of each mark, and marks are added.

    Of a mark without null marks, a score by chance is standard normal.
    """
    clients = {}
    for who in sorted(one.clients):
        clients[who] = dict(one.clients[who])
        for mark, own in one.clients[who].items():
            null, reference = own.null, one.reference[mark].null
            at = chosen[mark] % len(null) if null else 0
            luck = null[at] - reference[at] if null else float(rng.standard_normal())
            z = one.reference[mark].z + luck + added.get(mark, {}).get(who, 0.0)
            clients[who][mark] = replace(own, z=z, null=_without(null, at))
    reference_of = {
        mark: replace(own, null=_without(own.null, chosen[mark] % len(own.null) if own.null else 0))
        for mark, own in one.reference.items()
    }
    return replace(one, clients=clients, reference=reference_of)


def _without(null: Sequence[float], at: int) -> tuple[float, ...]:
    return (*null[:at], *null[at + 1 :])
