"""Calibration: the model must read, score and answer as a working one does.

Weights, tokenizer and configuration come from the audited party, and a small change to any of their
small files can hide a leak: letters that the decoder masks, answers that end after a word, an
adapter at twice the scale of its training. So before any question, the audit's own records are
read, decoded and scored. The numbers go into the report's `target.effect`; a number beyond its
limit becomes a row of the kind "instrument", which bars a pass.
"""

import json
import math
import shutil
import tempfile
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.engine import Engine, EngineWrapper, LogProbabilities, TokenRows
from fedaudit.api.errors import InputError
from fedaudit.api.records import Measurement, Target
from fedaudit.federation import adapters

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

TEXTS_DECODED = 2_000
"""The maximum number of texts to encode and decode."""
ALIGNED = 50
"""The maximum number of texts to align that come back changed; alignment is quadratic."""
LONGEST = 2_000
"""The maximum number of letters and digits of a text to align."""
REFUSED_SHARE = 0.01
"""The share of texts from which on lost ASCII letters or digits are refused: every tokenizer of a
language model can write these."""
MOST_UNIFORM = 0.75
"""The loss of a base on ordinary text must be below this share of that of uniform guesses. The
built-in base has 0.18, with positions or activations that it was not trained with 0.3 to 0.45, and
with a meaningless normalisation 0.96."""
MOST_END_TOKENS = 1e-3
"""The share of tokens within texts that may end an answer."""
MOST_LONGER = 0.1
"""The share of texts that may be longer than the model's context."""
HALF, TWICE = 0.5, 2.0
CLEARLY = 0.05
"""By how many nats per token another scale of the adapter must be better to be clearly so."""
STEEP = 1.5
"""How many times as large the adapter's gain may be at twice its scale. Adapters saved after one
round of training, far from their optimum, had 1.4; adapters at half the scale of their training had
1.7 to 2.2."""
SCALED_TEXTS, CONFIGURED_TEXTS = 16, 4
OTHER_GAIN = 0.1
"""By how many nats per token another value in config.json may make texts likelier."""

LIMITS: Mapping[str, float] = {
    "changed_texts": 0.0,
    "base_loss": MOST_UNIFORM,
    "other_gain": OTHER_GAIN,
    "end_tokens": MOST_END_TOKENS,
    "longer_texts": MOST_LONGER,
    "mean_gain": 0.0,
    "gain_at_half": CLEARLY,
    "gain_at_twice": STEEP,
}
"""The limit of each number of `target.effect`, and the baseline of its row: `mean_gain` must be
above its limit, no other may be."""


def check(
    engine: Engine,
    tuned: Target,
    rows: TokenRows,
    base_scores: LogProbabilities,
    tuned_scores: LogProbabilities,
    texts: Sequence[str],
) -> dict[str, float | str]:
    """Return the numbers of a model in this process or its workers; {} for one behind a server.

    `rows` were scored under both models; `texts` are all that is looked for. Raises InputError for
    a tokenizer that loses letters or digits of ordinary text.
    """
    local = _own_engine(engine)
    if local is None:
        return {}
    numbers: dict[str, float | str] = {**_reading(local, texts)}
    loss = -_mean(base_scores)
    numbers["base_loss"] = loss / math.log(local.vocabulary_size)
    few = min(len(rows), CONFIGURED_TEXTS)
    [(key, other)] = local.best_configurations([rows[:few]])
    if key:
        numbers |= {"other_key": key, "other_gain": other - _mean(base_scores[:few])}
    folder = Path(tuned.adapter) if tuned.adapter else None
    if folder is not None and (folder / adapters.CONFIG).is_file():
        count = min(len(rows), SCALED_TEXTS)
        base, at_one = _mean(base_scores[:count]), _mean(tuned_scores[:count])
        half, twice = (_scaled(engine, folder, s, rows[:count]) for s in (HALF, TWICE))
        numbers["gain_at_half"] = half - at_one
        if at_one > base and twice - at_one > CLEARLY:
            numbers["gain_at_twice"] = (twice - base) / (at_one - base)
    return numbers


def rows(effect: Mapping[str, object]) -> list[Measurement]:
    """Return a row for each number of `target.effect` that is beyond its limit."""
    found = []
    for metric, limit in LIMITS.items():
        value = effect.get(metric)
        if not isinstance(value, int | float):
            continue
        if value > limit if metric != "mean_gain" else value <= limit:
            found.append(
                Measurement(
                    kind="instrument",
                    plugin="preflight",
                    metric=metric,
                    value=float(value),
                    baseline=limit,
                    scope={"option": effect["other_key"]} if metric == "other_gain" else {},
                )
            )
    return found


def _own_engine(engine: Engine) -> "LocalEngine | ParallelEngine | None":
    """Return the engine that has the model's own tokenizer; None for a server and for fakes."""
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

    while isinstance(engine, EngineWrapper):
        engine = engine.engine
    return engine if isinstance(engine, LocalEngine | ParallelEngine) else None


def _reading(engine: "LocalEngine | ParallelEngine", texts: Sequence[str]) -> dict[str, float]:
    """Return how many texts come back changed, hold end tokens, and exceed the context."""
    sample = sorted(set(texts))[:TEXTS_DECODED]
    if not sample:
        return {}
    ids = [tokens.ids for tokens in engine.tokenize(sample)]
    changed = [
        (before, after)
        for before, after in zip(map(fold, sample), map(fold, engine.decode(ids)), strict=True)
        if before != after
    ]
    lost = [
        c for pair in changed[:ALIGNED] for c in differences(*pair) if c.isascii() and c.isalnum()
    ]
    if lost and len(changed) >= REFUSED_SHARE * len(sample):
        raise InputError(
            f"The base's tokenizer does not give back what it reads: of {len(sample):,} records "
            f"{len(changed):,} lose, gain or change letters or digits when they are encoded and "
            "decoded, so what comes out could not be recognised. Use the model's original "
            "tokenizer files (see decoder, normalizer and added_tokens in tokenizer.json)."
        )
    ends, inner = set(engine.end_tokens), sum(max(0, len(row) - 1) for row in ids)
    stops = sum(token in ends for row in ids for token in row[:-1])
    longer = sum(len(row) >= engine.context_length for row in ids)
    return {
        "changed_texts": len(changed) / len(sample),
        "end_tokens": stops / max(1, inner),
        "longer_texts": longer / len(ids),
    }


def fold(text: str) -> str:
    """Return the characters of a text, without case, accents, blanks and compatibility forms.

    That is what normalizers of tokenizers may legitimately change.
    """
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in decomposed if not c.isspace() and not unicodedata.combining(c))


def differences(before: str, after: str) -> str:
    """Return the characters that one text has and the other does not have at that place."""
    before, after = before[:LONGEST], after[:LONGEST]
    parts = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return "".join(before[i:j] + after[k:m] for kind, i, j, k, m in parts if kind != "equal")


def _scaled(engine: Engine, folder: Path, scale: float, rows: TokenRows) -> float:
    """Return the mean ln p per token with the adapter at `scale` times its own scale."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "adapter"
        copy.mkdir()
        for path in folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, copy / path.name)
        config = dict(adapters.read_config(folder))
        config["lora_alpha"] *= scale
        pattern = config.get("alpha_pattern") or {}
        config["alpha_pattern"] = {name: alpha * scale for name, alpha in pattern.items()}
        (copy / adapters.CONFIG).write_text(json.dumps(config), "utf-8")
        target = Target(name=f"tuned at {scale:g} times its scale", adapter=str(copy))
        return _mean(engine.score(target, rows))


def _mean(scores: Iterable[Sequence[float]]) -> float:
    values = [value for row in scores for value in row]
    return sum(values) / max(1, len(values))
