"""The loss of a batch of sequences, at the cost of the tokens that are learned."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel

from fedaudit.engine.batching import padded_length
from fedaudit.engine.device import to_device
from fedaudit.engine.padding import right_padded
from fedaudit.engine.scoring.log_likelihood import of_following
from fedaudit.engine.training import prefix_tree
from fedaudit.engine.training.cross_entropy import mean_cross_entropy
from fedaudit.engine.training.logits import logits_at
from fedaudit.engine.training.prefix_tree import MAX_SHARE, PrefixTree

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
        self._shares = prefix_tree.supports_prefix_trees(base)

    def __call__(self, sequences: Sequence[Sequence[int]], read: Sequence[int]) -> torch.Tensor:
        """Return what `mean_loss` returns for the padded batch; `read` as in `pad_batch`."""
        if self._shares:
            tree = PrefixTree.from_sequences(sequences, read)
            padded = len(sequences) * max(map(len, sequences))
            if len(tree.tokens) <= MAX_SHARE * padded or tree.has_sparse_labels():
                return prefix_tree.tree_loss(self._base, tree)
        return mean_loss(self._model, pad_batch(sequences, read, self._model.device))
