"""Counterfactual memorization across clients: hits with a client in training, minus without it.

Zhang et al. 2023 (arXiv:2112.12938), with a client in place of a record: the share of a client's
prefixes that draw a text of the left-out client from the audited model, minus the share of the same
prefixes that draw one from the model trained without that client.
"""

from collections.abc import Iterator, Mapping, Sequence

from fedaudit.api.estimates import Estimate, wilson
from fedaudit.api.records import Measurement
from fedaudit.audit.memorization.matching import Clients, MatchedContinuation
from fedaudit.audit.memorization.measurements import PLUGIN, ModelMatches
from fedaudit.metrics.intervals import difference
from fedaudit.metrics.significance import mcnemar

KIND = "counterfactual"
Prefix = tuple[str, str, tuple[int, ...]]
"""A client, the document of a prefix, and the prefix itself."""


def rows(
    tuned: ModelMatches,
    base: ModelMatches | None,
    without: Mapping[str, ModelMatches],
    clients: Clients,
) -> Iterator[Measurement]:
    """Yield the counterfactual memorization of each left-out client, for each client's prefixes.

    `without` are the models trained without a client, by client. Only prefixes count whose
    continuations are not repetitive in either model.
    """
    for victim, matches in without.items():
        if not clients[victim].splits:
            continue
        for attacker, client in clients.items():
            if client.splits:
                yield from _pair(tuned, base, matches, attacker, victim)


def _pair(
    tuned: ModelMatches,
    base: ModelMatches | None,
    without: ModelMatches,
    attacker: str,
    victim: str,
) -> Iterator[Measurement]:
    drew = {
        source: _prefix_hits(matches.answers, attacker, victim)
        for source, matches in (("tuned", tuned), (KIND, without), ("base", base))
        if matches
    }
    prefixes = sorted(drew["tuned"].keys() & drew[KIND].keys())
    scope = {"attacker": attacker, "victim": victim, "unit": "prefix", "without": victim}
    if not prefixes:
        yield Measurement.missing(
            f"every continuation of a prefix of {attacker} repeats itself in one of the models",
            kind=KIND,
            plugin=PLUGIN,
            metric="counterfactual_memorization",
            scope=scope,
        )
        return
    shares = {
        source: _share([draws[prefix] for prefix in prefixes if prefix in draws])
        for source, draws in drew.items()
    }
    gain = difference(shares["tuned"], shares[KIND])
    yield _row("counterfactual_memorization", gain, len(prefixes), scope)
    for source, share in shares.items():
        yield _row("mean_chance", share, len(prefixes), {**scope, "source": source})
    if "base" in shares:
        gap = difference(shares[KIND], shares["base"])
        yield _row("control_gap", gap, len(prefixes), {**scope, "control": "base"})
    gained = sum(drew["tuned"][prefix] > drew[KIND][prefix] for prefix in prefixes)
    lost = sum(drew["tuned"][prefix] < drew[KIND][prefix] for prefix in prefixes)
    yield Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric="p_value",
        value=mcnemar(gained, lost),
        n=gained + lost,
        hits=gained,
        scope={**scope, "test": KIND},
    )


def _prefix_hits(
    answers: Sequence[MatchedContinuation], attacker: str, victim: str
) -> dict[Prefix, bool]:
    """Return for each prefix of `attacker` whether it drew a text of `victim`."""
    client_answers = (answer for answer in answers if answer.continued.client == attacker)
    return {
        (attacker, answer.continued.split.document, answer.continued.split.prompt): any(
            hit.victim == victim for hit in answer.hits
        )
        for answer in client_answers
    }


def _share(drew: Sequence[bool]) -> Estimate:
    return wilson(sum(drew), len(drew)) if drew else Estimate(0.0, 0.0, 1.0)


def _row(metric: str, estimate: Estimate, n: int, scope: Mapping[str, object]) -> Measurement:
    return Measurement.mean(estimate, n, kind=KIND, plugin=PLUGIN, metric=metric, scope=scope)


def suffixes(without: Mapping[str, ModelMatches]) -> dict[str, set[str]]:
    """Return, by left-out client, its texts that the model trained without it gives as well."""
    return {
        victim: {
            hit.split.suffix
            for answer in matches.answers
            for hit in answer.hits
            if hit.victim == victim
        }
        for victim, matches in without.items()
    }
