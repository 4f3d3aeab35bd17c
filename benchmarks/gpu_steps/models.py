"""Models of random weights, a tokenizer for them, adapters; nothing is fetched."""

import gc
import itertools
import random
import string
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import LoadedBase
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters
from gpu_steps.timing import free_bytes
from gpu_steps.work import Amounts, Size

SPECIAL = ("<pad>", "<s>", "</s>")
BEGIN, END = 1, 2
SPACE = "Ġ"
"""How byte-level BPE writes a space."""
CONTEXT = 4096


class NoRoomError(Exception):
    """A model is larger than the memory that is free."""


def words(size: int) -> list[str]:
    """Return the vocabulary: special tokens, then strings of letters, without and with a space."""
    runs = (
        space + "".join(letters)
        for length in itertools.count(1)
        for space in ("", SPACE)
        for letters in itertools.product(string.ascii_lowercase, repeat=length)
    )
    return [*SPECIAL, SPACE, *itertools.islice(runs, size - len(SPECIAL) - 1)]


def tokenizer(size: int) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer of `size` tokens, which joins no letters by itself."""
    inner = Tokenizer(BPE({word: number for number, word in enumerate(words(size))}, []))
    inner.decoder = ByteLevel()
    pad, begin, end = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=pad, bos_token=begin, eos_token=end
    )


def base(
    size: Size, device: torch.device, dtype: torch.dtype, *, spread: float = 0.0
) -> LoadedBase:
    """Return a Llama of random weights, made on the device.

    With `spread`, weights are made on the CPU and that much further from zero: the same on every
    device, and what follows a text is no longer nearly any token.
    """
    config = LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.shared,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=size.tied,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=0,
        dtype=dtype,
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cpu" if spread else device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    if spread:
        for weight in model.parameters():
            weight.data.add_(torch.randn(weight.shape) * spread)
    model.eval().requires_grad_(False).to(device)
    return LoadedBase(size.name, Path(), "", model, tokenizer(size.vocabulary))


def rows(size: Size, count: int, length: int, seed: int = 1) -> list[tuple[int, ...]]:
    """Return texts of random tokens behind the one that begins texts."""
    draw = random.Random(seed)
    return [
        (BEGIN, *(draw.randrange(len(SPECIAL), size.vocabulary) for _ in range(length - 1)))
        for _ in range(count)
    ]


def write_adapters(model: torch.nn.Module, folder: Path, count: int, rank: int) -> list[Target]:
    """Write random adapters on all linear layers but the last; return them as targets."""
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and name != "lm_head"
    }
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "inference_mode": True,
        "target_modules": sorted({name.rpartition(".")[2] for name in layers}),
    }
    targets = []
    for number in range(count):
        draw = torch.Generator().manual_seed(number)
        tensors = {}
        for name, layer in layers.items():
            shapes = {"A": (rank, layer.in_features), "B": (layer.out_features, rank)}
            for part, shape in shapes.items():
                drawn = torch.randn(shape, generator=draw) * 0.02
                tensors[f"base_model.model.{name}.lora_{part}.weight"] = drawn
        adapters.write(tensors, config, folder / str(number))
        targets.append(Target(name=str(number), adapter=str(folder / str(number))))
    return targets


@dataclass
class Workbench:
    """The device, how much is done on it, and the model that is in its memory."""

    device: torch.device
    amounts: Amounts
    folder: Path
    """For adapters."""
    _size: Size | None = field(default=None, init=False)
    _engine: LocalEngine | None = field(default=None, init=False)

    def engine(self, size: Size) -> LocalEngine:
        """Return an engine for the model in bfloat16; any other leaves memory.

        Raises NoRoomError where it does not fit.
        """
        if self._engine is None or self._size != size:
            self.clear()
            needed, free = 3 * size.parameters + 2**30, free_bytes(self.device)
            if free is not None and needed > free:
                raise NoRoomError(f"needs {needed / 1e9:.0f} GB of memory, {free / 1e9:.0f} free")
            self._size = size
            self._engine = LocalEngine(base(size, self.device, torch.bfloat16))
        return self._engine

    def clear(self) -> None:
        """Forget the model."""
        self._size = self._engine = None
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
