"""What an attack asks, in which order: one question a distinct prompt."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedaudit.api.plugin import AttackContext
from fedaudit.extraction.prefixes import PiiOccurrence

Kind = tuple[str, str]
"""Label of the attacker's own PII behind a prompt, and the character after it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A prompt, how many equal prefixes it stands for, and what the attacker has behind it."""

    prompt: tuple[int, ...]
    copies: int = 1
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """The questions of an attack, most important first; `size` prefixes, equal ones included.

    They are made anew each time they are gone through, so that a long plan takes no room.
    """

    size: int
    questions: Callable[[], Iterator[Query]]
    notes: tuple[str, ...] = ()
    """What the attack has to say of what it asks."""

    def numbered(self) -> Iterator[tuple[int, Query]]:
        """Yield each question behind the number of prefixes that come before it."""
        before = 0
        for question in self.questions():
            yield before, question
            before += question.copies


def plan_by_frequency(context: AttackContext, occurrences: Iterable[PiiOccurrence]) -> QueryPlan:
    """Return the plan that asks each of `occurrences` as often as it stands there.

    What stands there most often comes first, of equals the smaller token ids: the order of the
    documents does not matter.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    kinds: dict[tuple[int, ...], set[Kind]] = defaultdict(set)
    for occurrence in occurrences:
        prompt = context.with_start(occurrence.prefix, at_start=occurrence.at_start)
        counts[prompt] += 1
        kinds[prompt].add((occurrence.label, occurrence.after))
    ordered = sorted(counts, key=lambda prompt: (-counts[prompt], prompt))
    questions = [Query(p, counts[p], tuple(sorted(kinds[p]))) for p in ordered]
    return QueryPlan(size=counts.total(), questions=lambda: iter(questions))


def plan_in_order(context: AttackContext, occurrences: Sequence[PiiOccurrence]) -> QueryPlan:
    """Return the plan of distinct `occurrences` in their order, read anew each time, not kept."""

    def questions() -> Iterator[Query]:
        for occurrence in occurrences:
            prompt = context.with_start(occurrence.prefix, at_start=occurrence.at_start)
            yield Query(prompt, kinds=((occurrence.label, occurrence.after),))

    return QueryPlan(size=len(occurrences), questions=questions)


def every_query(_: Query) -> bool:
    """Take every question."""
    return True


def query_chunks(
    plan: QueryPlan,
    chunk_size: Callable[[int], int],
    predicate: Callable[[Query], bool] = every_query,
) -> Iterator[Sequence[tuple[int, Query]]]:
    """Yield the numbered questions of a plan for which `predicate` holds, in pieces.

    A piece has about chunk_size(n) prefixes, where n prefixes were in those before. The numbers are
    those of the whole plan.
    """
    piece: list[tuple[int, Query]] = []
    before = size = 0
    for start, question in plan.numbered():
        if not predicate(question):
            continue
        piece.append((start, question))
        size += question.copies
        if size >= chunk_size(before):
            yield piece
            before += size
            piece, size = [], 0
    if piece:
        yield piece
