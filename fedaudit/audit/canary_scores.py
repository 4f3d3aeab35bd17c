"""Scores of canaries: the gain in ln p between the models that an attacker's position sees.

* outsider: the audited model compared with its base.
* client: every round's global model compared with the base, summed.
* server: every update of the client compared with the global model it began from, summed.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from fedaudit.api.engine import Engine
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Target
from fedaudit.audit.target import AuditTarget
from fedaudit.canaries.coin_file import CoinCanary, CoinSet, Position
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training.gradients import flattened, unit_gradients
from fedaudit.federation.folder import Federation
from fedaudit.metrics.privacy.matched_filter import direction_weights

Pair = tuple[str | None, str | None]
"""The adapter folders of a model and of the model it is compared with; None is the base."""


def compared_models(audited: AuditTarget, coins: CoinSet, position: Position) -> list[Pair]:
    """Return the models that an attacker compares; raises UsageError if they are not kept."""
    federation, number = audited.federation, audited.round
    if position == "outsider":
        return [(str(audited.adapter), None)]
    if federation is None or number is None:
        raise UsageError(
            f"The position {position} sees every round: name a federation's folder as --target, "
            "without --adapter."
        )
    rounds = federation.manifest.rounds[1 : number + 1]
    if position == "client":
        return [(str(federation.path / entry.adapter), None) for entry in rounds]
    updates = list(_updates(federation, coins.client, number))
    if not updates:
        raise UsageError(
            f"{federation.path} keeps no updates of {coins.client}, which the position server sees."
        )
    return updates


def _updates(federation: Federation, client: str, number: int) -> Iterator[Pair]:
    for previous, current in pairwise(federation.manifest.rounds[: number + 1]):
        if client in current.clients:
            update, start = current.clients[client], previous.adapter
            yield str(federation.path / update), str(federation.path / start)


def score_canaries(
    engine: Engine,
    pairs: Sequence[Pair],
    canaries: Sequence[CoinCanary],
    begin: Sequence[int],
    progress: Progress,
) -> list[float]:
    """Return the gain in ln p of each canary's suffix, in nats, summed over pairs of models.

    Every model scores each canary once, however many pairs it is in.
    """
    sequences, starts = _sequences(engine, canaries, begin)
    folders = dict.fromkeys(folder for pair in pairs for folder in pair)
    log_probs = {
        folder: [
            sum(row[start - 1 :])
            for row, start in zip(
                engine.score(Target(name="canaries", adapter=folder), sequences, progress=progress),
                starts,
                strict=True,
            )
        ]
        for folder in folders
    }
    return [
        sum(log_probs[adapter][index] - log_probs[reference][index] for adapter, reference in pairs)
        for index in range(len(canaries))
    ]


def _sequences(
    engine: Engine, canaries: Sequence[CoinCanary], begin: Sequence[int]
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the token sequence of every canary, and the index at which its suffix begins."""
    tokenized = engine.tokenize([canary.text for canary in canaries])
    sequences, starts = [], []
    for canary, tokens in zip(canaries, tokenized, strict=True):
        inside = sum(end <= len(canary.prefix) for _, end in tokens.offsets)
        sequences.append((*begin, *tokens.ids))
        starts.append(max(1, len(begin) + inside))
    return sequences, starts


def score_gradients(
    engine: LocalEngine,
    updates: Sequence[Pair],
    canaries: Sequence[CoinCanary],
    records: Sequence[str],
    progress: Progress,
) -> list[float]:
    """Return the weight of each canary's gradient, summed over the updates.

    `updates` are pairs of folders: a client's adapter and the adapter from which it began.
    `records` are the client's other records, truncated to the length of the longest canary. Raises
    InputError if gradients cannot be computed, and for an update that changes nothing.
    """
    tokenizer = engine.base.tokenizer
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    sequences, others = (
        [[*tokenizer(text)["input_ids"], *end] for text in texts]
        for texts in ([canary.text for canary in canaries], records)
    )
    longest = max(map(len, sequences))
    sequences += [row[:longest] for row in others if len(row) > 1]
    weights = [0.0] * len(canaries)
    for number, (after, before) in enumerate(updates):

        def watch(done: int, total: int, first: int = number * len(sequences)) -> None:
            progress(first + done, len(updates) * total)

        directions = unit_gradients(engine, Target(name="before", adapter=before), sequences, watch)
        # Training moves against the gradient.
        change = flattened(Path(str(before))) - flattened(Path(str(after)))
        if not change.norm():
            raise InputError(f"{after} is not an update: nothing changed in it.")
        found = direction_weights(
            (directions @ directions.T).double().numpy(),
            (directions @ change).double().numpy(),
            float(change.norm()),
        )
        weights = [total + float(new) for total, new in zip(weights, found, strict=False)]
    return weights
