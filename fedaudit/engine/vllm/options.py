"""How vLLM is started and asked, beside what is served."""

import re
import shlex
from dataclasses import dataclass

from fedaudit.api.errors import UsageError, unknown_name_error

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks for which vLLM can make room."""
_NAME = re.compile(r"vllm(?::([1-9][0-9]{0,2}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Options of a vLLM server. Raises ValueError for what cannot be."""

    python: str = ""
    """The Python of the environment that vLLM is installed in; without it the one that the variable
    FEDAUDIT_VLLM_PYTHON names, or this one."""
    arguments: str = ""
    """Further arguments of the server, as in a shell: "--max-model-len 2048"."""
    max_lora_rank: int = 64
    """Room is made for adapters up to this rank; the server starts again for a higher one."""
    start_timeout: float = 1800.0
    """Seconds within which it must be ready."""
    timeout: float = 600.0
    """Seconds for one answer."""
    concurrency: int = 64
    """Requests that are under way at once."""

    def __post_init__(self) -> None:
        if self.max_lora_rank not in RANKS:
            raise ValueError(f"max_lora_rank must be one of {', '.join(map(str, RANKS))}.")
        if not (self.start_timeout > 0 and self.timeout > 0):
            raise ValueError("start_timeout and timeout must be above 0.")
        if not 1 <= self.concurrency <= 256:
            raise ValueError("concurrency must be from 1 to 256.")
        try:
            words = shlex.split(self.arguments)
        except ValueError:
            raise ValueError("arguments must be words as in a shell.") from None
        # A base is somebody else's file: no code of it runs in this engine either.
        if any(word.replace("_", "-").startswith("--trust") for word in words):
            raise ValueError("arguments must not let code of the base run.")


def tensor_parallel_size(engine: str) -> int | None:
    """Return over how many GPUs "vllm[:N]" spreads each layer, 1 without N; None: another engine.

    Raises UsageError for a number that is none.
    """
    if engine.partition(":")[0] != "vllm":
        return None
    match = _NAME.fullmatch(engine)
    if match is None:
        raise unknown_name_error("engine", engine, ("vllm", "vllm:N"))
    return int(match[1] or 1)


def other_engine_error() -> UsageError:
    """Return the error for options of vLLM with another engine."""
    return UsageError("--set vllm goes with --engine vllm.")


def check_device(device: str) -> None:
    """Raise UsageError for a device other than "auto": vLLM has its own way to choose one."""
    if device != "auto":
        raise UsageError(
            "vLLM takes the devices that it is built for: leave --device out with --engine vllm, "
            "and choose GPUs by CUDA_VISIBLE_DEVICES."
        )
