"""Models of a dozen tokens: so few that all token sequences can be gone through."""

from itertools import product
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fedaudit.engine.generation.sampler import probabilities
from fedaudit.engine.loading.loader import LoadedBase
from fedaudit.metrics.extraction import Matcher

BYTE_LEVEL = ["a", "b", "Ġ", "ab", "Ġa", "ba", "Ã", "©", "Ã©", "©a", "ãĢĢ"]
"""With the two bytes of "é", and U+3000, which is white space."""
SENTENCE = ["a", "b", "▁", "ab", "▁a", "ba", "<0xC3>", "<0xA9>", "é", "éa", "\u3000"]
SPECIAL = ["</s>", "<s>", "<note>"]
TARGETS = ["a", "ab", "abé", "éa", "ba a", "é", "b\u3000a", "aba", "bb"]
"""Some begin others, one has a space in it, two begin with the same bytes."""


def _tokenizer(pieces, decoder):
    words = {piece: index for index, piece in enumerate([*SPECIAL, *pieces])}
    backend = Tokenizer(models.BPE(words, []))
    backend.decoder = decoder
    backend.add_special_tokens(SPECIAL[:2])
    backend.add_tokens([AddedToken("<note>", special=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="</s>",
        bos_token="<s>",
        clean_up_tokenization_spaces=False,
    )


def tokenizer(kind):
    if kind == "byte-level":
        return _tokenizer(BYTE_LEVEL, decoders.ByteLevel())
    own = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _tokenizer(SENTENCE, own)


def toy(kind="byte-level", *, spare=1):
    """Return a base whose model has `spare` logits more than the tokenizer has tokens."""
    torch.manual_seed(3)
    made = tokenizer(kind)
    config = LlamaConfig(
        vocab_size=len(made) + spare,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) / 4)
    model.eval().requires_grad_(False)
    model.generation_config.eos_token_id = 0
    return LoadedBase("toy", Path(), "", model, made)


@torch.inference_mode()
def brute_force(base, prompt, targets, new, decoding):
    """Add up the probability of every sequence of `new` tokens whose text begins with a target.

    Of SentencePiece, that the text does so after some token counts: its decoder blots out a run of
    single bytes, with characters that were whole, when a byte behind them does not fit.
    """
    words = base.model.config.vocab_size
    # All but the last token, which the model need not read.
    heads = torch.tensor([*product(range(words), repeat=new - 1)], dtype=torch.long)
    rows = torch.cat([torch.tensor(prompt).repeat(len(heads), 1), heads], dim=1)
    logits = base.model(rows, use_cache=False).logits[:, len(prompt) - 1 :]
    mass = torch.ones(len(heads), dtype=torch.double)
    for step in range(new - 1):
        mass *= _table(logits[:, step], decoding).gather(1, heads[:, step : step + 1]).squeeze(1)
    mass = (mass[:, None] * _table(logits[:, -1], decoding)).flatten()
    ways = [list(way) for way in product(range(words), repeat=new)]
    hits = _hits(base.tokenizer, ways, tuple(targets))
    return [
        sum(one for one, hit in zip(mass.tolist(), hits, strict=True) if target in hit)
        for target in targets
    ]


KNOWN = {}
"""What `_hits` found before."""


def _hits(tokenizer, ways, targets):
    """Return which targets the text of every sequence of tokens begins with."""
    new, backend = len(ways[0]), tokenizer.backend_tokenizer
    key = backend.to_str(), len(ways), new, targets
    if key in KNOWN:
        return KNOWN[key]
    cut = [row[: row.index(0)] if 0 in row else row for row in ways]
    matcher, hits = Matcher(targets), [set() for _ in cut]
    for length in [new] if isinstance(backend.decoder, decoders.ByteLevel) else range(1, new + 1):
        heads = [row[:length] for row in cut]
        texts = tokenizer.batch_decode(heads, skip_special_tokens=True)
        for text, hit in zip(texts, hits, strict=True):
            hit.update(matcher.hits(text))
    KNOWN[key] = hits
    return hits


def _table(logits, decoding):
    if decoding.temperature == 0:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
    return probabilities(logits.float(), decoding)
