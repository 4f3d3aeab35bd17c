"""Measurements on a target before any attack: calibration, the adapter's effect, the prompt start.

Weights, tokenizer and configuration come from the audited party, and a small change to any of their
small files can hide a leak: letters that the decoder masks, answers that end after a word, an
adapter at twice the scale of its training. So before any question, the audit's own records are
read, decoded and scored. The numbers go into the report's `target.effect`; a number beyond its
limit becomes a row of the kind "instrument", which bars a pass.

Leaving out the token with which training texts began can hide most of a leak, and so can adding it
to a crop from the middle of a document. So prompts at the start of a text and crops are measured
separately.
"""

import json
import math
import re
import shutil
import tempfile
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.abilities import missing_abilities, why_lacking
from fedaudit.api.engine import (
    Engine,
    GenerationBatch,
    LogProbabilities,
    TokenRows,
    text_start,
    unwrap_engine,
)
from fedaudit.api.errors import InputError, NoEffectError, TargetError
from fedaudit.api.records import (
    Document,
    GenerationRequest,
    Measurement,
    PromptStart,
    SamplingParams,
    Target,
    Tokens,
)
from fedaudit.extraction.prefixes import PiiOccurrence
from fedaudit.federation import adapters

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

MARK = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
"""The form of the marks that chat templates write and tokenizers read as one token."""
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


def calibrate(
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
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

    local = unwrap_engine(engine, LocalEngine) or unwrap_engine(engine, ParallelEngine)
    if local is None:
        return {}
    numbers: dict[str, float | str] = {**_reading(local, texts)}
    loss = -_mean_score(base_scores)
    numbers["base_loss"] = loss / math.log(local.vocabulary_size)
    numbers |= _other_configuration(local, rows, base_scores)
    folder = Path(tuned.adapter) if tuned.adapter else None
    if folder is not None and (folder / adapters.CONFIG).is_file():
        count = min(len(rows), SCALED_TEXTS)
        base, at_one = _mean_score(base_scores[:count]), _mean_score(tuned_scores[:count])
        half, twice = (_scaled(engine, folder, s, rows[:count]) for s in (HALF, TWICE))
        numbers["gain_at_half"] = half - at_one
        if at_one > base and twice - at_one > CLEARLY:
            numbers["gain_at_twice"] = (twice - base) / (at_one - base)
    return numbers


def _other_configuration(
    local: "LocalEngine | ParallelEngine", rows: TokenRows, base_scores: LogProbabilities
) -> dict[str, float | str]:
    """Return by how much the best other value in config.json makes texts likelier, and its key.

    What a few texts say against a base is asked of all of them before it is said.
    """
    numbers: dict[str, float | str] = {}
    for count in dict.fromkeys((min(len(rows), CONFIGURED_TEXTS), len(rows))):
        [(key, other)] = local.best_configurations([rows[:count]])
        gain = other - _mean_score(base_scores[:count])
        numbers = {"other_key": key, "other_gain": gain} if key else {}
        if gain <= OTHER_GAIN:
            break
    return numbers


def instrument_rows(effect: Mapping[str, object]) -> list[Measurement]:
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


def _reading(engine: "LocalEngine | ParallelEngine", texts: Sequence[str]) -> dict[str, float]:
    """Return how many texts come back changed, hold end tokens, and exceed the context."""
    sample = sorted(set(texts))[:TEXTS_DECODED]
    if not sample:
        return {}
    read = engine.tokenize(sample)
    ids, marks = [tokens.ids for tokens in read], list(map(_marks, sample, read))
    pairs = [
        [fold(_without(text, own)) for text in pair]
        for *pair, own in zip(sample, engine.decode(ids), marks, strict=True)
    ]
    changed = [(before, after) for before, after in pairs if before != after]
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
    stops = sum(
        token in ends and text[start:end].strip() not in own
        for text, tokens, own in zip(sample, read, marks, strict=True)
        for token, (start, end) in list(zip(tokens.ids, tokens.offsets, strict=True))[:-1]
    )
    longer = sum(len(row) >= engine.context_length for row in ids)
    return {
        "changed_texts": len(changed) / len(sample),
        "end_tokens": stops / max(1, inner),
        "longer_texts": longer / len(ids),
    }


def _marks(text: str, tokens: Tokens) -> set[str]:
    """Return the marks of a chat template in a text that are one token each, as <|im_end|> is.

    Decoding leaves them out, and they may end an answer.
    """
    parts = {text[start:end].strip() for start, end in tokens.offsets}
    return {part for part in parts if MARK.fullmatch(part)}


def _without(text: str, marks: Collection[str]) -> str:
    for mark in marks:
        text = text.replace(mark, "")
    return text


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
        return _mean_score(engine.score(target, rows))


def _mean_score(scores: Iterable[Sequence[float]]) -> float:
    values = [value for row in scores for value in row]
    return sum(values) / max(1, len(values))


EFFECT_TEXTS, EFFECT_TOKENS = 32, 128
MIN_CHANGE_NATS = 1e-3
"""The change of ln p, in nats, below which an adapter has no effect."""
NOISE_FACTOR = 2.0
"""For a model behind a server, the change must be at least this many times as large as the
difference between two scores of the base."""
PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 16, 24, 16
"""The number of prompts, tokens per prompt and new tokens, if only completions can be compared."""


def measure_effect(
    engine: Engine,
    tuned: Target,
    base: Target,
    documents: Sequence[Document],
    victim: Sequence[Document] = (),
) -> dict[str, float | str]:
    """Return the adapter's effect on `documents`; raises NoEffectError if there is none.

    These are the numbers of the report's table `target.effect`: the number of texts, the mean and
    largest change of ln p of a token in nats, and those of `calibrate`; for a model that cannot
    score texts, of how many greedy answers differ between the models, and within the base. The
    instrument is calibrated on the same texts; the `victim`'s must be readable too. Raises
    TargetError if a server's scores vary too much for the effect to be seen, and InputError for a
    tokenizer that loses letters or digits.
    """
    texts = sorted({d.text for d in documents})[:EFFECT_TEXTS]
    if why_lacking(engine, {"score"}):
        return _of_answers(engine, tuned, base, texts)
    begin = text_start(engine)
    longest = min(EFFECT_TOKENS, max(1, engine.context_length - len(begin)))
    rows = [(*begin, *t.ids[:longest]) for t in engine.tokenize(texts)]
    # One model after the other, as the attacks will score them.
    with_, without = engine.score(tuned, rows), engine.score(base, rows)
    changes = _score_differences(with_, without)
    largest, least = max(map(abs, changes), default=0.0), MIN_CHANGE_NATS
    if missing_abilities(engine):  # a server, whose scores may vary from call to call
        again = _score_differences(engine.score(base, rows), without)
        least = max(MIN_CHANGE_NATS, NOISE_FACTOR * max(map(abs, again), default=0.0))
    if MIN_CHANGE_NATS <= largest < least:
        raise TargetError(
            f"The base scores the same texts differently from one time to the next, by up to "
            f"{least / NOISE_FACTOR:.1g} nats a token, so that nothing can be told from scores: "
            "leave them out with --set endpoint.scoring=false, or see whether they are steady with "
            "--set endpoint.concurrency=1."
        )
    if largest < least:
        raise NoEffectError(
            f"The adapter {tuned.adapter or tuned.name} has no effect: on {len(rows)} texts it "
            f"changes no token's log-probability by more than {largest:.1g}. Is it the initial "
            "adapter, or one for another base?"
        )
    read = [d.text for d in (*documents, *victim)]
    return {
        "texts": len(rows),
        "mean_gain": sum(changes) / len(changes),
        "largest_change": largest,
        **calibrate(engine, tuned, rows, without, with_, read),
    }


def _score_differences(left: LogProbabilities, right: LogProbabilities) -> list[float]:
    return [
        a - b
        for row, other_row in zip(left, right, strict=True)
        for a, b in zip(row, other_row, strict=True)
    ]


def _of_answers(
    engine: Engine, tuned: Target, base: Target, texts: Sequence[str]
) -> dict[str, float | str]:
    """Return the numbers of greedy completions that differ between models, and within the base."""
    prompts = {t.ids[:PROMPT_TOKENS] for t in engine.tokenize(texts[:PROMPTS]) if t.ids}
    batch = GenerationBatch(
        [
            GenerationRequest(prompt=p, samples=1, max_new_tokens=NEW_TOKENS)
            for p in sorted(prompts)
        ],
        seed=0,
        decoding=SamplingParams(temperature=0),
    )
    with_, without, again = (engine.generate(target, batch) for target in (tuned, base, base))
    changed = sum(a != b for a, b in zip(with_, without, strict=True))
    unsteady = sum(a != b for a, b in zip(without, again, strict=True))
    if changed <= unsteady:
        raise NoEffectError(
            f"{tuned.adapter or tuned.name} has no effect: of {len(batch)} greedy answers it "
            f"changes {changed}, and the base itself changes {unsteady} when it is asked again. "
            "Does the server serve the adapter under that name?"
        )
    return {"prompts": len(batch), "changed": changed, "unsteady": unsteady}


SAMPLE = 128
"""The maximum number of known texts of each kind to score."""

LONGEST_PII = 32
"""The maximum number of tokens of a PII string to score."""


@dataclass(frozen=True, slots=True)
class PromptStartScores:
    """The chosen prompt starts, and the mean ln p per token of known PII after each of them."""

    chosen: PromptStart
    start: Mapping[str, float]
    middle: Mapping[str, float]

    def table(self) -> dict[str, object]:
        """Return the report's table."""
        return {
            "start": self.chosen.start,
            "middle": self.chosen.middle,
            "log_likelihood": {"start": dict(self.start), "middle": dict(self.middle)},
        }


def choose_prompt_start(
    engine: Engine, target: Target, occurrences: Sequence[PiiOccurrence]
) -> PromptStartScores:
    """Return the prompt starts after which the auditor's own PII is likeliest under `target`.

    Without known PII of a kind, or with an engine that cannot score, a text gets the BOS token if
    the tokenizer adds special tokens to texts, and a crop gets none.
    """
    names = sorted(engine.prompt_starts.keys() - {"text"}, key=_preference)
    untold = "bos" if text_start(engine) and "bos" in names else "bare"
    if why_lacking(engine, {"score"}):
        occurrences = ()
    scores = {}
    for at_start in (True, False):
        candidates = sorted(
            {p for p in occurrences if p.at_start is at_start and p.tokens}, key=_order
        )
        sample = candidates[:: -(-len(candidates) // SAMPLE)] if candidates else []
        scores[at_start] = {
            name: _mean_after(engine, target, engine.prompt_starts[name], sample)
            for name in names
            if sample
        }
    chosen = PromptStart(
        start=_best(scores[True], untold),
        middle=_best(scores[False], "bare"),
    )
    return PromptStartScores(chosen, scores[True], scores[False])


def _mean_after(
    engine: Engine, target: Target, begin: Sequence[int], occurrences: Sequence[PiiOccurrence]
) -> float:
    """Return the mean ln p of the PII's tokens after `begin` and their prefix."""
    rows = engine.score(target, [(*begin, *p.prefix, *p.tokens[:LONGEST_PII]) for p in occurrences])
    values = [
        value
        for occurrence, row in zip(occurrences, rows, strict=True)
        for value in row[len(row) - len(occurrence.tokens[:LONGEST_PII]) :]
    ]
    return sum(values) / len(values)


def _best(scores: Mapping[str, float], otherwise: str) -> str:
    return max(scores, key=lambda name: scores[name]) if scores else otherwise


def _preference(name: str) -> int:
    """Return a sort key, so that of two equally likely prompt starts the ordinary one is chosen."""
    return ("bos", "bare", "template").index(name)


def _order(occurrence: PiiOccurrence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return occurrence.prefix, occurrence.tokens
