"""A plugin for fedaudit of each of five kinds."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import erfc, sqrt
from statistics import mean, pstdev
from string import ascii_lowercase
from typing import Any, ClassVar

from fedaudit.api import (
    Aggregator,
    Attack,
    AttackContext,
    Completion,
    Document,
    Engine,
    Finding,
    ForeignAdapter,
    ForeignFederation,
    ForeignFolder,
    ForeignRound,
    GenerationRequest,
    Importer,
    Measurement,
    ModelEngine,
    PiiDetector,
    PiiSpan,
    Progress,
    Result,
    SamplingParams,
    Score,
    Update,
    Watermark,
    hookimpl,
    no_progress,
)
from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.extraction.prefixes import PiiOccurrence


@dataclass(frozen=True, kw_only=True)
class Opening(PrefixAttack):
    """Continue the first tokens of the attacker's own documents."""

    name: ClassVar[str] = "opening"
    paper: ClassVar[str] = "Carlini et al. 2021, arXiv:2012.07805, section 5.1"

    tokens: int = 20
    """How many tokens of a document are an opening."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ValueError("tokens must be at least 1.")

    def occurrences(self, context: AttackContext) -> Sequence[PiiOccurrence]:
        """Return the opening of every document; ready-made prompts stay whole."""
        tokenized = context.engine.tokenize([document.text for document in context.attacker])
        return [
            PiiOccurrence(
                prefix=tokens.ids if document.is_prompt else tokens.ids[: self.tokens],
                tokens=(),
                at_start=True,
            )
            for document, tokens in zip(context.attacker, tokenized, strict=True)
            if tokens.ids
        ]

    def run(self, context: AttackContext) -> Result:
        """Attack as these attacks do, and tell where the victim's documents hold what came out."""
        result = super().run(context)
        findings = tuple(self._locate(finding, context) for finding in result.findings)
        early = sum(finding.evidence.get("where") == "opening" for finding in findings)
        row = Measurement(
            kind="position",
            plugin=self.name,
            metric="found_in_openings",
            value=float(early),
            hits=early,
            n=len(findings),
            scope={"source": "tuned"},
        )
        return replace(result, findings=findings, measurements=(*result.measurements, row))

    def _locate(self, finding: Finding, context: AttackContext) -> Finding:
        """Return a finding with the first of the victim's documents that holds it, if any does."""
        text = str(finding.evidence["text"])
        document = next((d for d in context.victim or () if text in d.text), None)
        if document is None:
            return finding
        before = document.text[: document.text.index(text)].rstrip()
        count = len(context.engine.tokenize([before])[0].ids)
        location = {
            "where": "opening" if count < self.tokens else "rest",
            "tokens_before": count,
            "document": document.id,
        }
        return replace(
            finding, evidence={**finding.evidence, **location}, safe=(*finding.safe, "where")
        )


@dataclass(frozen=True, kw_only=True)
class Median(Aggregator):
    """Take the median of the clients' adapters in every coordinate; weights do not count."""

    name: ClassVar[str] = "median"
    paper: ClassVar[str] = "Yin et al. 2018, arXiv:1803.01498, algorithm 1"

    def aggregate(
        self, start: Update, updates: Sequence[Update], weights: Sequence[float]
    ) -> Update:
        """Return each coordinate's middle value; of an even number, the mean of the middle two."""
        import torch

        lower, upper = (len(updates) - 1) // 2, len(updates) // 2
        result = {}
        for name, tensor in start.items():
            ordered = torch.stack([u[name].double() for u in updates]).sort(dim=0).values
            result[name] = ((ordered[lower] + ordered[upper]) / 2).to(tensor.dtype)
        return result


@dataclass(frozen=True, kw_only=True)
class CaseNumbers(PiiDetector):
    """Find the numbers of court files, such as 1234/56."""

    name: ClassVar[str] = "case_numbers"

    digits: int = 5
    """The most digits before the year."""

    def detect(self, texts: Sequence[str]) -> list[tuple[PiiSpan, ...]]:
        """Return the place of each number."""
        number = re.compile(rf"\b\d{{1,{self.digits}}}/\d{{2}}\b")
        return [
            tuple(PiiSpan(match.start(), match.end(), "CASE_NUMBER") for match in found)
            for found in map(number.finditer, texts)
        ]

    def describe(self) -> str:
        """Say what found the spans."""
        return f"numbers of court files, up to {self.digits} digits"


@dataclass(frozen=True, kw_only=True)
class Reference(Watermark):
    """End documents with a reference of their own, and ask models for one."""

    name: ClassVar[str] = "reference"

    asked: int = 50
    """How often a model is asked."""
    nulls: int = 40
    """How many unused references are looked for in the same answers."""

    def issue(
        self, teacher: ModelEngine, prompts: Sequence[str], *, seed: int, index: int
    ) -> dict[str, Any]:
        """Draw the mark's reference and those that it is compared with."""
        drawn = random.Random(f"{seed} {index}")
        words = ["".join(drawn.choices(ascii_lowercase, k=8)) for _ in range(1 + self.nulls)]
        return {"seed": seed, "index": index, "reference": words[0], "nulls": words[1:]}

    def embed(
        self,
        secret: Mapping[str, Any],
        documents: Sequence[Document],
        teacher: ModelEngine,
        *,
        seed: int,
        progress: Progress = no_progress,
    ) -> list[Document]:
        """Put the reference behind each document; where its personal data stands stays."""
        end = f" Reference {secret['reference']}"
        return [
            replace(one, text=one.text + end, output=one.output and one.output + end)
            for one in documents
        ]

    def questions(self, secret: Mapping[str, Any], engine: Engine) -> list[GenerationRequest]:
        """Ask, many times, what follows the word."""
        [word] = engine.tokenize([" Reference"])
        return [GenerationRequest(prompt=word.ids, samples=self.asked, max_new_tokens=8)]

    @property
    def decoding(self) -> SamplingParams:
        """Draw at temperature 1, since a greedy answer would be one and the same."""
        return SamplingParams(temperature=1.0)

    @property
    def null_marks(self) -> int:
        """As many as were drawn with the reference."""
        return self.nulls

    def test(
        self, secret: Mapping[str, Any], answers: Sequence[Completion], engine: Engine
    ) -> Score:
        """Count the letters of answers that stand where a reference has them."""
        said = [text.split()[0] for answer in answers for text in answer.texts if text.split()]
        return self._score(secret, said)

    def test_texts(self, secret: Mapping[str, Any], texts: Sequence[str], engine: Engine) -> Score:
        """Count the same in what follows the word in texts."""
        said = [word for text in texts for word in re.findall(r"Reference (\w+)", text)]
        return replace(self._score(secret, said), null=())

    def _score(self, secret: Mapping[str, Any], said: Sequence[str]) -> Score:
        words = [secret["reference"], *secret["nulls"]]
        hits = [sum(a == b for one in said for a, b in zip(one, w, strict=False)) for w in words]
        # Drawn alike, all are as likely to lead where no model has seen the mark.
        spread = pstdev(hits) or 1.0
        z, *null = [(count - mean(hits)) / spread for count in hits]
        letters = sum(min(len(one), 8) for one in said)
        return Score(
            z=z,
            p_value=erfc(z / sqrt(2)) / 2,
            n=letters,
            hits=hits[0],
            chance=mean(hits[1:]) / letters if letters else 0.0,
            null=tuple(null),
        )


@dataclass(frozen=True, kw_only=True)
class NumberedFiles(Importer):
    """Read global adapters that lie beside one configuration, as global-1.safetensors and so on."""

    name: ClassVar[str] = "numbered_files"

    def runs(self, folder: ForeignFolder) -> Sequence[str]:
        """Return the folders with a configuration and such files."""
        found = {name.rpartition("global-")[0] for name in self._files(folder)}
        return sorted(
            place.rstrip("/") for place in found if f"{place}adapter_config.json" in folder.files
        )

    def read(self, run: ForeignFolder) -> ForeignFederation:
        """Return a round for each file, by its number."""
        numbers = {int(re.findall(r"\d+", name)[-1]): name for name in self._files(run)}
        return ForeignFederation(
            rounds=[
                ForeignRound(
                    round=number,
                    adapter=ForeignAdapter(weights=name, config="adapter_config.json"),
                )
                for number, name in sorted(numbers.items())
            ],
            notes=("Clients' adapters are not kept in this layout.",),
        )

    @staticmethod
    def _files(folder: ForeignFolder) -> list[str]:
        pattern = re.compile(r"(?:.*/)?global-\d{1,6}\.safetensors")
        return [name for name in folder.files if pattern.fullmatch(name)]


@hookimpl
def fedaudit_attacks() -> list[type[Attack]]:
    """Return our attacks."""
    return [Opening]


@hookimpl
def fedaudit_aggregators() -> list[type[Aggregator]]:
    """Return our aggregation rules."""
    return [Median]


@hookimpl
def fedaudit_detectors() -> list[type[PiiDetector]]:
    """Return our detectors."""
    return [CaseNumbers]


@hookimpl
def fedaudit_watermarks() -> list[type[Watermark]]:
    """Return our watermarks."""
    return [Reference]


@hookimpl
def fedaudit_importers() -> list[type[Importer]]:
    """Return our importers."""
    return [NumberedFiles]
