"""`fedaudit memorize`: which clients' prefixes draw which clients' texts from the global model.

A prefix of client j induces memorization on client k if the model's continuation of it overlaps
with a suffix of client k (Udsa et al. 2025, "Exploring cross-client memorization of training data
in large language models for federated learning"). `fedaudit.metrics.overlap` defines overlap.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fedaudit.api.abilities import decoding_abilities, why_lacking
from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, TargetError, TooShortError, UsageError
from fedaudit.api.plugin import Paraphraser, PiiDetector, Result
from fedaudit.api.records import Measurement, Target
from fedaudit.api.scripts import has_han
from fedaudit.audit import evidence, preflight
from fedaudit.audit import other_models as counterfactual_runs
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, form_of, resolve_target
from fedaudit.audit.memorization import findings, matching, splits
from fedaudit.audit.memorization import rows as memorization_rows
from fedaudit.audit.memorization.matching import Clients, ModelContinuations
from fedaudit.audit.memorization.rows import ModelMatches
from fedaudit.audit.other_models import CounterfactualRun
from fedaudit.audit.records import reading_caveats
from fedaudit.audit.request import MemorizationRequest, Protocol
from fedaudit.audit.run import AuditPipeline, AuditResults, Watcher
from fedaudit.audit.target import AuditTarget
from fedaudit.config import registry
from fedaudit.extraction.prefixes import PiiOccurrence, first_token_occurrences
from fedaudit.metrics.overlap import DEFAULT, ORIGINAL, SPLITTER

KNOWN_TOKENS = 32
"""The number of tokens of a known text by which the prompt start is chosen."""

NO_BASE = "The target has no base to compare with: what the base says by itself is not known."
TOO_SHORT_SHARE = 0.5
"""The share of too short continuations from which on the report has a caveat about them."""


@dataclass(frozen=True, kw_only=True)
class MemorizationInputs(Inputs[MemorizationRequest]):
    """The documents of every client, and the models that its texts are compared under."""

    clients: Mapping[str, InputFile]
    central: Path | None
    """The adapter that the simulation trained on all data, if it was requested."""
    without: Mapping[str, CounterfactualRun]
    """By client, the counterfactual federation that leaves it out."""


def resolve(request: MemorizationRequest, reader: InputReader) -> MemorizationInputs:
    """Return the inputs, after every check that needs no model.

    Raises UsageError without clients, for unknown plugins and options, and for a deployed defence,
    since the global model is measured; InputError if a central model is requested but missing.
    """
    if not request.clients:
        raise UsageError("There is no client: name the clients' files with --clients FILE FILE.")
    audited = resolve_target(request, reader)
    if scorer := _scorer(request):
        scorer.score([])  # shows at once whether it has its model
    if audited.deployment:
        raise UsageError(
            "The federation answers through its clients' deployed defence: name the global "
            "adapter to measure with --round."
        )
    central = _central(audited) if request.protocol.central else None
    form = form_of(request, audited)
    without = counterfactual_runs.find_every_counterfactual(request, audited, reader)
    hashes = {client: run.sha256 for client, run in without.items()}
    facts = {"counterfactuals' SHA-256": hashes} if hashes else {}
    # An empty file stands for a client without documents.
    files = {
        client.name: reader.corpus_or_empty(Path(client.path), form) for client in request.clients
    }
    return MemorizationInputs(
        **common_inputs(request, audited, reader, facts),
        clients=files,
        central=central,
        without=without,
    )


@dataclass(kw_only=True)
class MemorizationPipeline(AuditPipeline[MemorizationInputs]):
    """Measures cross-client memorization among all clients."""

    _protocol: Protocol = field(init=False)
    _shortened: list[str] = field(init=False)

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the files of all clients, which need no annotation."""
        return list(self.inputs.clients.values())

    def config(self) -> dict[str, Any]:
        """Return the settings, with the prefix length that was chosen."""
        protocol = asdict(self._protocol)
        return {**super().config(), "protocol": protocol, "sentences": SPLITTER}

    def measure(self, engine: Engine) -> AuditResults:
        """Let the models continue every prefix, and compare the results with the clients' texts."""
        if why := why_lacking(engine, decoding_abilities(self.request.protocol.sampling_params())):
            raise TargetError(f"{why.capitalize()}: choose another --decoding, such as greedy.")
        texts = {client: file.documents for client, file in self.inputs.clients.items()}
        request, self._shortened = splits.choose_prefix_length(
            self.request, texts, engine, self.form
        )
        protocol = self._protocol = request.protocol
        clients = {
            client: splits.sample_splits(documents, engine, self.form, protocol, seed=request.seed)
            for client, documents in texts.items()
        }
        if not any(sample.splits for sample in clients.values()):
            raise TooShortError(splits.too_short(texts.values(), engine, self.form, protocol))
        models, without = _models(self.inputs), self.inputs.without
        changed: dict[str, float | str] = {}
        if base := self.audited.untuned:
            every = [document for documents in texts.values() for document in documents]
            changed = preflight.measure_effect(engine, models[0], base, every)
        start = preflight.choose_prompt_start(engine, models[0], _known_occurrences(clients))
        continuations = [
            matching.continue_prefixes(
                self.cached(engine),
                model,
                clients,
                protocol,
                begin=engine.prompt_starts[start.chosen.start],
                seed=request.seed,
                progress=self.watch(f"continuing prefixes: {model.name}"),
            )
            for model in (
                *models,
                *(_counterfactual_target(name, run) for name, run in without.items()),
            )
        ]
        self.finish_asking()
        all_matches, notes = _match_all(continuations, clients, request, self.watch)
        matches = all_matches[: len(models)]
        left_out = dict(zip(without, all_matches[len(models) :], strict=True))
        rows = memorization_rows.rows(matches, clients, protocol, engine)
        untuned = next((m for m in matches if m.continuations.source == "base"), None)
        rows += memorization_rows.counterfactual_rows(matches[0], untuned, left_out, clients)
        notes += [note for run in without.values() for note in run.caveats(0)]
        suffixes = memorization_rows.suffixes_without(left_out)
        result = _result(matches, clients, request, rows, notes, suffixes)
        result = replace(result, limits=(*self._shortened, *result.limits))
        return AuditResults(
            results=evidence.replace_hashed_ids([result], self.redactor),
            effect=changed,
            beginning=start.table(),
            usage=_count_queries(clients, protocol),
        )

    def caveats(self) -> list[str]:
        """Return the caveats about reading the clients' files."""
        return reading_caveats(list(self.inputs.clients.values()))


def _result(
    matches: Sequence[ModelMatches],
    clients: Clients,
    request: MemorizationRequest,
    rows: Sequence[Measurement],
    notes: Sequence[str],
    without: Mapping[str, Collection[str]],
) -> Result:
    """Return the measurements, the drawn texts as findings, and the caveats."""
    answers = {m.continuations.source: m.answers for m in matches}
    examples = findings.examples(answers["tuned"], answers.get("base"))
    leaks, revealed = findings.findings(examples, compared="base" in answers, without=without)
    return Result(
        measurements=tuple(rows),
        findings=tuple(leaks),
        limits=(*_limits(clients, request, rows, len(examples)), *notes),
        revealed=tuple(revealed),
    )


def _models(inputs: MemorizationInputs) -> list[Target]:
    """Return the models to measure: the tuned one, its base, and the central one, if they exist."""
    audited, folder = inputs.audited, inputs.central
    tuned = replace(audited.tuned, name="tuned")
    base = [audited.untuned] if audited.untuned else []
    central = [Target(name="central", adapter=str(folder))] if folder else []
    return [tuned, *base, *central]


def _counterfactual_target(client: str, run: CounterfactualRun) -> Target:
    """Return the model that was trained without a client."""
    return Target(name=f"without {client}", adapter=str(run.adapter))


def _central(audited: AuditTarget) -> Path:
    """Return the adapter that the simulation trained centrally on all data up to the same round."""
    if audited.federation is None or audited.round is None:
        raise UsageError("--central needs a federation's folder as the target, without --adapter.")
    folder = audited.federation.path / f"central/{audited.round:03d}"
    if not folder.is_dir():
        raise InputError(
            f"{audited.federation.path} keeps no central model of round {audited.round}: simulate "
            "it with --set central=true."
        )
    return folder


def _match_all(
    continuations: Sequence[ModelContinuations],
    clients: Clients,
    request: MemorizationRequest,
    watch: Watcher,
) -> tuple[list[ModelMatches], list[str]]:
    """Return each model's matches with the clients' texts, and caveats; all models run together."""
    protocol, scorer = request.protocol, _scorer(request)
    beside = [
        matching.candidate_pairs(
            model, clients, protocol, watch(f"retrieving suffixes: {model.source}")
        )
        for model in continuations
    ]
    overlaps = matching.compare_all(
        {
            (split.suffix, continuation.text)
            for model, rows in zip(continuations, beside, strict=True)
            for continuation, candidates in zip(model.texts, rows, strict=True)
            for _, split in candidates
        },
        ORIGINAL if protocol.compat else DEFAULT,
        workers=request.workers,
        progress=watch("comparing texts"),
    )
    named = matching.pair_categories(
        overlaps, scorer, lambda: _detector(request), compat=protocol.compat
    )
    answers = [
        matching.match_continuations(model, candidates, overlaps, named)
        for model, candidates in zip(continuations, beside, strict=True)
    ]
    matches = [
        ModelMatches(continuations=model, answers=row)
        for model, row in zip(continuations, answers, strict=True)
    ]
    return matches, [matching.paraphrase_caveats(scorer, lambda: _detector(request))]


def _scorer(request: MemorizationRequest) -> Paraphraser | None:
    name = request.protocol.paraphraser
    scorer: Paraphraser | None = (
        registry.create("paraphraser", name, request.protocol.scoring) if name else None
    )
    return scorer


def _detector(request: MemorizationRequest) -> PiiDetector:
    options = request.options.get(request.detector)
    detector: PiiDetector = registry.create("detector", request.detector, options)
    return detector


def _known_occurrences(clients: Clients) -> list[PiiOccurrence]:
    """Return the first tokens of known texts, by which the prompt start is chosen."""
    return first_token_occurrences(
        split.prompt[: 1 + KNOWN_TOKENS] for sample in clients.values() for split in sample.splits
    )


def _count_queries(clients: Clients, protocol: Protocol) -> dict[str, int | None]:
    """Return the number of continuations sampled from each model, and the number of prompts."""
    client_splits = [split for sample in clients.values() for split in sample.splits]
    prompts = {split.prompt for split in client_splits}
    texts = {(split.prompt, split.suffix) for split in client_splits}
    greedy = protocol.decoding == "greedy"
    return {"queries": len(prompts if greedy else texts), "prefixes": len(prompts)}


def _limits(
    clients: Clients, request: MemorizationRequest, rows: Sequence[Measurement], examples: int
) -> Iterator[str]:
    """Yield caveats: what the measurement cannot show, and what it left out."""
    yield from splits.unused_text_caveats(clients, request.protocol)
    yield from matching.shared_text_caveats(clients)
    if not any(row.scope["source"] == "base" for row in rows if row.metric == "mr_total"):
        yield NO_BASE
    chinese = [n for n, sample in clients.items() if any(has_han(p.suffix) for p in sample.splits)]
    if request.protocol.compat and chinese:
        yield f"The published detector reads English only: {', '.join(chinese)} have Chinese texts."
    for row in rows:
        if (row.metric, row.scope.get("source")) == ("too_short", "tuned") and row.value:
            client = row.scope.get("attacker", "all clients")
            if row.value >= TOO_SHORT_SHARE:
                yield (
                    f"{row.hits:,} of {row.n:,} continuations of the prefixes of {client} have "
                    "fewer than 50 characters (a Chinese one counts for 2.5): the detector can "
                    "find nothing in so short a text."
                )
    if examples > findings.MAX_EXAMPLES:
        yield (f"{examples:,} texts were drawn; the {findings.MAX_EXAMPLES} worst are listed.")
