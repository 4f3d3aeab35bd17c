"""Extraction by prefixes: ask the tuned model and its base the same, and score what they say.

An attack says what to ask (PrefixAttack.places); asking, scoring and controls are the same for
all of them and are here.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.audit import candidates, scoring
from fedaudit.audit.prefixes import Place
from fedaudit.errors import InputError
from fedaudit.interfaces import Attack, Case, Result
from fedaudit.metrics.extraction import Disjointness
from fedaudit.records import Decoding, Generation, Probe, Target


@dataclass(frozen=True, kw_only=True)
class PrefixAttack(Attack):
    """An attack that continues prefixes and looks for PII at the beginning of the answers."""

    samples: int = 15
    """How often each prefix is asked."""
    new_tokens: int = 10
    """How long a continuation may be."""
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    disjoint: Disjointness = "prefix-free"
    """What makes targets disjoint: none begins another, or no two share a first character."""

    def __post_init__(self) -> None:
        if self.samples < 1 or self.new_tokens < 1:
            raise ValueError("samples and new_tokens must be at least 1.")
        self._decoding()  # refuses what is no distribution

    @abstractmethod
    def places(self, case: Case) -> Sequence[Place]:
        """Return what to ask, as a multiset: a place that stands twice is asked twice."""

    def run(self, case: Case) -> Result:
        """Ask the tuned model and the base; score against the victim, or list candidates."""
        places = self.places(case)
        if not places:
            raise InputError(
                "There is nothing to ask: the prefixes file holds no ready-made prefix and no PII "
                "with text before it. In unannotated text only a model finds names and places: "
                "see --set presidio.ner."
            )
        probes = self.probes(case, places)
        tuned = self.ask(case, case.tuned, probes)
        base = self.ask(case, case.base, probes) if case.base else None
        if case.victim is None:
            return candidates.result(self.name, case, places, probes, tuned)
        return scoring.result(self.name, case, probes, tuned, base, disjoint=self.disjoint)

    def probes(self, case: Case, places: Sequence[Place]) -> list[Probe]:
        """Return one probe a distinct prompt, sorted, with samples for each of its places."""
        prompts = Counter(case.begun(p.prefix, at_start=p.at_start) for p in places)
        return [
            Probe(prompt=prompt, samples=self.samples * count, max_new_tokens=self.new_tokens)
            for prompt, count in sorted(prompts.items())
        ]

    def ask(self, case: Case, target: Target, probes: Sequence[Probe]) -> list[Generation]:
        """Return the continuations of every probe under `target`."""
        return case.engine.generate(
            target,
            probes,
            seed=case.seed,
            decoding=self._decoding(),
            progress=case.progress(f"asking {target.name}"),
        )

    def _decoding(self) -> Decoding:
        return Decoding(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
