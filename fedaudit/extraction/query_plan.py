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


def of_multiset(case: AttackContext, places: Iterable[PiiOccurrence]) -> QueryPlan:
    """Return the plan of places that are asked as often as they stand there.

    What stands there most often comes first, of equals the smaller token ids: the order of the
    documents does not matter.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    kinds: dict[tuple[int, ...], set[Kind]] = defaultdict(set)
    for place in places:
        prompt = case.with_start(place.prefix, at_start=place.at_start)
        counts[prompt] += 1
        kinds[prompt].add((place.label, place.after))
    ordered = sorted(counts, key=lambda prompt: (-counts[prompt], prompt))
    questions = [Query(p, counts[p], tuple(sorted(kinds[p]))) for p in ordered]
    return QueryPlan(size=counts.total(), questions=lambda: iter(questions))


def of_set(case: AttackContext, places: Sequence[PiiOccurrence]) -> QueryPlan:
    """Return the plan of distinct places that stand in order; they are gone through, not kept."""

    def questions() -> Iterator[Query]:
        for place in places:
            prompt = case.with_start(place.prefix, at_start=place.at_start)
            yield Query(prompt, kinds=((place.label, place.after),))

    return QueryPlan(size=len(places), questions=questions)


def every_query(_: Query) -> bool:
    """Take every question."""
    return True


def query_chunks(
    plan: QueryPlan, room: Callable[[int], int], wanted: Callable[[Query], bool] = every_query
) -> Iterator[Sequence[tuple[int, Query]]]:
    """Yield the numbered questions of a plan, those that are `wanted`, in pieces.

    A piece has about room(n) prefixes, where n prefixes were in those before. The numbers are
    those of the whole plan.
    """
    piece: list[tuple[int, Query]] = []
    before = size = 0
    for start, question in plan.numbered():
        if not wanted(question):
            continue
        piece.append((start, question))
        size += question.copies
        if size >= room(before):
            yield piece
            before += size
            piece, size = [], 0
    if piece:
        yield piece
