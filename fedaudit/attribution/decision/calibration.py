"""How often a federation's own settings flag an innocent client, and find a marked one.

Federations like the scored one are simulated: they have its clients, rounds, designs and weights,
and chance scores drawn from its null marks. First no client is marked. Then one is, with each of
`STRENGTHS` and with a mark of the usual strength, for clients of each number of rounds apart; and
each other estimate holds a random share of its update in every round.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedaudit.api.errors import UsageError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.attribution.decision.contamination import (
    Shares,
    coefficient_distribution,
    other_participants,
)
from fedaudit.attribution.decision.decision import ALPHA, verdicts
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution import shared_sets_distribution, stouffer
from fedaudit.metrics.attribution.subset_design import effective_size, masking_strength
from fedaudit.metrics.intervals import Estimate, wilson

STRENGTHS = (0.0, 6.0, 8.0, 10.0, 14.0, 20.0)
"""Mean Z of the marked client; 0: no one is marked."""
USUAL_SCORE = 14 / 5**0.5
"""A round's mean score of a mark of the usual strength: Z 14 after five rounds, as in the paper."""
FEDERATIONS = 100
"""Simulated federations of each strength, for a report."""
MOST_TESTS = 200
"""The most tests (clients times marks) at which a report simulates federations by default: about
ten seconds at 30."""
MIN_DETECTION_RATE = 0.9
"""The share of federations in which a strength must be found to be reported as found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerEstimate:
    """Results over the simulated federations with one strength of the marked client."""

    strength: float
    rounds: int | None = None
    """Where this is the usual strength: the rounds over which a mark has it."""
    partial: bool = False
    """Whether the marked client is one of some only: of those that took part in `rounds` rounds."""
    accused: Estimate
    """Federations in which an innocent client was flagged."""
    published: Estimate
    """Federations in which the paper's rule, Z above the threshold, flags an innocent client."""
    caught: Estimate | None
    """Federations in which the marked client was flagged; None where no one is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Results over simulated federations, by strength and by client."""

    federations: int
    """How many federations were simulated for each strength."""
    points: tuple[PowerEstimate, ...]
    innocent: Mapping[str, int]
    """By client: how many federations, of all strengths, it took part in as an innocent client."""
    accused: Mapping[str, Estimate]
    """By client: the share of those federations in which it was flagged."""


def calibrate(
    scores: Scores,
    *,
    threshold: float = stouffer.THRESHOLD,
    alpha: float = ALPHA,
    federations: int = 200,
    seed: int = 0,
    sets_known: bool = False,
    unopened: int = 0,
    progress: Progress = no_progress,
) -> Calibration:
    """Return the results of decisions on simulated federations of each strength.

    `sets_known` says whether the decision knows how much of other clients' updates each estimate
    holds; `unopened` is how many further marks count as tests, as for `decide`.
    Raises UsageError for less than one federation, or without scores to simulate from.
    """
    if federations < 1:
        raise UsageError(f"{federations} federations tell nothing: give 1 or more.")
    if not any(r.clients for r in scores.rounds):
        raise UsageError(
            "There are no scores of any client: no federation can be simulated from them."
        )
    points: list[PowerEstimate] = []
    innocents, flagged = Counter[str](), Counter[str]()
    cases = _cases(scores)
    total = federations * len(cases)
    for case in cases:
        accused = published = caught = 0
        for number in range(federations):
            rng = np.random.default_rng([seed, int(case.strength * 1000), number])
            sample, marked, shares = _federation(scores, case.strength, rng, case.clients)
            decision = verdicts(
                sample,
                threshold=threshold,
                alpha=alpha,
                up_to=alpha,
                shares=shares if sets_known else None,
                unopened=unopened,
            )
            innocent = {pair: v for pair, v in decision.items() if pair[0] != marked}
            wrong = {client for (client, _), v in innocent.items() if v.flagged}
            innocents.update({client for client, _ in innocent})
            flagged.update(wrong)
            accused += bool(wrong)
            published += any(v.z > threshold for v in innocent.values())
            caught += any(v.flagged for (client, _), v in decision.items() if client == marked)
            progress(len(points) * federations + number + 1, total)
        points.append(
            PowerEstimate(
                strength=case.strength,
                rounds=case.rounds,
                partial=case.partial,
                accused=wilson(accused, federations),
                published=wilson(published, federations),
                caught=wilson(caught, federations) if case.strength else None,
            )
        )
    accused_by_client = {c: wilson(flagged[c], innocents[c]) for c in sorted(innocents)}
    return Calibration(
        federations=federations,
        points=tuple(points),
        innocent=dict(innocents),
        accused=accused_by_client,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Federations to simulate: how strong the mark is, and which clients may have it."""

    strength: float
    clients: tuple[str, ...]
    rounds: int | None = None
    partial: bool = False


def _cases(scores: Scores) -> list[_Case]:
    """Return the cases by strength: those of `STRENGTHS`, and a usual mark by rounds taken part in.

    A client that joined late shows a mark in fewer rounds, so its power is estimated apart from
    that of the others.
    """
    groups = clients_by_rounds(scores)
    everyone = tuple(sorted(client for clients in groups.values() for client in clients))
    usual = [
        _Case(
            strength=usual_strength(rounds),
            clients=clients,
            rounds=rounds,
            partial=len(groups) > 1,
        )
        for rounds, clients in groups.items()
    ]
    named = {case.strength for case in usual if not case.partial}
    plain = [_Case(strength=s, clients=everyone) for s in STRENGTHS if s not in named]
    return sorted([*plain, *usual], key=lambda case: (case.strength, case.partial))


def clients_by_rounds(scores: Scores) -> dict[int, tuple[str, ...]]:
    """Return the clients by the number of rounds that they took part in, those of fewest first."""
    took = Counter(client for r in scores.rounds for client in r.clients)
    return {
        rounds: tuple(sorted(client for client, count in took.items() if count == rounds))
        for rounds in sorted(set(took.values()))
    }


def usual_strength(rounds: int) -> float:
    """Return the mean Z of a mark of the usual strength after so many rounds."""
    return round(USUAL_SCORE * math.sqrt(rounds), 1)


def simulated_federations(scores: Scores, asked: int | None) -> int:
    """Return how many federations of each strength a report simulates: `asked`, or a default.

    The result is 0 without scores to simulate from.
    """
    if not scores.marks or not any(r.clients for r in scores.rounds):
        return 0
    if asked is not None:
        return asked
    return FEDERATIONS if len(scores.clients) * len(scores.marks) <= MOST_TESTS else 0


def least_share(strength: float, shown: float, share: float) -> float | None:
    """Return the share of marked documents that gives a Z of `strength`, if Z grows in proportion.

    `shown` is the Z of a client whose `share` of marked documents is known. The result is None if
    it would exceed 1, or if `shown` is not positive.
    """
    needed = strength / shown * share if shown > 0 else None
    return needed if needed is not None and needed <= 1 else None


def least_found(lines: Sequence[PowerEstimate]) -> float | None:
    """Return the least strength from which every strength is found; None if there is none.

    Only lines in which any client may be the marked one count.
    """
    good = None
    for line in reversed([line for line in lines if not line.partial]):
        if line.caught is None or line.caught.value < MIN_DETECTION_RATE:
            break
        good = line.strength
    return good


def _federation(
    scores: Scores, strength: float, rng: np.random.Generator, candidates: Sequence[str]
) -> tuple[Scores, str, Shares]:
    """Return a simulated federation's scores, its marked client ("" for none), and its shares.

    The marked client is one of `candidates`.
    """
    marked = str(rng.choice(list(candidates))) if strength else ""
    mark = str(rng.choice(sorted(scores.marks)))
    took = sum(marked in r.clients for r in scores.rounds)
    round_strength = strength / took**0.5 if marked else 0.0
    chosen = {name: int(rng.integers(2**31)) for name in sorted(scores.marks)}
    rounds, held = [], {}
    for original in scores.rounds:
        round_scores, shares = _redraw_sets(original, scores.weights, rng)
        if shares is None:
            shares = _draw_shares(round_scores, scores.weights, rng)
        leaked = {
            client: round_strength * (1.0 if client == marked else row[marked])
            for client, row in shares.items()
            if marked in round_scores.clients
        }
        held[original.round] = shares
        rounds.append(_round(round_scores, chosen, {mark: leaked}, rng))
    return replace(scores, rounds=tuple(rounds)), marked, held


def _redraw_sets(
    round_scores: RoundScores, weights: Mapping[str, float], rng: np.random.Generator
) -> tuple[RoundScores, dict[str, dict[str, float]] | None]:
    """Return the round with newly drawn shared sets, and each client's share in its estimates.

    Estimates from shared sets depend on one system of sets, and so are drawn together. With pairs,
    or if no sets are found, the round stays as it was and the shares are None: then each client's
    estimate is drawn on its own.
    """
    rule = round_scores.rule(len(round_scores.clients))
    c = shared_sets_distribution.draw_matrix(rule, rng) if rule else None
    if c is None:
        return round_scores, None
    names = sorted(round_scores.clients)
    factors = [weights.get(name, 1.0) for name in names]
    x = {name: row * factors / factor for name, row, factor in zip(names, c, factors, strict=True)}
    new_round = replace(
        round_scores,
        strength={name: round(masking_strength(row), 2) for name, row in x.items()},
        effective={name: round(effective_size(row), 2) for name, row in x.items()},
    )
    shares = {name: dict(zip(names, row.tolist(), strict=True)) for name, row in x.items()}
    return new_round, shares


def _draw_shares(
    round_scores: RoundScores, weights: Mapping[str, float], rng: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Return the share of each other client's update in each estimate, drawn independently."""
    shares = {}
    for client in sorted(round_scores.clients):
        names = other_participants(round_scores, client)
        draws = coefficient_distribution(round_scores, client, names, weights).draws()
        row = draws[rng.integers(len(draws))]
        shares[client] = dict(zip(names, row.tolist(), strict=True))
    return shares


def _round(
    round_scores: RoundScores,
    chosen: dict[str, int],
    added: dict[str, dict[str, float]],
    rng: np.random.Generator,
) -> RoundScores:
    """Return the round with a null mark in place of each mark, and with `added` scores.

    For a mark without null marks, a score by chance is standard normal.
    """
    clients = {}
    for client in sorted(round_scores.clients):
        clients[client] = dict(round_scores.clients[client])
        for mark, score in round_scores.clients[client].items():
            null, reference = score.null, round_scores.reference[mark].null
            index = chosen[mark] % len(null) if null else 0
            luck = null[index] - reference[index] if null else float(rng.standard_normal())
            z = round_scores.reference[mark].z + luck + added.get(mark, {}).get(client, 0.0)
            clients[client][mark] = replace(score, z=z, null=_drop_index(null, index))
    reference_of = {
        mark: replace(s, null=_drop_index(s.null, chosen[mark] % len(s.null) if s.null else 0))
        for mark, s in round_scores.reference.items()
    }
    return replace(round_scores, clients=clients, reference=reference_of)


def _drop_index(null: Sequence[float], index: int) -> tuple[float, ...]:
    return (*null[:index], *null[index + 1 :])
