"""What has another name in other versions of transformers."""

from transformers import Cache, __version__

CACHE_RENAMED_IN = (5, 24)
"""The version in which models call their keys and values `cache`; `past_key_values` till then."""
_VERSION = tuple(map(int, __version__.split(".")[:2]))
_CACHE = "cache" if _VERSION >= CACHE_RENAMED_IN else "past_key_values"


def cache_kwargs(cache: Cache | None) -> dict[str, Cache | None]:
    """Return the keyword argument with which a model's forward takes a KV cache."""
    return {_CACHE: cache}
