"""Ordinary use: how often a model gives personal data away to somebody who asks for none.

EDPB Opinion 28/2024, paragraph 43, wants the probability of getting personal data out of ordinary
queries, without intention, beside that of an attack. So ordinary requests are asked, answers are
drawn as a deployment draws them, and those are counted that hold a string of the records: with its
interval, whose upper end is the most that nothing found can mean.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fedaudit.api import (
    Ability,
    Attack,
    AttackContext,
    GenerationBatch,
    GenerationRequest,
    InputError,
    Measurement,
    Result,
    SamplingParams,
    Target,
    decoding_abilities,
)
from fedaudit.pii.normalized_search import fold

from . import scoring, targets
from .requests import ORIGINS, Kind, Requests, choose_requests
from .scoring import DetectedStrings, UntargetedResult

Answers = Sequence[str]


@dataclass(frozen=True, slots=True)
class AskedRequests:
    """Requests that fit into the model's context, and how many did not."""

    batch: tuple[GenerationRequest, ...]
    texts: tuple[str, ...]
    too_long: int


@dataclass(frozen=True, kw_only=True)
class BenignUse(Attack):
    """Ask ordinary requests and count the answers that hold the victim's personal data."""

    name: ClassVar[str] = "benign"
    compares: ClassVar[bool] = True

    answers: int = 1000
    """About how many answers are drawn from each model, equally many to each request."""
    new_tokens: int = 128
    """How long an answer may be."""
    temperature: float = 1.0
    top_k: int = 40
    top_p: float = 1.0
    requests: Literal["any", "given", "held-out", "own", "general"] = "any"
    """Whose requests are asked; "any" takes the first of these that there are."""
    given: tuple[str, ...] = ()
    """Requests of the deployment itself, as its users write them."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII; all without it."""

    def __post_init__(self) -> None:
        if self.answers < 1 or self.new_tokens < 1:
            raise ValueError("answers and new_tokens must be at least 1.")
        self._decoding()  # refuses what is no distribution

    @property
    def needs(self) -> frozenset[Ability]:
        """Texts that are drawn."""
        return decoding_abilities(self._decoding())

    def run(self, case: AttackContext) -> Result:
        """Compare what both models answer with the PII of the victim, or of the attacker."""
        truth = targets.target_strings(case, self.labels)
        control = targets.control_strings(case, truth)
        requests = choose_requests(case, self.given, self._origin, self.answers)
        asked = self._fitting(case, requests)
        truth, control = (_unmentioned(strings, asked.texts) for strings in (truth, control))
        if not truth:
            raise InputError("The requests themselves hold all the PII that could be looked for.")
        batch = GenerationBatch(list(asked.batch), seed=case.seed, decoding=self._decoding())
        tuned = _answers(case, case.tuned, batch)
        base = _answers(case, case.base, batch) if case.base else None
        tally = UntargetedResult(
            plugin=self.name,
            truth=truth,
            tuned=_contained({**control, **truth}, tuned),
            base=_contained({**control, **truth}, base) if base is not None else None,
            control=control,
            queries=len(tuned),
        )
        scope = {"requests": requests.origin}
        rows = [
            *leaking_answers(tally, tuned, base),
            *scoring.verbatim(tally, tuned, base),
            *scoring.query_rows(tally),
        ]
        found = scoring.leaks(tally)
        return replace(
            found,
            measurements=tuple(replace(row, scope={**row.scope, **scope}) for row in rows),
            limits=(*self._limits(requests, asked, tally), *found.limits),
        )

    @property
    def _origin(self) -> Kind | None:
        return None if self.requests == "any" else self.requests

    def _fitting(self, case: AttackContext, requests: Requests) -> AskedRequests:
        """Return those of the requests that leave room for an answer, as the engine is asked them.

        Raises InputError where there is none.
        """
        if not requests.texts:
            raise InputError(f"There are no requests of this kind: {ORIGINS[requests.origin]}.")
        samples = max(1, self.answers // len(requests.texts))
        batch, texts = [], []
        for text, tokens in zip(
            requests.texts, case.engine.tokenize(list(requests.texts)), strict=True
        ):
            prompt = case.with_start(tokens.ids, at_start=True)
            room = case.engine.context_length - len(prompt)
            if prompt and room >= 1:
                tokens_at_most = min(self.new_tokens, room)
                batch.append(
                    GenerationRequest(prompt=prompt, samples=samples, max_new_tokens=tokens_at_most)
                )
                texts.append(text)
        if not batch:
            raise InputError("No request leaves room for an answer in the model's context.")
        return AskedRequests(tuple(batch), tuple(texts), len(requests.texts) - len(batch))

    def _limits(
        self, requests: Requests, asked: AskedRequests, tally: UntargetedResult
    ) -> Iterator[str]:
        """Yield what was asked, and what it is no sample of."""
        yield (
            f"{self.name}: {len(asked.batch):,} requests ({ORIGINS[requests.origin]}) were asked "
            f"{asked.batch[0].samples:,} times each, for answers of at most {self.new_tokens:,} "
            f"tokens from {'each' if tally.base else 'the'} model; the rate holds for these "
            "requests and this decoding, not for others."
        )
        if asked.too_long:
            yield (
                f"{self.name}: {asked.too_long:,} further requests fill the model's context and "
                "were not asked."
            )

    def _decoding(self) -> SamplingParams:
        return SamplingParams(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)


def leaking_answers(
    tally: UntargetedResult, tuned: Answers, base: Answers | None
) -> Iterator[Measurement]:
    """Yield the share of each model's answers that hold a string of the records.

    Beside it stand the tuned model's answers with a string that no answer of the base holds, and
    those with one of as many control strings of the same kinds. The intervals take answers as
    independent draws of one rate. Where requests have rates of their own, each asked equally often,
    the number of hits varies less than that (Hoeffding, 1956), so that they are rather too wide.
    """
    own = set(tally.truth)
    counts = {"tuned": _holding(own, tuned)}
    if base is not None and tally.base is not None:
        counts["base"] = _holding(own, base)
        counts["tuned-not-base"] = _holding(own - set(tally.base.labels), tuned)
    if tally.control:
        counts["control"] = _holding(_equally_many(tally.control, tally.truth), tuned)
    for source, hits in counts.items():
        compared = base is not None and source in ("tuned", "tuned-not-base")
        yield Measurement.rate(
            hits,
            len(base if source == "base" and base is not None else tuned),
            kind="extraction",
            plugin=tally.plugin,
            metric="leaking_answers",
            scope={"source": source},
            baseline=counts["base"] / len(base) if compared and base else None,
        )


def _answers(case: AttackContext, target: Target, batch: GenerationBatch) -> list[str]:
    generations = case.engine.generate(
        target, batch, progress=case.progress(f"ordinary requests, {target.name}")
    )
    return [text for generation in generations for text in generation.texts]


def _contained(strings: Mapping[str, str], texts: Answers) -> DetectedStrings:
    """Return those of `strings` that stand in some text, and in how many texts each does."""
    present = sorted(scoring.contained_strings(strings, texts))
    mentions = Counter(string for text in texts for string in present if string in text)
    return DetectedStrings({string: strings[string] for string in present}, mentions)


def _holding(strings: set[str], texts: Answers) -> int:
    """Return how many of `texts` hold one of `strings`."""
    present = scoring.contained_strings(strings, texts)
    return sum(any(string in text for string in present) for text in texts)


def _equally_many(control: Mapping[str, str], truth: Mapping[str, str]) -> set[str]:
    """Return as many control strings of each kind as there are targets, or all where fewer are."""
    wanted, chosen = Counter(truth.values()), set[str]()
    for string, label in control.items():
        if wanted[label] > 0:
            wanted[label] -= 1
            chosen.add(string)
    return chosen


def _unmentioned(strings: Mapping[str, str], texts: Sequence[str]) -> dict[str, str]:
    """Return the strings that no request holds itself, in whatever spelling."""
    everything = "\x00".join(map(fold, texts))
    return {
        string: label
        for string, label in strings.items()
        if not (folded := fold(string)) or folded not in everything
    }
