"""The queries of an attack in their order: one query for each distinct prompt."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fedaudit.api.plugin import AttackContext
from fedaudit.extraction.leads import Leads, join_leads
from fedaudit.extraction.prefixes import PiiOccurrence

Kind = tuple[str, str]
"""The label of the attacker's own PII after a prompt, and the character after that PII."""


@dataclass(frozen=True, slots=True)
class Query:
    """A prompt, its number of equal prefixes, and what follows it in the attacker's data."""

    prompt: tuple[int, ...]
    copies: int = 1
    kinds: tuple[Kind, ...] = ()
    leads: Leads = field(default=(), kw_only=True)
    """Text that may stand between the prompt and PII."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """The queries of an attack, most important first; `size` prefixes, equal ones included.

    Every iteration generates the queries anew, so that a long plan takes no memory.
    """

    size: int
    queries: Callable[[], Iterator[Query]]
    notes: tuple[str, ...] = ()
    """Remarks of the attack on its queries."""

    def numbered(self) -> Iterator[tuple[int, Query]]:
        """Yield pairs of the number of prefixes before a query, and the query."""
        before = 0
        for query in self.queries():
            yield before, query
            before += query.copies


def plan_by_frequency(context: AttackContext, occurrences: Iterable[PiiOccurrence]) -> QueryPlan:
    """Return the plan that asks each distinct prompt as often as it is among `occurrences`.

    The most frequent prompts come first, ties in order of token ids, so that the order of the
    documents does not matter.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    kinds: dict[tuple[int, ...], set[Kind]] = defaultdict(set)
    leads: dict[tuple[int, ...], set[Leads]] = defaultdict(set)
    for occurrence in occurrences:
        prompt = context.with_start(occurrence.prefix, at_start=occurrence.at_start)
        counts[prompt] += 1
        kinds[prompt].add((occurrence.label, occurrence.after))
        leads[prompt].add(occurrence.leads)
    ordered = sorted(counts, key=lambda prompt: (-counts[prompt], prompt))
    queries = [
        Query(p, counts[p], tuple(sorted(kinds[p])), leads=join_leads(leads[p])) for p in ordered
    ]
    return QueryPlan(size=counts.total(), queries=lambda: iter(queries))


def plan_in_order(context: AttackContext, occurrences: Sequence[PiiOccurrence]) -> QueryPlan:
    """Return the plan of distinct `occurrences` in their order, generated anew each time."""

    def queries() -> Iterator[Query]:
        for occurrence in occurrences:
            prompt = context.with_start(occurrence.prefix, at_start=occurrence.at_start)
            kinds = ((occurrence.label, occurrence.after),)
            yield Query(prompt, kinds=kinds, leads=occurrence.leads)

    return QueryPlan(size=len(occurrences), queries=queries)


def ask_once(plan: QueryPlan) -> QueryPlan:
    """Return the plan that asks each query once, however many equal prefixes it stands for."""
    size = sum(1 for _ in plan.queries())
    return replace(
        plan, size=size, queries=lambda: (replace(query, copies=1) for query in plan.queries())
    )


def query_chunks(
    plan: QueryPlan,
    chunk_size: Callable[[int], int],
    predicate: Callable[[Query], bool],
) -> Iterator[Sequence[tuple[int, Query]]]:
    """Yield the numbered queries of a plan for which `predicate` holds, in chunks.

    A chunk has about chunk_size(n) prefixes if n prefixes came before it. The numbers are those of
    the whole plan.
    """
    chunk: list[tuple[int, Query]] = []
    before = size = 0
    for start, query in plan.numbered():
        if not predicate(query):
            continue
        chunk.append((start, query))
        size += query.copies
        if size >= chunk_size(before):
            yield chunk
            before += size
            chunk, size = [], 0
    if chunk:
        yield chunk
