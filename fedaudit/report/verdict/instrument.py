"""The verdict on the instrument: a model that does not read or answer properly cannot pass."""

from collections.abc import Callable, Iterable, Mapping

from fedaudit.api.kind import Judgement
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent

RULE = KIND = "instrument"

_SENTENCES: Mapping[str, Callable[[float, object], str]] = {
    "changed_texts": lambda value, option: (
        f"the base's tokenizer changes characters of {as_percent(value)} of the records when"
        " they are encoded and decoded, so strings in them could not be recognised in an answer"
    ),
    "base_loss": lambda value, option: (
        f"the base's loss on these records is {value:.2f} times that of uniform guesses: it does "
        "not model this text, or its configuration is not the one that it was trained with"
    ),
    "other_gain": lambda value, option: (
        f"with another usual value of {option} in its config.json the base makes these records "
        f"{value:.2g} nats a token likelier: it is not configured as it was trained"
    ),
    "end_tokens": lambda value, option: (
        f"{as_percent(value)} of the records' own tokens end an answer (eos_token_id), so answers "
        "stop before a leak could come out"
    ),
    "longer_texts": lambda value, option: (
        f"{as_percent(value)} of the records are longer than the model's context "
        "(max_position_embeddings), so their ends cannot be asked for"
    ),
    "mean_gain": lambda value, option: (
        f"the adapter makes the known records {abs(value):.2g} nats a token less likely: it was not"
        " trained on them, or not on this base as it is configured here"
    ),
    "gain_at_half": lambda value, option: (
        f"at half its scale the adapter makes the known records {value:.2g} nats a token likelier: "
        "it answers at another scale than it was trained at (lora_alpha, r, use_rslora)"
    ),
    "gain_at_twice": lambda value, option: (
        f"at twice its scale the adapter's gain on the known records is {value:.1f} times as large:"
        " it answers at another scale than it was trained at (lora_alpha, r, use_rslora)"
    ),
}


def judge_instrument(measurements: Iterable[Measurement]) -> list[Judgement]:
    """Return an inconclusive judgement for each number that is beyond its limit."""
    return [
        Judgement(
            "inconclusive",
            f"The instrument: {_SENTENCES[row.metric](row.value, row.scope.get('option'))}.",
            RULE,
            row,
            f"{'above' if row.metric == 'mean_gain' else 'at most'} {row.baseline or 0:g}",
        )
        for row in measurements
        if row.kind == KIND and row.metric in _SENTENCES and row.value is not None
    ]
