"""Likelihood of strings under the base: to match controls, and to see what the base might say."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from fedaudit.api.abilities import Ability, why_lacking
from fedaudit.api.engine import PrefixProbabilityRequest
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import SamplingParams, Target
from fedaudit.api.scripts import is_spaceless
from fedaudit.extraction.leads import Leads, join_leads
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams
from fedaudit.metrics.log_probabilities import log_mean_exp

PROMPTS = 1
"""Prompts of each kind after which the likelihood of strings is measured."""
MAX_PROMPTS = 300
"""The most prompts after which the probability of extracted strings is measured."""
MAX_MISSED_STRINGS, MAX_MISSED_PROMPTS = 50, 50
"""Of strings not extracted: how many get a probability at most, and after how many prompts."""
NEGLIGIBLE = 1e-8
"""Branches of a computed probability that are less likely than this are not followed."""
MAX_SCANNED_QUERIES = 20_000
"""The most queries of a plan that are searched for prompts of a kind."""


def behind_word(string: str) -> str:
    """Return a string as it is written after a word: with a space before it, if its script has any.

    Korean counts as a script with spaces, although particles are attached to words.
    """
    return string if is_spaceless(string) else f" {string}"


def log_likelihoods(
    context: AttackContext, plan: QueryPlan, strings: Mapping[str, str]
) -> dict[str, float]:
    """Return ln p of each string (string -> label) under the base, the mean over a few prompts.

    The prompts are the first of the plan that the attacker's documents continue with PII of the
    label, or else the first of all. The result is empty without a base or an engine that scores.
    """
    if context.base is None or not strings or why_lacking(context.engine, {"score"}):
        return {}
    by_label: dict[str, list[str]] = defaultdict(list)
    for string, label in sorted(strings.items()):
        by_label[label].append(string)
    queries = _first_queries(plan, by_label)
    likelihoods: dict[str, float] = {}
    for label, group in by_label.items():
        scores = _score_strings(context, context.base, queries[label], group)
        for string, values in zip(group, scores, strict=True):
            likelihoods[string] = log_mean_exp(values)
    return likelihoods


def base_probabilities(
    context: AttackContext,
    plan: QueryPlan,
    strings: Sequence[str],
    query_params: QueryParams,
    *,
    prompts: int = MAX_PROMPTS,
) -> dict[str, float]:
    """Return the probability that the base, audited by itself, says each string at least once.

    Each prompt is asked `samples` times for each of its copies in the plan. At most `prompts`
    prompts, spread over the plan, are scored and represent the others. A string is scored in the
    tokenisation that it has by itself; others are rare. Where answers are drawn from anything but
    the model's own distribution (top-k, top-p, another temperature), the probabilities are those
    of what was drawn from. A greedy answer counts as one draw from the model's distribution, since
    a model trained on other records would rank other strings first.

    The result is empty if the engine cannot tell.
    """
    decoding = query_params.decoding
    is_plain = decoding.temperature == 0 or decoding == SamplingParams()
    ability: Ability = "score" if is_plain else "exact"
    if context.base is None or not strings or why_lacking(context.engine, {ability}):
        return {}
    queries = _spread(plan.queries(), prompts)
    score = _score_strings if is_plain else partial(_walk_strings, query_params)
    scores = score(context, context.base, queries, strings)
    copies = [query.copies for query in queries]
    scale = query_params.samples * plan.size / sum(copies)
    chances = {}
    for string, values in zip(strings, scores, strict=True):
        expected = sum(n * math.exp(value) for n, value in zip(copies, values, strict=True))
        chances[string] = -math.expm1(-scale * expected)
    return chances


def missed_target_probabilities(
    context: AttackContext,
    plan: QueryPlan,
    strings: Mapping[str, str],
    query_params: QueryParams,
) -> dict[str, float]:
    """Return `base_probabilities` of strings (string -> label) that were not extracted.

    At most `MAX_MISSED_STRINGS` strings are scored: every k-th, in order of labels, represents
    those that follow it.
    """
    ordered = [s for _, s in sorted((label, string) for string, label in strings.items())]
    step = max(1, math.ceil(len(ordered) / MAX_MISSED_STRINGS))
    chances = base_probabilities(
        context, plan, ordered[::step], query_params, prompts=MAX_MISSED_PROMPTS
    )
    return {string: chances[ordered[i - i % step]] for i, string in enumerate(ordered) if chances}


def _spread(queries: Iterable[Query], most: int) -> list[Query]:
    """Return `most` of the queries, evenly spread; if there are very many, from the first ones."""
    pool = list(islice(queries, MAX_SCANNED_QUERIES))
    step = max(1, math.ceil(len(pool) / most))
    return pool[::step]


def _first_queries(plan: QueryPlan, labels: Iterable[str]) -> dict[str, list[Query]]:
    queries: dict[str, list[Query]] = {label: [] for label in labels}
    first: list[Query] = []
    for query in islice(plan.queries(), MAX_SCANNED_QUERIES):
        if len(first) < PROMPTS:
            first.append(query)
        for label, _ in query.kinds:
            if label in queries and len(queries[label]) < PROMPTS:
                queries[label].append(query)
        if all(len(group) == PROMPTS for group in queries.values()):
            break
    return {label: group or first for label, group in queries.items()}


def _score_strings(
    context: AttackContext, target: Target, queries: Sequence[Query], strings: Sequence[str]
) -> list[list[float]]:
    """Return ln p of each string after each prompt: (strings, queries).

    After a prompt with leads, a string may follow a space or any of the leads.
    """
    spellings = _spellings(context, strings, join_leads(query.leads for query in queries))
    spelt = [[ids for lead in ("", *query.leads) for ids in spellings[lead]] for query in queries]
    longest = max(len(ids) for rows in spellings.values() for ids in rows)
    room = max(1, context.engine.context_length - longest)
    groups = [(query.prompt[-room:], ids) for query, ids in zip(queries, spelt, strict=True)]
    sums = score_continuations(context, target, groups)
    size = len(strings)  # the tokenisations of a string are `size` apart
    # The mean over the tokenisations, times their number: their sum.
    return [
        [log_mean_exp(row[index::size]) + math.log(len(row) // size) for row in sums]
        for index in range(size)
    ]


def score_continuations(
    context: AttackContext,
    target: Target,
    groups: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]],
) -> list[list[float]]:
    """Return ln p of each continuation after its prompt; `groups` are (prompt, continuations)."""
    sequences = [[(*prompt, *ids) for ids in tails] for prompt, tails in groups]
    scores = context.engine.score_groups(target, sequences, progress=context.progress("weighing"))
    return [
        [sum(row[len(row) - len(ids) :]) for row, ids in zip(rows, tails, strict=True)]
        for rows, (_, tails) in zip(scores, groups, strict=True)
    ]


def _walk_strings(
    query_params: QueryParams,
    context: AttackContext,
    target: Target,
    queries: Sequence[Query],
    strings: Sequence[str],
) -> list[list[float]]:
    """Return the same as `_score_strings`, in the distribution that answers are drawn from.

    Mass below NEGLIGIBLE that was not followed counts as that of every string it may spell.
    """
    leads = ("", *join_leads(query.leads for query in queries))
    request = PrefixProbabilityRequest(
        prompts=[query.prompt for query in queries],
        strings=[lead + string for lead in leads for string in strings],
        max_new_tokens=query_params.new_tokens,
        decoding=query_params.decoding,
        threshold=NEGLIGIBLE,
    )
    found = context.engine.prefix_probabilities(
        target, request, progress=context.progress("weighing")
    )
    own = np.array([[lead in ("", *query.leads) for lead in leads] for query in queries])
    masses = np.array([one.most.reshape(len(leads), len(strings)) for one in found])
    sums = (masses * own[:, :, None]).sum(axis=1).clip(np.finfo(float).tiny, 1)
    return [[float(value) for value in row] for row in np.log(sums).T]


def _spellings(
    context: AttackContext, strings: Sequence[str], leads: Leads
) -> dict[str, list[tuple[int, ...]]]:
    """Return the token ids of all strings after a space (key "") and after each lead."""
    texts = {
        "": [*map(behind_word, strings)],
        **{lead: [lead + s for s in strings] for lead in leads},
    }
    tokens = iter(context.engine.tokenize([text for row in texts.values() for text in row]))
    return {lead: [t.ids for t in islice(tokens, len(row))] for lead, row in texts.items()}
