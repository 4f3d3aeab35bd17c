"""Sampling continuations: fedaudit beside `transformers.generate(num_return_sequences=15)`.

    python benchmarks/probing.py [--quick] [--models llama nano FOLDER] [--repeats 5] [--threads 1]

The work is an extraction attack's: prefixes of 50 tokens, 15 samples of 10 new tokens each, drawn
at temperature 1 from the whole vocabulary. Both have the same model object in the same dtype and
the same batch budget: so many rows at once, 15 rows a prefix. They take turns in this process.
The models are a Llama of 110 million random weights, `fedaudit-nano` and those in a FOLDER; all but
the second also run in bfloat16 where the processor has instructions for it.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from turns import in_turn, line

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.engine.loading.loader import LoadedBase, load_base, quiet
from fedaudit.engine.local import LocalEngine
from fedaudit.nano import BASE
from fedaudit.nano.generator import corpus

PREFIX, SAMPLES, NEW = 50, 15, 10
END = 2


@dataclass(frozen=True)
class Work:
    """Which model continues how many prefixes, at most so many rows at once."""

    base: LoadedBase
    prefixes: list[tuple[int, ...]]
    rows: int


def llama(tokenizer: object, dtype: torch.dtype, **sizes: int) -> LoadedBase:
    """Return a Llama of random weights; with no sizes given, of 110 million."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "vocab_size": 32_000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "max_position_embeddings": 1024,
        **sizes,
    }
    config = LlamaConfig(**settings, tie_word_embeddings=True, eos_token_id=END)
    model: Any = LlamaForCausalLM(config)
    model = model.to(dtype).eval().requires_grad_(False)
    return LoadedBase("llama", Path(), "", model, tokenizer)


def random_prefixes(base: LoadedBase, count: int) -> list[tuple[int, ...]]:
    """Return prefixes of random tokens behind the one that begins texts."""
    draw, size = random.Random(1), base.model.config.vocab_size
    return [(1, *(draw.randrange(3, size) for _ in range(PREFIX - 1))) for _ in range(count)]


def theirs(work: Work) -> Callable[[], list[str]]:
    """Return the peer: as many prefixes in a batch as rows allow, each expanded to 15 rows."""
    model: Any = work.base.model
    each = max(1, work.rows // SAMPLES)

    def answers() -> list[str]:
        texts: list[str] = []
        for start in range(0, len(work.prefixes), each):
            ids = torch.tensor(work.prefixes[start : start + each], device=model.device)
            with torch.inference_mode():
                drawn = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=True,
                    top_k=0,
                    num_return_sequences=SAMPLES,
                    max_new_tokens=NEW,
                    pad_token_id=0,
                )
            new = drawn[:, PREFIX:]
            texts += work.base.tokenizer.batch_decode(new, skip_special_tokens=True)
        return texts

    return answers


def ours(work: Work) -> Callable[[], list[str]]:
    """Return fedaudit's engine, asked for the same."""
    engine = LocalEngine(work.base, batch_size=work.rows)
    requests = [
        GenerationRequest(prompt=p, samples=SAMPLES, max_new_tokens=NEW) for p in work.prefixes
    ]

    def answers() -> list[str]:
        found = engine.generate(Target(name="base"), GenerationBatch(requests, seed=0))
        return [text for generation in found for text in generation.texts]

    return answers


def nano_prefixes(base: LoadedBase, count: int) -> list[tuple[int, ...]]:
    """Return crops of made-up records, one after the other, as an attacker's."""
    records = corpus(cases=count, documents_per_case=4, seed=5, tasks=("record",))
    text = "\n".join(document.text for document in records)
    ids = base.tokenizer(text, add_special_tokens=False)["input_ids"]
    starts = random.Random(1).sample(range(len(ids) - PREFIX), count)
    return [(1, *ids[start : start + PREFIX - 1]) for start in starts]


def native_bfloat16() -> bool:
    """Say whether this processor multiplies bfloat16 without going through float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # noqa: SLF001


def dtypes() -> list[str]:
    """Return the dtypes that models run in here."""
    return ["float32", *(["bfloat16"] if native_bfloat16() else [])]


def compared(title: str, works: dict[str, Work], given: argparse.Namespace) -> None:
    """Print the ratio in each dtype, and of ours in another to the peer in float32.

    A quick run asks the peer in float32 only: here its bfloat16 is the slower one.
    """
    peers = list(works)[:1] if given.quick else list(works)
    ways = {f"peer {dtype}": theirs(works[dtype]) for dtype in peers}
    ways |= {f"ours {dtype}": ours(work) for dtype, work in works.items()}
    spent, found = in_turn(ways, given.repeats)
    work = next(iter(works.values()))
    asked = f"{len(work.prefixes)} prefixes x {SAMPLES}, {work.rows} rows"
    assert all(len(texts) == len(work.prefixes) * SAMPLES for texts in found.values())
    print(f"{title} ({asked})")
    for dtype in peers:
        print(line(f"  {dtype}", spent, f"peer {dtype}", f"ours {dtype}"))
    for dtype in list(works)[1:]:
        print(line(f"  ours in {dtype}, peer float32", spent, "peer float32", f"ours {dtype}"))


def on_llama(given: argparse.Namespace) -> None:
    """Compare on 110 million random weights, in float32 and where it is native in bfloat16."""
    tokenizer = load_base(BASE, device="cpu").tokenizer
    works = {}
    for name in dtypes():
        base = llama(tokenizer, getattr(torch, name))
        works[name] = Work(base, random_prefixes(base, given.prefixes), given.rows)
    compared("Llama, 110 M random weights", works, given)


def on_folder(given: argparse.Namespace, folder: str) -> None:
    """Compare on the model in a folder, asked about made-up records."""
    works = {}
    for name in dtypes():
        base = load_base(folder, device="cpu", dtype=name)
        works[name] = Work(base, nano_prefixes(base, given.prefixes), given.rows)
    compared(Path(folder).name, works, given)


def on_nano(given: argparse.Namespace) -> None:
    """Compare on the built-in model and its own kind of text."""
    base = load_base(BASE, device="cpu")
    work = Work(base, nano_prefixes(base, 17 * given.prefixes), 34 * SAMPLES)
    compared(BASE, {"float32": work}, given)


MODELS = {"llama": on_llama, "nano": on_nano}


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="within ten minutes on two cores")
    parser.add_argument("--models", nargs="+", metavar="NAME", default=[*MODELS])
    parser.add_argument("--prefixes", type=int, default=24, help="prefixes for the larger model")
    parser.add_argument("--rows", type=int, default=4 * SAMPLES)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    if given.quick:
        given.prefixes, given.repeats = 4, 3
    quiet()
    torch.set_num_threads(given.threads)
    for name in given.models:
        if name in MODELS:
            MODELS[name](given)
        else:
            on_folder(given, name)


if __name__ == "__main__":
    main()
