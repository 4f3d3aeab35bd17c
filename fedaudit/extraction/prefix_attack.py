"""Extraction by prefixes: ask the tuned model and its base the same, and score the answers.

A plugin chooses the prefixes (PrefixAttack.occurrences); asking, scoring, sweeps and controls are
the same for all attacks and are implemented here.
"""

import re
from abc import abstractmethod
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

from fedaudit.api.abilities import Ability, decoding_abilities
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Attack, AttackContext, Result
from fedaudit.api.records import Document, Finding, Measurement, SamplingParams, Target
from fedaudit.api.target_sets import ALL
from fedaudit.extraction import query_plan, sampling, scoring
from fedaudit.extraction.candidates import ranking
from fedaudit.extraction.controls import CONTROLS
from fedaudit.extraction.exact import estimator as exact
from fedaudit.extraction.impact import counterfactual, persons
from fedaudit.extraction.leak_tests import unasked_rows
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.prefixes import PiiOccurrence, document_parts
from fedaudit.extraction.query_plan import QueryPlan
from fedaudit.extraction.sampling import QueryParams
from fedaudit.extraction.scoring import ExtractionResult, HitCounter, ScoredResult, coverage_rows
from fedaudit.extraction.targets import TargetSet, build_target_set, check_labels
from fedaudit.metrics.budget_sweep import budget_steps
from fedaudit.metrics.extraction import Disjointness

COMMON = 3
"""In how many of the attacker's documents a word stands before a masked prompt shows it."""
SHOWN = 160
"""The most characters of a masked prompt that are shown: its end."""
GAP = "…"

ResultT = TypeVar("ResultT", bound=Result)
Prompt = tuple[int, ...]

_WORD = re.compile(r"\w+")


def describe_prompts(
    result: ResultT, context: AttackContext, plan: QueryPlan, documents: Sequence[Document]
) -> ResultT:
    """Return `result` with a description of each prompt that its findings give by number.

    A description has the number, how many tokens, the kinds of the attacker's own PII behind the
    prompt and, if it stands in one of `documents`, its text, of which only harmless words are left.
    """
    numbers = {number for finding in result.findings if (number := _number(finding))}
    if not numbers:
        return result
    queries = {n: query for before, query in plan.numbered() if (n := before + 1) in numbers}
    texts = masked_prompts(context, {query.prompt for query in queries.values()}, documents)
    prompts = {
        number: {
            "number": number,
            "tokens": len(query.prompt),
            "before": sorted({label for label, _ in query.kinds if label}),
            **({"text": text} if (text := texts.get(query.prompt)) else {}),
        }
        for number, query in queries.items()
    }
    findings = tuple(
        replace(
            finding,
            evidence={**finding.evidence, "prompt": prompts[number]},
            safe=(*finding.safe, "prompt"),
        )
        if (number := _number(finding))
        else finding
        for finding in result.findings
    )
    return replace(result, findings=findings)


def _number(finding: Finding) -> int:
    number = finding.evidence.get("prompt")
    return number if isinstance(number, int) else 0


def masked_prompts(
    context: AttackContext, prompts: Collection[Prompt], documents: Sequence[Document]
) -> dict[Prompt, str]:
    """Return the masked text of every prompt that stands in one of `documents`.

    Annotated PII becomes its kind in brackets. A detector may have missed some, so of the rest a
    word is shown only if it consists of letters, stands in at least COMMON documents, and is no
    part of annotated PII, neither the attacker's nor the victim's.
    """
    words = _harmless_words(documents, context.victim or ())
    return {
        prompt: _mask(document, begin, end, words)
        for prompt, document, begin, end in _find(context, prompts, documents)
    }


def _find(
    context: AttackContext, prompts: Collection[Prompt], documents: Sequence[Document]
) -> Iterator[tuple[Prompt, Document, int, int]]:
    """Yield prompts with the first document that holds them, and where: half-open, in code points.

    What the engine puts before a prompt, such as a BOS token, is not text of a document.
    """
    starts = sorted(set(context.engine.prompt_starts.values()), key=len, reverse=True)
    sought: dict[Prompt, bytes] = {}
    for prompt in prompts:
        start = next((s for s in starts if prompt[: len(s)] == s), ())
        if text := prompt[len(start) :]:
            sought[prompt] = _bytes(text)
    for part in document_parts(documents):
        for document, tokens in zip(
            part, context.engine.tokenize([one.text for one in part]), strict=True
        ):
            ids = _bytes(tokens.ids)
            for prompt, own in [*sought.items()]:
                if (first := _index(ids, own)) is not None:
                    last = first + len(own) // _WIDTH - 1
                    yield prompt, document, tokens.offsets[first][0], tokens.offsets[last][1]
                    del sought[prompt]


_WIDTH = array("q").itemsize


def _bytes(ids: Sequence[int]) -> bytes:
    return array("q", ids).tobytes()


def _index(ids: bytes, sought: bytes) -> int | None:
    """Return at which token `sought` begins in `ids`; None if it does not occur."""
    at = ids.find(sought)
    while at >= 0 and at % _WIDTH:
        at = ids.find(sought, at + 1)
    return None if at < 0 else at // _WIDTH


def _harmless_words(documents: Sequence[Document], victim: Sequence[Document]) -> set[str]:
    counts = Counter(word for one in documents for word in set(_words(one.text)))
    personal = {
        word for one in (*documents, *victim) for text, _ in one.strings() for word in _words(text)
    }
    return {word for word, n in counts.items() if n >= COMMON and word.isalpha()} - personal


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _mask(document: Document, begin: int, end: int, words: Collection[str]) -> str:
    """Return the end of a document's text from `begin` to `end`, masked."""
    shown, at = "", begin
    for span in sorted(document.pii or ()):
        if at < span.end and span.start < end:
            shown += f"{_gaps(document.text[at : span.start], words)}[{span.label}]"
            at = span.end
    shown = " ".join((shown + _gaps(document.text[at:end], words)).split())
    shown = re.sub(f"{GAP}(?: ?{GAP})+", GAP, shown)
    return shown if len(shown) <= SHOWN else f"{GAP} {shown[-SHOWN:].partition(' ')[2]}"


def _gaps(text: str, words: Collection[str]) -> str:
    """Return a text with a gap for each of its words that is not one of `words`."""
    return _WORD.sub(lambda match: match[0] if match[0].casefold() in words else GAP, text)


EXACT_CONTROLS = 400
"""About how many controls get exact probabilities by the exact estimator."""

Estimator = Literal["sample", "exact"]

NO_TARGETS = (
    "The exact estimator computes how likely known strings come out: name the victim's documents "
    "with --victim."
)


@dataclass(frozen=True, kw_only=True)
class PrefixAttack(Attack):
    """An attack that continues prefixes and looks for PII at the beginning of the answers."""

    distinct: ClassVar[bool] = False
    """Whether each place is asked once, in a fixed order; other attacks' answers are reused."""
    tunes: ClassVar[bool] = False
    """Whether it tunes the model on the attacker's own PII before it asks."""

    samples: int = 15
    """How often each prefix is asked; once at temperature 0."""
    new_tokens: int = 10
    """How long a continuation may be."""
    temperature: float = 1.0
    """How the model samples: logits are divided by it; 0 is greedy."""
    top_k: int = 0
    """How many of the likeliest tokens are sampled from; 0 is all."""
    top_p: float = 1.0
    """The probability that the likeliest tokens sampled from must reach; 1 is all."""
    disjoint: Disjointness = "prefix-free"
    """What makes targets disjoint: none begins another, or no two share a first character."""
    labels: tuple[str, ...] = ()
    """Only these kinds of PII, the attacker's before which it asks and the victim's; else all."""
    sweeps: bool = True
    """Whether to report what smaller budgets and fewer samples would have found."""
    estimator: Estimator = "sample"
    """Whether to draw continuations, or to compute how likely they begin with each target."""
    threshold: float = 4e-3
    """For the exact estimator: a tokenisation of a target that is less likely than this is sampled
    instead of enumerated. The threshold is for an empty spelling and falls with every byte."""

    def __post_init__(self) -> None:
        if self.samples < 1 or self.new_tokens < 1:
            raise ValueError("samples and new_tokens must be at least 1.")
        if not 0 < self.threshold < 1:
            raise ValueError("threshold must be above 0 and below 1.")
        _ = self.sampling_params  # refuses what is not a distribution
        if self.temperature == 0:  # a second greedy answer would be the first
            object.__setattr__(self, "samples", 1)

    @property
    def ordered(self) -> bool:
        """Whether a budget takes the first queries of the plan; else it draws queries at random."""
        return self.distinct

    @property
    def sampling_params(self) -> SamplingParams:
        """How a continuation is drawn."""
        return SamplingParams(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)

    @property
    def needs(self) -> frozenset[Ability]:
        """What is asked of an engine: draws or exact probabilities, and weights to tune."""
        abilities: set[Ability] = {"weights"} if self.tunes else set()
        if self.estimator == "exact":
            return frozenset({*abilities, "exact"})
        return decoding_abilities(self.sampling_params) | abilities

    @property
    def query_params(self) -> QueryParams:
        """How every prefix is asked."""
        return QueryParams(
            samples=self.samples, new_tokens=self.new_tokens, decoding=self.sampling_params
        )

    @abstractmethod
    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return what to ask, as a multiset: a place that stands twice is asked twice.

        Of an attack whose places are `distinct`, in the order in which a budget is spent.
        """

    def plan(self, context: AttackContext) -> QueryPlan:
        """Return what to ask, in order: places that stand most often first, or as they come."""
        builder = query_plan.plan_in_order if self.distinct else query_plan.plan_by_frequency
        plan = builder(context, self.occurrences(context))
        return plan if self.temperature else query_plan.ask_once(plan)

    def prepare(self, context: AttackContext) -> tuple[AttackContext, tuple[str, ...]]:
        """Return the context to attack in, and notes on it: an attack may tune the model first.

        It is called once the plan is made, and only where there is something to look for.
        """
        return context, ()

    def restrict(self, context: AttackContext) -> AttackContext:
        """Return `context` with PII of the chosen kinds; raises UsageError for one no one has."""
        if not self.labels:
            return context
        check_labels(self.labels, (*context.attacker, *(context.victim or ())))
        return replace(
            context,
            attacker=[self._of_kind(document) for document in context.attacker],
            victim=None if context.victim is None else [self._of_kind(d) for d in context.victim],
        )

    def run(self, context: AttackContext) -> Result:
        """Ask the tuned model and the base; score against the victim, or list candidates."""
        if self.estimator == "exact" and context.victim is None:
            raise InputError(NO_TARGETS)
        unasked = self.unasked_label_rows(context.victim or ())
        context = self.restrict(context)
        plan = self.plan(context)
        if not plan.size:
            raise InputError(
                "There is nothing to ask: the prefixes file holds no ready-made prefix and no PII "
                "with text before it. In unannotated text the detector finds most names; "
                "places take a model: see --set names.ner."
            )
        result = self.describe_prompts(self._result(context, plan), context, plan)
        measurements = (*result.measurements, *unasked)
        return replace(result, measurements=measurements, limits=(*plan.notes, *result.limits))

    def describe_prompts(self, result: Result, context: AttackContext, plan: QueryPlan) -> Result:
        """Return `result` with a description of the prompts that drew its findings.

        Where only some kinds of PII are annotated, the others would show in a prompt's text.
        """
        documents = () if self.labels else context.attacker
        return describe_prompts(result, context, plan, documents)

    def unasked_label_rows(self, documents: Sequence[Document]) -> tuple[Measurement, ...]:
        """Return how many strings of each kind are not looked for, because others were chosen."""
        if not self.labels:
            return ()
        pairs = [pair for document in documents for pair in document.strings()]
        asked = {string.strip() for string, label in pairs if label in self.labels}
        return unasked_rows(self.name, pairs, asked)

    def attack_victims(
        self,
        context: AttackContext,
        plan: QueryPlan,
        target_sets: Mapping[str, TargetSet],
        matcher: TargetMatcher,
    ) -> tuple[dict[str, Result], tuple[str, ...]]:
        """Ask both models all queries of the plan once; return each victim's result, and notes.

        An empty plan gives no results, not even zeros. `matcher` holds the strings that are looked
        for in answers: those of these victims and perhaps of others.
        """
        if not plan.size:
            return {}, plan.notes
        context, notes = self.prepare(context)
        results = self._score_victims(context, plan, target_sets, matcher, sweeps=False)
        return {
            victim: self.describe_prompts(result, context, plan)
            for victim, result in results.items()
        }, (*plan.notes, *notes)

    def _result(self, context: AttackContext, plan: QueryPlan) -> Result:
        target_set = None if context.victim is None else self.target_set(context)
        if target_set is not None and not target_set.labels:
            return scoring.empty_result(self.name, context, chosen=bool(self.labels))
        context, notes = self.prepare(context)
        result = (
            self._hits(context, plan, target_set) if target_set else self._candidates(context, plan)
        )
        return replace(result, limits=(*notes, *result.limits))

    def _candidates(self, context: AttackContext, plan: QueryPlan) -> Result:
        answers = sampling.ask_plan(context, context.tuned, plan, self.query_params)
        queries = plan.size * self.samples
        return ranking.rank_answers(self.name, context, answers, queries, comparable=not self.tunes)

    def _hits(self, context: AttackContext, plan: QueryPlan, target_set: TargetSet) -> Result:
        matcher = TargetMatcher(target_set.searched)
        [result] = self._score_victims(
            context, plan, {"": target_set}, matcher, sweeps=self.sweeps
        ).values()
        if not isinstance(result, ScoredResult):
            return result
        swept = rows(result.extraction) if self.sweeps else ()
        people = persons.sampled_rows(result.extraction)
        result = replace(result, measurements=(*result.measurements, *swept, *people))
        if context.counterfactual is None:
            return result
        [without] = self._count_hits(
            context, context.counterfactual, plan, {"": target_set}, matcher
        ).values()
        chances = counterfactual.sampled_chances(result.extraction, without.counts, context.without)
        return counterfactual.with_counterfactual(result, chances)

    def _score_victims(
        self,
        context: AttackContext,
        plan: QueryPlan,
        target_sets: Mapping[str, TargetSet],
        matcher: TargetMatcher,
        *,
        sweeps: bool,
    ) -> dict[str, Result]:
        """Return each victim's result, by name; each model is asked once."""
        if self.estimator == "exact":
            return exact.estimate_victims(
                self.name,
                context,
                plan,
                target_sets,
                self.query_params,
                threshold=self.threshold,
                sweeps=sweeps,
            )
        tuned = self._count_hits(context, context.tuned, plan, target_sets, matcher)
        base = (
            self._count_hits(context, context.base, plan, target_sets, matcher)
            if context.base
            else {}
        )
        results: dict[str, Result] = {}
        for victim, target_set in target_sets.items():
            extraction = ExtractionResult(
                plugin=self.name,
                target_set=target_set,
                tuned=tuned[victim],
                base=base.get(victim),
                size=plan.size,
                samples=self.samples,
                greedy=not self.temperature,
            )
            results[victim] = scoring.score_extraction(extraction, context, plan, self.query_params)
        return results

    def target_set(self, context: AttackContext) -> TargetSet:
        """Return what is looked for; a computation follows each control, so it has fewer."""
        most = CONTROLS if self.estimator == "sample" else EXACT_CONTROLS
        return build_target_set(context, self.disjoint, most=most)

    def _count_hits(
        self,
        context: AttackContext,
        target: Target,
        plan: QueryPlan,
        target_sets: Mapping[str, TargetSet],
        matcher: TargetMatcher,
    ) -> dict[str, HitCounter]:
        counters = {victim: HitCounter(one, self.samples) for victim, one in target_sets.items()}
        for answer in sampling.ask_plan(context, target, plan, self.query_params, matcher):
            for counter in counters.values():
                counter.update((answer,))
        return counters

    def _of_kind(self, document: Document) -> Document:
        if document.pii is None:
            return document
        return document.annotated(tuple(s for s in document.pii if s.label in self.labels))


def rows(extraction: ExtractionResult) -> Iterator[Measurement]:
    """Yield what budgets of 1, 2, 5, 10, ... prefixes find: in total, by label and by samples.

    scope.budget counts prefixes in the order of the attack, scope.samples the samples per prefix.
    Labels without any extracted string have no sweep.
    """
    for budget in budget_steps(extraction.size):
        for name, targets in extraction.target_set.sets().items():
            for samples in (
                budget_steps(extraction.samples) if name == ALL else (extraction.samples,)
            ):
                scope = {"set": name, "budget": budget, "samples": samples}
                yield from coverage_rows(extraction, targets, scope, budget=budget, samples=samples)
        yield from _by_label(extraction, budget)


def _by_label(extraction: ExtractionResult, budget: int) -> Iterator[Measurement]:
    hits = extraction.strings_by_source()
    any_model = hits["tuned"] | hits.get("base", set())
    for label, targets in extraction.target_set.by_label().items():
        if any_model.isdisjoint(targets):
            continue
        scope = {"set": ALL, "label": label, "budget": budget, "samples": extraction.samples}
        for row in coverage_rows(extraction, targets, scope, budget=budget):
            if row.scope["source"] != "control":
                yield row
