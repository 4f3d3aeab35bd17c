"""Options of starting a vLLM server and of sending requests to it."""

import shlex
from dataclasses import dataclass

from fedaudit.api.errors import UsageError

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The values that vLLM accepts as maximum LoRA rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Options of a vLLM server. Raises ValueError for invalid values."""

    python: str = ""
    """The Python of the environment in which vLLM is installed; if empty, the one in the variable
    FEDAUDIT_VLLM_PYTHON, or else this one."""
    arguments: str = ""
    """Further command-line arguments of the server, such as "--max-model-len 2048"."""
    max_lora_rank: int = 64
    """The highest adapter rank at the start; the server is restarted for a higher one."""
    start_timeout: float = 1800.0
    """Seconds within which the server must be ready."""
    timeout: float = 600.0
    """Seconds for one response."""
    concurrency: int = 64
    """The number of concurrent requests."""

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
        # The base may come from a stranger, and no engine runs code that comes with it.
        if any(word.replace("_", "-").startswith("--trust") for word in words):
            raise ValueError("arguments must not let code of the base run.")


def other_engine_error() -> UsageError:
    """Return the error for options of vLLM that were given with another engine."""
    return UsageError("--set vllm goes with --engine vllm.")


def check_device(device: str) -> None:
    """Raise UsageError for a device other than "auto", since vLLM chooses devices itself."""
    if device != "auto":
        raise UsageError(
            "vLLM takes the devices that it is built for: leave --device out with --engine vllm, "
            "and choose GPUs by CUDA_VISIBLE_DEVICES."
        )
