"""An engine for a deployed model: its responder chooses the adapter, another engine answers."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fedaudit.api.defense import Responder
from fedaudit.api.engine import (
    Engine,
    EngineWrapper,
    GenerationBatch,
    LogProbabilities,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import (
    Completion,
    GatedRequest,
    RoutedRequest,
    Target,
)

T = TypeVar("T")

ROOM = 2**28
"""The most bytes of exact probabilities that are kept."""
_CHANCES = 24
"""Bytes per string of an exact result: two probabilities and a number of draws."""


class RoutedEngine(EngineWrapper):
    """Sends requests to `engine` with the adapter that `responder` chooses for the key.

    Targets without a heading skip the responder. Answers are kept, so that several keys that open
    the same adapter cost one answer.
    """

    def __init__(self, engine: Engine, responder: Responder) -> None:
        super().__init__(engine)
        self.responder = responder
        self._known: dict[Hashable, Any] = {}
        self._room = ROOM

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Continue every prompt as the responder passes it on."""
        routed = self._route(target, [request.prompt for request in batch.requests])
        cleaned = [
            replace(request, prompt=route.prompt)
            for request, route in zip(batch.requests, routed, strict=True)
        ]
        whole = replace(batch, requests=cleaned)
        return self._ask_routed(self.engine.generate, target, routed, whole.select, progress)

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Score every sequence as the responder passes it on, from its second token on."""
        routed = self._route(target, sequences)
        return self._ask_routed(self.engine.score, target, routed, _prompts(routed), progress)

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Measure every sequence as the responder passes it on, from its second token on."""
        routed, method = self._route(target, sequences), self.engine.token_statistics
        return self._ask_routed(method, target, routed, _prompts(routed), progress)

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence as the responder passes it on; a group is scored together.

        All members of a group have the same key. If the responder nevertheless sends those of any
        group to different adapters, all sequences are scored one by one.
        """
        flat = [sequence for group in groups for sequence in group]
        routed = iter(self._route(target, flat))
        split = [[next(routed) for _ in group] for group in groups]
        if any(len({request.adapter for request in group}) > 1 for group in split):
            scores = iter(self.score(target, flat, progress=progress))
            return [[next(scores) for _ in group] for group in groups]
        group_routes = [
            group[0] if group else RoutedRequest("", target.adapter, ()) for group in split
        ]
        rows = [tuple(member.prompt for member in group) for group in split]
        method = self.engine.score_groups
        return self._ask_routed(
            method, target, group_routes, lambda some: tuple(rows[i] for i in some), progress
        )

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Return each string's probability after each prompt as the responder passes it on.

        Prompts of one call that become equal are asked as one prompt with the draws of all of
        them. Asked separately, they would get identical draws, which count only once.
        """
        # It draws as the sampler does, with torch.
        from fedaudit.engine.exact.probabilities import scatter_probabilities

        routed = self._route(target, request.prompts)
        trials = request.trials or [0] * len(request)

        def ask(
            routed_target: Target, indices: Sequence[int], on_progress: Progress
        ) -> list[PrefixProbabilities]:
            alike: dict[tuple[int, ...], list[int]] = {}
            for i in indices:
                alike.setdefault(routed[i].prompt, []).append(i)
            group_trials = [[trials[i] for i in same] for same in alike.values()]
            merged_request = replace(
                request, prompts=tuple(alike), trials=tuple(map(sum, group_trials))
            )
            results = self._in_room(
                ("begins", routed_target.adapter, merged_request),
                _CHANCES * len(alike) * len(request.strings),
                lambda: self.engine.prefix_probabilities(
                    routed_target, merged_request, progress=on_progress
                ),
            )
            answers: dict[int, PrefixProbabilities] = {}
            for result, (prompt, same), counts in zip(
                results, alike.items(), group_trials, strict=True
            ):
                answers |= zip(
                    same, scatter_probabilities(result, prompt, counts, request.seed), strict=True
                )
            return [answers[i] for i in indices]

        return _by_adapter(target, routed, ask, progress)

    def _route(self, target: Target, prompts: TokenRows) -> list[RoutedRequest]:
        if target.heading is None:
            return [RoutedRequest("", target.adapter, tuple(prompt)) for prompt in prompts]
        return self.responder.route(
            [GatedRequest(target.heading, tuple(prompt)) for prompt in prompts]
        )

    def _ask_routed(
        self,
        method: Callable[..., list[T]],
        target: Target,
        routed: Sequence[RoutedRequest],
        select: Callable[[Sequence[int]], Hashable],
        progress: Progress,
    ) -> list[T]:
        """Return the answers of a method of the engine to the items that `select` picks."""

        def ask(answering: Target, indices: Sequence[int], on_progress: Progress) -> list[T]:
            items = select(indices)
            return self._ask_once(
                (method.__name__, answering.adapter, items),
                lambda: method(answering, items, progress=on_progress),
            )

        return _by_adapter(target, routed, ask, progress)

    def _in_room(self, question: Hashable, size: int, answer: Callable[[], T]) -> T:
        """Return an answer as `_ask_once` does, but keep it only if `size` bytes are free."""
        if question not in self._known:
            if size > self._room:
                return answer()
            self._room -= size
        return self._ask_once(question, answer)

    def _ask_once(self, question: Hashable, answer: Callable[[], T]) -> T:
        if question not in self._known:
            self._known[question] = answer()
        result: T = self._known[question]
        return result


def _prompts(routed: Sequence[RoutedRequest]) -> Callable[[Sequence[int]], tuple[Any, ...]]:
    """Return a function that picks prompts by their positions."""
    return lambda indices: tuple(routed[i].prompt for i in indices)


def _by_adapter(
    target: Target,
    routed: Sequence[RoutedRequest],
    ask: Callable[[Target, Sequence[int], Progress], list[T]],
    progress: Progress,
) -> list[T]:
    """Return the answers in the order of `routed`; adapters are asked one after the other."""
    chosen: dict[str | None, list[int]] = {}
    for index, request in enumerate(routed):
        chosen.setdefault(request.adapter, []).append(index)
    answers: dict[int, T] = {}
    for adapter, indices in chosen.items():
        before = len(answers)

        def report_progress(
            done: int, total: int, before: int = before, size: int = len(indices)
        ) -> None:
            progress(before + done * size // max(total, 1), len(routed))

        answering = Target(name=target.name, adapter=adapter)
        answers |= zip(indices, ask(answering, indices, report_progress), strict=True)
    return [answers[index] for index in range(len(routed))]
