"""The process of a vLLM server, which ends with this process at the latest."""

import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.errors import TargetError
from fedaudit.engine.vllm.installation import VllmInstallation
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.report.redaction import make_visible
from fedaudit.system.http_client import JsonClient, ServerUnreachable

BASE = "base"
"""The name under which the server serves the base."""
TOKENIZER = "tokenizer"
"""The folder of a tokenizer that takes the place of the base's."""
MODULE = "vllm.entrypoints.openai.api_server"
SUPERVISOR = (sys.executable, "-P", "-m", "fedaudit.engine.vllm.supervisor")
CACHED_ADAPTERS = 16
"""Adapters that the server keeps in CPU memory."""
INTERVAL = 0.5
"""Seconds between two checks of whether the server is ready."""
MOST_BYTES = 2**26
STOP_SECONDS = 20.0
LOG_BYTES = 2**18
"""Bytes at the end of the server's log that are searched for the reason of a failure."""
ERROR = re.compile(r"\b(?:[A-Z]\w*(?:Error|Exception|Interrupt)|error): .*")
NO_ERRORS = (" WARNING ", " INFO ")
SIGNALS = 128
"""The supervisor's exit status is this plus the number of the signal that ended the server."""
CONSEQUENCES = ("EngineDeadError", "RuntimeError: Worker failed", "RuntimeError: Engine core")
"""Errors that vLLM's processes report because another of them has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs:
    """What a server is started with: the installation, the base, and how it is served."""

    installation: VllmInstallation
    path: Path
    dtype: str
    modules: Sequence[str]
    """The last parts of the names of layers that adapters may adapt."""
    gpus: int


class VllmServer:
    """A vLLM server on a local port with a random API key.

    It is started by `start`, which raises TargetError if that fails, and ends with `stop`, `close`
    or this process.
    """

    def __init__(self, args: ServerArgs, options: VllmOptions) -> None:
        self.args, self.options = args, options
        self.rank = options.max_lora_rank
        self._scratch = tempfile.TemporaryDirectory(prefix="fedaudit-vllm-")
        self.folder = Path(self._scratch.name)
        """The folder of rewritten adapters, in which the server runs.

        It holds no Python files when the server starts, so nothing is imported from it.
        """
        self._log = self.folder / "server.log"
        self._key, self._port = secrets.token_urlsafe(32), _free_port()
        self.url = f"http://127.0.0.1:{self._port}/v1"
        self.client = self._client(timeout=options.timeout, retries=3)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer: the base's, unless another was written beside the server."""
        written = self.folder / TOKENIZER
        return written if written.is_dir() else self.args.path

    def start(self) -> None:
        """Start the server with `rank` as its maximum LoRA rank, and wait until it responds."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*SUPERVISOR, *self.command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self._environment()},
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        try:
            self._await_answer()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """End the server; `start` can start it again."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End the server and delete its folder."""
        self.client.close()
        self.stop()
        self._scratch.cleanup()

    def command(self) -> list[str]:
        """Return the command that serves the base.

        The sampling defaults of the model's generation_config.json are not used, since they would
        silently change the sampling params. Adapters are restricted to `ServerArgs.modules`, which
        leave out the output layer: with LoRA enabled there, vLLM scores prompts wrongly or crashes.
        """
        return [
            self.args.installation.python,
            *("-m", MODULE),
            *("--host", "127.0.0.1", "--port", str(self._port)),
            *("--model", str(self.args.path.absolute()), "--served-model-name", BASE),
            *(("--tokenizer", str(self.tokenizer)) if self.tokenizer != self.args.path else ()),
            *("--dtype", self.args.dtype, "--load-format", "safetensors"),
            *("--generation-config", "vllm", "--seed", "0"),
            *("--tensor-parallel-size", str(self.args.gpus)),
            *("--enable-lora", "--max-loras", "1", "--max-lora-rank", str(self.rank)),
            *("--max-cpu-loras", str(CACHED_ADAPTERS)),
            *("--lora-target-modules", *self.args.modules),
            # With chunked prefill, a CPU build crashes on a seeded prompt read in two chunks.
            *(("--no-enable-chunked-prefill",) if self.args.installation.cpu else ()),
            *shlex.split(self.options.arguments),
        ]

    def _environment(self) -> dict[str, str]:
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        return {
            **offline,
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_API_KEY": self._key,
            "PYTHONSAFEPATH": "1",
        }

    def _await_answer(self) -> None:
        """Wait for the first response; raises TargetError if the server ends or takes too long."""
        assert self._process is not None
        client = self._client(timeout=10.0, retries=0)
        limit = time.monotonic() + self.options.start_timeout
        try:
            while time.monotonic() < limit:
                if self.has_ended():
                    raise TargetError(f"vLLM did not start: {self.last_error()}")
                try:
                    client.get("/models")
                except ServerUnreachable:
                    time.sleep(INTERVAL)
                else:
                    return
        finally:
            client.close()
        raise TargetError(
            f"vLLM was not ready after {self.options.start_timeout:,.0f} s; --set "
            "vllm.start_timeout gives it longer."
        )

    def has_ended(self) -> bool:
        """Tell whether the server has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def last_error(self) -> str:
        """Return why the server ended: the signal, or else an error from its log.

        It is the log's first error that does not follow from another, else the last error, else
        the last line.
        """
        status = self._process.poll() if self._process else None
        if status and status > SIGNALS:
            number = status - SIGNALS
            memory = " (out of memory?)" if number == signal.SIGKILL else ""
            return f"it was ended by signal {number}{memory}."
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - LOG_BYTES))
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line]
        possible_errors = [line for line in lines if not any(level in line for level in NO_ERRORS)]
        errors = [found[0] for line in possible_errors if (found := ERROR.search(line))]
        causes = [error for error in errors if not error.startswith(CONSEQUENCES)]
        return make_visible([*(lines or ["it said nothing"])[-1:], *errors[-1:], *causes[:1]][-1])[
            :300
        ]

    def _client(self, *, timeout: float, retries: int) -> JsonClient:
        return JsonClient(
            [self.url],
            name="vLLM",
            key=self._key,
            timeout=timeout,
            retries=retries,
            most_bytes=MOST_BYTES,
        )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port: int = place.getsockname()[1]
    return port
