"""Tokens, and token by token whole texts, whose inputs lie in the spans of an update.

The first layer's inputs are embeddings, which each token of the vocabulary is tried as. In a causal
model the second layer's input at a place follows from the tokens up to there, so that texts grow by
one token at a time (DAGER, arXiv:2405.15586, section 4.3, on decoders).
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .span import UpdateSpan, update_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from transformers import PreTrainedModel

ROWS = 512
"""The most sequences that go through the model at once."""
BEAM = 256
"""The most beginnings that are kept; beyond, tokens do not tell texts apart."""

_READS_THE_BLOCK = re.compile(r"(.*?\.(\d+)\..*?)(q_proj|k_proj|v_proj|query|key|value|c_attn)$")
"""Modules that read what comes into a layer's attention; LoRA is on some of them."""

Pairs = Mapping[str, tuple["torch.Tensor", "torch.Tensor"]]
"""A and B of every module."""


class _Read(Exception):
    """What a module reads was seen."""


def layer_spans(before: Pairs, after: Pairs) -> list[tuple[str, UpdateSpan]]:
    """Return the span of each layer's update in order, with a module that reads its inputs."""
    layers: dict[int, list[str]] = {}
    for module in sorted(before):
        if match := _READS_THE_BLOCK.match(module):
            layers.setdefault(int(match[2]), []).append(module)
    return [
        (modules[0], update_span([before[m][0] for m in modules], [after[m][0] for m in modules]))
        for _, modules in sorted(layers.items())
    ]


@contextmanager
def _seen(model: "torch.nn.Module", module: str) -> "Iterator[list[torch.Tensor]]":
    inputs: list[torch.Tensor] = []

    def keep(_: object, arguments: "tuple[torch.Tensor, ...]") -> None:
        inputs.append(arguments[0].detach())
        raise _Read

    handle = model.get_submodule(module).register_forward_pre_hook(keep)
    try:
        yield inputs
    finally:
        handle.remove()


def module_inputs(
    model: "torch.nn.Module", module: str, sequences: Sequence[Sequence[int]]
) -> "torch.Tensor":
    """Return what a module reads at the last place of sequences of one length, (n, width)."""
    import torch

    device = next(model.parameters()).device
    rows = []
    with _seen(model, module) as inputs, torch.no_grad():
        for start in range(0, len(sequences), ROWS):
            try:
                model(input_ids=torch.tensor(sequences[start : start + ROWS], device=device))
            except _Read:
                rows.append(inputs.pop()[:, -1].double().cpu())
    return torch.cat(rows)


def vocabulary_size(model: "PreTrainedModel") -> int:
    """Return how many tokens a model has embeddings of."""
    return int(model.config.get_text_config().vocab_size)


def find_tokens(model: "PreTrainedModel", module: str, span: UpdateSpan) -> list[int]:
    """Return the tokens of the vocabulary whose inputs lie in the span, at the first place.

    With rotary positions a place changes nothing before the attention.
    """
    vocabulary = [[token] for token in range(vocabulary_size(model))]
    inside = span.contains(module_inputs(model, module, vocabulary))
    return [int(token) for token in inside.nonzero().flatten()]


def find_texts(
    model: "torch.nn.Module",
    module: str,
    span: UpdateSpan,
    tokens: Sequence[int],
    most: int,
) -> list[tuple[int, ...]]:
    """Return the longest token sequences of `tokens` whose inputs of the second layer all fit.

    At most `most` tokens long. More than BEAM beginnings at once tell nothing, and end the search.
    A token and its repetitions have the same input, whatever their number: such texts are left out.
    """
    alive: list[tuple[int, ...]] = [()]
    ended: list[tuple[int, ...]] = []
    for _ in range(most):
        grown = [(*text, token) for text in alive for token in tokens]
        if not grown:
            break
        inside = span.contains(module_inputs(model, module, grown))
        kept = [text for text, fits in zip(grown, inside.tolist(), strict=True) if fits]
        begun = {text[:-1] for text in kept}
        ended += [text for text in alive if text and text not in begun]
        alive = kept
        if len(alive) > BEAM:
            alive = []
    return [text for text in ended + alive if len(set(text)) > 1]
