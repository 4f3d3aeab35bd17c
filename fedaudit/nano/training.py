"""The recipe of `fedaudit-nano`: python -m fedaudit.nano.training OUT [--steps 1600].

Trains a byte-level BPE tokenizer and a Llama-architecture model on invented case files, from
seeds alone. The people are other people than any simulation's: their seeds begin
at PRETRAINING_SEEDS. Texts are cut from a stream at random places, so the model sees documents that
begin with the BOS token and crops that begin mid-document without it.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fedaudit.api.templates import TEMPLATES
from fedaudit.nano.generator import corpus

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PRETRAINING_SEEDS = 10**6
VOCABULARY, CONTEXT = 4096, 1024
STEP_TOKENS, PEAK_RATE = 4096, 3e-3
BOS, EOS, PAD = "<s>", "</s>", "<pad>"
TASKS = ("record", "record", "record", "reading", "summary", "classification")
"""What the shipped weights were trained on: tasks that the generator got later are not here."""


def training_texts(seed: int) -> Iterator[str]:
    """Yield documents without end: records, tasks in both templates, and loose sentences."""
    from faker import Faker

    rng = random.Random(seed)
    fakers = {locale: Faker(locale) for locale in ("en_US", "zh_CN")}
    for fake in fakers.values():
        fake.seed_instance(seed)
    while True:
        seed += 1
        template = TEMPLATES[rng.choices(("fed_pii", "alpaca"), (4, 1))[0]]
        batch = list(
            corpus(
                cases=200,
                documents_per_case=3,
                seed=PRETRAINING_SEEDS + seed,
                tasks=TASKS,
                template=template,
            )
        )
        loose = [fakers[rng.choice(list(fakers))].paragraph(nb_sentences=3) for _ in range(50)]
        shuffled = [document.text for document in batch] + loose
        rng.shuffle(shuffled)
        yield from shuffled


def train_tokenizer(seed: int = 0, documents: int = 30_000) -> "PreTrainedTokenizerFast":
    """Return a byte-level BPE tokenizer; digits are cut in pairs, so numbers stay short."""
    from itertools import islice

    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = Regex(r" ?\p{N}{1,2}| ?\p{Han}+| ?[^\s\p{L}\p{N}]+| ?\p{L}+|\s+(?!\S)|\s+")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(split, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(islice(training_texts(seed), documents), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def new_model() -> "LlamaForCausalLM":
    """Return the untrained model, about 1.9 million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=160,
            intermediate_size=432,
            num_hidden_layers=4,
            num_attention_heads=5,
            num_key_value_heads=5,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def train(model: "LlamaForCausalLM", tokenizer: "PreTrainedTokenizerFast", steps: int) -> None:
    """Train `model` in place for `steps` steps of 4,096 tokens; the rate rises, then falls."""
    import torch

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.95), weight_decay=0.05
    )
    stream, buffer, start_time = _tokens(tokenizer, seed=7), list[int](), time.monotonic()
    for step in range(steps):
        # The last sixth trains on whole contexts, so that positions beyond 256 mean something.
        length = 256 if step < steps * 5 // 6 else CONTEXT
        while len(buffer) < STEP_TOKENS:
            buffer += next(stream)
        batch = torch.tensor(buffer[:STEP_TOKENS]).view(-1, length)
        buffer = buffer[STEP_TOKENS:]
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * min(1.0, (step + 1) / 100) * max(0.02, 1 - step / steps)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0:
            seconds = time.monotonic() - start_time
            print(
                f"step {step} of {steps}, {seconds:.0f} s, loss {loss.item():.3f}", file=sys.stderr
            )


def _tokens(tokenizer: "PreTrainedTokenizerFast", seed: int) -> Iterator[list[int]]:
    """Yield tokenised documents, BOS to EOS; one in four is a crop without its beginning."""
    rng = random.Random(seed)
    for text in training_texts(seed * 10_000):
        ids: list[int] = [*tokenizer(text)["input_ids"], 2]
        yield ids[rng.randrange(1, len(ids)) :] if rng.random() < 0.25 else ids


def main() -> None:
    """Train and write the base model's folder."""
    import torch

    parser = argparse.ArgumentParser(description="Train fedaudit-nano.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1600)
    options = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = train_tokenizer()
    model = new_model()
    train(model, tokenizer, options.steps)
    # bfloat16 on disk halves the wheel; it is loaded as float32 wherever that is asked for.
    model.bfloat16().save_pretrained(options.out)
    tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
