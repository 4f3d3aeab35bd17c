"""The answers that audits of a study share, so that a question is asked of a model once.

Audits of one federation, by round, by copies of records or by attack, ask its base the same
questions, and about held-out records the tuned model as well.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.cache import answers
from fedaudit.cache.answers import AnswerCache, CacheHeader, load
from fedaudit.engine.device import device_for
from fedaudit.federation import manifest
from fedaudit.reproduction.outcome_cache import code_sha256
from fedaudit.simulation.config import Simulation
from fedaudit.system.files import sha256
from fedaudit.system.locks import lock_beside

FOLDER = "answers"
"""Where they are kept while a study is not finished, beside the folder of federations."""


@contextmanager
def open_answers(federation: Path, config: Simulation) -> Iterator[AnswerCache]:
    """Provide what the models of a federation have answered so far, and keep what they answer.

    Answers of another version of fedaudit, device or dtype, or of another federation in the same
    folder, are removed. Raises InputError for another file in their place, and where another
    process asks the same federation's models meanwhile.
    """
    with _locked(federation):
        kept = _open(federation, config)
        try:
            yield kept
        finally:
            kept.close()


def _open(federation: Path, config: Simulation) -> AnswerCache:
    folder = _folder(federation)
    header = CacheHeader(
        run=federation.name,
        config={
            "code": code_sha256(),
            "federation": sha256(federation / manifest.NAME),
            "device": device_for(config.device).type,
            "dtype": config.dtype,
        },
    )
    try:
        kept = load(folder, write=True)
    except InputError:
        answers.remove(folder)
        kept = None
    if kept is not None and kept.header != header:
        kept.remove()
        kept = None
    return kept or AnswerCache(folder, header)


def remove_answers(federation: Path) -> None:
    """Remove the answers of a federation's models, in plain text, unless they are in use."""
    with suppress(InputError), _locked(federation):
        answers.remove(_folder(federation))


def _locked(federation: Path) -> AbstractContextManager[None]:
    busy = f"Another process is asking the models of {federation} for a study."
    return lock_beside(_folder(federation), busy)


def _folder(federation: Path) -> Path:
    return federation.parent.parent / FOLDER / federation.name
