"""CUDA graphs of forwards: a GPU repeats a whole forward at one word of the host.

A forward of a small model is over before the host has launched its thousand kernels. Where the
shapes come again, the kernels are recorded once and replayed: from fixed inputs, on keys at fixed
addresses.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from fedaudit.engine.batching import next_multiple
from fedaudit.engine.device import pinned, to_device

Forward = Callable[..., Any]

MAX_GRAPHS = {"step": 64, "draw": 64, "prefill": 4}
"""Forwards of a kind that stay recorded: those that were run last. A prefill keeps its cache."""

MAX_KEPT_SHARE = 16
"""Keys stay between two calls where they take no more than this part of a GPU's memory."""


@dataclass(slots=True, eq=False)
class CapturedForward:
    """A forward of one shape."""

    inputs: list[torch.Tensor]
    """On the device; every run copies its own into them."""
    graph: Any = None
    output: Any = field(default=None)
    """What the graph writes to."""


class CudaGraphs:
    """The recorded forwards of a model as it answers for one target.

    The second run of a shape records it. A device other than CUDA runs each forward anew, from the
    same fixed inputs.
    """

    def __init__(self, device: torch.device) -> None:
        """Start with nothing recorded."""
        self.device = device
        self._runs: dict[tuple[str, Hashable], CapturedForward] = {}
        self._layers: list[Any] = []
        self._state: Hashable = None
        self._buffers: dict[Hashable, torch.Tensor] = {}
        self._captures = device.type == "cuda"
        self._start()

    def _start(self) -> None:
        if self._captures:
            self._stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self._pool = torch.cuda.graph_pool_handle()

    def run(self, kind: str, shape: Hashable, inputs: Sequence[Any], forward: Forward) -> Any:
        """Return forward(*inputs), the inputs being the host's; the next run may overwrite it.

        Runs of one kind and shape do the same with inputs of the same shapes.
        """
        key = kind, shape
        recorded = self._runs.pop(key, None)
        if recorded is None:
            run = CapturedForward([to_device(one, self.device).clone() for one in inputs])
        else:
            run = recorded
            for own, new in zip(run.inputs, inputs, strict=True):
                own.copy_(pinned(new, self.device), non_blocking=True)
        self._runs[key] = run
        for oldest in [key for key in self._runs if key[0] == kind][: -MAX_GRAPHS[kind]]:
            del self._runs[oldest]
        if recorded is None or not self._captures:
            return self._run_eagerly(run, forward)
        if run.graph is None and not self._capture(run, forward):
            return forward(*run.inputs)
        run.graph.replay()
        return run.output

    def _run_eagerly(self, run: CapturedForward, forward: Forward) -> Any:
        """Run a forward on the stream that it will be recorded on, which prepares all libraries."""
        if not self._captures:
            return forward(*run.inputs)
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            output = forward(*run.inputs)
        current.wait_stream(self._stream)
        return output

    def _capture(self, run: CapturedForward, forward: Forward) -> bool:
        """Record a forward; say whether it can be."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                output = forward(*run.inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # a model that waits for its device, or asks it something
            self._captures = False
            return False
        run.graph, run.output = graph, output
        return True

    def buffer(self, name: str, rows: int, like: torch.Tensor) -> torch.Tensor:
        """Return the first `rows` rows of a tensor that all forwards share, rows like `like`'s.

        What recorded forwards return would stay in memory, for each of them. Nothing is made while
        one is recorded: its first run has made it.
        """
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < rows:
            buffer = self._buffers[name] = like.new_empty(rows, *like.shape[1:])
            self._runs.clear()  # they write to the one before
        return buffer[:rows]

    @contextmanager
    def for_target(self, model: torch.nn.Module, target: Hashable) -> Iterator["CudaGraphs"]:
        """Keep only what was recorded of this model as it answers for this target now.

        Where its weights have moved, a recorded forward would read what lies there instead.
        """
        state = target, tuple(weight.data_ptr() for weight in model.parameters())
        if state != self._state:
            self._runs.clear()
            self._state = state
        try:
            yield self
        except BaseException:  # keys may be no numbers
            self.clear()
            raise
        self.trim()

    def kept_layers(self, read: Any) -> list[Any] | None:
        """Return the layers of an earlier cache, empty, if they suit prompts as they were read."""
        if len(self._layers) != len(read.layers):
            return None
        for layer in self._layers:
            layer.set_group_count(0)
        return self._layers

    def keep_layers(self, layers: list[Any]) -> None:
        """Note where keys are now; what was recorded wrote them elsewhere."""
        self._layers = layers
        self._runs.clear()

    def trim(self) -> None:
        """Forget everything if it takes much of the GPU's memory, which other work needs."""
        tensors = [tensor for layer in self._layers for tensor in (layer.keys, layer.values)]
        held = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        on_card = self.device.type == "cuda"
        if on_card and MAX_KEPT_SHARE * held > torch.cuda.mem_get_info(self.device)[1]:
            self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()
        self._buffers.clear()
        self._layers = []
        self._start()


def bucket_size(count: int) -> int:
    """Return the next of 1, 2, 3, 4, and of four numbers from each power of two to the next."""
    return next_multiple(count, max(1, 2 ** ((count - 1).bit_length() - 3)))
