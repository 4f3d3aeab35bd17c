"""Running several attacks in one context, with shared answers and a comparison of results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fedaudit.api.abilities import why_lacking
from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Attack, AttackContext, Result
from fedaudit.audit import result_contract
from fedaudit.audit.access import ModelView
from fedaudit.cache.answers import AnswerCache
from fedaudit.cache.engine import CachingEngine
from fedaudit.extraction import comparison, scoring
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.sampling import CACHE_BYTES, ResponseCache, share_responses
from fedaudit.extraction.scoring import ExtractionResult, ScoredResult

REQUESTER_KEYS = ("attacker", "client", "key", "adapter")
"""The parts of a scope that say who asked, and under which key."""


@dataclass
class AttackExecutor:
    """Runs the attacks of one audit; one that fails on these data does not stop the others."""

    alone: bool = False
    """Whether there is only one attack, so that the audit fails if that attack does."""
    successes: int = 0
    refused: list[InputError] = field(default_factory=list)

    def make(self, attack: Attack, context: AttackContext) -> Result:
        """Return an attack's result, or a row without a value and with the reason.

        If an attack cannot run on these records, the audit cannot pass.
        Raises ResultError for a result that no report can hold.
        """
        if why := why_lacking(context.engine, attack.needs):
            return _skipped_result(attack.name, why)
        try:
            result = result_contract.check_result(attack.name, attack.run(context))
        except InputError as error:
            if self.alone:
                raise
            self.refused.append(error)
            return scoring.missing_result(attack.name, str(error), judged=True)
        self.successes += 1
        return result

    def check(self) -> None:
        """Raise the first InputError if no attack at all could run."""
        if self.refused and not self.successes:
            raise self.refused[0]


def _skipped_result(name: str, why: str) -> Result:
    """Return the result of an attack that the engine cannot answer: no value, and the reason."""
    missing = scoring.missing_result(name, f"skipped: {why}")
    return replace(missing, limits=(f"{name} was skipped: {why}.",))


def response_cache(attacks: Sequence[Attack]) -> ResponseCache:
    """Return a cache for the attacks' answers; it has room only if several of them ask prefixes."""
    is_shared = sum(isinstance(attack, PrefixAttack) for attack in attacks) > 1
    return ResponseCache(CACHE_BYTES if is_shared else 0)


def run(
    attacks: Sequence[Attack],
    context: AttackContext,
    shared: ResponseCache,
    tries: AttackExecutor,
    kept: AnswerCache | None = None,
) -> list[Result]:
    """Return the result of each attack in the order given, followed by their comparison.

    `kept`, if given, keeps the answers on disk.
    """
    shared_context = share_responses(context, shared, kept)
    # Attacks with prefixes keep their own answers, in less space.
    cached_context = (
        replace(shared_context, engine=CachingEngine(context.engine, kept))
        if kept
        else shared_context
    )
    contexts = [
        shared_context if isinstance(attack, PrefixAttack) else cached_context for attack in attacks
    ]
    indexed_results = {
        index: tries.make(attacks[index], contexts[index]) for index in _order(attacks)
    }
    results = [indexed_results[index] for index in range(len(attacks))]
    return [*results, *_compare_results(results)]


def count_queries(
    results: Iterable[Result], shared: ResponseCache, views: Iterable[ModelView]
) -> int | None:
    """Return how many questions the tuned model was asked; None when no attack counts them.

    Rows for other sets of targets or other victims count the same questions; each attacker and key
    asks its own. Questions answered from the cache are not counted.
    """
    counts = {
        (row.plugin, tuple(str(row.scope.get(name)) for name in REQUESTER_KEYS), row.value)
        for result in results
        for row in result.measurements
        if row.metric == "queries" and row.scope.get("source") == "tuned"
    }
    reused_answers = sum(shared.reused_answers[target] for target in {view.tuned for view in views})
    return int(sum(value or 0 for *_, value in counts)) - reused_answers if counts else None


def _order(attacks: Sequence[Attack]) -> list[int]:
    """Return the attacks' indices, most samples per prompt first, as far as is known.

    Later attacks can then reuse the answers of earlier ones. The order changes no result.
    """

    def rank(index: int) -> tuple[bool, int, bool]:
        attack = attacks[index]
        if isinstance(attack, PrefixAttack):
            return False, -attack.samples, attack.distinct
        return True, 0, True

    return sorted(range(len(attacks)), key=rank)


def _compare_results(results: Sequence[Result]) -> list[Result]:
    extractions = [
        r.extraction for r in results if isinstance(r, ScoredResult) and r.extraction is not None
    ]
    alike = [extraction for extraction in extractions if _same_targets(extraction, extractions[0])]
    if len(extractions) < 2:
        return []
    plugins = [
        extraction.plugin
        for extraction in extractions
        if not _same_targets(extraction, extractions[0])
    ]
    note = (
        f"{', '.join(plugins)}: not compared with {extractions[0].plugin}, which has other targets."
    )
    return [Result(measurements=tuple(comparison.rows(alike)), limits=(note,) if plugins else ())]


def _same_targets(left: ExtractionResult, right: ExtractionResult) -> bool:
    return left.target_set.labels == right.target_set.labels
