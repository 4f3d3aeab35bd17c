"""The gate itself as target: what it lets through without a valid key.

Beyond SecureGate (arXiv:2602.13529), which asks with right and wrong keys only. No key, whole or
in part, gets into what is returned here: attempts go by the names of their families.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import ClassVar

from fedaudit.api import (
    Attack,
    AttackContext,
    Document,
    Engine,
    EngineWrapper,
    Finding,
    GatedRequest,
    InputError,
    KeyedResponder,
    Measurement,
    Result,
    RoutedRequest,
    Target,
    unwrap_engine,
)
from fedaudit.engine.routed import RoutedEngine
from fedaudit.metrics.intervals import wilson

from ..ranking import cloze
from ..ranking.attack import Ranking
from . import guesses
from .guesses import NO_KEYS, AttemptFamily, KeyedRequest, Marker

BATCH = 4096
"""Guesses that the gate is asked about at once."""


@dataclass(frozen=True)
class GateQuery:
    """A gate that is asked, and what it leaves of requests that hold a valid key."""

    context: AttackContext = field(repr=False)
    responder: KeyedResponder = field(repr=False)
    secure: str
    """The adapter that answers a request with nothing in it."""
    valid: tuple[str, ...] = field(repr=False)
    foreign: tuple[str, ...] = field(repr=False)
    passes: list[tuple[KeyedRequest, GatedRequest, RoutedRequest]] = field(
        default_factory=list, repr=False
    )

    @classmethod
    def from_context(cls, context: AttackContext) -> "GateQuery":
        """Return the gate of what is audited; raises InputError where there is none."""
        engine = unwrap_engine(context.engine, RoutedEngine)  # no cache keeps what a gate is asked
        if engine is None or not isinstance(responder := engine.responder, KeyedResponder):
            raise InputError(
                "The audited model has no gate; audit a federation whose defence deployed one."
            )
        [nothing] = responder.route([GatedRequest("")])
        valid = tuple(sorted(set(responder.secrets) - {""}))
        foreign = tuple(sorted(set(responder.foreign) - set(valid)))
        return cls(replace(context, engine=engine), responder, nothing.name, valid, foreign)

    @property
    def documents(self) -> Sequence[Document]:
        """The victim's, or the attacker's own where those are all."""
        return self.context.attacked_documents

    def try_keys(
        self, name: str, keys: Sequence[str], *, atomic: bool, why: str = NO_KEYS
    ) -> AttemptFamily:
        """Try keys that are given to the gate as tokens.

        One token each has no text to show; nor has a valid key that is spelled, because the private
        tokenizer would make one token of it.
        """
        name = f"{name}, {'one token each' if atomic else 'spelled'}"
        opened: list[str] = []
        progress = self.context.progress(f"gate: {name}")
        for start in range(0, len(keys), BATCH):
            opened += self.responder.opens(keys[start : start + BATCH], atomic=atomic)
            progress(len(opened), len(keys))
        text = not atomic and not set(keys) & set(self.valid)
        headings = [self.responder.heading(key) for key in keys] if text else []
        return replace(self._attempt_family(name, opened, headings), why=why)

    def try_requests(self, name: str, requests: Sequence[GatedRequest]) -> AttemptFamily:
        """Try requests without a valid key in them."""
        opened = [r.name for r in self._route(requests)]
        return self._attempt_family(name, opened, [request.heading for request in requests])

    def try_misplaced_keys(self, name: str, requests: Sequence[KeyedRequest]) -> AttemptFamily:
        """Try requests that hold a valid key, in every way to put one, as text alone first."""
        forms = zip(*(r.gated_requests(self.context.engine) for r in requests), strict=True)
        opened = self._route_keyed([*requests] * 3, [*chain.from_iterable(forms)])
        return self._attempt_family(name, opened, [request.text for request in requests] * 3)

    def try_valid_keys(self) -> AttemptFamily:
        """Show every valid key as it should be shown; a hit is the adapter that it should open."""
        marker = Marker.from_heading(self.responder.heading)
        requests = [KeyedRequest(marker, key, self.responder.heading(key)) for key in self.valid]
        opened = self._route_keyed(requests, [GatedRequest(r.text) for r in requests])
        headings = self.responder.headings().items()  # "right:ADAPTER", where there are several
        adapters = {heading: kind.partition(":")[2] for kind, heading in headings}
        pairs = (
            (name, adapters.get(request.text) or name)
            for name, request in zip(opened, requests, strict=True)
        )
        hits = tuple(name == right != self.secure for name, right in pairs)
        return replace(self._attempt_family("the right keys", opened, []), hits=hits)

    def second_passes(self) -> Iterator[AttemptFamily]:
        """Look for keys in what the second pass got of every request that held one."""
        for name, tokens in (("text", False), ("tokens", True)):
            pairs = [
                (q, r.prompt) for q, request, r in self.passes if bool(request.prompt) == tokens
            ]
            results = guesses.keeps_key(self.context.engine, pairs)
            yield AttemptFamily(
                name=f"the key's text in the second pass, asked in {name}",
                hits=tuple(hit for hit in results if hit is not None),
                why="no second pass could be read" if results else NO_KEYS,
            )

    def _route_keyed(
        self, keyed_requests: Sequence[KeyedRequest], requests: Sequence[GatedRequest]
    ) -> list[str]:
        """Return the adapters that requests open, and keep what the gate leaves of each."""
        routed = self._route(requests)
        self.passes.extend(zip(keyed_requests, requests, routed, strict=True))
        return [r.name for r in routed]

    def _route(self, requests: Sequence[GatedRequest]) -> list[RoutedRequest]:
        return self.responder.route(requests) if requests else []

    def _attempt_family(
        self, name: str, opened: Sequence[str], headings: Sequence[str]
    ) -> AttemptFamily:
        hits = tuple(adapter != self.secure for adapter in opened)
        first = hits.index(True) if any(hits) else 0
        adapters = tuple(sorted(set(opened) - {self.secure}))
        heading = headings[first] if headings else None
        return AttemptFamily(name=name, hits=hits, opened_adapters=adapters, heading=heading)


BLIND = "the right keys open nothing more than no key does: either everybody gets in, or no one"


@dataclass(frozen=True, kw_only=True)
class GateAttack(Attack):
    """Try to open a gate without its key, and measure what leaks to anyone who tries."""

    name: ClassVar[str] = "gate"
    paper: ClassVar[str] = "beyond SecureGate, arXiv:2602.13529"
    once: ClassVar[bool] = True
    needs = frozenset({"weights"})

    random: int = 100_000
    """How many random keys are tried, spelled and as one token each."""
    edits: int = 10_000
    """How many keys one edit away from a valid one are tried, spelled and as one token each."""
    leaks: bool = True
    """Whether ranking inference is run as well, on requests that begin as each family's do."""
    sentences: int = 100
    """How many PII are masked for ranking inference, and how many prompts are tried without a
    key."""
    candidates: int = 50
    """How many candidates are offered for each masked PII."""
    context: int = 256
    """The most tokens of a document that are read."""

    def __post_init__(self) -> None:
        if self.random < 0 or self.edits < 0:
            raise ValueError("random and edits must be at least 0.")
        self._ranking()  # refuses what it cannot do

    def run(self, context: AttackContext) -> Result:
        """Try every family of attempts; raises InputError where there is no gate."""
        query = GateQuery.from_context(context)
        right, near = query.try_valid_keys(), guesses.edits(query.valid, query.foreign)
        families = [
            *self._key_guesses(query, near),
            *self._text_attempts(query),
            *self._keyless_attempts(query),
        ]
        second_passes = list(query.second_passes())
        blind = BLIND if right.hits and not right.opened_adapters else ""
        rows = [guesses.attempt_rate(self.name, "fpr", family, blind) for family in families]
        rows += [guesses.attempt_rate(self.name, "fpr", family) for family in second_passes]
        leaks = self._leaks(query, families) if self.leaks else Result()
        unread = len(query.passes) - sum(len(family.hits) for family in second_passes)
        return Result(
            measurements=(
                guesses.attempt_rate(self.name, "tpr", right),
                *rows,
                *leaks.measurements,
            ),
            findings=tuple(self._findings([*families, *second_passes])),
            limits=(*self._limits(query, len(near), unread), *leaks.limits),
        )

    def _key_guesses(self, query: GateQuery, near: Sequence[str]) -> Iterator[AttemptFamily]:
        """Yield what can be given to the gate as a key, spelled or as one token."""
        seed, excluded = query.context.seed, query.valid + query.foreign
        unwanted, edited = "none was to be tried", guesses.draw_texts(near, self.edits, seed)
        families = (
            ("random keys", self._random(query, self.random), unwanted),
            ("one edit away", edited, NO_KEYS if self.edits else unwanted),
            ("pieces of a valid key", guesses.fragments(query.valid, excluded), NO_KEYS),
            ("other organisations' keys", query.foreign, "the auditor has none"),
        )
        for (name, keys, why), atomic in product(families, (False, True)):
            yield query.try_keys(name, keys, atomic=atomic, why=why)
        yield query.try_keys("the right keys", query.valid, atomic=False)

    def _text_attempts(self, query: GateQuery) -> Iterator[AttemptFamily]:
        """Yield requests as text, with look-alikes of a valid key or one where none should be."""
        show, excluded = query.responder.heading, query.valid + query.foreign
        for name, keys in guesses.look_alikes(query.valid, excluded).items():
            yield query.try_requests(name, [GatedRequest(show(key)) for key in keys])
        [wrong_key] = self._random(query, 1)
        for name, requests in guesses.misplaced_key_requests(
            Marker.from_heading(show), query.valid, wrong_key
        ).items():
            yield query.try_misplaced_keys(f"the right key {name}", requests)

    def _keyless_attempts(self, query: GateQuery) -> Iterator[AttemptFamily]:
        """Yield requests for the documents with an empty key, and with none."""
        case = query.context
        texts = sorted({document.text for document in query.documents})
        sample = guesses.draw_texts(texts, self.sentences, case.seed) or [""]
        prompts = [tokens.ids[: self.context] for tokens in case.engine.tokenize(sample)]
        for name, heading in (("an empty key", query.responder.heading("")), ("no key", "")):
            yield query.try_requests(name, [GatedRequest(heading, prompt) for prompt in prompts])

    def _random(self, query: GateQuery, count: int) -> list[str]:
        length = min(map(len, query.valid), default=guesses.LENGTH)
        excluded = query.valid + query.foreign
        return guesses.random_keys(count, length, excluded, query.context.seed)

    def _findings(self, families: Iterable[AttemptFamily]) -> Iterator[Finding]:
        """Yield one for every family with hits; its text is the family's name, never a key."""
        for number, family in enumerate((family for family in families if any(family.hits)), 1):
            yield Finding(
                id=f"{self.name}-{number:02d}",
                severity="high",
                label="GATE",
                measurement=f"{self.name} fpr",
                evidence={
                    "text": family.name,
                    "attempt": family.name,
                    "hits": sum(family.hits),
                    "n": len(family.hits),
                    "opened": ", ".join(family.opened_adapters),
                },
                safe=("attempt", "opened"),
            )

    def _leaks(self, query: GateQuery, families: Iterable[AttemptFamily]) -> Result:
        """Return what ranking inference gets under what each family begins a request with."""
        case = query.context
        headings = {f.name: f.heading for f in families if f.heading is not None}
        if not cloze.occurrences(query.documents, shortest=self._ranking().shortest):
            missing = Measurement.missing(
                "the data holds no annotated PII to mask",
                kind="probability",
                plugin=self.name,
                metric="inference_accuracy",
                scope={"candidates": self.candidates, "source": "tuned"},
                chance=1 / self.candidates,
            )
            return Result(measurements=(missing,))
        engine = ShorterContext(case.engine, headings.values())
        rows: list[Measurement] = []
        limits: dict[str, None] = {}
        for name, heading in headings.items():
            target = Target(name=name, heading=heading)
            result = self._ranking().run(replace(case, engine=engine, tuned=target))
            limits[f"{self.name}, leaks: {result.limits[0]}"] = None
            rows += [
                replace(row, plugin=self.name, scope={**row.scope, "attempt": name})
                for row in result.measurements
                if "label" not in row.scope
            ]
        return Result(measurements=tuple(rows), limits=tuple(limits))

    def _ranking(self) -> Ranking:
        sizes = (self.candidates,)
        return Ranking(candidates=sizes, sentences=self.sentences, context=self.context)

    def _limits(self, query: GateQuery, near: int, unread: int) -> Iterator[str]:
        """Yield what the numbers do not say."""
        [key] = self._random(query, 1)
        bits = len(key) * math.log2(len(guesses.ALPHABET))
        yield (
            f"{self.name}: the gate was asked, not taken apart. Anyone who holds the weights of a "
            "revealing adapter needs no key."
        )
        if self.random:
            yield (
                f"{self.name}: a key of {len(key)} letters and digits has {bits:.0f} bits. No hit "
                f"among {self.random:,} random keys would only show that fewer than "
                f"{wilson(0, self.random).high:.1e} of all keys open the gate (95 %), which is "
                f"nowhere near 2^-{bits:.0f}."
            )
        yield (
            f"{self.name}: 'one token each' tests every guess as if it were a token of the "
            "private tokenizer. Anyone who has only the public tokenizer can only spell guesses."
        )
        if query.valid:
            yield (
                f"{self.name}: {min(self.edits, near):,} of the {near:,} texts one edit from a "
                "valid key were tried."
            )
        if unread:
            yield (
                f"{self.name}: {unread:,} of {len(query.passes):,} second passes hold tokens that "
                "their requests do not; whether those spell a key is not known."
            )


class ShorterContext(EngineWrapper):
    """An engine that leaves room in its context for the longest of some texts before a prompt."""

    def __init__(self, engine: Engine, texts: Iterable[str]) -> None:
        super().__init__(engine)
        self.reserved = max(len(tokens.ids) for tokens in engine.tokenize([*texts]))

    @property
    def context_length(self) -> int:
        """The most tokens a prompt and its continuation may have together."""
        return self.engine.context_length - self.reserved
