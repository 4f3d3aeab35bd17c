"""Continuing prompts: each prompt is read once, however many samples it asks for."""

from collections.abc import Callable, Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from fedaudit.engine.batching import Piece, padded
from fedaudit.engine.sampling import draw, probe_key, uniforms
from fedaudit.records import Decoding, Probe


@torch.inference_mode()
def continuations(
    model: PreTrainedModel,
    probes: Sequence[Probe],
    batch: Sequence[Piece],
    *,
    seed: int,
    decoding: Decoding,
    end: Sequence[int],
    kept: Callable[[torch.Tensor], None] = lambda rows: None,
) -> list[list[int]]:
    """Return the new tokens of every sample in `batch`, in order, up to an `end` token.

    All prompts of the batch have one padded length. Prefill runs over the prompts, (prompts,
    length); its cache is then repeated for the samples, and decoding runs over (samples, 1).
    Samples that have ended leave the batch once they are a quarter of it; `kept` is told which rows
    stay, in order.
    """
    prompts = [probes[piece.index].prompt for piece in batch]
    width, new = padded(len(prompts[0])), probes[batch[0].index].max_new_tokens
    ids, mask = left_padded(prompts, width, model.device)
    repeats = torch.tensor([piece.last - piece.first for piece in batch], device=model.device)
    rows = torch.repeat_interleave(torch.arange(len(batch), device=model.device), repeats)
    keys = [probe_key(seed, prompt) for prompt in prompts]
    row_keys = [keys[row] for row in rows.tolist()]
    samples = [sample for piece in batch for sample in range(piece.first, piece.last)]

    cache = DynamicCache(config=model.config)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    cache.batch_select_indices(rows)
    logits, mask, position = output.logits[rows, -1], mask[rows], positions[rows, -1:]
    ends = torch.tensor(list(end), device=model.device)
    drawn = torch.full((len(rows), new), -1, dtype=torch.long, device=model.device)
    alive = torch.arange(len(rows), device=model.device)
    finished = torch.zeros(len(rows), dtype=torch.bool, device=model.device)
    for step in range(new):
        token = draw(logits.float(), uniforms(row_keys, samples, step), decoding)
        drawn[alive, step] = token.masked_fill(finished, -1)
        finished |= torch.isin(token, ends)
        if step == new - 1 or bool(finished.all()):
            break
        if 4 * int(finished.sum()) >= len(finished):
            stay = (~finished).nonzero().squeeze(-1)
            cache.batch_select_indices(stay)
            kept(stay)
            token, mask, position = token[stay], mask[stay], position[stay]
            alive, finished = alive[stay], finished[stay]
            row_keys = [row_keys[at] for at in stay.tolist()]
            samples = [samples[at] for at in stay.tolist()]
        mask, position = torch.nn.functional.pad(mask, (0, 1), value=1), position + 1
        logits = model(
            input_ids=token[:, None],
            attention_mask=mask,
            position_ids=position,
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
    stop = {-1, *end}
    return [_until(row, stop) for row in drawn.tolist()]


def left_padded(
    prompts: Sequence[Sequence[int]], width: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return token ids and attention mask, (prompts, width), with the padding ahead."""
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt, dtype=torch.long)
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


def _until(tokens: list[int], stop: set[int]) -> list[int]:
    kept = []
    for token in tokens:
        if token in stop:
            break
        kept.append(token)
    return kept
