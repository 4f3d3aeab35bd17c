"""How much of Z comes from other clients' marked documents, by the scores and any known sets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import numpy.typing as npt

from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.metrics.attribution import contamination, known_contamination
from fedaudit.metrics.attribution.contamination import (
    NOTHING_HIDDEN,
    TEST_RESPONSES,
    DetectorResponse,
    RoundEvidence,
    hiding_probabilities,
)
from fedaudit.metrics.attribution.group_contamination import MixedScores
from fedaudit.metrics.attribution.hypotheses import enumerate_hypotheses
from fedaudit.metrics.attribution.known_contamination import ContaminationHypotheses
from fedaudit.metrics.attribution.leak_distribution import LeakDistribution
from fedaudit.metrics.attribution.marked_groups import (
    MAX_ENUMERATED_CLIENTS,
    Group,
    MarkEvidence,
    candidates_with_known_sets,
    enumerate_groups,
    nested_groups,
)
from fedaudit.metrics.attribution.mixture import Mixture

ClientMark = tuple[str, str]
"""A client and a mark."""
Shares = Mapping[int, Mapping[str, Mapping[str, float]]]
"""The share of each other client's update in an estimate, by round, target and other client."""


def client_leak_distributions(
    scores: Scores,
    client: str,
    evidence_by_mark: Mapping[str, Mapping[str, MarkEvidence]],
    responses: Sequence[DetectorResponse],
) -> dict[str, tuple[LeakDistribution, ...]]:
    """Return the distributions of the part of a client's Z that others add, under each mark."""
    if not evidence_by_mark:
        return {}
    rounds, strength = [r for r in scores.rounds if client in r.clients], _strength(scores)
    mixtures = [
        coefficient_distribution(r, client, other_participants(r, client), scores.weights)
        for r in rounds
    ]
    marks = []
    for mark, by_client in evidence_by_mark.items():
        others = {name: evidence for name, evidence in by_client.items() if name != client}
        groups = nested_groups(others, strength)
        chances = _hiding_probabilities(rounds, groups, scores.weights)
        by_round = zip(rounds, chances, strict=True)
        marks.append([_others_marks(r, client, mark, others, groups, h) for r, h in by_round])
    spreads = [by_client[client].spread for by_client in evidence_by_mark.values()]
    distributions = contamination.leak_distributions(mixtures, marks, spreads, responses)
    return dict(zip(evidence_by_mark, distributions, strict=True))


def contamination_hypotheses(
    scores: Scores,
    mark: str,
    evidence_by_client: Mapping[str, MarkEvidence],
    degrees: Mapping[str, float],
    shares: Shares,
    error: float,
) -> Iterator[tuple[str, ContaminationHypotheses, bool]]:
    """Yield each client with what others may add to its Z under a mark, where the sets are known.

    If scores show that the test answers to negative shares, too, the sizes of shares count. The
    last entry is whether every group of clients that may be marked was tried: many clients form too
    many groups.
    """
    names = list(evidence_by_client)
    rounds = [
        _round_shares_of_mark(r, mark, evidence_by_client, shares[r.round]) for r in scores.rounds
    ]
    clients = known_contamination.ClientStatistics(
        z=np.array([evidence.z for evidence in evidence_by_client.values()]),
        spreads=np.array([evidence.spread for evidence in evidence_by_client.values()]),
        degrees_of_freedom=[degrees[name] for name in names],
    )
    if known_contamination.answers_to_negative_shares(rounds, clients):
        rounds = [replace(r, shares=np.abs(r.shares)) for r in rounds]
    shares_by_round, present = [r.shares for r in rounds], [r.present for r in rounds]
    candidates = candidates_with_known_sets(evidence_by_client, _strength(scores), shares_by_round)
    groups = enumerate_groups(candidates)
    members = np.array([[name in group for name in names] for group in groups])
    starts = [response.start for response in TEST_RESPONSES if response.start is not None]
    tried = enumerate_hypotheses(
        members, list(evidence_by_client.values()), shares_by_round, present, starts
    )
    leaks = known_contamination.contamination_hypotheses(rounds, clients, members, tried, error)
    for name, leak in zip(names, leaks, strict=True):
        yield name, leak, len(candidates) <= MAX_ENUMERATED_CLIENTS


def _round_shares_of_mark(
    round_scores: RoundScores,
    mark: str,
    evidence_by_client: Mapping[str, MarkEvidence],
    shares: Mapping[str, Mapping[str, float]],
) -> MixedScores:
    """Return the clients' shares in each other's estimates of a round, and their scores."""
    here, start = round_scores.clients, round_scores.reference[mark]
    held, null = (
        np.zeros((len(evidence_by_client), len(evidence_by_client))),
        np.zeros((len(evidence_by_client), len(start.null))),
    )
    differences, beyond = np.zeros(len(evidence_by_client)), np.zeros(len(evidence_by_client))
    for index, (target, evidence) in enumerate(evidence_by_client.items()):
        if target in here:
            row = shares[target]
            held[index] = [
                row.get(other, 0.0) if other != target else 0.0 for other in evidence_by_client
            ]
            null[index] = np.subtract(here[target][mark].null, start.null)
            differences[index] = here[target][mark].z - start.z
            beyond[index] = _shown_score(round_scores, target, mark, evidence)
    return MixedScores(
        shares=held,
        differences=differences,
        null=null,
        scores=beyond,
        present=np.array([name in here for name in evidence_by_client]),
    )


def _shown_score(
    round_scores: RoundScores, client: str, mark: str, evidence: MarkEvidence
) -> float:
    """Return how strongly a client shows a mark in a round, beyond chance."""
    difference = round_scores.clients[client][mark].z - round_scores.reference[mark].z
    return evidence.signal_share * max(0.0, difference)


def _strength(scores: Scores) -> float:
    """Return the strength of masks, rho, of a typical estimate."""
    values = [value for r in scores.rounds for value in r.strength.values()]
    return median(values) if values else 1.0


def _others_marks(
    round_scores: RoundScores,
    client: str,
    mark: str,
    others: Mapping[str, MarkEvidence],
    groups: Sequence[Group],
    hidden: npt.NDArray[np.float64],
) -> RoundEvidence:
    """Return how the other participants of one of a client's rounds show a mark."""
    names = other_participants(round_scores, client)
    beyond = [_shown_score(round_scores, name, mark, others[name]) for name in names]
    table = [[name in group for name in names] for group in groups]
    candidates = groups[-1] if groups else ()
    alone = [[name == candidate for name in names] for candidate in candidates]
    return RoundEvidence(
        scores=np.array(beyond, dtype=np.float64),
        groups=np.array(table, dtype=np.float64).reshape(len(groups), len(names)),
        alone=np.array(alone, dtype=np.float64).reshape(len(alone), len(names)),
        errors=np.array([others[name].signal_share for name in names]),
        hidden=hidden,
    )


def _hiding_probabilities(
    rounds: Sequence[RoundScores], groups: Sequence[Group], weights: Mapping[str, float]
) -> list[npt.NDArray[np.float64]]:
    """Return, by round, how likely it is that a group's members hide each share of their mark.

    Over several rounds the hidden shares average out, so they count only where two members of a
    group were together in a single round.
    """
    chances = [np.tile(NOTHING_HIDDEN, (len(groups), 1)) for _ in rounds]
    for index, group in enumerate(groups):
        together = [at for at, r in enumerate(rounds) if len(r.clients.keys() & set(group)) > 1]
        if len(together) == 1:
            [at] = together
            chances[at][index] = _hiding_probabilities_of_group(rounds[at], group, weights)
    return chances


def _hiding_probabilities_of_group(
    round_scores: RoundScores, group: Group, weights: Mapping[str, float]
) -> npt.NDArray[np.float64]:
    members, held = [name for name in group if name in round_scores.clients], []
    for member in members:
        others = other_participants(round_scores, member)
        mixture = coefficient_distribution(round_scores, member, others, weights)
        columns = [at for at, name in enumerate(others) if name in members]
        held.append(mixture.draws()[:, columns].sum(axis=1))
    independent = round_scores.rule(len(round_scores.clients)) is None
    return hiding_probabilities(held, independent=independent)


def other_participants(round_scores: RoundScores, client: str) -> list[str]:
    """Return the other participants of a round, in order."""
    return sorted(name for name in round_scores.clients if name != client)


def coefficient_distribution(
    round_scores: RoundScores, client: str, names: Sequence[str], weights: Mapping[str, float]
) -> Mixture:
    """Return the distribution of the shares of the clients `names` in a client's estimate."""
    weight = weights.get(client, 1.0)
    return Mixture(
        weights=tuple(weights.get(name, 1.0) / weight for name in names),
        strength=round_scores.strength.get(client, 1.0),
        others=round_scores.others,
        pairs=round_scores.pairs,
        limit=round_scores.limit,
        rule=round_scores.rule(len(names) + 1),
    )
