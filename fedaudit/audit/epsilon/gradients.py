"""The weight of each canary's gradient in a client's updates, as the server sees them.

For every round, the client's update is regressed on gradients at the model from which the round
began: those of all canaries, included and excluded, and of the client's records if they are at
hand. A canary's weight is what its gradient adds that the others do not explain.
"""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Target
from fedaudit.audit.epsilon.scoring import Pair
from fedaudit.canaries.coin_file import CoinCanary
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.training.sample_gradients import flattened, unit_gradients
from fedaudit.metrics.privacy.matched_filter import direction_weights


def score(
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
            raise InputError(f"{after} is no update: nothing changed in it.")
        found = direction_weights(
            (directions @ directions.T).double().numpy(),
            (directions @ change).double().numpy(),
            float(change.norm()),
        )
        weights = [total + float(new) for total, new in zip(weights, found, strict=False)]
    return weights
