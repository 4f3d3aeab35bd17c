"""The configuration of a worker's engine, calls to it, and their execution in the worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine
from fedaudit.federation.adapters import CONFIG, WEIGHTS, tokenizer_files
from fedaudit.system.files import sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The settings from which an engine can be made in any process."""

    base: str
    device: str
    dtype: str
    template: PromptTemplate | None
    batch_size: int
    fetch: bool = True
    """Whether the base may be fetched from the hub, as only bases named by the user may."""
    tokenizer: str = ""
    """The folder of an adapter whose tokenizer takes the place of the base's; empty for none."""
    threads: int = 0
    """The number of torch threads; 0 leaves it unchanged."""

    def make(self) -> LocalEngine:
        """Load the base and return its engine."""
        if self.threads:
            torch.set_num_threads(self.threads)
        base = loader.load_base(
            self.base,
            device=self.device,
            dtype=self.dtype,
            fetch=self.fetch,
            tokenizer=Path(self.tokenizer) if self.tokenizer else None,
        )
        return LocalEngine(base, template=self.template, batch_size=self.batch_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """The description of a base that an engine has loaded."""

    sha256: str
    dtype: str
    context_length: int
    prompt_starts: Mapping[str, tuple[int, ...]]
    vocabulary_size: int = 0
    end_tokens: Sequence[int] = ()
    """Like the size of the vocabulary, only of a model in this process or its workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall:
    """A call of one of an engine's methods."""

    config: EngineConfig
    method: str
    values: tuple[Any, ...]
    files: tuple[str, str | None]
    """The fingerprints of the base and of the target's adapter."""


def load_and_describe(config: EngineConfig) -> EngineInfo:
    """Load a base in this worker process and return its description."""
    return describe(_local_engine(config))


def describe(engine: LocalEngine) -> EngineInfo:
    """Return the description of an engine's base."""
    return EngineInfo(
        sha256=engine.base.sha256,
        dtype=str(engine.base.model.dtype),
        context_length=engine.context_length,
        prompt_starts=engine.prompt_starts,
        vocabulary_size=engine.vocabulary_size,
        end_tokens=engine.end_tokens,
    )


def execute(call: EngineCall) -> Any:
    """Return the result of a call, in this worker process.

    Raises InputError if the base or the adapter differs from that of the calling process.
    """
    engine, (base, adapter) = _local_engine(call.config), call.files
    if engine.base.sha256 != base:
        raise InputError(f"{call.config.base} has changed, or is not the same on all machines.")
    if adapter is not None:
        folder = call.values[0].adapter
        if _weights(folder) != adapter:
            raise InputError(f"{folder} has changed, or is not the same on all machines.")
    return getattr(engine, call.method)(*call.values)


def fingerprint(target: Target | None = None) -> str | None:
    """Return the fingerprint of a target's adapter, or None without an adapter."""
    return _weights(target.adapter) if target and target.adapter else None


def _weights(folder: str) -> str:
    names = (CONFIG, WEIGHTS, *tokenizer_files(Path(folder)))
    files = [Path(folder) / name for name in names]
    stamps = tuple((str(file), file.stat().st_mtime_ns) for file in files if file.is_file())
    return _of_files(stamps)


@lru_cache(maxsize=1000)
def _of_files(stamps: tuple[tuple[str, int], ...]) -> str:
    return " ".join(sha256(Path(name)) for name, _ in stamps)


@lru_cache(maxsize=1)
def _local_engine(config: EngineConfig) -> LocalEngine:
    """Return this process's engine, cached for the next call."""
    return config.make()
