"""Document embeddings: the mean of a model's last hidden states."""

from collections.abc import Sequence

import numpy as np
import torch

from fedaudit.engine.architecture import right_padded
from fedaudit.engine.batching import by_length, padded_length
from fedaudit.engine.device import device_for, dtype_for
from fedaudit.engine.loading import checkpoint
from fedaudit.engine.loading.loader import LoadedBase, load, locate, quiet


def load_embedder(name: str, *, device: str = "auto") -> LoadedBase:
    """Return a model for embeddings: an encoder such as Longformer, or a headless language model.

    Raises InputError for a folder without a model in safetensors.
    """
    from transformers import AutoModel

    quiet()
    path, torch_device = locate(name), device_for(device)
    model, info, tokenizer = load(AutoModel, path, dtype_for("auto", torch_device), "a model")
    checkpoint.check_loaded(info, path, allowed=("pooler.",))
    checkpoint.check_finite(model, path)
    model.requires_grad_(False).eval().to(torch_device)
    return LoadedBase(name, path, checkpoint.fingerprint(path), model, tokenizer)


@torch.inference_mode()
def embed(base: LoadedBase, texts: Sequence[str], *, max_tokens: int = 256) -> np.ndarray:
    """Return unit vectors (texts, hidden size): the mean hidden state of a text's first tokens."""
    ids = [
        base.tokenizer(text, truncation=True, max_length=max_tokens)["input_ids"] or [0]
        for text in texts
    ]
    vectors = np.zeros((len(texts), base.model.config.hidden_size))
    for batch in by_length([len(row) for row in ids], 16_384):
        width = padded_length(max(len(ids[i]) for i in batch))
        tokens, mask = right_padded([ids[i] for i in batch], width, base.model.device)
        # Attention of a language model is causal: right padding changes no hidden state of a text.
        mask_kwargs = {} if base.model.can_generate() else {"attention_mask": mask}
        hidden = base.model.base_model(input_ids=tokens, **mask_kwargs).last_hidden_state
        means = (hidden.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        vectors[batch] = means.cpu().double().numpy()
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
    return unit


def kmeans_clusters(vectors: np.ndarray, count: int, seed: int) -> list[int]:
    """Return the K-means cluster (MacQueen 1967) of each row."""
    from sklearn.cluster import KMeans

    count = min(count, len(np.unique(vectors.round(6), axis=0)))
    return [int(c) for c in KMeans(count, n_init=10, random_state=seed).fit_predict(vectors)]
