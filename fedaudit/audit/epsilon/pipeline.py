"""`fedaudit dp audit`, from a file of coins to a report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Target
from fedaudit.audit.epsilon import claim, measurements, scoring
from fedaudit.audit.epsilon.measurements import NOISELESS, TUNED, AuditedClaim
from fedaudit.audit.epsilon.request import EpsilonRequest
from fedaudit.audit.inputs import resolution
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.audit.inputs.reader import InputReader
from fedaudit.audit.inputs.resolution import Inputs
from fedaudit.audit.pipeline import AuditPipeline, AuditResults
from fedaudit.audit.preflight import adapter_effect, prompt_start
from fedaudit.audit.target import AuditTarget
from fedaudit.cache.engine import CachingEngine
from fedaudit.canaries import coin_file
from fedaudit.canaries.coin_file import CoinSet
from fedaudit.extraction.prefixes import PiiOccurrence, first_token_occurrences

NO_COMMITMENT = (
    "No --commitment was given: nobody vouches that canaries, coins and rule were fixed before "
    "training, and a bound from coins that were chosen afterwards proves nothing."
)
NO_GRADIENTS = (
    "Scoring canaries by their gradients needs the model's weights: --engine local, and a "
    "federation as --target."
)
UNCHECKED = (
    "The client's records are not at hand: whether the canaries were planted as their coins say "
    "was not checked, and if they were not, nothing is refuted."
)


@dataclass(frozen=True, kw_only=True)
class EpsilonInputs(Inputs[EpsilonRequest]):
    """The coins, the claim, and the federations that are tested."""

    coins: CoinSet
    epsilon: float
    """The claimed epsilon."""
    claim_caveat: str
    """Where --epsilon is not what the simulation's report states; empty otherwise."""
    planted: bool
    """Whether the client's records are at hand, and hold the canaries as the coins fell."""
    noiseless: AuditTarget | None
    """The same federation trained without noise."""
    texts: Mapping[str, Sequence[str]]
    """By scope.source, the client's records without the canaries, where gradients need them."""


def resolve(request: EpsilonRequest, reader: InputReader) -> EpsilonInputs:
    """Return the inputs, after every check that needs no model.

    Raises InputError for an invalid coin file or one that does not match the commitment, for
    records that do not hold the canaries as the coins fell, and for a noiseless federation that
    does not fit; UsageError without a claimed epsilon or an adapter.
    """
    audited = resolution.resolve_target(request, reader)
    coins = coin_file.read(request.coins, reader.read)
    if request.commitment and request.commitment.strip().lower() != coin_file.commitment(coins):
        raise InputError(f"{request.coins} is not the file that the commitment was made to.")
    if audited.deployment or audited.adapter is None:
        raise UsageError(
            "Name the global adapter to audit: a federation with --round, or --adapter."
        )
    if coins.uses_gradients and request.engine != "local":
        raise UsageError(NO_GRADIENTS)
    for position in coins.positions:
        scoring.compared_models(audited, coins, position)
    federation, noiseless = audited.federation, None
    planted = federation is not None and claim.check_planted(federation, coins, reader)
    epsilon = claim.claimed_epsilon(request.epsilon, audited, coins)
    if request.noiseless:
        opened = claim.open_noiseless(request.noiseless, audited, coins, reader)
        number, adapter = opened.adapter()
        noiseless = replace(audited, federation=opened, round=number, adapter=adapter)
    runs = {TUNED: audited, **({NOISELESS: noiseless} if noiseless else {})}
    return EpsilonInputs(
        **resolution.common_inputs(request, audited, reader, {}),
        coins=coins,
        epsilon=epsilon,
        claim_caveat=claim.claim_caveat(request.epsilon, federation, coins),
        planted=planted,
        noiseless=noiseless,
        texts={
            source: claim.client_texts(run.federation, coins, reader)
            for source, run in runs.items()
            if coins.uses_gradients and run.federation
        },
    )


@dataclass(kw_only=True)
class EpsilonPipeline(AuditPipeline[EpsilonInputs]):
    """Tests a claimed epsilon by what the models reveal about the coins."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the coin file, which needs no annotation."""
        path = self.request.coins
        digest = self.inputs.digests[path]
        return [InputFile(path=path, documents=self._documents, sha256=digest)]

    @property
    def _coins(self) -> CoinSet:
        return self.inputs.coins

    @property
    def _documents(self) -> list[Document]:
        every = enumerate(self._coins.canaries)
        return [Document(id=str(index), text=canary.text, pii=()) for index, canary in every]

    def config(self) -> dict[str, Any]:
        """Return the settings, the commitment, and the coin file's rules."""
        coins = self._coins
        return {
            **super().config(),
            "commitment": coin_file.commitment(coins),
            "delta": coins.delta,
            "level": coins.level,
            "positions": list(coins.positions),
            "judged": coins.estimator,
            "shares": list(coins.shares),
            "scorer": coins.scorer,
        }

    def measure(self, engine: Engine) -> AuditResults:
        """Score every canary under every model that the attacker's positions see."""
        audited = self.audited
        tuned, base = Target(name=TUNED, adapter=str(audited.adapter)), Target(name="base")
        changed = adapter_effect.measure(engine, tuned, base, self._documents)
        start = prompt_start.choose_prompt_start(engine, tuned, _beginnings(engine, self._coins))
        cached_engine = CachingEngine(engine, self.kept) if self.kept else engine
        begin = engine.prompt_starts[start.chosen.start]
        if self._coins.uses_gradients:
            scores = {source: self._gradients(engine, run, source) for source, run in self._runs()}
        else:
            scores = {
                source: self._scores(cached_engine, run, begin, source)
                for source, run in self._runs()
            }
        self.finish_asking()
        audited_claim = AuditedClaim(
            coins=self._coins,
            epsilon=self.inputs.epsilon,
            scores=scores,
            seed=self.request.seed,
        )
        result = Result(
            measurements=tuple(measurements.rows(audited_claim)),
            limits=tuple(self._limits(audited_claim)),
        )
        models = sum(len(self._pairs(run)) for _, run in self._runs())
        return AuditResults(
            results=[result],
            effect=adapter_effect.table(changed),
            beginning=start.table(),
            usage={"queries": models * len(self._coins.canaries)},
        )

    def _runs(self) -> Iterator[tuple[str, AuditTarget]]:
        """Yield the audited federation, and the one without noise, each with its scope.source."""
        yield TUNED, self.audited
        if self.inputs.noiseless:
            yield NOISELESS, self.inputs.noiseless

    def _pairs(self, audited: AuditTarget) -> list[scoring.Pair]:
        every = (scoring.compared_models(audited, self._coins, p) for p in self._coins.positions)
        return [pair for pairs in every for pair in pairs]

    def _scores(
        self, engine: Engine, audited: AuditTarget, begin: Sequence[int], source: str
    ) -> Mapping[str, list[float]]:
        progress = self.watch(f"scoring canaries: {source}")
        return {
            position: scoring.score(
                engine,
                scoring.compared_models(audited, self._coins, position),
                self._coins.canaries,
                begin,
                progress,
            )
            for position in self._coins.positions
        }

    def _gradients(
        self, engine: Engine, audited: AuditTarget, source: str
    ) -> Mapping[str, list[float]]:
        """Return the weights of the canaries' gradients in the client's updates."""
        from fedaudit.audit.epsilon import gradients
        from fedaudit.engine.local import LocalEngine

        if audited.federation is None or not isinstance(engine, LocalEngine):
            raise UsageError(NO_GRADIENTS)
        return {
            "server": gradients.score(
                engine,
                scoring.compared_models(audited, self._coins, "server"),
                self._coins.canaries,
                self.inputs.texts[source],
                self.watch(f"gradients of canaries: {source}"),
            )
        }

    def _limits(self, audited_claim: AuditedClaim) -> Iterator[str]:
        """Yield the caveats that apply to this audit."""
        if not self.request.commitment:
            yield NO_COMMITMENT
        if self.inputs.claim_caveat:
            yield self.inputs.claim_caveat
        if not self.inputs.planted:
            yield UNCHECKED
        if self._coins.estimator == "f_dp":
            yield (
                "The claim is judged as that of a Gaussian mechanism, as DP-SGD's accountants "
                "assume: a refutation refutes this mechanism's whole trade-off curve. The report "
                "also has the bound for any mechanism (one_run)."
            )
        if self.request.noiseless is None:
            yield "No --noiseless federation was given: nothing shows that this audit has power."

    def caveats(self) -> list[str]:
        """Return the caveats of every audit of epsilon."""
        return [
            "The bound is for one document of one client, added or removed, while the number of "
            "records and all settings are public. An audit can refute a claim but never confirms "
            "one: results differ from one training to another, and other attacks may prove more."
        ]


def _beginnings(engine: Engine, coins: CoinSet) -> list[PiiOccurrence]:
    """Return the canaries' prefixes, from which the prompt start is chosen regardless of coins."""
    texts = dict.fromkeys(canary.prefix for canary in coins.canaries)
    return first_token_occurrences(tokens.ids for tokens in engine.tokenize(list(texts)))
