"""CUDA graphs: the kernels of a forward pass are captured once and replayed with one launch.

A GPU runs the thousand kernels of a small model faster than the host can launch them. So forward
passes whose shapes recur are captured, with inputs and KV cache at fixed addresses, and replayed.
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
"""The maximum number of captured forward passes of each kind: the most recently run. Each captured
prefill holds a KV cache."""

MAX_KEPT_SHARE = 16
"""The KV cache is kept between two calls if it takes at most 1/16 of a GPU's memory."""


@dataclass(slots=True, eq=False)
class CapturedForward:
    """A forward pass of one shape."""

    inputs: list[torch.Tensor]
    """The graph's input tensors on the device, which every run overwrites."""
    graph: Any = None
    output: Any = field(default=None)
    """The graph's output, which every run overwrites."""


class CudaGraphs:
    """The captured forward passes of a model for one target.

    A shape is captured the second time that it runs. Devices other than CUDA capture nothing and
    run every forward pass from the same fixed inputs.
    """

    def __init__(self, device: torch.device) -> None:
        """Start without any captured forward pass."""
        self.device = device
        self._runs: dict[tuple[str, Hashable], CapturedForward] = {}
        self._layers: list[Any] = []
        self._state: Hashable = None
        self._buffers: dict[Hashable, torch.Tensor] = {}
        self._captures = device.type == "cuda"
        self._start()

    def _start(self) -> None:
        if self._captures:
            self._stream = torch.cuda.Stream(self.device)
            self._pool = torch.cuda.graph_pool_handle()

    def run(self, kind: str, shape: Hashable, inputs: Sequence[Any], forward: Forward) -> Any:
        """Return forward(*inputs) for inputs on the host; the next run may overwrite the result.

        All runs of the same kind and shape must do the same with inputs of the same shapes.
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
        """Run a forward pass on the capture stream, which warms up the libraries that it uses."""
        if not self._captures:
            return forward(*run.inputs)
        current = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            output = forward(*run.inputs)
        current.wait_stream(self._stream)
        return output

    def _capture(self, run: CapturedForward, forward: Forward) -> bool:
        """Capture a forward pass; return False if the model cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                output = forward(*run.inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # the model synchronizes with the device
            self._captures = False
            return False
        run.graph, run.output = graph, output
        return True

    def buffer(self, name: str, rows: int, like: torch.Tensor) -> torch.Tensor:
        """Return the first `rows` rows of a tensor shared by all forward passes, shaped as `like`.

        Without it, each captured forward pass would keep its own output in memory. It is allocated
        in the first, eager run of a shape, never while a graph is captured.
        """
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < rows:
            buffer = self._buffers[name] = like.new_empty(rows, *like.shape[1:])
            self._runs.clear()  # they write to the previous tensor
        return buffer[:rows]

    @contextmanager
    def for_target(self, model: torch.nn.Module, target: Hashable) -> Iterator["CudaGraphs"]:
        """Use the captured forward passes for this target within the context; drop all others.

        They are dropped as well if weights have moved, since graphs read from fixed addresses.
        """
        state = target, tuple(weight.data_ptr() for weight in model.parameters())
        if state != self._state:
            self._runs.clear()
            self._state = state
        try:
            yield self
        except BaseException:  # the KV cache may hold NaN
            self.clear()
            raise
        self.trim()

    def kept_layers(self, read: Any) -> list[Any] | None:
        """Return the layers of the kept cache, emptied, or None if `read` has other layers."""
        if len(self._layers) != len(read.layers):
            return None
        for layer in self._layers:
            layer.set_group_count(0)
        return self._layers

    def keep_layers(self, layers: list[Any]) -> None:
        """Keep the layers of a new cache; graphs that wrote to the previous one are dropped."""
        self._layers = layers
        self._runs.clear()

    def trim(self) -> None:
        """Drop everything if the KV cache takes much of the GPU's memory, which others may need."""
        tensors = [tensor for layer in self._layers for tensor in (layer.keys, layer.values)]
        held = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        on_card = self.device.type == "cuda"
        if on_card and MAX_KEPT_SHARE * held > torch.cuda.mem_get_info(self.device)[1]:
            self.clear()

    def clear(self) -> None:
        """Drop all captured forward passes, buffers and layers."""
        self._runs.clear()
        self._buffers.clear()
        self._layers = []
        self._start()


def bucket_size(count: int) -> int:
    """Return `count` rounded up to a bucket: 1 to 4, then four sizes per power of two."""
    return next_multiple(count, max(1, 2 ** ((count - 1).bit_length() - 3)))
