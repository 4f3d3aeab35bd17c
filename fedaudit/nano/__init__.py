"""The built-in base model `fedaudit-nano`, its tokenizer, and a generator of case files."""

from pathlib import Path

BASE = "fedaudit-nano"


def folder() -> Path:
    """Return the folder of the built-in base model."""
    return Path(__file__).parent / "weights"
