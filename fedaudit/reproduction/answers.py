"""The answers that audits of a study share, so that a question is asked of a model once.

Audits of one federation, by round, by copies of records or by attack, ask its base the same
questions, and about held-out records the tuned model as well.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedaudit.cache.answers import AnswerCache, CacheHeader, load
from fedaudit.federation import manifest
from fedaudit.reproduction.outcome_cache import code_sha256
from fedaudit.simulation.config import Simulation
from fedaudit.system.files import sha256

FOLDER = "answers"
"""Where they are kept while a study is not finished, beside the folder of federations."""


@contextmanager
def open_answers(federation: Path, config: Simulation) -> Iterator[AnswerCache]:
    """Provide what the models of a federation have answered so far, and keep what they answer.

    Answers of another version of fedaudit, device or dtype, or of another federation in the same
    folder, are removed. One process at a time works on a federation.
    """
    folder = _folder(federation)
    header = CacheHeader(
        run=federation.name,
        config={
            "code": code_sha256(),
            "federation": sha256(federation / manifest.NAME),
            "device": config.device,
            "dtype": config.dtype,
        },
    )
    kept = load(folder, write=True)
    if kept is not None and kept.header != header:
        kept.remove()
        kept = None
    kept = kept or AnswerCache(folder, header)
    try:
        yield kept
    finally:
        kept.close()


def remove_answers(federation: Path) -> None:
    """Remove the answers of a federation's models: they are in plain text."""
    shutil.rmtree(_folder(federation), ignore_errors=True)


def _folder(federation: Path) -> Path:
    return federation.parent.parent / FOLDER / federation.name
