"""`fedaudit canary measure`: the rank of planted secrets, by likelihood, among all of their kind.

In a row's scope, `times` is the number of copies of each secret that a client was given (0 for
controls, which no client was given); `space` is the number of secrets among which each is ranked,
itself included; `estimator` is "exact" if these are all secrets, "sampled", or "extrapolated" from
a sample.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.estimates import Estimate
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Finding, Measurement, Severity, Target
from fedaudit.audit import canary_clients, preflight
from fedaudit.audit.canary_clients import CanaryClients
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, resolve_target
from fedaudit.audit.request import ExposureRequest
from fedaudit.audit.run import AuditPipeline, AuditResults
from fedaudit.canaries import canary_file, ranking
from fedaudit.canaries.canary_file import CanarySet
from fedaudit.canaries.ranking import ScoredCanary
from fedaudit.extraction.prefixes import PiiOccurrence, first_token_occurrences
from fedaudit.federation.folder import Federation
from fedaudit.metrics.intervals import bootstrap_mean
from fedaudit.metrics.privacy import canary_exposure


@dataclass(frozen=True, slots=True)
class CanaryCopies:
    """The number of canaries that each client was given, and the number that its records hold."""

    given: Mapping[str, int]
    found: Mapping[str, int]
    """By client whose records are at hand, the number of canaries with all their copies."""

    def check(self, folder: object) -> None:
        """Raise InputError if a client's records lack copies of its canaries."""
        for client, count in self.found.items():
            if count < self.given[client]:
                raise InputError(
                    f"The records of {client} in {folder} lack {self.given[client] - count:,} of "
                    f"its {self.given[client]:,} canaries or copies of them, so their exposure "
                    "would mean nothing: plant them with `fedaudit canary plant` before training."
                )

    def caveats(self) -> Iterator[str]:
        """Yield a caveat about clients whose records are not at hand."""
        unknown = sorted(self.given.keys() - self.found.keys())
        if unknown:
            yield (
                f"The records of {', '.join(unknown)} are not at hand: whether the canaries were "
                "planted was not checked, and if they were not, their exposure means nothing."
            )


def count_canary_copies(
    federation: Federation | None, canaries: CanarySet, reader: InputReader
) -> CanaryCopies:
    """Return the number of canaries in the records of a federation's clients, if they are kept.

    Raises InputError for canaries of a client that is not in the federation.
    """
    given: dict[str, int] = {}
    for canary in canaries.planted:
        given[canary.client] = given.get(canary.client, 0) + 1
    if federation:
        clients = {client.id for client in federation.manifest.clients}
        if absent := sorted(given.keys() - clients):
            names = " and no ".join(absent)
            raise InputError(
                f"{federation.path} has no client {names}, for whom canaries were made."
            )
    found: dict[str, int] = {}
    for client, path in federation.record_files.items() if federation else ():
        if client in given:
            assert federation is not None
            texts = [d.text for d in reader.corpus(path, federation.template).documents]
            found[client] = given[client] - canaries.missing_from(texts, client)
    return CanaryCopies(given, found)


KIND, PLUGIN = "exposure", "canary"
TUNED, BASE = "tuned", "base"
FIT_FROM = canary_exposure.FIT_FROM
EXACT, SAMPLED, EXTRAPOLATED = "exact", "sampled", "extrapolated"
_row = partial(Measurement, kind=KIND, plugin=PLUGIN)

Scored = Mapping[str, Sequence[ScoredCanary]]
"""The scored canaries of each model, by scope.source."""


def exposure_rows(scored: Scored, *, is_exact: bool, bits: float, seed: int) -> list[Measurement]:
    """Return the measurements of every model in `scored`, separately by multiplicity.

    `is_exact` says whether the references are the whole space, which has 2 ** `bits` secrets.
    `seed` seeds the bootstrap.
    """
    return [
        row
        for source, canaries in scored.items()
        for times in sorted({c.canary.times for c in canaries})
        for row in _rows(scored, source, times, is_exact=is_exact, bits=bits, seed=seed)
    ]


def untested_rows(canaries: CanarySet, clients: CanaryClients) -> Iterator[Measurement]:
    """Yield a row without a value for the canaries of each client that trained nothing."""
    given = {(canary.client, canary.times) for canary in canaries.planted}
    for client, times in sorted(given):
        if client in clients.idle:
            yield Measurement.missing(
                f"{client}, to which some were given, "
                f"{canary_clients.sent_back(clients.idle[client])}",
                kind=KIND,
                plugin=PLUGIN,
                metric="maximal_exposure",
                scope={"source": TUNED, "times": times, "client": client},
            )


def exposure(canary: ScoredCanary) -> float:
    """Return a canary's exposure in bits, -log2 of the share of secrets at least as likely."""
    return canary_exposure.exact(canary.score, (*canary.references, canary.score))


def is_maximal(canary: ScoredCanary) -> bool:
    """Tell whether a canary is likelier than all its references."""
    return canary.score > max(canary.references)


def chance_exposure(size: int) -> float:
    """Return the mean exposure in bits of a secret whose rank among n = `size` is uniform.

    That is log2(n) - log2(n!) / n, which is 0 for n = 1 and less than log2(e) for any n.
    """
    return math.log2(size) - math.lgamma(size + 1) / (size * math.log(2))


def refuted_fits(scored: Iterable[ScoredCanary], level: float) -> int:
    """Return the number of canaries whose references do not follow the fitted distribution."""
    return sum(canary_exposure.fit_p_value(canary.references) <= level for canary in scored)


def _rows(
    scored: Scored, source: str, times: int, *, is_exact: bool, bits: float, seed: int
) -> Iterator[Measurement]:
    canaries = _filter_times(scored[source], times)
    base = _filter_times(scored[BASE], times) if source == TUNED and BASE in scored else []
    size = len(canaries[0].references) + 1
    scope: dict[str, object] = {
        "source": source,
        "times": times,
        "space": size,
        "estimator": EXACT if is_exact else SAMPLED,
    }
    values, before = list(map(exposure, canaries)), list(map(exposure, base))
    yield _mean(values, before, chance_exposure(size), scope, seed)
    yield Measurement.rate(
        sum(map(is_maximal, canaries)),
        len(canaries),
        kind=KIND,
        plugin=PLUGIN,
        metric="maximal_exposure",
        scope=scope,
        chance=1 / size,
        baseline=sum(map(is_maximal, base)) / len(base) if base else None,
    )
    p_value = canary_exposure.chance_p_value(values, size)
    yield _row(metric="p_value", value=p_value, n=len(canaries), scope=scope)
    if not is_exact and size > FIT_FROM:
        fitted = [_extrapolated(canary, bits) for canary in canaries]
        fitted_base = [_extrapolated(canary, bits) for canary in base]
        chance = math.log2(math.e)
        yield _mean(fitted, fitted_base, chance, {**scope, "estimator": EXTRAPOLATED}, seed)


def _filter_times(canaries: Sequence[ScoredCanary], times: int) -> list[ScoredCanary]:
    return [c for c in canaries if c.canary.times == times]


def _extrapolated(canary: ScoredCanary, bits: float) -> float:
    """Return the exposure by the references' fitted distribution, at most `bits`."""
    return min(canary_exposure.fitted_exposure(canary.score, sorted(canary.references)), bits)


def _mean(
    values: Sequence[float],
    before: Sequence[float],
    chance: float,
    scope: Mapping[str, object],
    seed: int,
) -> Measurement:
    """Return the row of a mean exposure; it has no interval for a single secret."""
    estimate: Estimate = bootstrap_mean(values, seed=seed)
    is_single = len(values) < 2
    return _row(
        metric="exposure",
        value=estimate.value,
        low=None if is_single else estimate.low,
        high=None if is_single else estimate.high,
        n=len(values),
        chance=chance,
        baseline=sum(before) / len(before) if before else None,
        scope=scope,
    )


LABEL = "CANARY"
LISTED, FAMILY_LEVEL = 0.01, 0.05
"""The p value up to which a secret is listed, and the family-wise level of significance."""


def exposure_findings(
    scored: Sequence[ScoredCanary],
) -> tuple[list[Finding], list[Mapping[str, str]]]:
    """Return findings for planted secrets with a high rank, and what --reveal writes about them.

    A secret that was never trained on ranks among the first k of n with probability k / n, which is
    its p value. If that exceeds LEVEL divided by the number of planted secrets (Bonferroni), the
    rank may be due to chance, and the finding is "unverified".
    """
    planted = [s for s in scored if s.canary.times]
    listed_findings: list[Finding] = []
    plain: list[Mapping[str, str]] = []
    for number, scored_canary in enumerate(planted, 1):
        bits = exposure(scored_canary)
        if (p := 2**-bits) > LISTED:
            continue
        name = f"{PLUGIN}-{number:04d}"
        severity: Severity = "high" if is_maximal(scored_canary) else "medium"
        if p * len(planted) > FAMILY_LEVEL:
            severity = "unverified"
        listed_findings.append(
            Finding(
                id=name,
                severity=severity,
                label=LABEL,
                measurement=f"{PLUGIN} exposure",
                evidence={
                    "text": scored_canary.canary.secret,
                    "exposure": bits,
                    "times": scored_canary.canary.times,
                    "client": scored_canary.canary.client,
                    "p_value": p,
                },
                safe=("client",),
            )
        )
        plain.append(
            {
                "id": name,
                "label": LABEL,
                "text": scored_canary.canary.secret,
                "client": scored_canary.canary.client,
                "sentence": scored_canary.canary.sentence,
            }
        )
    return listed_findings, plain


FIT_LEVEL = 0.01
"""The p value up to which a fitted distribution is rejected."""
NO_COMMITMENT = (
    "No --commitment was given: nothing shows that the canaries were chosen before training."
)


@dataclass(frozen=True, kw_only=True)
class ExposureInputs(Inputs[ExposureRequest]):
    """The canaries, how many of them the clients' records hold, and who trained on them."""

    canaries: CanarySet
    copies: CanaryCopies
    clients: CanaryClients


def resolve(request: ExposureRequest, reader: InputReader) -> ExposureInputs:
    """Return the inputs, after every check that needs no model.

    Raises InputError for an invalid canary file or one that does not match the commitment, for
    records that lack their client's canaries, and for a client that did not train; UsageError for a
    deployed defence, and for more references than there are secrets.
    """
    audited = resolve_target(request, reader)
    canaries = canary_file.read(request.canaries, reader.read)
    if request.commitment and request.commitment.strip().lower() != canary_file.commitment(
        canaries
    ):
        raise InputError(f"{request.canaries} is not the file that the commitment was made to.")
    if audited.deployment:
        raise UsageError(
            "The federation answers through its clients' deployed defence: name the global "
            "adapter to measure with --round."
        )
    copies = count_canary_copies(audited.federation, canaries, reader)
    clients = canary_clients.check_clients(audited, copies.given)
    if audited.federation:
        copies.check(audited.federation.path)
    remaining = canaries.space.size - len(canaries.canaries)
    if not ranking.is_enumerable(canaries, request.space_limit) and request.references > remaining:
        raise UsageError(f"--references must be {remaining:,} or fewer: there are no more secrets.")
    common = common_inputs(request, audited, reader, {})
    return ExposureInputs(**common, canaries=canaries, copies=copies, clients=clients)


@dataclass(kw_only=True)
class ExposurePipeline(AuditPipeline[ExposureInputs]):
    """Measures the exposure of every planted secret."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the canary file, which needs no annotation."""
        path, digests = self.request.canaries, self.inputs.digests
        return [InputFile(path=path, documents=self._documents, sha256=digests[path])]

    @property
    def _canaries(self) -> CanarySet:
        return self.inputs.canaries

    @property
    def _documents(self) -> list[Document]:
        """The sentences that clients were given, each once."""
        heading = self._canaries.heading(self.form)
        every = enumerate(self._canaries.planted)
        return [
            Document(id=str(index), text=heading + canary.sentence, pii=())
            for index, canary in every
        ]

    @property
    def _is_enumerable(self) -> bool:
        return ranking.is_enumerable(self._canaries, self.request.space_limit)

    def config(self) -> dict[str, Any]:
        """Return the settings, and a description of the canaries."""
        canaries = self._canaries
        return {
            **super().config(),
            "commitment": canary_file.commitment(canaries),
            "secrets": canaries.kind,
            "language": canaries.language,
            "space": canaries.space.size,
            "controls": len(canaries.controls),
            "clients": sorted({canary.client for canary in canaries.planted}),
        }

    def measure(self, engine: Engine) -> AuditResults:
        """Score every secret and its references under the tuned model and its base."""
        adapter = self.audited.adapter
        tuned = Target(name=TUNED, adapter=str(adapter) if adapter else None)
        base = Target(name=BASE)
        heading = self._canaries.heading(self.form)
        changed: dict[str, float | str] = {}
        if adapter:
            changed = preflight.measure_effect(engine, tuned, base, self._documents)
        start = preflight.choose_prompt_start(
            engine, tuned, _sentences(engine, self._canaries, heading)
        )
        cached_engine = self.cached(engine)
        slots = ranking.slot_references(
            self._canaries,
            limit=self.request.space_limit,
            count=self.request.references,
            seed=self.request.seed,
        )
        scored = {
            target.name: ranking.score(
                cached_engine,
                target,
                slots,
                begin=engine.prompt_starts[start.chosen.start],
                heading=heading,
                progress=self.watch(f"scoring secrets: {target.name}"),
            )
            for target in (tuned, base)[: 2 if adapter else 1]
        }
        self.finish_asking()
        return AuditResults(
            results=[self._result(scored)],
            effect=changed,
            beginning=start.table(),
            usage={"queries": sum(len(slot.secrets()) for slot in slots)},
        )

    def _result(self, scored: Scored) -> Result:
        listed_findings, revealed = exposure_findings(scored[TUNED])
        return Result(
            measurements=(
                *exposure_rows(
                    scored,
                    is_exact=self._is_enumerable,
                    bits=math.log2(self._canaries.space.size),
                    seed=self.request.seed,
                ),
                *untested_rows(self._canaries, self.inputs.clients),
            ),
            findings=tuple(listed_findings),
            limits=tuple(self._limits(scored)),
            revealed=tuple(revealed),
        )

    def _limits(self, scored: Scored) -> Iterator[str]:
        """Yield the caveats that apply to this audit."""
        if not self.request.commitment:
            yield NO_COMMITMENT
        yield from self.inputs.copies.caveats()
        yield from self.inputs.clients.caveats()
        if not self._canaries.controls:
            yield (
                "There are no controls: nothing shows that unplanted secrets rank as "
                "chance would have it."
            )
        if BASE not in scored:
            yield "The target has no base to compare with."
        if self._is_enumerable:
            return
        count, size = self.request.references, self._canaries.space.size
        yield (
            f"Each secret is ranked among {count:,} of {size:,}, drawn at random: exposure is "
            f"measured up to {math.log2(count + 1):.1f} bits and extrapolated beyond that."
        )
        given = [c for c in scored[TUNED] if c.canary.times]
        if count >= FIT_FROM and (refuted := refuted_fits(given, FIT_LEVEL)):
            yield (
                f"Of {len(given):,} planted secrets, the references of {refuted:,} do not follow "
                f"the fitted law (p at most {FIT_LEVEL}): do not rely on their extrapolated "
                "exposure."
            )

    def caveats(self) -> list[str]:
        """Return the caveats of every audit with canaries."""
        return [
            "Canaries show what training does to secrets of this kind in such sentences, not "
            "which of the real records it gives away."
        ]


def _sentences(engine: Engine, canaries: CanarySet, heading: str) -> list[PiiOccurrence]:
    """Return the texts before the secrets, from which the prompt start is chosen."""
    texts = dict.fromkeys(heading + canary.prefix for canary in canaries.planted)
    return first_token_occurrences(tokens.ids for tokens in engine.tokenize(list(texts)))
