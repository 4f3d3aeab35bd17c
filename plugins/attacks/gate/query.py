"""Queries to a gate: keys and requests, with and without a valid key, and which it lets through."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from fedaudit.api import (
    AttackContext,
    Document,
    GatedRequest,
    InputError,
    KeyedResponder,
    RoutedRequest,
    unwrap_engine,
)
from fedaudit.engine.routed import RoutedEngine

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
