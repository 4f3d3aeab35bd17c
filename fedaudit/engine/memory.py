"""What to do when a batch does not fit into memory: halve it, and remember what fitted."""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from fedaudit.api.errors import BatchTooLargeError
from fedaudit.engine.batching import SampleRange, rows_of, split_batch

ResultT = TypeVar("ResultT")

FEWEST, MOST = 32_768, 131_072
"""Bounds of the tokens that are held at once."""

MOST_ON_CARD = 2**20
"""The most tokens that a GPU holds at once."""

FEWEST_ROWS_ON_CARD, MOST_ROWS_ON_CARD = 1024, 4096
"""Bounds of the rows that a GPU continues at once."""

LOGIT_BYTES = 12
"""What a logit takes about while it becomes a score or a chance."""

CACHE = 2**29
"""The bytes of keys and values that a CPU holds at once, where that is more than FEWEST tokens."""

_MEMORY_ERRORS = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of torch's RuntimeErrors about memory that have no class of their own: on CPUs mostly."""


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _MEMORY_ERRORS)


def free_memory() -> None:
    """Free the memory that a failed attempt held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class BatchSizeFinder:
    """How many rows fit, by their length, as far as batches have failed."""

    def __init__(self) -> None:
        self._most: dict[int, int] = {}

    def max_rows(self, length: int) -> int | None:
        """Return how many rows of `length` tokens to try at most; None while nothing failed.

        What was too much for a shorter row is too much for a longer one.
        """
        return min((rows for n, rows in self._most.items() if n <= length), default=None)

    def fewer(self, length: int, rows: int) -> int:
        """Return how many rows of `length` tokens to try where `rows` are wanted: at least one."""
        most = self.max_rows(length)
        return max(1, rows if most is None else min(rows, most))

    def failed(self, length: int, rows: int) -> None:
        """Remember that `rows` of `length` tokens did not fit, and give back what they held.

        Raises BatchTooLargeError where a single row does not fit.
        """
        free_memory()
        if rows < 2:
            raise BatchTooLargeError(f"One row of {length} tokens does not fit into memory.")
        self._most[length] = rows // 2

    def run(
        self,
        length: int,
        batch: Sequence[SampleRange],
        work: Callable[[list[SampleRange]], ResultT],
    ) -> Iterator[tuple[list[SampleRange], ResultT]]:
        """Yield parts of `batch`, in order, and what `work` made of each: all at once if it fits.

        `work` is tried again on half of what did not fit, and must give each row the same result in
        any batch. Raises InputError where a single row does not fit.
        """
        waiting = self._cut(length, [list(batch)])
        while waiting:
            results, fitted = _try_batch(work, waiting[0])
            if fitted:
                chunk, waiting = waiting[0], waiting[1:]
                yield chunk, results[0]
                continue
            self.failed(length, rows_of(waiting[0]))
            waiting = self._cut(length, waiting)

    def _cut(self, length: int, batches: list[list[SampleRange]]) -> list[list[SampleRange]]:
        most = self.max_rows(length)
        return (
            batches
            if most is None
            else [chunk for batch in batches for chunk in split_batch(batch, most)]
        )


def _try_batch(
    work: Callable[[list[SampleRange]], ResultT], batch: list[SampleRange]
) -> tuple[list[ResultT], bool]:
    """Return the result of `work`, if any, and whether memory sufficed for it.

    The error is dropped with this frame, and with it all tensors that its own frames hold.
    """
    try:
        return [work(batch)], True
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return [], False


def tokens(model: PreTrainedModel) -> int:
    """Return how many tokens a CPU holds at once: as many as fit into CACHE bytes, within bounds.

    A small model's steps are short, so that more rows make them cheaper each.
    """
    return min(max(CACHE // (_token_bytes(model) or CACHE), FEWEST), MOST)


def tokens_on_card(model: PreTrainedModel) -> int:
    """Return how many tokens a GPU holds at once: a quarter of what its memory has free.

    Never fewer than MOST: what does not fit is halved. Where free memory is not known, MOST.
    """
    free, per_token = free_on_card(model.device), _token_bytes(model)
    return min(max(free // 4 // per_token, MOST), MOST_ON_CARD) if per_token else MOST


def rows_on_card(model: PreTrainedModel) -> int:
    """Return how many rows a GPU continues at once: their logits take an eighth of free memory.

    A step of a small model takes as long for few rows as for thousands.
    """
    vocabulary = int(model.config.get_text_config().vocab_size)
    fitting = free_on_card(model.device) // 8 // (LOGIT_BYTES * vocabulary)
    return min(max(fitting, FEWEST_ROWS_ON_CARD), MOST_ROWS_ON_CARD)


def logits_at_once(model: PreTrainedModel, least: int) -> int:
    """Return how many logits scoring holds at once: `least`, or more where a GPU has room.

    While they become scores all of them take a tenth of the memory that is free.
    """
    return min(max(free_on_card(model.device) // 10 // LOGIT_BYTES, least), 16 * least)


def free_on_card(device: torch.device) -> int:
    """Return the bytes that a GPU has free, or torch has reserved and not used; else 0."""
    if device.type != "cuda":
        return 0
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + unused)


def _token_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of a token's keys and values; 0 where layers differ or have none."""
    config = model.config.get_text_config()
    try:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)
    except (AttributeError, RuntimeError, TypeError):  # heads of several sizes, or none at all
        return 0
