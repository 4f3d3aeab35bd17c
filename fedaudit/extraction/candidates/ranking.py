"""Ranking candidates as an attacker would who only has its own data, the most credible first.

The model scores each string after prompts for its kind of PII, from whatever prompt it was drawn.
The attacker's own strings, after prompts of other documents, and slips calibrate the scores.

Other members' strings were trained on in the same way as the attacker's own. So the attacker's own
strings, where the model says them after prompts of other documents, show the scores of true
candidates. Slips, which are other outputs that begin like one of the attacker's own strings, show
the scores of false ones.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedaudit.api.plugin import AttackContext, Result
from fedaudit.api.records import Document, Finding, Measurement
from fedaudit.extraction.candidates.observations import (
    Key,
    Observations,
    StringObservation,
    frequency_order,
    observe,
)
from fedaudit.extraction.candidates.origins import AttackerTexts, Prompt, foreign_prompts
from fedaudit.extraction.candidates.support import Support, measure_support
from fedaudit.extraction.findings import numbered, revealed
from fedaudit.extraction.sampling import Answer
from fedaudit.metrics.calibration import (
    DRAWS,
    LabelledScores,
    Logistic,
    fit,
    resampled_probabilities,
)
from fedaudit.metrics.intervals import Estimate
from fedaudit.pii.shape import Form, form, is_broken

_WORD = re.compile(r"[^\W\d_]{2,}")


def well_formed(
    candidates: Mapping[Key, StringObservation], documents: Sequence[Document]
) -> dict[Key, StringObservation]:
    """Return the candidates that look like the attacker's own strings of the same kind.

    Left out are strings with broken bytes; strings of another form (other shapes or numbers of
    words, or invalid check digits or dates if all of the attacker's are valid); and strings without
    digits whose words all occur outside of PII in the attacker's texts, as in a template.
    """
    forms, used = _forms(documents), _vocabulary(documents)

    def is_likely(text: str, label: str) -> bool:
        expected, words = forms.get(label), _WORD.findall(text)
        has_form = expected.matches(text) if expected else not is_broken(text)
        return has_form and not (
            words and not any(map(str.isdigit, text)) and used.issuperset(words)
        )

    return {key: observation for key, observation in candidates.items() if is_likely(*key)}


def _forms(documents: Sequence[Document]) -> dict[str, Form]:
    strings: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for string, label in document.strings():
            strings[label].add(string)
    forms = ((label, form(group)) for label, group in strings.items())
    return {label: f for label, f in forms if f is not None}


def _vocabulary(documents: Sequence[Document]) -> frozenset[str]:
    """Return the words in the documents outside of PII, case-sensitive."""
    words: set[str] = set()
    for document in documents:
        start = 0
        for span in (*sorted(document.pii or ()), None):
            end = len(document.text) if span is None else span.start
            words.update(_WORD.findall(document.text[start:end]))
            start = end if span is None else max(start, span.end)
    return frozenset(words)


def first_word(text: str) -> str:
    """Return the first word of a string, or the first half of a string of one word."""
    first, _, remainder = text.partition(" ")
    return first if remainder else text[: -(-len(text) // 2)]


def number_variants(text: str) -> str:
    """Return a key that is equal for strings with the same words and different numbers.

    At most one of such strings is true. For a string of fewer than two words, it is the string.
    """
    words = [word for word in _WORD.findall(text) if len(word) > 2]
    numbers = any(map(str.isdigit, text))
    return re.sub(r"\d+", "0", text) if numbers and len(words) > 1 else text


MIN_LABELLED = 5
"""The minimum number of own strings, and of slips, to learn a kind's probability by score."""

Scored = tuple[str, float]
"""A candidate's label and score."""


@dataclass(frozen=True)
class KindConfidence:
    """The calibration for one kind of PII, from labelled scores; the attacker's own are true."""

    labelled_scores: LabelledScores

    @property
    def true(self) -> int:
        """Return the number of the attacker's own strings that came out after other prompts."""
        return sum(self.labelled_scores.truths)

    @property
    def false(self) -> int:
        """Return the number of slips."""
        return len(self.labelled_scores.truths) - self.true

    @cached_property
    def curve(self) -> Logistic | None:
        """Return the probability by score; None with few labels, or if it does not rise."""
        if min(self.true, self.false) < MIN_LABELLED:
            return None
        logistic = fit(self.labelled_scores)
        return logistic if logistic.slope > 0 else None


@dataclass(frozen=True)
class Confidence:
    """The calibration of every kind of PII, or the reason why there is none."""

    kinds: Mapping[str, KindConfidence] = field(default_factory=dict)
    reason: str = ""

    def probability(self, candidate: Scored) -> float | None:
        """Return the probability that a candidate is true; None if its kind has no calibration."""
        label, score = candidate
        curve = self.kinds[label].curve if label in self.kinds and not self.reason else None
        return None if curve is None else float(curve.probabilities([score])[0])

    def precision(
        self, candidates: Sequence[Scored], tops: Sequence[int], *, seed: int
    ) -> list[Estimate]:
        """Return the expected share of true strings among the first k candidates, k in `tops`.

        All of them are of kinds with a calibration. The 95 % interval is that of the share, not of
        its mean: the labelled strings are resampled, and each candidate is then drawn as true or
        false with its probability.
        """
        most = candidates[: max(tops, default=0)]
        means = np.array([self.probability(one) for one in most], dtype=np.float64)
        draws = np.empty((DRAWS, len(most)))
        for number, label in enumerate(sorted({label for label, _ in most})):
            columns = [i for i, (kind, _) in enumerate(most) if kind == label]
            draws[:, columns] = resampled_probabilities(
                self.kinds[label].labelled_scores,
                [most[i][1] for i in columns],
                seed=seed + number,
            )
        luck = np.random.default_rng(seed).random(draws.shape) < draws
        estimates = []
        for top in tops:
            value, share = float(means[:top].mean()), luck[:, :top].mean(axis=1)
            low, high = (float(x) for x in np.quantile(share, (0.025, 0.975)))
            estimates.append(Estimate(value, min(value, low), max(value, high)))
        return estimates


def fit_confidence(
    own_strings: Mapping[Key, Support], other_strings: Mapping[Key, Support], all_own: Iterable[Key]
) -> Confidence:
    """Return the calibration by kind, learnt from the attacker's own strings and from slips.

    `own_strings` came out after prompts of other documents, `other_strings` are all other
    candidates, and `all_own` are all of the attacker's strings, whether they came out or not.
    """
    heads = {(first_word(text), label) for text, label in all_own}
    slips = {
        key: support
        for key, support in other_strings.items()
        if (first_word(key[0]), key[1]) in heads
    }
    rows: dict[str, list[tuple[float, bool, str]]] = defaultdict(list)
    for strings, truth in ((own_strings, True), (slips, False)):
        for (text, label), support in sorted(strings.items()):
            rows[label].append((support.score, truth, first_word(text)))
    kinds = {}
    for label, group in sorted(rows.items()):
        scores, truths, words = zip(*group, strict=True)
        kinds[label] = KindConfidence(LabelledScores(scores, truths, words))
    return Confidence(kinds, "" if any(kind.curve for kind in kinds.values()) else _lacking(kinds))


def _lacking(kinds: Mapping[str, KindConfidence]) -> str:
    true = max((kind.true for kind in kinds.values()), default=0)
    if true < MIN_LABELLED:
        return (
            f"of no kind did more than {true} of the attacker's own strings come out behind "
            f"prompts of its other documents; it takes {MIN_LABELLED} to learn how the model says "
            "true ones"
        )
    return (
        f"of the kinds whose own strings came out, fewer than {MIN_LABELLED} false ones begin like "
        "them, or the model says these as readily"
    )


MAX_FINDINGS = 100
SCORED = 2000
"""The number of candidates that are scored; the others were drawn too seldom to matter."""
SCOPE = {"source": "tuned", "set": "all"}
TOPS = (10, 20, 50)
"""The values of k for which the precision of the first k candidates is estimated."""

UNKNOWN = (
    "Without --victim fedaudit cannot know which candidates are true. They are ranked as an "
    "attacker would rank them: by how likely the model finds them behind prompts of their kind, "
    "and how much likelier than its base."
)
BELIEVED = (
    "How often an attacker would be right is estimated from {true} of its own strings that came "
    "out behind prompts of its other documents, and {false} false ones that begin like them. That "
    "assumes that other parties' records were trained on as its own were."
)
NO_BASE = "the target has no base: what training taught cannot be told from what was known before"
NO_COPY = "the attack tunes the model on the attacker's own strings: they tell nothing of others'"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A string that completions contain where the attacker's own PII would follow."""

    text: str
    label: str
    outputs: int
    prompts: int
    support: Support
    belief: float | None = None
    """The probability that it is a true string, as the attacker would estimate it; None if the
    attacker's own strings of this kind do not tell."""


def rank_answers(
    plugin: str,
    context: AttackContext,
    answers: Iterable[Answer],
    queries: int,
    *,
    comparable: bool = True,
) -> Result:
    """Return the candidates as unverified findings, the most credible first.

    `comparable` means that the queried model learnt the attacker's own strings in the same way as
    those of others.
    """
    draws = observe(context, answers)
    candidates, confidence = rank_candidates(context, draws, comparable=comparable)
    findings = tuple(
        Finding(
            id=name,
            severity="unverified",
            label=candidate.label,
            measurement=f"{plugin} candidates",
            evidence={
                "text": candidate.text,
                "belief": candidate.belief,
                "gain": candidate.support.gain,
                "outputs": candidate.outputs,
                "prefixes": candidate.prompts,
            },
        )
        for name, candidate in numbered(plugin, candidates[:MAX_FINDINGS])
    )
    return Result(
        measurements=(
            Measurement.missing(
                "no --victim: the auditor does not have the truth to compare with",
                kind="extraction",
                plugin=plugin,
                metric="coverage",
                scope=SCOPE,
            ),
            Measurement(
                kind="extraction",
                plugin=plugin,
                metric="queries",
                value=float(queries),
                scope=SCOPE,
            ),
            *_precision(plugin, candidates, confidence, context.seed),
        ),
        findings=findings,
        limits=tuple(_limits(draws, candidates, confidence)),
        revealed=revealed(findings),
    )


def rank_candidates(
    context: AttackContext, draws: Observations, *, comparable: bool = True
) -> tuple[list[Candidate], Confidence]:
    """Return the candidates, the most credible first, and their calibration.

    Those of kinds without a calibration come last, ordered by score.

    Left out are strings that do not look like PII, and strings that are no likelier than under the
    base. Of candidates that are prefixes or suffixes of each other, or differ only in numbers, the
    most credible is kept.
    """
    formed = well_formed(draws.new_strings, context.attacker)
    chosen = dict(sorted(formed.items(), key=frequency_order)[:SCORED])
    own_strings, behind = _own_strings_elsewhere(context, draws)
    scored = measure_support(context, draws.prompts, chosen | own_strings, behind)
    scored = {key: support for key, support in scored.items() if support.is_likelier}
    other_strings = {key: support for key, support in scored.items() if key in chosen}
    if context.base is None or not comparable:
        confidence = Confidence(reason=NO_BASE if comparable else NO_COPY)
    else:
        own_support = {key: support for key, support in scored.items() if key in own_strings}
        all_own = {pair for document in context.attacker for pair in document.strings()}
        confidence = fit_confidence(own_support, other_strings, all_own)
    candidates = [
        Candidate(
            *key,
            chosen[key].outputs,
            chosen[key].prompts,
            support,
            confidence.probability((key[1], support.score)),
        )
        for key, support in other_strings.items()
    ]
    candidates.sort(key=lambda c: (-(c.belief or 0.0), -c.support.score, c.text, c.label))
    return list(distinct_strings(candidates)), confidence


def _own_strings_elsewhere(
    context: AttackContext, draws: Observations
) -> tuple[dict[Key, StringObservation], dict[Key, list[Prompt]]]:
    """Return the attacker's own strings drawn after prompts of other documents, with their counts.

    Return second, for each string, the prompts of other documents after which to score it.
    """
    homes = AttackerTexts(context)
    all_prompts = {prompt for prompts in draws.prompts.values() for prompt in prompts}
    standing = homes.families_by_prompt(all_prompts.union(*draws.own_prompts.values()))
    own_strings, behind = {}, {}
    for key, drew in draws.own_prompts.items():
        home = homes.families_with_string(key[0])
        if away := foreign_prompts(drew, standing, home):
            times = sum(drew[prompt] for prompt in away)
            own_strings[key] = StringObservation(times, len(away), draws.own_strings[key].leads)
            behind[key] = foreign_prompts(draws.prompts[key[1]], standing, home)
    return own_strings, behind


def distinct_strings(order: Iterable[Candidate]) -> Iterator[Candidate]:
    """Yield candidates that are not a prefix or suffix of an earlier one, nor contain one as such.

    Of strings that differ only in numbers, and of a string with several labels, the first counts.
    """
    texts: set[str] = set()
    seen_affixes: set[str] = set()
    forms: set[str] = set()
    for candidate in order:
        text = candidate.text
        affixes = {affix for i in range(1, len(text)) for affix in (text[:i], text[i:])}
        if texts & ({text} | affixes) or text in seen_affixes or number_variants(text) in forms:
            continue
        yield candidate
        texts.add(text)
        seen_affixes |= affixes
        forms.add(number_variants(text))


def _precision(
    plugin: str, candidates: Sequence[Candidate], confidence: Confidence, seed: int
) -> Iterator[Measurement]:
    """Yield the expected precision of the first findings, of all kinds and of each kind."""
    believed = [c for c in candidates[:MAX_FINDINGS] if c.belief is not None]
    for label in ("", *sorted({c.label for c in believed})):
        group = [(c.label, c.support.score) for c in believed if label in ("", c.label)]
        tops = [top for top in TOPS if top <= len(group)]
        reason = confidence.reason
        if not tops and not reason:
            reason = f"only {len(group)} candidates are of kinds with a calibration"
        if label and not tops:
            continue
        estimates: Sequence[Estimate | None] = [None]
        if not reason:
            estimates = confidence.precision(group, tops, seed=seed)
        for top, estimate in zip(TOPS, estimates, strict=False):
            yield Measurement(
                kind="extraction",
                plugin=plugin,
                metric="precision",
                value=estimate.value if estimate else None,
                low=estimate.low if estimate else None,
                high=estimate.high if estimate else None,
                n=top,
                reason=reason,
                scope={**SCOPE, "top": top, **({"label": label} if label else {})},
            )


def _limits(
    draws: Observations, pool: Sequence[Candidate], confidence: Confidence
) -> Iterator[str]:
    yield UNKNOWN
    if confidence.reason:
        yield f"How often an attacker would be right cannot be estimated: {confidence.reason}."
    else:
        kinds = confidence.kinds.values()
        true, false = sum(kind.true for kind in kinds), sum(kind.false for kind in kinds)
        yield BELIEVED.format(true=true, false=false)
    yield (
        f"{len(draws.new_strings):,} different strings were drawn, {len(pool):,} of them are "
        f"candidates and the first {min(len(pool), MAX_FINDINGS)} of those are findings."
    )
