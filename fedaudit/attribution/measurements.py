"""What attribution measured, as rows of a report."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.records import Finding, Measurement
from fedaudit.attribution.decision.decision import ClientDecision, Decision, Rates, rates
from fedaudit.attribution.scores import Scores
from fedaudit.attribution.server.query_plan import SumPlan
from fedaudit.metrics.attribution import exposure
from fedaudit.metrics.intervals import wilson

PROTOCOL = "fed_attr"
PUBLISHED = "paper_rule"
"""The paper's own rule on the same scores: Z above the threshold, whatever else is known."""
NOWHERE: Mapping[str, object] = {}
MARKED, INNOCENT = "marked", "innocent"


def row(
    plugin: str,
    metric: str,
    value: float | None,
    scope: Mapping[str, object] = NOWHERE,
    *,
    n: int | None = None,
    hits: int | None = None,
    baseline: float | None = None,
    reason: str = "",
) -> Measurement:
    """Return a row of an attribution."""
    return Measurement(
        kind="attribution",
        plugin=plugin,
        metric=metric,
        value=value,
        n=n,
        hits=hits,
        baseline=baseline,
        reason=reason,
        scope=scope,
    )


def decision_rows(decision: Decision, threshold: float) -> Iterator[Measurement]:
    """Yield each client's Z with what it must exceed, its p-values, and Z round by round."""
    for client in dict.fromkeys(one.client for one in decision.tests):
        if most := decision.of(client):
            scope, n = {"client": client, "mark": most.mark}, len(most.rounds)
            yield row(PROTOCOL, "stouffer_z", most.z, scope, baseline=most.needed, n=n)
            yield row(PROTOCOL, "p_value", most.p_value, scope, n=n)
            yield row(PROTOCOL, "p_value", most.adjusted, {**scope, "adjusted": "holm"}, n=n)
    for client in decision.absent:
        yield row(
            PROTOCOL,
            "stouffer_z",
            None,
            {"client": client},
            n=0,
            baseline=threshold,
            reason="it took part in none of the rounds",
        )
    for one in decision.tests:
        yield from _by_round(one)


def paper_rule_rows(decision: Decision, truth: Mapping[str, str]) -> Iterator[Measurement]:
    """Yield whom the paper's rule flags, and its rates where the truth is known."""
    flagged: dict[str, set[str]] = {}
    for one in decision.tests:
        if one.published:
            flagged.setdefault(one.client, set()).add(one.mark)
    present = list(dict.fromkeys(one.client for one in decision.tests))
    for client in present:
        most = max((t for t in decision.tests if t.client == client), key=lambda one: one.z)
        scope = {"client": client, "mark": most.mark}
        yield row(PUBLISHED, "stouffer_z", most.z, scope)
        yield row(PUBLISHED, "flagged", float(client in flagged), scope)
    yield from error_rates(PUBLISHED, flagged, present, truth)


def _by_round(one: ClientDecision) -> Iterator[Measurement]:
    rounds = zip(one.rounds, one.running, one.scores, strict=True)
    for count, (number, z, score) in enumerate(rounds, 1):
        scope = {"client": one.client, "mark": one.mark, "round": number}
        yield row(PROTOCOL, "stouffer_z", z, scope, n=count)
        yield row(PROTOCOL, "score", score, scope)


def error_rates(
    plugin: str,
    flagged: Mapping[str, Collection[str]],
    present: Sequence[str],
    truth: Mapping[str, str],
) -> Iterator[Measurement]:
    """Yield tpr and fpr, where the truth is known; nothing where nobody says it."""
    if not truth:
        return
    found: Rates = rates(flagged, present, truth)
    counts = {"tpr": (found.caught, found.guilty), "fpr": (found.accused, found.innocent)}
    for metric, (hits, n) in counts.items():
        if not n:
            who = "trained on marked documents" if metric == "tpr" else "is innocent"
            yield row(plugin, metric, None, n=0, reason=f"nobody who took part {who}")
            continue
        rate = wilson(hits, n)
        yield Measurement(
            kind="attribution",
            plugin=plugin,
            metric=metric,
            value=rate.value,
            low=rate.low,
            high=rate.high,
            n=n,
            hits=hits,
        )


def mean_z_rows(decision: Decision, truth: Mapping[str, str]) -> Iterator[Measurement]:
    """Yield the mean Z of marked clients under their own mark, and of innocent ones under theirs.

    An innocent client has no mark of its own: the one that speaks most against it is taken.
    """
    if not truth:
        return
    own = [one.z for one in decision.tests if truth.get(one.client) == one.mark]
    clients = dict.fromkeys(one.client for one in decision.tests if not truth.get(one.client))
    others = [most.z for client in clients if (most := decision.of(client))]
    for kind, values in ((MARKED, own), (INNOCENT, others)):
        if values:
            yield row(PROTOCOL, "stouffer_z", fmean(values), {"clients": kind}, n=len(values))


def query_rows(plan: SumPlan) -> Iterator[Measurement]:
    """Yield what was asked for, how noisy that makes an estimate, and what it gives away."""
    yield row(PROTOCOL, "queries", float(plan.queries))
    for number, found in plan.exposures().items():
        yield row(PROTOCOL, "sets", float(found.sets), {"round": number})
        yield row(PROTOCOL, "smallest_set", float(found.smallest), {"round": number})
        determined = float(len(found.determined))
        yield row(PROTOCOL, "determined", determined, {"round": number}, n=found.queries)
    for number, design in plan.designs.items():
        yield row(PROTOCOL, "estimator_variance", design.variance, {"round": number})


def leakage_rows(scores: Scores) -> Iterator[Measurement]:
    """Yield, for each round, the bound on what the least masked estimate tells of its client."""
    for one in scores.rounds:
        if one.strength:
            weakest = min(one.strength.values())
            bits = exposure.leakage_bits(weakest, scores.dimension)
            scope = {"round": one.round, "strength": round(weakest, 4)}
            yield row(PROTOCOL, "leakage_bits", bits, scope)
            masks = min(one.effective.values())
            yield row(PROTOCOL, "effective_masks", masks, {"round": one.round})


def suspicion_rows(
    plugin: str, found: AttributionResult, threshold: float
) -> Iterator[Measurement]:
    """Yield what another method holds against each client, and its test of the global model."""
    for one in found.clients:
        scope = {"client": one.client, **({"mark": one.mark} if one.mark else {})}
        if one.z is not None:
            yield row(plugin, "stouffer_z", one.z, scope, baseline=threshold)
        if one.p_value is not None:
            yield row(plugin, "p_value", one.p_value, scope)
        if one.score is not None:
            yield row(plugin, "suspicion", one.score, scope)
        yield row(plugin, "flagged", float(one.flagged), scope)
    for mark, score in found.marks.items():
        scope = {"mark": mark, "source": "global"}
        yield row(plugin, "z", score.z, scope, n=score.n, hits=score.hits)
        yield row(plugin, "p_value", score.p_value, scope)


def flagged_clients(found: Sequence[ClientScore]) -> dict[str, set[str]]:
    """Return the clients that a method flags, each with the mark that it is flagged by."""
    return {one.client: {one.mark} for one in found if one.flagged}


def findings(decision: Decision) -> list[Finding]:
    """Return one finding for every client that the protocol flags."""
    return [
        Finding(
            id=f"{PROTOCOL}-{who}",
            severity="high",
            label="WATERMARK",
            measurement=f"{PROTOCOL} stouffer_z",
            evidence={
                "client": who,
                "mark": one.mark,
                "z": round(one.z, 2),
                "needed": round(one.needed, 2),
                "p_value": one.adjusted,
                "rounds": len(one.rounds),
                "settled_round": one.settled,
            },
            safe=("client", "mark"),
        )
        for who, one in decision.flagged.items()
    ]
