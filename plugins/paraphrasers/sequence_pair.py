"""Paraphrases by a transformers classifier of sentence pairs, such as RoBERTa tuned on MRPC."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedaudit.api import InputError, Paraphraser, UsageError


@dataclass(frozen=True)
class SequencePair(Paraphraser):
    """Ask a transformers model that classifies pairs of sentences."""

    name = "sequence_pair"
    paper = "arXiv:2203.07618"

    model: str = ""
    """Its folder or hub id; a hub model must be in the cache already."""
    label: int = 1
    """The class that means "the same"."""
    batch_size: int = 64
    """Pairs that are classified at once."""
    device: str = "cpu"
    """The device of the classifier, as torch names it."""

    def __post_init__(self) -> None:
        if self.label < 0 or self.batch_size < 1:
            raise ValueError("label must be at least 0 and batch_size at least 1.")

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability of the class `label` for each pair, as the model has it."""
        model, tokenizer = _load_model(self.model, self.device)
        if self.label >= model.config.num_labels:
            raise UsageError(
                f"{self.model} has {model.config.num_labels} classes, no class {self.label}."
            )
        probabilities = [0.0] * len(pairs)
        for chosen in self._batches(tokenizer, pairs):
            scores = _scores(model, tokenizer, [pairs[index] for index in chosen], self.label)
            for index, value in zip(chosen, scores, strict=True):
                probabilities[index] = value
        return probabilities

    def describe(self) -> str:
        """Say which model it is."""
        import transformers

        return f"{self.model} (transformers {transformers.__version__})"

    def _batches(self, tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> Iterator[list[int]]:
        """Yield the pairs in batches of one length each: a pair is padded to no other's length."""
        by_length: dict[int, list[int]] = {}
        for index, (text, text_pair) in enumerate(pairs):
            ids = tokenizer(text, text_pair, truncation=True)["input_ids"]
            by_length.setdefault(len(ids), []).append(index)
        for _, members in sorted(by_length.items(), reverse=True):
            for first in range(0, len(members), self.batch_size):
                yield members[first : first + self.batch_size]


@lru_cache(maxsize=1)
def _load_model(name: str, device: str) -> tuple[Any, Any]:
    """Return the model and its tokenizer; raises InputError for one that is not there."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    if not name:
        raise UsageError("Name the model with --set sequence_pair.model=FOLDER (or a hub id).")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = _folder(name)
    options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, **options
        )
    except Exception as error:  # whatever transformers raises on a foreign folder
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise InputError(f"The paraphrase model {name!r} does not load: {reason}") from None
    # RoBERTa's first two positions are of no token.
    limit = getattr(model.config, "max_position_embeddings", 514) - 2
    tokenizer.model_max_length = min(tokenizer.model_max_length, limit)
    return model.to(device).eval(), tokenizer


def _folder(name: str) -> Path:
    """Return the folder of a model, if need be from the hub's cache: nothing is downloaded."""
    from huggingface_hub import snapshot_download

    if (folder := Path(name)).is_dir():
        return folder
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception:
        raise InputError(
            f"The paraphrase model {name!r} is neither a folder nor in the hub's cache."
        ) from None


def _scores(
    model: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]], label: int
) -> list[float]:
    """Return the probability of `label` for each pair; all have the same number of tokens."""
    import torch

    texts, text_pairs = zip(*pairs, strict=True)
    encoded = tokenizer(list(texts), list(text_pairs), truncation=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded.to(model.device)).logits
    return [float(value) for value in logits.float().softmax(dim=-1)[:, label]]
