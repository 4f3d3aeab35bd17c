"""What attribution measured, as rows of a report."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fedaudit.api.attribution import AttributionResult, ClientScore
from fedaudit.api.estimates import Z_95, Estimate
from fedaudit.api.records import Finding, Measurement
from fedaudit.attribution.copies import like_clients
from fedaudit.attribution.decision.calibration import Calibration
from fedaudit.attribution.decision.decision import ClientDecision, Decision, count_flags
from fedaudit.attribution.scores import Scores, scored_copies, unscored_rounds
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.federation.folder import name_rounds
from fedaudit.metrics.attribution import sum_leakage
from fedaudit.metrics.replication import mean_estimate
from fedaudit.report.number_format import first_of
from fedaudit.report.verdict.attribution import LIKE, MOST_NAMED, UNSCORED, accusation

PROTOCOL = "fed_attr"
PUBLISHED = "paper_rule"
"""The paper's own rule applied to the same scores: Z above the threshold, and nothing else."""
NO_SCOPE: Mapping[str, object] = {}
MARKED, INNOCENT = "marked", "innocent"


def row(
    plugin: str,
    metric: str,
    value: float | None,
    scope: Mapping[str, object] = NO_SCOPE,
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
    for client in dict.fromkeys(t.client for t in decision.tests):
        if most := decision.strongest_test(client):
            scope, n = {"client": client, "mark": most.mark}, len(most.rounds)
            yield row(PROTOCOL, "stouffer_z", most.z, scope, baseline=most.needed, n=n)
            yield row(PROTOCOL, "p_value", most.p_value, scope, n=n)
            yield row(PROTOCOL, "p_value", most.adjusted, {**scope, "adjusted": "holm"}, n=n)
    yield from _untested_rows(decision, threshold)
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
    for test in decision.tests:
        yield from _by_round(test)


def _untested_rows(decision: Decision, threshold: float) -> Iterator[Measurement]:
    """Yield a row without a value for each client whose answers had nothing to test for a mark."""
    untested: dict[str, list[ClientDecision]] = {}
    for test in decision.tests:
        if test.empty_rounds:
            untested.setdefault(test.client, []).append(test)
    for client, tests in untested.items():
        marks = " and ".join(test.mark for test in tests)
        numbers = sorted({number for test in tests for number in test.empty_rounds})
        reason = (
            f"answers had nothing to test by mark{'s' * (len(tests) > 1)} {marks} in "
            f"{name_rounds(numbers)}"
        )
        scope = {"client": client}
        yield row(PROTOCOL, "stouffer_z", None, scope, n=0, baseline=threshold, reason=reason)


def copy_rows(scores: Scores, threshold: float) -> Iterator[Measurement]:
    """Yield a row for each client whose adapters were not its own, or were like others'.

    A client that only ever returned its start adapter was not tested.
    """
    copies = scored_copies(scores)
    for each in copies.unchanged:
        [client] = each.clients
        if {r.round for r in scores.rounds if client in r.clients} <= set(each.rounds):
            reason = f"it sent back the adapter that it got in {name_rounds(each.rounds)}"
            scope = {"client": client}
            yield row(PROTOCOL, "stouffer_z", None, scope, n=0, baseline=threshold, reason=reason)
    for client, others in like_clients(copies).items():
        names = first_of([*others], MOST_NAMED)
        count = len({number for rounds in others.values() for number in rounds})
        n = sum(client in r.clients for r in scores.rounds)
        yield row(PROTOCOL, LIKE, float(count), {"client": client, "alike": ", ".join(names)}, n=n)


def unscored_text(scores: Scores) -> str:
    """Return the rounds of the federation that have no scores, as "1, 3 to 5"; "" for none."""
    spans = unscored_rounds(scores)
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in spans)


def unscored_rows(scores: Scores) -> Iterator[Measurement]:
    """Yield how many rounds of the federation have no scores, if there are any."""
    if spans := unscored_rounds(scores):
        missing = sum(last - first + 1 for first, last in spans)
        scope = {"rounds": unscored_text(scores)}
        yield row(PROTOCOL, UNSCORED, float(missing), scope, n=missing + len(scores.rounds))


def level_rows(alpha: float, threshold: float) -> Iterator[Measurement]:
    """Yield the error level and the threshold of a decision."""
    yield row(PROTOCOL, "alpha", alpha)
    yield row(PROTOCOL, "tau", threshold)


def paper_rule_rows(decision: Decision, truth: Mapping[str, str]) -> Iterator[Measurement]:
    """Yield whom the paper's rule flags, and its rates where the truth is known."""
    flagged: dict[str, set[str]] = {}
    for test in decision.tests:
        if test.published:
            flagged.setdefault(test.client, set()).add(test.mark)
    present = list(dict.fromkeys(t.client for t in decision.tests))
    for client in present:
        most = max((t for t in decision.tests if t.client == client), key=lambda t: t.z)
        scope = {"client": client, "mark": most.mark}
        yield row(PUBLISHED, "stouffer_z", most.z, scope)
        yield row(PUBLISHED, "flagged", float(client in flagged), scope)
    yield from error_rates(PUBLISHED, flagged, present, truth)


def _by_round(test: ClientDecision) -> Iterator[Measurement]:
    rounds = zip(test.rounds, test.running_z, test.scores, strict=True)
    for count, (number, z, score) in enumerate(rounds, 1):
        scope = {"client": test.client, "mark": test.mark, "round": number}
        yield row(PROTOCOL, "stouffer_z", z, scope, n=count)
        yield row(PROTOCOL, "score", score, scope)


def error_rates(
    plugin: str,
    flagged: Mapping[str, Collection[str]],
    present: Sequence[str],
    truth: Mapping[str, str],
) -> Iterator[Measurement]:
    """Yield the true and false positive rates (tpr, fpr); nothing where the truth is unknown."""
    if not truth:
        return
    for metric, (hits, n) in count_flags(flagged, present, truth).items():
        if not n:
            group = "trained on documents with these marks" if metric == "tpr" else "is innocent"
            yield row(plugin, metric, None, n=0, reason=f"no client that took part {group}")
            continue
        yield Measurement.rate(
            hits, n, kind="attribution", plugin=plugin, metric=metric, scope=NO_SCOPE
        )


def calibration_rows(calibration: Calibration) -> Iterator[Measurement]:
    """Yield how often simulated federations like this one flag innocent and marked clients."""
    for point in calibration.points:
        scope: dict[str, object] = {"strength": point.strength}
        if point.rounds is not None:
            scope["rounds"] = point.rounds
        yield _simulated("innocent_flagged", point.accused, calibration.federations, scope)
        if point.caught:
            yield _simulated("marked_found", point.caught, calibration.federations, scope)
    for client, accused in calibration.accused.items():
        n = calibration.innocent[client]
        yield _simulated("innocent_flagged", accused, n, {"client": client})


def _simulated(metric: str, rate: Estimate, n: int, scope: Mapping[str, object]) -> Measurement:
    hits = round(rate.value * n)
    return Measurement.rate(
        hits, n, kind="attribution", plugin=PROTOCOL, metric=metric, scope=scope
    )


def attribute_rows(decision: Decision, scores: Scores) -> Iterator[Measurement]:
    """Yield how often each attribute of a mark was answered rightly, for tests that have parts.

    The baseline is how often the global adapters with which the rounds began did so.
    """
    for test in decision.tests:
        rounds = [r for r in scores.rounds if test.client in r.clients]
        found = [r.clients[test.client][test.mark] for r in rounds]
        parts = [score.parts for score in found]
        before = [r.reference[test.mark].parts for r in rounds]
        if not all(parts):
            continue
        asked = sum(score.n // len(score.parts) for score in found)
        totals = (map(sum, zip(*each, strict=True)) for each in (parts, before))
        for number, (hits, start) in enumerate(zip(*totals, strict=True), 1):
            scope = {"client": test.client, "mark": test.mark, "attribute": number}
            yield row(
                PROTOCOL,
                "attribute_hits",
                float(hits),
                scope,
                n=asked,
                hits=hits,
                baseline=float(start),
            )


def mean_z_rows(decision: Decision, truth: Mapping[str, str]) -> Iterator[Measurement]:
    """Yield the mean Z of marked clients under their own mark, and that of innocent clients.

    An innocent client has no mark of its own, so its strongest test is taken. The interval is
    Student's t over the clients of this federation, and at least as wide as the scatter of Z by
    chance implies.
    """
    if not truth:
        return
    marked = [t for t in decision.tests if truth.get(t.client) == t.mark]
    clients = dict.fromkeys(t.client for t in decision.tests if not truth.get(t.client))
    innocent = [most for client in clients if (most := decision.strongest_test(client))]
    for kind, tests in ((MARKED, marked), (INNOCENT, innocent)):
        if tests:
            chance = [Z_95 * t.spread for t in tests]
            mean = mean_estimate(
                [Estimate(t.z, t.z - by, t.z + by) for t, by in zip(tests, chance, strict=True)],
                same_records=False,
            )
            yield replace(
                row(PROTOCOL, "stouffer_z", mean.value, {"clients": kind}, n=len(tests)),
                low=mean.low,
                high=mean.high,
            )


def query_rows(plan: SumPlan) -> Iterator[Measurement]:
    """Yield the number of sums, the variance of an estimate, and what the sums leak."""
    yield row(PROTOCOL, "queries", float(plan.queries))
    for number, round_exposure in plan.exposures().items():
        yield row(PROTOCOL, "sets", float(round_exposure.sets), {"round": number})
        yield row(PROTOCOL, "smallest_set", float(round_exposure.smallest), {"round": number})
        determined = float(len(round_exposure.determined))
        yield row(PROTOCOL, "determined", determined, {"round": number}, n=round_exposure.queries)
    for number, design in plan.designs.items():
        yield row(PROTOCOL, "estimator_variance", design.variance, {"round": number})


def leakage_rows(scores: Scores) -> Iterator[Measurement]:
    """Yield, for each round, the bound on the leakage of its least masked estimate, in bits."""
    for round_scores in scores.rounds:
        if round_scores.strength:
            weakest = min(round_scores.strength.values())
            bits = sum_leakage.leakage_bits(weakest, scores.dimension)
            scope = {"round": round_scores.round, "strength": round(weakest, 4)}
            yield row(PROTOCOL, "leakage_bits", bits, scope)
            masks = min(round_scores.effective.values())
            yield row(PROTOCOL, "effective_masks", masks, {"round": round_scores.round})


def suspicion_rows(
    plugin: str, result: AttributionResult, threshold: float
) -> Iterator[Measurement]:
    """Yield the scores that another method gives each client, and its tests of the global model."""
    for client_score in result.clients:
        scope = {
            "client": client_score.client,
            **({"mark": client_score.mark} if client_score.mark else {}),
        }
        if client_score.z is not None:
            yield row(plugin, "stouffer_z", client_score.z, scope, baseline=threshold)
        if client_score.p_value is not None:
            yield row(plugin, "p_value", client_score.p_value, scope)
        if client_score.score is not None:
            yield row(plugin, "suspicion", client_score.score, scope)
        yield row(plugin, "flagged", float(client_score.flagged), scope)
    for mark, score in result.marks.items():
        scope = {"mark": mark, "source": "global"}
        yield row(plugin, "z", score.z, scope, n=score.n, hits=score.hits)
        yield row(plugin, "p_value", score.p_value, scope)


def flagged_clients(client_scores: Sequence[ClientScore]) -> dict[str, set[str]]:
    """Return the clients that a method flags, each with the mark that flagged it."""
    return {c.client: {c.mark} for c in client_scores if c.flagged}


def findings(decision: Decision, rows: Iterable[Measurement] = ()) -> list[Finding]:
    """Return one finding for every client that the protocol flags.

    It names the clients that sent like updates, as the report's `rows` have them.
    """
    alike = {row.scope["client"]: str(row.scope["alike"]) for row in rows if row.metric == LIKE}
    return [
        accusation(
            client,
            mark=test.mark,
            z=test.z,
            needed=test.needed,
            p_value=test.adjusted,
            rounds=len(test.rounds),
            settled_round=test.settled_round,
            **({"alike": alike[client]} if client in alike else {}),
        )
        for client, test in decision.flagged.items()
    ]
