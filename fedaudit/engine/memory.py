"""What to do when a batch does not fit into memory: halve it, and remember the size."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from fedaudit.api.errors import BatchTooLargeError
from fedaudit.engine.batching import SampleRange, rows_of, split_batch

ResultT = TypeVar("ResultT")

FEWEST, MOST = 32_768, 131_072
"""Bounds on the number of tokens that a CPU holds at once."""

MOST_ON_CARD = 2**20
"""The most tokens that a GPU holds at once."""

FEWEST_ROWS_ON_CARD, MOST_ROWS_ON_CARD = 1024, 4096
"""Bounds on the number of rows that a GPU continues at once."""

LOGIT_BYTES = 12
"""Approximate bytes of memory per logit while scores or probabilities are computed from it."""

CACHE = 2**29
"""Bytes of KV cache that a CPU holds at once, if those are more than FEWEST tokens."""

_MEMORY_ERRORS = ("can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Messages by which a plain RuntimeError of torch means out of memory, mostly on CPUs."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _MEMORY_ERRORS)


@contextmanager
def ended_by_memory() -> Iterator[None]:
    """Leave the block where memory runs out, without the error.

    It goes out of scope here, and with it all tensors that its traceback's frames hold.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise


def free_memory() -> None:
    """Free the memory that a failed attempt held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class BatchSizeFinder:
    """Finds how many rows of each length fit into memory, from the batches that have failed."""

    def __init__(self) -> None:
        self._most: dict[int, int] = {}

    def max_rows(self, length: int) -> int | None:
        """Return the most rows of `length` tokens to try; None while no such batch has failed.

        A number of rows that was too large for a shorter length is too large for a longer one.
        """
        return min((rows for n, rows in self._most.items() if n <= length), default=None)

    def fewer(self, length: int, rows: int) -> int:
        """Return how many of `rows` rows of `length` tokens to try at once: at least one."""
        most = self.max_rows(length)
        return max(1, rows if most is None else min(rows, most))

    def failed(self, length: int, rows: int) -> None:
        """Remember that `rows` rows of `length` tokens did not fit, and free their memory.

        Raises BatchTooLargeError if even a single row does not fit.
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
        """Yield parts of `batch`, in order, each with the result of `work`; one part if all fits.

        A part that does not fit is halved and tried again, so `work` must give each row the same
        result in any batch. Raises BatchTooLargeError if even a single row does not fit.
        """
        waiting = self._cut(length, [list(batch)])
        while waiting:
            chunk, results = waiting[0], list[ResultT]()
            with ended_by_memory():
                results.append(work(chunk))
            if results:
                waiting = waiting[1:]
                yield chunk, results.pop()
            else:
                self.failed(length, rows_of(chunk))
                waiting = self._cut(length, waiting)

    def _cut(self, length: int, batches: list[list[SampleRange]]) -> list[list[SampleRange]]:
        if (most := self.max_rows(length)) is None:
            return batches
        return [chunk for batch in batches for chunk in split_batch(batch, most)]


def tokens(model: PreTrainedModel) -> int:
    """Return how many tokens a CPU holds at once: as many as fit into CACHE bytes, within bounds.

    Small models get more tokens: their steps are short, and larger batches make a row cheaper.
    """
    return min(max(CACHE // (_token_bytes(model) or CACHE), FEWEST), MOST)


def tokens_on_card(model: PreTrainedModel) -> int:
    """Return how many tokens a GPU holds at once: their KV cache takes a quarter of free memory.

    Never fewer than MOST, as a batch that does not fit is halved; MOST where the size of a token's
    KV cache is unknown.
    """
    free, per_token = free_on_card(model.device), _token_bytes(model)
    return min(max(free // 4 // per_token, MOST), MOST_ON_CARD) if per_token else MOST


def rows_on_card(model: PreTrainedModel) -> int:
    """Return how many rows a GPU continues at once: their logits take an eighth of free memory.

    A decoding step of a small model takes as long for a few rows as for thousands.
    """
    vocabulary = int(model.config.get_text_config().vocab_size)
    fitting = free_on_card(model.device) // 8 // (LOGIT_BYTES * vocabulary)
    return min(max(fitting, FEWEST_ROWS_ON_CARD), MOST_ROWS_ON_CARD)


def logits_at_once(model: PreTrainedModel, least: int) -> int:
    """Return how many logits scoring holds at once: `least`, or more where a GPU has room.

    On a GPU, the logits and what is computed from them take a tenth of free memory.
    """
    return min(max(free_on_card(model.device) // 10 // LOGIT_BYTES, least), 16 * least)


def free_on_card(device: torch.device) -> int:
    """Return the bytes that a GPU has free or torch has reserved but not used; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + unused)


def _token_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of a token's KV cache; 0 if layers differ or have no attention."""
    config = model.config.get_text_config()
    try:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)
    except (AttributeError, RuntimeError, TypeError):  # heads of several sizes, or none at all
        return 0
