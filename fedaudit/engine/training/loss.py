"""The loss of a batch of sequences, at the cost of the tokens that are learned.

Records of a federation begin alike, with a template or an instruction, and some occur twice. What a
model with standard attention computes for a token depends on the tokens before it alone, so tokens
that follow the same prefix are one node. Linear layers, norms and the output layer process every
node once, as one long text without padding; attention sees each sequence by itself. The loss and
its gradient are those of the padded batch: nothing is approximated.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fedaudit.engine.architecture import (
    attention_function,
    has_standard_attention,
    recomputes_activations,
    right_padded,
)
from fedaudit.engine.batching import common_length, padded_length
from fedaudit.engine.device import to_device
from fedaudit.engine.scoring import of_following

Tensors = tuple[torch.Tensor, ...]

BY_POSITION = frozenset({"q_proj", "o_proj", "c_proj", "dense", "mlp"})
"""Names of a layer's parts whose results at a position no other position of the layer uses."""


@contextmanager
def logits_at(head: torch.nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """Let the output layer see these positions of the flattened batch only, as one row."""

    def select(_: torch.nn.Module, inputs: Tensors) -> Tensors:
        hidden, *remaining = inputs
        return (hidden.flatten(0, 1).index_select(0, positions)[None], *remaining)

    handle = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def last_layer_at(model: PreTrainedModel, positions: torch.Tensor) -> Iterator[None]:
    """Let the last layer of a model with standard attention compute these positions only.

    Keys and values are computed at all positions, because attention reads them. Queries, and all
    that follows attention, are zero elsewhere, where the hidden states are not the model's.
    `positions` index the flattened batch, each once.
    """
    with ExitStack() as hooks:
        for part in _parts_by_position(model):
            hooks.enter_context(_results_at(part, positions))
        yield


def _parts_by_position(model: PreTrainedModel) -> list[torch.nn.Module]:
    """Return the outermost parts of the last layer that BY_POSITION names."""
    *_, layers = (m for m in model.base_model.children() if isinstance(m, torch.nn.ModuleList))
    parts: list[torch.nn.Module] = []
    waiting = [layers[-1]]
    while waiting:
        for name, part in waiting.pop().named_children():
            (parts if name in BY_POSITION else waiting).append(part)
    return parts


@contextmanager
def _results_at(part: torch.nn.Module, positions: torch.Tensor) -> Iterator[None]:
    """Let a part of a layer see these positions only, as one row, and return zero elsewhere."""
    shape: torch.Size = torch.Size()

    def select(_: torch.nn.Module, inputs: Tensors) -> Tensors:
        nonlocal shape
        (hidden,) = inputs
        shape = hidden.shape[:-1]
        return (hidden.flatten(0, -2).index_select(0, positions)[None],)

    def scatter(_: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        all_positions = output.new_zeros(shape.numel(), output.shape[-1])
        return all_positions.index_copy(0, positions, output[0]).view(*shape, -1)

    handles = (part.register_forward_pre_hook(select), part.register_forward_hook(scatter))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def mean_cross_entropy(
    logits: torch.Tensor, tokens: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Return the mean of -ln softmax(logits)[token], in nats, with each token counted so often.

    Logits are (tokens, vocabulary), the others (tokens,); counts have the logits' dtype. NaN of no
    tokens.
    """
    total: torch.Tensor = WeightedCrossEntropy.apply(logits, tokens, counts)  # type: ignore[no-untyped-call]
    return total / counts.sum()


class WeightedCrossEntropy(torch.autograd.Function):
    """-sum_i w_i ln softmax(x_i)[t_i], in nats, with a gradient for x: w (softmax(x) - onehot(t)).

    x has shape (tokens, vocabulary), t and w (tokens,). Plain autograd keeps ln softmax(x) and
    fills two more buffers of that size in the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Return the weighted sum, a scalar."""
        column = tokens[:, None]
        softmax = torch.softmax(logits, dim=1)
        # The largest softmax is at least 1 / vocabulary: its logarithm loses no precision.
        largest, scale = (each.amax(dim=1, keepdim=True) for each in (logits, softmax))
        losses = (largest - logits.gather(1, column)) - scale.log()
        softmax.scatter_add_(1, column, torch.full_like(losses, -1.0)).mul_(weights[:, None])
        ctx.save_for_backward(softmax)
        return (losses[:, 0] * weights).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient for the logits alone; a second call raises RuntimeError."""
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(gradients[0]), None, None


NAME = "fedaudit_prefix_tree"

MAX_SHARE = 0.95
"""A tree is worth its cost if it has at most this share of the padded batch's tokens."""

MAX_PREDICTING = 0.75
"""The last layer leaves nodes out if at most this share of them predicts a label."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """The distinct prefixes of a batch of sequences, each as the node of its last token."""

    tokens: Integers
    """Of each node."""
    rows: Integers
    """The node of each token, (sequences, longest), without sequences that are prefixes of others;
    padding is node 0."""
    flat_indices: Integers
    """Where each node first occurs in the flattened rows."""
    label_counts: Integers
    """How many sequences have each node's token as a label."""

    @classmethod
    def from_sequences(
        cls, sequences: Sequence[Sequence[int]], read: Sequence[int]
    ) -> "PrefixTree":
        """Return the tree of sequences; the first `read` tokens of each are not labels."""
        lengths = np.array([len(sequence) for sequence in sequences])
        rows = np.zeros((len(sequences), lengths.max()), dtype=np.int64)
        column = np.arange(rows.shape[1])
        tokens: list[int] = []
        kept: list[int] = []
        flat_indices: list[Integers] = []
        before: int | None = None
        # In lexicographic order, a sequence shares with its neighbour what it shares with any. In
        # reverse, a sequence that is a prefix of others comes after them and has no new node.
        for number in sorted(range(len(rows)), key=lambda n: tuple(sequences[n]), reverse=True):
            sequence = sequences[number]
            shared = 0 if before is None else common_length([sequences[before], sequence])
            if before is not None:
                rows[number, :shared] = rows[before, :shared]
            if new := len(sequence) - shared:
                rows[number, shared : len(sequence)] = len(tokens) + np.arange(new)
                flat_indices.append(len(kept) * len(column) + column[shared : len(sequence)])
                kept.append(number)
                tokens += sequence[shared:]
            before = number
        begins = np.maximum(np.array(read), 1)  # no token predicts the first one
        is_label = (column >= begins[:, None]) & (column < lengths[:, None])
        label_counts = np.bincount(rows[is_label], minlength=len(tokens))
        return cls(np.array(tokens), rows[kept], np.concatenate(flat_indices), label_counts)

    @property
    def positions(self) -> Integers:
        """The position of each node in its sequences."""
        positions: Integers = self.flat_indices % self.rows.shape[1]
        return positions

    def predictions(self) -> tuple[Integers, Integers]:
        """Return the nodes whose token is a label, and the node that predicts each of them."""
        nodes = np.flatnonzero(self.label_counts)
        return nodes, self.rows.ravel()[self.flat_indices[nodes] - 1]

    def has_sparse_labels(self) -> bool:
        """Tell whether many nodes predict no label."""
        return len(np.unique(self.predictions()[1])) <= MAX_PREDICTING * len(self.tokens)


def supports_prefix_trees(model: PreTrainedModel) -> bool:
    """Tell whether a model can be trained on prefix trees.

    It can if it has standard attention and each token's results are the same in every sequence:
    nothing drops out. Activations that are recomputed later would be without the tree.
    """
    return (
        model.config._attn_implementation == "sdpa"  # noqa: SLF001
        and has_standard_attention(model)
        and not recomputes_activations(model)
        and not (model.training and _has_dropout(model))
    )


def _has_dropout(model: PreTrainedModel) -> bool:
    """Tell whether something drops out in training, of attention weights or anything else."""
    modules = (module for module in model.modules() if isinstance(module, torch.nn.Dropout))
    rates = [getattr(model.config, "attention_dropout", 0.0), *(module.p for module in modules)]
    return any(rate > 0 for rate in rates)


def tree_loss(model: PreTrainedModel, tree: PrefixTree) -> torch.Tensor:
    """Return the mean negative log-likelihood, in nats, of the labels of all sequences."""
    nodes, before = tree.predictions()
    device = model.device
    head: Any = model.get_output_embeddings()
    with ExitStack() as contexts:
        contexts.enter_context(logits_at(head, to_device(before, device)))
        if tree.has_sparse_labels():
            contexts.enter_context(last_layer_at(model, to_device(np.unique(before), device)))
        logits = _logits(model, tree)[0].float()
    tokens, counts = tree.tokens[nodes], tree.label_counts[nodes].astype(np.float32)
    return mean_cross_entropy(logits, to_device(tokens, device), to_device(counts, device))


@dataclass(frozen=True, slots=True, eq=False)
class SequenceIndex:
    """Where attention finds the tokens of each sequence, and puts its results, on the device."""

    rows: torch.Tensor
    """The node of each token, (sequences, longest)."""
    flat_indices: torch.Tensor
    """Where each node first occurs in the flattened rows."""


def _logits(model: PreTrainedModel, tree: PrefixTree) -> torch.Tensor:
    """Return the logits of a tree's nodes that the output layer sees, (1, nodes, vocabulary)."""
    device = model.device
    index = SequenceIndex(to_device(tree.rows, device), to_device(tree.flat_indices, device))
    with attention_function(model, NAME):
        output = model(
            input_ids=to_device(tree.tokens, device)[None],
            position_ids=to_device(tree.positions, device)[None],
            use_cache=False,
            sequence_index=index,
        )
    logits: torch.Tensor = output.logits
    return logits


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    *,
    sequence_index: SequenceIndex,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attend by sequence: query, key and value are (1, heads, nodes, size).

    The result is (1, nodes, heads, size). Padding is behind each sequence, where no token attends.
    """
    count, longest = sequence_index.rows.shape

    def by_sequence(nodes: torch.Tensor) -> torch.Tensor:
        rows = nodes[0].transpose(0, 1).index_select(0, sequence_index.rows.flatten())
        return rows.view(count, longest, *rows.shape[1:]).transpose(1, 2)

    # On a CPU, torch's backward pass of attention is several times as slow in half precision.
    dtype = torch.float32 if query.device.type == "cpu" else query.dtype
    q, k, v = (by_sequence(nodes).to(dtype) for nodes in (query, key, value))
    output, _ = sdpa_attention_forward(module, q, k, v, None, **options)
    nodes = output.flatten(0, 1).index_select(0, sequence_index.flat_indices)[None]
    return nodes.to(query.dtype), None


AttentionInterface.register(NAME, _attend)


IGNORED = -100
"""The label of a token that is only read, as transformers has it."""


def pad_batch(
    sequences: Sequence[Sequence[int]], read: Sequence[int], device: torch.device | str
) -> dict[str, torch.Tensor]:
    """Return model inputs (batch, longest): padding behind, ignored by attention and loss.

    `read` says of each sequence how many tokens at its beginning the loss ignores, too.
    """
    width = max(len(sequence) for sequence in sequences)
    ids, mask = right_padded(sequences, width, "cpu")
    behind = torch.arange(width) >= torch.tensor(read)[:, None]
    labels = torch.where(behind & mask.bool(), ids, IGNORED)
    inputs = {"input_ids": ids, "attention_mask": mask, "labels": labels}
    return {name: to_device(tensor, device) for name, tensor in inputs.items()}


def summed_loss(model: PreTrainedModel, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return the summed loss of rows of one padded length; what is padded counts nothing."""
    ids, mask = right_padded(rows, padded_length(max(map(len, rows))), model.device)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return -of_following(logits, ids[:, 1:])[mask[:, 1:].bool()].sum()


def mean_loss(model: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean negative log-likelihood, in nats, of the labelled tokens of a padded batch.

    It is what a causal model of transformers returns as its loss, NaN where no token is labelled.
    It costs less: logits are computed where the next token is labelled only, nothing is cached, and
    no mask is needed, because no token of such a model sees the padding behind it.
    """
    head = model.get_output_embeddings()
    if head is None:
        loss: torch.Tensor = model(**inputs, use_cache=False).loss
        return loss
    labels = inputs["labels"]
    following = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED).flatten()
    positions = (following != IGNORED).nonzero().squeeze(1)
    with logits_at(head, positions):
        logits = model(input_ids=inputs["input_ids"], use_cache=False).logits
    tokens = following[positions]
    return mean_cross_entropy(logits[0].float(), tokens, torch.ones(len(tokens)).to(tokens.device))


class BatchLoss:
    """The mean loss of batches of sequences, which processes prefixes that they share once.

    Models that do not support it, and batches that have little to share, are padded.
    """

    def __init__(self, model: Any) -> None:
        """Look at the model, which must stay in training or evaluation mode."""
        base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
        self._model, self._base = model, base
        self._shares = supports_prefix_trees(base)

    def __call__(self, sequences: Sequence[Sequence[int]], read: Sequence[int]) -> torch.Tensor:
        """Return what `mean_loss` returns for the padded batch; `read` as in `pad_batch`."""
        if self._shares:
            tree = PrefixTree.from_sequences(sequences, read)
            padded = len(sequences) * max(map(len, sequences))
            if len(tree.tokens) <= MAX_SHARE * padded or tree.has_sparse_labels():
                return tree_loss(self._base, tree)
        return mean_loss(self._model, pad_batch(sequences, read, self._model.device))
