"""Scoring groups of sequences that begin alike: what a group shares is read once.

The answers are those of scoring each sequence by itself, to rounding. Every row is padded to a
length that follows from its group's prefix and from its own rest, so neither the batch nor the
other groups matter.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.api.errors import BatchTooLargeError
from fedaudit.engine.batching import STEP, by_length, padded_length
from fedaudit.engine.compatibility import cache_kwargs, select_cache_rows
from fedaudit.engine.device import to_device
from fedaudit.engine.padding import allows_padding, left_padded, right_padded
from fedaudit.engine.scoring.log_likelihood import of_following

Sequences = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How much goes through the model at once."""

    rows: int
    tokens: int
    """Read, or cached for what is read."""
    logits: int
    """Tokens whose logits are in memory."""


@dataclass
class AdaptiveBatchLimits:
    """The current limits, halved each time that memory runs out."""

    current: BatchLimits

    def __post_init__(self) -> None:
        self._first = self.current

    def halve(self) -> None:
        """Halve every bound; raises BatchTooLargeError where there is nothing left to halve.

        Later work starts with the first limits again: something else may fit.
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
    """A sequence of a group, less what the group shares."""

    group: int
    index: int
    suffix: tuple[int, ...]
    """It begins with the last token that is shared, whose logits say what follows it."""

    @property
    def width(self) -> int:
        """The padded length of its part that is read."""
        return padded_length(len(self.suffix) - 1)


@dataclass(frozen=True, slots=True)
class PrefilledPrefixes:
    """Prefixes that the model has read: their scores, keys and values."""

    row: Mapping[int, int]
    """Row of each group."""
    scores: Sequence[list[float]]
    mask: torch.Tensor
    """(groups, width): 1 where a token stands, padding is on the left."""
    cache: DynamicCache


def common_prefix(group: Sequences) -> tuple[int, ...]:
    """Return the tokens that all of `group` begin with, leaving each at least one of its own.

    Empty where sharing does not pay: for one sequence alone, or few tokens.
    """
    if len(group) < 2:
        return ()
    # What the first and the last in order share, all between them share too.
    first, last = min(map(tuple, group)), max(map(tuple, group))
    most = min(map(len, group)) - 1
    length = next((i for i in range(most) if first[i] != last[i]), most)
    return first[:length] if length > STEP else ()


def common_prefixes(model: PreTrainedModel, groups: Sequence[Sequences]) -> list[tuple[int, ...]]:
    """Return what each group begins with; nothing if the model cannot go on from there at once.

    That is where prompts may not be padded: such models continue token by token.
    """
    shares = allows_padding(model)
    return [common_prefix(group) if shares else () for group in groups]


@torch.inference_mode()
def log_probabilities(
    model: PreTrainedModel,
    groups: Sequence[Sequences],
    begins: Mapping[int, tuple[int, ...]],
    limits: BatchLimits,
) -> Iterator[tuple[list[GroupMember], list[list[float]]]]:
    """Yield sequences with ln p(token | tokens before it) of all their tokens but the first.

    Only groups that begin with something in `begins` are scored. Softmax runs in float32.
    """
    chosen = [g for g, begin in begins.items() if begin]
    for batch in _batches([len(begins[g]) - 1 for g in chosen], limits):
        batch_groups = [chosen[index] for index in batch]
        read = _read(model, {g: begins[g] for g in batch_groups})
        members = [
            GroupMember(g, index, tuple(sequence[len(begins[g]) - 1 :]))
            for g in batch_groups
            for index, sequence in enumerate(groups[g])
        ]
        for chunk in _chunks(members, read.mask.shape[1], limits):
            rests = _rests(model, chunk, read)
            heads = [read.scores[read.row[member.group]] for member in chunk]
            yield chunk, [head + tail for head, tail in zip(heads, rests, strict=True)]


def _batches(lengths: Sequence[int], limits: BatchLimits) -> Iterator[list[int]]:
    """Yield the indices of prefixes of one padded length."""
    for batch in by_length(lengths, min(limits.tokens, limits.logits)):
        for start in range(0, len(batch), limits.rows):
            yield batch[start : start + limits.rows]


def _chunks(
    members: Sequence[GroupMember], behind: int, limits: BatchLimits
) -> Iterator[list[GroupMember]]:
    """Yield members of one padded length, as many as may stand behind `behind` cached tokens."""
    for width in sorted({member.width for member in members}, reverse=True):
        alike = [member for member in members if member.width == width]
        room = min(limits.rows, limits.logits // width, limits.tokens // (behind + width))
        for start in range(0, len(alike), max(1, room)):
            yield alike[start : start + max(1, room)]


def _read(model: PreTrainedModel, begins: Mapping[int, tuple[int, ...]]) -> PrefilledPrefixes:
    """Read prefixes of one padded length, all but their last token, in one forward."""
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
    """Return the scores of what each member has of its own: (members, width) in one forward."""
    width, device = chunk[0].width, model.device
    ids, _ = right_padded([member.suffix for member in chunk], width + 1, device)
    rows = to_device([read.row[member.group] for member in chunk], device)
    lengths = to_device([len(member.suffix) - 1 for member in chunk], device)
    mask = read.mask[rows]
    # Padding, behind, stays at the last position: none is outside the context.
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
    """Return a new cache with `rows` of `cache`, which stays as it is."""
    selection = copy.copy(cache)
    selection.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in selection.layers:
        # Layers with states keep them in dictionaries, which would be the first cache's too.
        vars(layer).update({k: dict(v) for k, v in vars(layer).items() if isinstance(v, dict)})
    select_cache_rows(selection, rows)  # indexing copies the tensors
    return selection
