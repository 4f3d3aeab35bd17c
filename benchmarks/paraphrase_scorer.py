"""Tune a small local model to tell paraphrases, and measure its errors on other pairs.

    python benchmarks/paraphrase_scorer.py msr_paraphrase_train.txt msr_paraphrase_test.txt \
        --base real/SmolLM2-135M-Instruct --out scorer

The memorization study's scorer is RoBERTa tuned on the Microsoft Research Paraphrase Corpus (Dolan
and Brockett 2005). A language model tuned on the same 4,076 pairs takes its place where no encoder
is at hand. `--set sequence_pair.model=scorer` takes the folder. No setting was chosen on the test's
pairs.
"""

import argparse
import csv
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fedaudit_plugins.paraphrasers.sequence_pair import SequencePair
from peft import LoraConfig, TaskType, get_peft_model
from scipy import stats
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from fedaudit.metrics.intervals import wilson

SETTINGS = {"rank": 16, "learning_rate": 5e-4, "batch_size": 16, "epochs": 3}
CUTS = (0.5, 0.99)
"""A pair above the first is a paraphrase; one above the second the study passes over (p > 0.99)."""


def main() -> None:
    """Tune, write the folder, score the test's pairs with the plugin and print its errors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("train", type=Path, help="the corpus's pairs to tune on")
    parser.add_argument("test", type=Path, help="its pairs to judge on")
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bfloat16", action="store_true", help="on a processor that has it")
    for name, value in SETTINGS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    arguments = parser.parse_args()
    if not arguments.out.exists():
        tune(arguments)
    pairs, labels = read_pairs(arguments.test)
    scores = SequencePair(model=str(arguments.out)).score(pairs)
    print(json.dumps(errors(scores, labels), indent=1))


def read_pairs(path: Path) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the corpus's pairs of sentences, and 1 for each that annotators call a paraphrase."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    pairs = [(row["#1 String"], row["#2 String"]) for row in rows]
    return pairs, [int(row["Quality"]) for row in rows]


def tune(arguments: argparse.Namespace) -> None:
    """Tune `base` by LoRA to classify pairs, and write it, merged, with its tokenizer."""
    tokenizer = pair_tokenizer(arguments.base)
    base = AutoModelForSequenceClassification.from_pretrained(
        arguments.base, num_labels=2, dtype="bfloat16" if arguments.bfloat16 else "float32"
    )
    base.config.pad_token_id = tokenizer.pad_token_id
    torch.manual_seed(arguments.seed)
    lora = LoraConfig(
        TaskType.SEQ_CLS,
        r=arguments.rank,
        lora_alpha=2 * arguments.rank,
        target_modules="all-linear",
    )
    model = get_peft_model(base, lora)
    trainer = Trainer(
        model,
        TrainingArguments(
            str(arguments.out) + "-checkpoints",
            num_train_epochs=arguments.epochs,
            learning_rate=arguments.learning_rate,
            per_device_train_batch_size=arguments.batch_size,
            warmup_steps=20,
            train_sampling_strategy="group_by_length",
            seed=arguments.seed,
            save_strategy="no",
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            bf16=arguments.bfloat16,
            logging_steps=20,
        ),
        train_dataset=examples(tokenizer, *read_pairs(arguments.train)),
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    merged: Any = model.merge_and_unload()
    merged.float().save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)


def pair_tokenizer(base: Path) -> Any:
    """Return `base`'s tokenizer; it ends each sentence of a pair with the end-of-sequence token.

    A language model's own tokenizer joins two sentences with nothing between them.
    """
    tokenizer = AutoTokenizer.from_pretrained(base)
    end = tokenizer.eos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {end}",
        pair=f"$A {end} $B {end}",
        special_tokens=[(end, tokenizer.eos_token_id)],
    )
    tokenizer.pad_token = tokenizer.pad_token or end
    return tokenizer


def examples(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], labels: Sequence[int]
) -> list[dict[str, Any]]:
    """Return one example for the trainer for each pair."""
    return [
        {"input_ids": tokenizer(*pair, truncation=True)["input_ids"], "labels": label}
        for pair, label in zip(pairs, labels, strict=True)
    ]


def errors(scores: Sequence[float], labels: Sequence[int]) -> dict[str, Any]:
    """Return counts of right and wrong pairs at 0.5, with Wilson's 95 % intervals, and the AUC."""
    p, label = np.asarray(scores), np.asarray(labels, dtype=bool)
    told = p > CUTS[0]
    ranks = stats.rankdata(p)
    positives, negatives = int(label.sum()), int((~label).sum())
    rank_sum = float(ranks[label].sum()) - positives * (positives + 1) / 2
    return {
        "pairs": len(label),
        "paraphrases": positives,
        "accuracy": _share(told == label),
        "always yes": positives / len(label),
        "recall": _share(told[label]),
        "false positives": _share(told[~label]),
        "f1": 2 * int((told & label).sum()) / (int(told.sum()) + positives),
        "auc": rank_sum / (positives * negatives),
        "paraphrases above 0.99": _share(p[label] > CUTS[1]),
        "others above 0.99": _share(p[~label] > CUTS[1]),
    }


def _share(hits: Any) -> dict[str, Any]:
    """Return a share with its counts and interval."""
    estimate = wilson(int(hits.sum()), len(hits))
    return {"of": [int(hits.sum()), len(hits)], **asdict(estimate)}


if __name__ == "__main__":
    logging.captureWarnings(True)
    main()
