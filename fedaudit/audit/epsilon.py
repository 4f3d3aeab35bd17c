"""`fedaudit dp audit`: a claimed epsilon, tested on canaries with coins tossed before training.

In a row's scope, `source` is "tuned" for the audited federation, "noiseless" for the one trained
without noise, or "shuffled" for coins tossed anew. `judged` says whether the verdict rests on the
row.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Measurement, Target
from fedaudit.audit import canary_clients, canary_scores, preflight
from fedaudit.audit.input_files import InputFile, InputReader
from fedaudit.audit.inputs import Inputs, common_inputs, resolve_target
from fedaudit.audit.request import EpsilonRequest
from fedaudit.audit.run import AuditPipeline, AuditResults
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries import coin_file
from fedaudit.canaries.coin_file import CoinSet
from fedaudit.engine.local import LocalEngine
from fedaudit.extraction.prefixes import PiiOccurrence, first_token_occurrences
from fedaudit.federation.folder import Federation, client_order, is_federation
from fedaudit.federation.manifest import Manifest
from fedaudit.metrics.privacy import epsilon_audit
from fedaudit.metrics.privacy.epsilon_bounds import ClaimTest
from fedaudit.metrics.privacy.roc import auc
from fedaudit.report.document import read
from fedaudit.report.query import Row

REPORT = "report.json"
_TRAINING = ("participation", "template", "secure_aggregation", "watermark", "training")
"""The settings of a simulation that decide how its clients are trained."""
SLACK = 0.01
"""How much less than its `epsilon` the defence dp may spend."""


def claimed_epsilon(epsilon: float | None, audited: AuditTarget, coins: CoinSet) -> float:
    """Return the claimed epsilon: the given one, or that of the simulation's report.

    Raises UsageError if there is none, InputError if it is claimed at a larger delta.
    """
    if epsilon is not None:
        return epsilon
    row = stated_epsilon(audited.federation, coins) if audited.federation else None
    if audited.federation is None or row is None:
        raise UsageError(
            f"Nothing states which epsilon is claimed for {coins.client}: name it with --epsilon."
        )
    delta = _delta(row)
    if delta > coins.delta:
        raise InputError(
            f"{audited.federation.path / REPORT} claims epsilon {row['value']:g} at delta "
            f"{delta:g}; the coins are for delta {coins.delta:g}: train with that delta, or name "
            "the epsilon claimed at it with --epsilon."
        )
    return float(row["value"])


def stated_epsilon(federation: Federation, coins: CoinSet) -> Row | None:
    """Return the row of the simulation's report on the client's epsilon; None without one."""
    path = federation.path / REPORT
    rows = read(path)["measurements"] if path.is_file() else []
    epsilon_rows = [row for row in rows if (row["kind"], row["metric"]) == ("defense", "epsilon")]
    client_rows = [row for row in epsilon_rows if row["scope"].get("client") == coins.client]
    return client_rows[0] if client_rows and client_rows[0]["value"] is not None else None


def claim_caveat(epsilon: float | None, federation: Federation | None, coins: CoinSet) -> str:
    """Return a caveat where --epsilon is not what the simulation's report states, else nothing."""
    row = stated_epsilon(federation, coins) if federation and epsilon is not None else None
    if row is None or epsilon is None:
        return ""
    if 0 <= epsilon - row["value"] <= SLACK and _delta(row) <= coins.delta:
        return ""
    return (
        f"The simulation's report states epsilon {row['value']:g} at delta {_delta(row):g} for "
        f"{coins.client}; the claim that was judged is --epsilon {epsilon:g} at delta "
        f"{coins.delta:g}."
    )


def _delta(row: Row) -> float:
    return float(row["scope"].get("delta", 1.0))


def check_planted(federation: Federation, coins: CoinSet, reader: InputReader) -> bool:
    """Return whether the federation keeps records, after checking them against the coins.

    Raises InputError if the client's records do not hold its canaries as the coins fell, if the
    client is not in the federation, or if another client has some of the canaries.
    """
    clients = [client.id for client in federation.manifest.clients]
    if coins.client not in clients:
        raise InputError(
            f"{federation.path} has no client {coins.client}, for whom the canaries were made."
        )
    text_counts = {client: Counter(_texts(client, federation, reader)) for client in clients}
    if not any(text_counts.values()):
        return False
    counts = text_counts.pop(coins.client)
    mismatches = sum(counts[canary.text] != canary.included for canary in coins.canaries)
    if mismatches:
        raise InputError(
            f"The records of {coins.client} in {federation.path} do not agree with the coins of "
            f"{mismatches:,} of {len(coins.canaries):,} canaries: plant them with `fedaudit dp "
            "plant` before training, each once, and hold none of them out."
        )
    for client, texts in text_counts.items():
        if any(canary.text in texts for canary in coins.canaries):
            raise InputError(
                f"{client} in {federation.path} has canaries of {coins.client} as well."
            )
    return True


def open_noiseless(
    path: Path, audited: AuditTarget, coins: CoinSet, reader: InputReader
) -> AuditTarget:
    """Return the federation in `path`, trained without noise with the same canaries.

    Its round is the audited one. Raises InputError if it has another base, holds other canaries, is
    not complete, was trained with as much noise, with other settings or other participants, or is
    the audited federation itself; UsageError if no federation is audited.
    """
    if audited.federation is None:
        raise UsageError("--noiseless needs a federation as --target.")
    if not is_federation(path):
        raise InputError(f"{path} is not a federation's folder.")
    federation = reader.federation(path)
    federation.adapter()
    audited_manifest, manifest = audited.federation.manifest, federation.manifest
    if audited_manifest.base.sha256 != manifest.base.sha256:
        raise InputError(f"{path} was not trained on the base of {audited.federation.path}.")
    if federation.path.resolve() == audited.federation.path.resolve():
        raise InputError(f"{path} is the federation under audit itself, not one without noise.")
    check_planted(federation, coins, reader)
    _check_noise(federation, audited.federation, coins)
    last = canary_clients.round_of(audited)
    settings, audited_settings = (training_settings(m, last) for m in (manifest, audited_manifest))
    for name in sorted(settings.keys() & audited_settings.keys()):
        if settings[name] != audited_settings[name]:
            raise InputError(
                f"{federation.path} is not the same training without noise: its {name} is "
                f"{settings[name]}, that of {audited.federation.path} is {audited_settings[name]}."
            )
    number, adapter = federation.adapter(last)
    if client := audited.update_of:
        [record] = [record for record in manifest.rounds if record.round == number]
        if client not in record.clients:
            raise InputError(
                f"{federation.path} keeps no update of {client} in round {number}, whose like is "
                "audited."
            )
        adapter = federation.path / record.clients[client]
    return replace(audited, federation=federation, round=number, adapter=adapter)


def check_trained(audited: AuditTarget, coins: CoinSet) -> canary_clients.CanaryClients:
    """Return what is known of the training of the canaries' client.

    Raises InputError if it did not train on anything: no claim about it can then be refuted.
    """
    found = canary_clients.check_clients(audited, [coins.client])
    if audited.federation and coins.client in found.idle:
        raise InputError(
            f"In {audited.federation.path} {coins.client} "
            f"{canary_clients.sent_back(found.idle[coins.client])}: it trained on no canary, so "
            "no claim about its training can be refuted."
        )
    return found


def training_settings(manifest: Manifest, last: int | None) -> dict[str, Any]:
    """Return what two trainings that differ in their noise alone have in common, by its name.

    Participants are those of the rounds up to `last`, by default of all. Of a federation that was
    not simulated here only rounds, participants, examples and aggregation are known, and of an
    imported one participants only where its files name them.
    """
    config = manifest.config
    settings: dict[str, Any] = {name: config[name] for name in _TRAINING if name in config}
    if "defenses" in config:
        settings["defenses but dp"] = [one for one in config["defenses"] if one["name"] != "dp"]
    settings["number of rounds"] = manifest.rounds[-1].round
    if any(record.participants for record in manifest.rounds):
        for record in manifest.rounds[1:]:
            if last is not None and record.round > last:
                break
            present = sorted(record.participants, key=client_order)
            settings[f"list of participants in round {record.round}"] = (
                ", ".join(present) or "empty"
            )
    settings["examples"] = {client.id: client.examples for client in manifest.clients}
    return dict(_leaves({**settings, "aggregation": manifest.aggregation}))


def _leaves(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", leaf) for inner, leaf in _leaves(value))
        else:
            yield name, value


def _check_noise(federation: Federation, audited: Federation, coins: CoinSet) -> None:
    """Refuse a control whose report states no larger epsilon than the audited federation's."""
    row, audited_row = stated_epsilon(federation, coins), stated_epsilon(audited, coins)
    if row and audited_row and row["value"] <= audited_row["value"]:
        raise InputError(
            f"{federation.path} was trained with noise: its report states epsilon "
            f"{row['value']:g} for {coins.client}, and that of {audited.path} "
            f"{audited_row['value']:g}. --noiseless takes the federation without noise."
        )


def client_texts(federation: Federation, coins: CoinSet, reader: InputReader) -> list[str]:
    """Return the records of the canaries' client without the canaries, as far as they are kept."""
    canaries = {canary.text for canary in coins.canaries}
    return [text for text in _texts(coins.client, federation, reader) if text not in canaries]


def _texts(client: str, federation: Federation, reader: InputReader) -> list[str]:
    path = federation.record_files.get(client)
    return [d.text for d in reader.corpus(path, federation.template).documents] if path else []


KIND, PLUGIN = "epsilon", "dp_audit"
TUNED, NOISELESS, SHUFFLED = "tuned", "noiseless", "shuffled"
DRAWS = 19
"""How often coins are tossed anew; the median of the bounds must be 0."""
UNIT, NEIGHBOURS = "one document of one client", "add or remove one"
PUBLIC = "the number of records and every setting of the training"
HYPOTHESES = {
    "f_dp": "the Gaussian mechanism of the claimed epsilon and delta",
    "one_run": "any mechanism of the claimed epsilon and delta",
}
Scores = Mapping[str, Sequence[float]]
"""The scores of the canaries, by the attacker's position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedClaim:
    """A claim, and the scores of the canaries, by scope.source and position."""

    coins: CoinSet
    epsilon: float
    scores: Mapping[str, Scores] = field(default_factory=dict)
    seed: int = 0

    @property
    def level(self) -> float:
        """The significance level of one position; all positions together have the file's level."""
        return self.coins.level / len(self.coins.positions)


def epsilon_rows(claim: AuditedClaim) -> Iterator[Measurement]:
    """Yield the highest possible bounds, then the bounds of every source, position and test."""
    for estimator, test in epsilon_audit.ESTIMATORS.items():
        yield _row(claim, "epsilon_cap", cap(claim, test), _scope(claim, estimator))
    for source, scores in claim.scores.items():
        for position, values in scores.items():
            yield from _of_position(claim, source, position, values)


def cap(claim: AuditedClaim, test: ClaimTest) -> float:
    """Return the highest bound that so many canaries can prove, if every guess is right."""
    coins = claim.coins
    return epsilon_audit.highest_bound(
        len(coins.canaries), shares=coins.shares, delta=coins.delta, level=claim.level, test=test
    )


def _of_position(
    claim: AuditedClaim, source: str, position: str, values: Sequence[float]
) -> Iterator[Measurement]:
    coins = claim.coins
    for estimator, test in epsilon_audit.ESTIMATORS.items():
        scope = {**_scope(claim, estimator), "source": source, "position": position}
        bound = epsilon_audit.bound(
            values,
            coins.coins,
            shares=coins.shares,
            delta=coins.delta,
            level=claim.level,
            test=test,
        )
        guesses = {"guesses": bound.guesses.guessed, "correct": bound.guesses.correct}
        yield _row(claim, "epsilon_low", bound.value, {**scope, **guesses})
        if source == TUNED:
            tossed = epsilon_audit.shuffled_bounds(
                values, coins.coins, shares=coins.shares, delta=coins.delta, level=claim.level,
                test=test, seed=claim.seed, draws=DRAWS,
            )  # fmt: skip
            anew = {**scope, "source": SHUFFLED, "draws": DRAWS}
            yield _row(claim, "epsilon_low", median(tossed), anew)
    groups = [[v for v, coin in zip(values, coins.coins, strict=True) if coin == side]
            for side in (True, False)]  # fmt: skip
    yield Measurement.mean(
        auc(*groups),
        len(values),
        kind=KIND,
        plugin=PLUGIN,
        metric="auc",
        scope={"source": source, "position": position, "client": coins.client},
        chance=0.5,
    )


def _scope(claim: AuditedClaim, estimator: str) -> dict[str, object]:
    """Return the scope of a bound: the claim's unit and neighbours, the test and its rule."""
    coins = claim.coins
    shares = " or ".join(f"{share:g}" for share in coins.shares)
    return {
        "client": coins.client,
        "delta": coins.delta,
        "p": claim.level,
        "estimator": estimator,
        "hypothesis": HYPOTHESES[estimator],
        "judged": estimator == coins.estimator,
        "unit": UNIT,
        "neighbouring": NEIGHBOURS,
        "public": PUBLIC,
        "canaries": len(coins.canaries),
        "rule": f"the {shares} of the canaries with the highest and lowest scores",
        "commitment": coin_file.commitment(coins),
    }


def _row(
    claim: AuditedClaim, metric: str, value: float, scope: Mapping[str, object]
) -> Measurement:
    return Measurement(
        kind=KIND,
        plugin=PLUGIN,
        metric=metric,
        value=value,
        n=len(claim.coins.canaries),
        baseline=claim.epsilon,
        scope=scope,
    )


NO_COMMITMENT = (
    "No --commitment was given: nothing shows that canaries, coins and rule were fixed before "
    "training, and a bound from coins that were chosen afterwards proves nothing."
)
NO_GRADIENTS = (
    "Scoring canaries by their gradients needs the model's weights: --engine local, and a "
    "federation as --target."
)
NO_DP = (
    "Nothing in the federation's own report says that it was trained with differential privacy: it "
    "states no epsilon."
)
UNRECORDED = (
    "How the federations were trained is not recorded: whether --noiseless is the same training "
    "but for its noise was checked by their rounds, participants, examples and aggregation alone."
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
    training_caveats: Sequence[str]
    """Whether it could not be checked that the client took part in training."""
    texts: Mapping[str, Sequence[str]]
    """By scope.source, the client's records without the canaries, where gradients need them."""


def resolve(request: EpsilonRequest, reader: InputReader) -> EpsilonInputs:
    """Return the inputs, after every check that needs no model.

    Raises InputError for an invalid coin file or one that does not match the commitment, for
    records that do not hold the canaries as the coins fell, for a client that did not train, and
    for a noiseless federation that does not fit; UsageError without a claim or an adapter.
    """
    audited = resolve_target(request, reader)
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
        canary_scores.compared_models(audited, coins, position)
    federation, noiseless = audited.federation, None
    planted = federation is not None and check_planted(federation, coins, reader)
    trained = [check_trained(audited, coins)]
    epsilon = claimed_epsilon(request.epsilon, audited, coins)
    if request.noiseless:
        noiseless = open_noiseless(request.noiseless, audited, coins, reader)
        trained.append(check_trained(noiseless, coins))
    runs = {TUNED: audited, **({NOISELESS: noiseless} if noiseless else {})}
    for run in runs.values():
        for position in coins.positions:
            for path in chain(*canary_scores.compared_models(run, coins, position)):
                if path is not None:
                    reader.fingerprint(Path(path))
    return EpsilonInputs(
        **common_inputs(request, audited, reader, {}),
        coins=coins,
        epsilon=epsilon,
        claim_caveat=claim_caveat(request.epsilon, federation, coins),
        planted=planted,
        noiseless=noiseless,
        training_caveats=tuple({caveat: None for one in trained for caveat in one.caveats()}),
        texts={
            source: client_texts(run.federation, coins, reader)
            for source, run in runs.items()
            if run.federation
        },
    )


@dataclass(kw_only=True)
class EpsilonPipeline(AuditPipeline[EpsilonInputs]):
    """Tests a claimed epsilon by what the models reveal about the coins."""

    def annotate_files(self) -> Sequence[InputFile]:
        """Return the coin file, which needs no annotation."""
        path, digests = self.request.coins, self.inputs.digests
        return [InputFile(path=path, documents=self._documents, sha256=digests[path])]

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
        changed = self._effect(engine, tuned, base)
        start = preflight.choose_prompt_start(engine, tuned, _beginnings(engine, self._coins))
        cached_engine = self.cached(engine)
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
            measurements=tuple(epsilon_rows(audited_claim)),
            limits=tuple(self._limits(audited_claim)),
        )
        models = sum(len(self._pairs(run)) for _, run in self._runs())
        return AuditResults(
            results=[result],
            effect=changed,
            beginning=start.table(),
            usage={"queries": models * len(self._coins.canaries)},
        )

    def _effect(self, engine: Engine, tuned: Target, base: Target) -> dict[str, float | str]:
        """Return the adapter's effect on the client's records, else on the canaries.

        Canaries are random tokens, by which an instrument cannot be calibrated.
        """
        texts = self.inputs.texts.get(TUNED)
        if texts:
            records = [Document(id=str(n), text=text, pii=()) for n, text in enumerate(texts)]
            return preflight.measure_effect(engine, tuned, base, records)
        effect = preflight.measure_effect(engine, tuned, base, self._documents)
        return {name: effect[name] for name in ("texts", "largest_change") if name in effect}

    def _runs(self) -> Iterator[tuple[str, AuditTarget]]:
        """Yield the audited federation, and the one without noise, each with its scope.source."""
        yield TUNED, self.audited
        if self.inputs.noiseless:
            yield NOISELESS, self.inputs.noiseless

    def _pairs(self, audited: AuditTarget) -> list[canary_scores.Pair]:
        every = (
            canary_scores.compared_models(audited, self._coins, p) for p in self._coins.positions
        )
        return [pair for pairs in every for pair in pairs]

    def _scores(
        self, engine: Engine, audited: AuditTarget, begin: Sequence[int], source: str
    ) -> Mapping[str, list[float]]:
        progress = self.watch(f"scoring canaries: {source}")
        return {
            position: canary_scores.score_canaries(
                engine,
                canary_scores.compared_models(audited, self._coins, position),
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
        if audited.federation is None or not isinstance(engine, LocalEngine):
            raise UsageError(NO_GRADIENTS)
        return {
            "server": canary_scores.score_gradients(
                engine,
                canary_scores.compared_models(audited, self._coins, "server"),
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
        yield from self.inputs.training_caveats
        if self._coins.estimator == "f_dp":
            yield (
                "The claim is judged as that of a Gaussian mechanism, as DP-SGD's accountants "
                "assume: a refutation refutes this mechanism's whole trade-off curve. The report "
                "also has the bound for any mechanism (one_run)."
            )
        runs = [run.federation for _, run in self._runs() if run.federation]
        if runs and runs[0].manifest.config and not stated_epsilon(runs[0], self._coins):
            yield NO_DP
        if self.inputs.noiseless is None:
            yield "No --noiseless federation was given: nothing shows that this audit has power."
        elif not all(run.manifest.config for run in runs):
            yield UNRECORDED

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
