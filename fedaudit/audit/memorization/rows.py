"""The measurements of cross-client memorization: ratios, lengths, and the texts hit most."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from statistics import median

from fedaudit.api.engine import Engine
from fedaudit.api.estimates import Estimate, wilson
from fedaudit.api.records import Measurement
from fedaudit.api.scripts import has_han
from fedaudit.audit.memorization.matching import (
    Clients,
    MatchedContinuation,
    ModelContinuations,
    count_looked_for,
)
from fedaudit.audit.request import Protocol
from fedaudit.metrics.intervals import difference
from fedaudit.metrics.memorization import Rate, Ratios, most_hit, ratios
from fedaudit.metrics.overlap import DEFAULT, ORIGINAL
from fedaudit.metrics.significance import mcnemar

PLUGIN = "memorize"
ALL = "all"
MOST_HIT = 10
PREFIX_SHARE_METRICS = {"mr_total", "mr_pair"}
"""Metrics that are shares of prefixes; the other ratios are weighted means."""

SINGLE_CLIENT_REASON = (
    "only one client has texts that are long enough, so no one else's can be drawn"
)
NOBODY = "no client has texts that are long enough"
SAME_TEXTS = "every client has all texts of the others as well, so nothing was looked for"
BATCH = 4096
_row = partial(Measurement, kind="memorization", plugin=PLUGIN)
_rate = partial(Measurement.rate, kind="memorization", plugin=PLUGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMatches:
    """One model's continuations, and their matches with clients' texts."""

    continuations: ModelContinuations
    answers: Sequence[MatchedContinuation]


def rows(
    matches: Sequence[ModelMatches], clients: Clients, protocol: Protocol, engine: Engine
) -> list[Measurement]:
    """Return all measurements of all models; the base's values are the others' baselines."""
    searched = count_looked_for(clients)
    measured: dict[tuple[str, str], Ratios] = {}
    for model in matches:
        for category in (ALL, *protocol.categories()):
            measured[model.continuations.source, category] = _ratios(
                model, clients, category, searched
            )
    measurements: list[Measurement] = []
    for (source, category), ratio in measured.items():
        base = measured.get(("base", category)) if source != "base" else None
        scope = {"source": source, "category": category, **protocol.scope()}
        measurements += _of_ratios(ratio, base, clients, searched, scope)
    for model in matches:
        scope = {"source": model.continuations.source, **protocol.scope()}
        measurements += [*_left_out(model.continuations, clients, scope), *_hit_most(model, scope)]
    return [
        *measurements,
        *_searched(clients, protocol, searched),
        *_lengths(matches, clients, protocol, engine),
    ]


def missing_rows(protocol: Protocol) -> list[Measurement]:
    """Return rows without values, which say that no client has a text that is long enough."""
    scope = {"source": "tuned", "category": ALL, **protocol.scope()}
    why = f"no client has a text of at least {protocol.min_tokens} tokens"
    names = ("mr_total", "mr_intra", "mr_inter")
    return [_ratio(metric, Rate(None, 0, 0), None, scope, why) for metric in names]


Searched = Mapping[tuple[str, str], int]
"""By (attacker, victim), the number of the victim's texts that were looked for."""


def _ratios(model: ModelMatches, clients: Clients, category: str, searched: Searched) -> Ratios:
    """Return a model's ratios; clients without usable texts are neither attackers nor victims."""
    sizes = {name: sample.documents for name, sample in clients.items() if sample.splits}
    prefix_hits = [answer.prefix_hits() for answer in model.answers]
    return ratios(
        prefix_hits,
        sizes,
        None if category == ALL else (category,),
        unsearched=[pair for pair, count in searched.items() if not count],
    )


def _of_ratios(
    ratio: Ratios,
    base: Ratios | None,
    clients: Clients,
    searched: Searched,
    scope: Mapping[str, object],
) -> Iterator[Measurement]:
    """Yield the ratios of a model in one category: total, intra, inter, and all pairs."""
    yield _ratio("mr_total", ratio.total, base.total if base else None, scope, NOBODY)
    yield _ratio("mr_intra", ratio.intra, base.intra if base else None, scope, NOBODY)
    if sum(bool(s.splits) for s in clients.values()) < 2:
        why = SINGLE_CLIENT_REASON
    elif ratio.unmeasured:
        why = f"nothing was asked with the prefixes of {', '.join(ratio.unmeasured)}"
    else:
        why = SAME_TEXTS
    yield _ratio("mr_inter", ratio.inter, base.inter if base else None, scope, why)
    for pair in product(clients, clients):
        pair_scope = {**scope, "attacker": pair[0], "victim": pair[1]}
        if short := [name for name in pair if not clients[name].splits]:
            why = f"{short[0]} has no texts that are long enough"
            yield _ratio("mr_pair", Rate(None, 0, 0), None, pair_scope, why)
            continue
        why = f"every continuation of a prefix of {pair[0]} repeats itself"
        if not searched[pair]:
            why = nothing_looked_for(*pair)
        yield _ratio(
            "mr_pair", ratio.pairs[pair], base.pairs[pair] if base else None, pair_scope, why
        )


def nothing_looked_for(attacker: str, victim: str) -> str:
    """Return why nothing is known of what `attacker` draws of the texts of `victim`."""
    return f"{attacker} has every text of {victim} as well, so nothing was looked for"


def _ratio(
    metric: str, rate: Rate, base: Rate | None, scope: Mapping[str, object], why: str
) -> Measurement:
    """Return the row of a ratio with the base's as baseline; without an estimate, the reason.

    Weighted means have no number of hits, only the number of prefixes behind them.
    """
    if rate.estimate is None:
        return Measurement.missing(
            why, kind="memorization", plugin=PLUGIN, metric=metric, scope=scope, n=rate.n
        )
    return Measurement.mean(
        rate.estimate,
        rate.n,
        kind="memorization",
        plugin=PLUGIN,
        metric=metric,
        scope=scope,
        hits=rate.hits if metric in PREFIX_SHARE_METRICS else None,
        baseline=base.estimate.value if base and base.estimate else None,
    )


def _searched(clients: Clients, protocol: Protocol, searched: Searched) -> Iterator[Measurement]:
    """Yield how many of a victim's texts were looked for, where some were not.

    The rows without an attacker count what no prefix was compared with: texts that are too short,
    those that `--compat` did not draw, and answers.
    """
    for (attacker, victim), hits in searched.items():
        sample = clients[victim]
        if hits < sample.searchable:
            scope = {**protocol.scope(), "attacker": attacker, "victim": victim}
            if not_drawn := sample.searchable - len(sample.searched):
                scope["not_drawn"] = not_drawn
            yield _rate(hits, sample.searchable, metric="searched", scope=scope)
    for victim, sample in clients.items():
        texts = sample.documents - sample.copies
        for text, hits, n in (
            ("input", len(sample.searched), texts),
            ("output", 0, sample.answers),
        ):
            if hits < n:
                scope = {**protocol.scope(), "victim": victim, "text": text}
                yield _rate(hits, n, metric="searched", scope=scope)


def _left_out(
    continuations: ModelContinuations, clients: Clients, scope: Mapping[str, object]
) -> Iterator[Measurement]:
    """Yield the share of repetitive continuations, of all clients together and of each."""
    for client in _all_and_each(clients):
        names = [name for name, s in clients.items() if s.splits and client in (name, ALL)]
        hits, n = (
            sum(continuations.repetitive[s] for s in names),
            sum(len(clients[s].splits) for s in names),
        )
        if n:
            yield _rate(hits, n, metric="repetitive", scope={**scope, **_attacker_scope(client)})


def _all_and_each(clients: Clients) -> tuple[str, ...]:
    """Return "all", followed by each client if there are several."""
    return (ALL, *(clients if len(clients) > 1 else ()))


def _attacker_scope(name: str) -> dict[str, str]:
    return {} if name == ALL else {"attacker": name}


def _hit_most(model: ModelMatches, scope: Mapping[str, object]) -> Iterator[Measurement]:
    """Yield the suffixes drawn by the most prefixes, with the number of these prefixes."""
    drawn_sets = (
        {(hit.victim, hit.split.document) for hit in answer.hits} for answer in model.answers
    )
    for (victim, document), times in most_hit(chain.from_iterable(drawn_sets), MOST_HIT):
        yield _row(
            metric="drawn",
            value=float(times),
            n=len(model.answers),
            scope={**scope, "victim": victim, "document": document},
        )


def _lengths(
    matches: Sequence[ModelMatches], clients: Clients, protocol: Protocol, engine: Engine
) -> Iterator[Measurement]:
    """Yield median lengths, in tokens, of inputs, outputs and continuations; then too_short rows.

    All are of all clients together and of each.
    """
    for name in _all_and_each(clients):
        splits = [p for k, sample in clients.items() if name in (k, ALL) for p in sample.splits]
        for text, sizes in (
            ("input", [split.input_tokens for split in splits]),
            ("output", [split.output_tokens for split in splits if split.output_tokens]),
        ):
            yield from _median(sizes, {**protocol.scope(), "text": text, **_attacker_scope(name)})
        for model in matches:
            scope = {**protocol.scope(), "source": model.continuations.source, "text": "generation"}
            texts = [c.text for c in model.continuations.texts if name in (c.client, ALL)]
            yield from _median(_tokens(engine, texts), {**scope, **_attacker_scope(name)})
            hits, n = sum(too_short(text, protocol) for text in texts), len(texts)
            if n:
                yield _rate(hits, n, metric="too_short", scope={**scope, **_attacker_scope(name)})


def too_short(text: str, protocol: Protocol) -> bool:
    """Tell whether a text is too short for the detector to find anything in it.

    It needs 50 characters; a Chinese character counts as 2.5, or as 1 in the published program.
    """
    settings = ORIGINAL if protocol.compat else DEFAULT
    chinese = sum(map(has_han, text)) if has_han(text) else 0
    return len(text) + (settings.han_weight - 1) * chinese < settings.length


def _tokens(engine: Engine, texts: Sequence[str]) -> list[int]:
    """Return the number of tokens of each text, without holding all tokens in memory."""
    return [
        len(tokens.ids)
        for first in range(0, len(texts), BATCH)
        for tokens in engine.tokenize(texts[first : first + BATCH])
    ]


def _median(sizes: Sequence[int], scope: Mapping[str, object]) -> Iterator[Measurement]:
    if sizes:
        yield _row(metric="median_length", value=float(median(sizes)), n=len(sizes), scope=scope)


COUNTERFACTUAL = "counterfactual"
Prefix = tuple[str, str, tuple[int, ...]]
"""A client, the document of a prefix, and the prefix itself."""


def counterfactual_rows(
    tuned: ModelMatches,
    base: ModelMatches | None,
    without: Mapping[str, ModelMatches],
    clients: Clients,
) -> Iterator[Measurement]:
    """Yield the counterfactual memorization of each left-out client, for each client's prefixes.

    `without` are the models trained without a client, by client. Only prefixes count whose
    continuations are not repetitive in either model.
    """
    searched = count_looked_for(clients) if without else {}
    for victim, matches in without.items():
        if not clients[victim].splits:
            continue
        for attacker, client in clients.items():
            if not searched.get((attacker, victim), 1):
                scope = _counterfactual_scope(attacker, victim)
                yield _unmeasured_counterfactual(nothing_looked_for(attacker, victim), scope)
            elif client.splits:
                yield from _counterfactual_pair(tuned, base, matches, attacker, victim)


def _counterfactual_pair(
    tuned: ModelMatches,
    base: ModelMatches | None,
    without: ModelMatches,
    attacker: str,
    victim: str,
) -> Iterator[Measurement]:
    drew = {
        source: _prefix_hits(matches.answers, attacker, victim)
        for source, matches in (("tuned", tuned), (COUNTERFACTUAL, without), ("base", base))
        if matches
    }
    prefixes = sorted(drew["tuned"].keys() & drew[COUNTERFACTUAL].keys())
    scope = _counterfactual_scope(attacker, victim)
    if not prefixes:
        why = f"every continuation of a prefix of {attacker} repeats itself in one of the models"
        yield _unmeasured_counterfactual(why, scope)
        return
    shares = {
        source: _share([draws[prefix] for prefix in prefixes if prefix in draws])
        for source, draws in drew.items()
    }
    gain = difference(shares["tuned"], shares[COUNTERFACTUAL])
    yield _counterfactual_row("counterfactual_memorization", gain, len(prefixes), scope)
    for source, share in shares.items():
        yield _counterfactual_row("mean_chance", share, len(prefixes), {**scope, "source": source})
    if "base" in shares:
        gap = difference(shares[COUNTERFACTUAL], shares["base"])
        yield _counterfactual_row("control_gap", gap, len(prefixes), {**scope, "control": "base"})
    gained = sum(drew["tuned"][prefix] > drew[COUNTERFACTUAL][prefix] for prefix in prefixes)
    lost = sum(drew["tuned"][prefix] < drew[COUNTERFACTUAL][prefix] for prefix in prefixes)
    yield Measurement(
        kind=COUNTERFACTUAL,
        plugin=PLUGIN,
        metric="p_value",
        value=mcnemar(gained, lost),
        n=gained + lost,
        hits=gained,
        scope={**scope, "test": COUNTERFACTUAL},
    )


def _counterfactual_scope(attacker: str, victim: str) -> dict[str, str]:
    return {"attacker": attacker, "victim": victim, "unit": "prefix", "without": victim}


def _unmeasured_counterfactual(why: str, scope: Mapping[str, object]) -> Measurement:
    return Measurement.missing(
        why,
        kind=COUNTERFACTUAL,
        plugin=PLUGIN,
        metric="counterfactual_memorization",
        scope=scope,
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


def _counterfactual_row(
    metric: str, estimate: Estimate, n: int, scope: Mapping[str, object]
) -> Measurement:
    return Measurement.mean(
        estimate, n, kind=COUNTERFACTUAL, plugin=PLUGIN, metric=metric, scope=scope
    )


def suffixes_without(without: Mapping[str, ModelMatches]) -> dict[str, set[str]]:
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
