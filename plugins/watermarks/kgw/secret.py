"""The secret of a mark, checked where it is read: the test that it describes."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from fedaudit.api import Engine, InputError, text_start

from .detection import Detector, check_gamma
from .schemes import SCHEMES


def detector_of(secret: Mapping[str, Any], engine: Engine) -> Detector:
    """Return the test that a secret describes.

    Raises InputError for a secret that is none, and where the lists were made for a vocabulary of
    another size than the engine's, or for a gamma that is not tested.
    """
    begin = text_start(engine)
    _check_gamma(secret)
    try:
        detector = Detector(
            scheme=secret["scheme"],
            key=int(secret["key"]),
            gamma=float(secret["gamma"]),
            vocabulary=int(secret["vocabulary"]),
            width=int(secret["width"]),
            bos=begin[0] if begin else None,
            repeats="pair",
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("The secret of this kgw watermark is damaged.") from None
    vocabulary = vocabulary_size(engine)
    if (
        SCHEMES[detector.scheme].uses_vocabulary_size
        and vocabulary
        and vocabulary != detector.vocabulary
    ):
        raise InputError(
            f"This watermark ({detector.scheme}) is for a vocabulary of {detector.vocabulary} "
            f"tokens, and the model's has {vocabulary}: its green lists would be different."
        )
    return detector


def _check_gamma(secret: Mapping[str, Any]) -> None:
    """Raise InputError for a secret that another version made with a gamma that is not tested."""
    gamma = secret_value(secret, "gamma", float)
    if 0 < gamma < 1:  # others are no gamma at all: the secret is damaged
        try:
            check_gamma(gamma)
        except ValueError as error:
            raise InputError(f"This kgw watermark cannot be tested: {error}") from None


def secret_value(secret: Mapping[str, Any], name: str, kind: Callable[[Any], Any]) -> Any:
    """Return a value of a secret, made by `kind`; raises InputError where there is none such."""
    try:
        return kind(secret[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("The secret of this kgw watermark is damaged.") from None


def salt_of(secret: Mapping[str, Any]) -> int:
    """Return 64 bits that only the owner can work out, the key and the prompts together.

    Choices depend on the key where lists are shared. Without a salt, whoever knew the answers could
    try keys by the null scores, which are not secret.
    """
    text = json.dumps(dict(secret), sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def vocabulary_size(engine: Engine) -> int:
    """Return the vocabulary's size in the model's configuration; 0 of an engine without a model."""
    base = getattr(engine, "base", None)
    return int(base.model.config.get_text_config().vocab_size) if base else 0
