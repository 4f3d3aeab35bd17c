"""Scoring texts: the log-probability of every token given the tokens before it.

Of a group of sequences that share a prefix, the prefix is prefilled once. The scores equal those of
each sequence by itself, up to rounding. Every row is padded to a length that depends on its group's
prefix and on its own suffix only, so neither the batch nor other groups change its scores.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.api.engine import TokenStatistics
from fedaudit.api.errors import BatchTooLargeError, InputError
from fedaudit.engine.architecture import (
    allows_padding,
    cache_kwargs,
    left_padded,
    right_padded,
    select_cache_rows,
)
from fedaudit.engine.batching import STEP, by_length, common_length, padded_length
from fedaudit.engine.device import to_device
from fedaudit.engine.generation.sampler import NO_NUMBERS

Sequences = Sequence[Sequence[int]]
AT_ONCE = 2**25
"""The most logits whose softmax is computed at once."""


@torch.inference_mode()
def log_probabilities(model: PreTrainedModel, sequences: Sequences) -> list[list[float]]:
    """Return ln p(token | tokens before it) for every token but the first of each sequence."""
    logits, following = _read(model, sequences)
    parts = [of_following(logits[:, part], following[:, part]) for part in _parts(logits)]
    scores = torch.cat(parts, dim=-1)
    return [
        row[: max(0, len(sequence) - 1)].tolist()
        for row, sequence in zip(scores.cpu(), sequences, strict=True)
    ]


@torch.inference_mode()
def token_statistics(model: PreTrainedModel, sequences: Sequences) -> list[TokenStatistics]:
    """Return the statistics of every token but the first of each sequence.

    They compare the token's ln p with the distribution over the vocabulary.
    """
    logits, following = _read(model, sequences)
    return [
        _statistics(row[: max(0, len(sequence) - 1)], tokens[: max(0, len(sequence) - 1)])
        for row, tokens, sequence in zip(logits, following, sequences, strict=True)
    ]


def _read(model: PreTrainedModel, sequences: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits (rows, length, vocabulary) and the tokens that follow (rows, length).

    All sequences have the same padded length. Padding is on the right, where causal attention
    never looks. The logits have the model's dtype; callers apply softmax in float32.
    """
    width = padded_length(max(len(sequence) for sequence in sequences))
    ids, _ = right_padded(sequences, width, model.device)
    return model(input_ids=ids, use_cache=False).logits[:, :-1], ids[:, 1:]


def _statistics(logits: torch.Tensor, tokens: torch.Tensor) -> TokenStatistics:
    """Return the statistics of one text: logits (length, vocabulary), tokens (length,)."""
    parts = [_part_statistics(logits[part], tokens[part]) for part in _parts(logits)]
    return TokenStatistics(
        log_probability=[value for part in parts for value in part.log_probability],
        mean=[value for part in parts for value in part.mean],
        deviation=[value for part in parts for value in part.deviation],
        first=[value for part in parts for value in part.first],
    )


def _parts(logits: torch.Tensor) -> Iterator[slice]:
    """Return ranges of positions of logits (..., length, vocabulary), AT_ONCE logits at most each.

    A long text has more logits than a batch of short ones, and a softmax takes several times their
    memory.
    """
    length = logits.shape[-2]
    step = max(1, AT_ONCE * length // max(1, logits.numel()))
    return (slice(start, start + step) for start in range(0, length, step))


def _part_statistics(logits: torch.Tensor, tokens: torch.Tensor) -> TokenStatistics:
    scores = torch.log_softmax(logits.float(), dim=-1)
    if bool(scores.isnan().any()):
        raise InputError(NO_NUMBERS)
    chances = scores.exp()
    mean = torch.linalg.vecdot(chances, scores)
    variance = (chances * (scores - mean[:, None]).square()).sum(-1)
    chosen = scores.gather(-1, tokens[:, None]).squeeze(-1)
    return TokenStatistics(
        log_probability=chosen.tolist(),
        mean=mean.tolist(),
        deviation=variance.sqrt().tolist(),
        first=(chosen >= scores.amax(-1)).tolist() if len(tokens) else [],
    )


def of_following(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return ln p of each of `tokens` (rows, length) under its logits (rows, length, vocabulary).

    ln p is the token's logit minus the logsumexp, so that no second tensor of the logits' size is
    needed for a full log-softmax. Raises InputError for NaN.
    """
    chosen = logits.gather(-1, tokens[..., None]).squeeze(-1).float()
    logprobs = chosen - torch.logsumexp(logits.float(), dim=-1)
    if bool(logprobs.isnan().any()):
        raise InputError(NO_NUMBERS)
    return logprobs


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Bounds on one forward pass."""

    rows: int
    tokens: int
    """Tokens that are read, together with the cached tokens that they attend to."""
    logits: int
    """Tokens whose logits are in memory."""


@dataclass
class AdaptiveBatchLimits:
    """The current batch limits, halved each time that memory runs out."""

    current: BatchLimits

    def __post_init__(self) -> None:
        self._first = self.current

    def halve(self) -> None:
        """Halve every bound; raises BatchTooLargeError if all are 1 already.

        In that case the initial limits are restored, since later work may fit.
        """
        before = self.current
        self.current = BatchLimits(
            *(max(1, n // 2) for n in (before.rows, before.tokens, before.logits))
        )
        if self.current == before:
            self.current = self._first
            raise BatchTooLargeError("A single row does not fit into memory.")


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A sequence of a group without the shared prefix."""

    group: int
    index: int
    suffix: tuple[int, ...]
    """Begins with the last shared token, whose logits predict the first token after the prefix."""

    @property
    def width(self) -> int:
        """The padded length of the part of `suffix` that the model reads."""
        return padded_length(len(self.suffix) - 1)


@dataclass(frozen=True, slots=True)
class PrefilledPrefixes:
    """Prefilled prefixes: their scores and KV cache."""

    row: Mapping[int, int]
    """The row of each group."""
    scores: Sequence[list[float]]
    mask: torch.Tensor
    """(groups, width): 1 for tokens, 0 for padding, which is on the left."""
    cache: DynamicCache


def common_prefix(group: Sequences) -> tuple[int, ...]:
    """Return the longest common prefix of `group` that leaves each sequence a token of its own.

    It is empty if sharing does not pay: for a single sequence, or at most STEP shared tokens.
    """
    if len(group) < 2:
        return ()
    length = min(common_length(group), min(map(len, group)) - 1)
    return tuple(group[0][:length]) if length > STEP else ()


def common_prefixes(model: PreTrainedModel, groups: Sequence[Sequences]) -> list[tuple[int, ...]]:
    """Return the common prefix of each group; all are empty if the model allows no padding.

    Such models can continue a cached prefix only token by token.
    """
    shares = allows_padding(model)
    return [common_prefix(group) if shares else () for group in groups]


@torch.inference_mode()
def group_log_probabilities(
    model: PreTrainedModel,
    groups: Sequence[Sequences],
    begins: Mapping[int, tuple[int, ...]],
    limits: BatchLimits,
) -> Iterator[tuple[list[GroupMember], list[list[float]]]]:
    """Yield sequences with ln p(token | tokens before it) of all their tokens but the first.

    Only groups with a non-empty prefix in `begins` are scored. Softmax runs in float32.
    """
    chosen = [g for g, begin in begins.items() if begin]
    lengths, most = [len(begins[g]) - 1 for g in chosen], min(limits.tokens, limits.logits)
    for batch in by_length(lengths, most, rows=limits.rows):
        batch_groups = [chosen[index] for index in batch]
        read = _prefill(model, {g: begins[g] for g in batch_groups})
        members = [
            GroupMember(g, index, tuple(sequence[len(begins[g]) - 1 :]))
            for g in batch_groups
            for index, sequence in enumerate(groups[g])
        ]
        for chunk in _chunks(members, read.mask.shape[1], limits):
            rests = _rests(model, chunk, read)
            heads = [read.scores[read.row[member.group]] for member in chunk]
            yield chunk, [head + tail for head, tail in zip(heads, rests, strict=True)]


def _chunks(
    members: Sequence[GroupMember], behind: int, limits: BatchLimits
) -> Iterator[list[GroupMember]]:
    """Yield members of the same padded length, as many as fit after `behind` cached tokens each."""
    for width in sorted({member.width for member in members}, reverse=True):
        alike = [member for member in members if member.width == width]
        room = min(limits.rows, limits.logits // width, limits.tokens // (behind + width))
        for start in range(0, len(alike), max(1, room)):
            yield alike[start : start + max(1, room)]


def _prefill(model: PreTrainedModel, begins: Mapping[int, tuple[int, ...]]) -> PrefilledPrefixes:
    """Prefill prefixes of one padded length, except their last token, in one forward pass."""
    width = padded_length(max(map(len, begins.values())) - 1)
    ids, mask = left_padded([*begins.values()], width + 1, model.device)
    mask, cache = mask[:, :-1], DynamicCache(config=model.config)
    logits = model(
        input_ids=ids[:, :-1],
        attention_mask=mask,
        position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
        **cache_kwargs(model, cache),
        use_cache=True,
    ).logits
    logprobs = of_following(logits, ids[:, 1:]).cpu()
    return PrefilledPrefixes(
        row={group: row for row, group in enumerate(begins)},
        scores=[
            scores[width + 1 - len(begin) :].tolist()
            for scores, begin in zip(logprobs, begins.values(), strict=True)
        ],
        mask=mask,
        cache=cache,
    )


def _rests(
    model: PreTrainedModel, chunk: Sequence[GroupMember], read: PrefilledPrefixes
) -> list[list[float]]:
    """Return the scores of each member's own tokens, from one forward pass (members, width)."""
    width, device = chunk[0].width, model.device
    ids, _ = right_padded([member.suffix for member in chunk], width + 1, device)
    rows = to_device([read.row[member.group] for member in chunk], device)
    lengths = to_device([len(member.suffix) - 1 for member in chunk], device)
    mask = read.mask[rows]
    # Right padding repeats the last position, so that no position exceeds the context.
    steps = torch.arange(width, device=device).minimum(lengths[:, None] - 1)
    logits = model(
        input_ids=ids[:, :-1],
        attention_mask=torch.nn.functional.pad(mask, (0, width), value=1),
        position_ids=mask.sum(-1, keepdim=True) + steps,
        **cache_kwargs(model, select_rows(read.cache, rows)),
        use_cache=True,
    ).logits
    logprobs = of_following(logits, ids[:, 1:]).cpu()
    return [scores[: len(m.suffix) - 1].tolist() for scores, m in zip(logprobs, chunk, strict=True)]


def select_rows(cache: DynamicCache, rows: torch.Tensor) -> DynamicCache:
    """Return a new cache with `rows` of `cache`, which is not changed."""
    selection = copy.copy(cache)
    selection.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in selection.layers:
        # Layers with states keep them in dictionaries, which both caches would share.
        vars(layer).update({k: dict(v) for k, v in vars(layer).items() if isinstance(v, dict)})
    select_cache_rows(selection, rows)  # indexing copies the tensors
    return selection
