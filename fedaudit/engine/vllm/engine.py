"""The engine that starts its own vLLM server, for models that do not fit on one GPU."""

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
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Target
from fedaudit.engine.device import DTYPES
from fedaudit.engine.loading import checkpoint, loader, saved_tokenizer
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.lora.active import Version, version
from fedaudit.engine.parallel.protocol import EngineConfig, EngineInfo
from fedaudit.engine.remote.connection import MOST_BYTES
from fedaudit.engine.remote.engine import CacheBackend, RemoteEngine
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.remote.probe import MIN_CONTEXT, find_scoring_problem, probe
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.spending import RequestBudget
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse
from fedaudit.engine.vllm.installation import VllmInstallation, find_vllm
from fedaudit.engine.vllm.options import RANKS, VllmOptions
from fedaudit.federation import adapters
from fedaudit.report.redaction import make_visible
from fedaudit.system.http_client import HttpStatusError, JsonClient, ServerUnreachable

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


NO_BOUND = 2**62
"""Requests to fedaudit's own server are not limited."""
LOAD = "/load_lora_adapter"
GRACE = 2.0
"""Seconds to wait for the end of a server that no longer answers."""
NAME_DIGITS = 16
"""Digits of an adapter's fingerprint that name it on the server, the same in a resumed audit."""


class VllmEngine(RemoteEngine):
    """Answers requests with its own vLLM server, which serves the base and adapters by name.

    Its abilities are probed on the base, as on any other server. An adapter is loaded on first use;
    its scores of texts must then agree with the log-probabilities of what it generates.
    """

    def __init__(
        self,
        process: VllmServer,
        model: torch.nn.Module,
        config: EngineConfig,
        cache: CacheBackend | None = None,
    ) -> None:
        self.vllm, self._model = process, model
        options = process.options
        self._spending = RequestBudget(
            options=EndpointOptions(
                concurrency=options.concurrency,
                timeout=options.timeout,
                max_requests=NO_BOUND,
                max_tokens=NO_BOUND,
            )
        )
        tokenizer = RemoteTokenizer(str(process.tokenizer), config.template)
        base = self._named(BASE)
        abilities = probe(base, tokenizer, context=0, longest=MIN_CONTEXT)
        self._names: dict[Version, str] = {}
        self._loaded: set[str] = set()
        super().__init__(base, base, tokenizer, abilities, cache)

    def close(self) -> None:
        """End the server."""
        self.vllm.close()

    def caveats(self) -> list[str]:
        """Return the vLLM version used, and what a reader should know about its answers."""
        args = self.vllm.args
        build = " (for CPUs)" if args.installation.cpu else ""
        version = f"vLLM {args.installation.version}{build}"
        return [
            f"The model was asked by {version} in {args.dtype}, not by fedaudit's own engine.",
            *super().caveats(),
        ]

    def _ask(
        self, server: CompletionServer, queries: Sequence[CompletionRequest], progress: Progress
    ) -> list[CompletionResponse]:
        """Return the answer to every query; raises Interrupted, saying why the server ended."""
        with self._explained():
            return super()._ask(server, queries, progress)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise Interrupted, with vLLM's own error if it has ended, for an unreachable server."""
        try:
            yield
        except (Interrupted, ServerUnreachable) as error:
            time.sleep(GRACE)  # the server may be about to end
            if self.vllm.has_ended():
                raise Interrupted(f"vLLM has ended: {self.vllm.last_error()}") from None
            raise Interrupted(str(error)) from None

    def _named(self, name: str) -> CompletionServer:
        return CompletionServer(self.vllm.client, name, self._spending)

    def _server(self, target: Target) -> CompletionServer:
        """Return the server's model for a target: the base, or its adapter, loaded if need be."""
        if target.adapter is None:
            return self._named(BASE)
        folder, key = Path(target.adapter), version(target.adapter)
        name = self._names.get(key) or adapters.fingerprint(folder)[:NAME_DIGITS]
        if name not in self._loaded:
            with self._explained():
                self._load(folder, name)
        self._names[key] = name
        return self._named(name)

    def _load(self, folder: Path, name: str) -> None:
        """Load an adapter under a name; raises TargetError if vLLM cannot serve it correctly."""
        out = self.vllm.folder / name
        rank = write_plain_adapter(folder, out, self._model, self.vllm.args.modules)
        self._make_room(rank, folder)
        try:
            self.vllm.client.post(LOAD, {"lora_name": name, "lora_path": str(out)})
        except HttpStatusError as error:
            raise TargetError(f"vLLM does not load the adapter {folder}: {error}") from None
        if self.abilities.scoring:
            problem = find_scoring_problem(self._named(name), self.tokenizer, self.abilities)
            if problem:
                raise TargetError(
                    f"vLLM's log-probabilities of texts with the adapter {folder} cannot be used "
                    f"({problem}): use --engine local."
                )
        self._loaded.add(name)  # last, so that an adapter with wrong scores is never used

    def _make_room(self, rank: int, folder: Path) -> None:
        """Restart the server with a higher maximum rank if an adapter needs it.

        Raises InputError for a rank above vLLM's largest.
        """
        if rank <= self.vllm.rank:
            return
        if rank > RANKS[-1]:
            raise InputError(f"{folder} has rank {rank}; vLLM serves up to {RANKS[-1]}.")
        self.vllm.stop()
        self._loaded.clear()
        self.vllm.rank = min(size for size in RANKS if size >= rank)
        self.vllm.start()


def start_engine(
    config: EngineConfig, gpus: int, options: VllmOptions, cache: CacheBackend | None = None
) -> tuple[VllmEngine, EngineInfo]:
    """Start a vLLM server; return its engine and the description of its base.

    `cache` keeps the answers of a chunk of requests during which the server died. The server ends
    when the engine is garbage-collected or this process ends. Raises TargetError if vLLM does not
    start, InputError for a folder that holds no causal language model, UsageError for a bad dtype.
    """
    installation = find_vllm(options.python)
    dtype = installation.dtype if config.dtype == "auto" else config.dtype
    if dtype not in DTYPES:
        raise UsageError(f"The dtype {dtype!r} is none of {', '.join(DTYPES)}.")
    path = loader.locate(config.base, fetch=config.fetch)
    model = loader.empty_model(path)
    args = ServerArgs(
        installation=installation,
        path=path,
        dtype=dtype,
        modules=lora_target_modules(model),
        gpus=gpus,
    )
    process = VllmServer(args, options)
    if config.tokenizer:
        saved = Path(config.tokenizer)
        saved_tokenizer.load(saved, path, RemoteTokenizer(str(path), None).tokenizer)
        saved_tokenizer.write(saved, path, process.folder / TOKENIZER)
    process.start()
    try:
        engine = VllmEngine(process, model, config, cache)
    except BaseException:
        process.close()
        raise
    weakref.finalize(engine, process.close)
    info = EngineInfo(
        sha256=checkpoint.fingerprint(path),
        dtype=f"torch.{dtype}",
        context_length=engine.context_length,
        prompt_starts=engine.prompt_starts,
    )
    return engine, info


def lora_target_modules(model: torch.nn.Module) -> list[str]:
    """Return the last parts of the names of a base's linear layers, without its output layer."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    return sorted(
        {
            name.rpartition(".")[2]
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
        }
    )


def write_plain_adapter(
    folder: Path, out: Path, model: torch.nn.Module, modules: Collection[str]
) -> int:
    """Write the adapter in `folder` into `out` with one rank and scaling 1; return the rank.

    Per-module ranks and scalings, rank-stabilised scaling and selections by pattern are folded into
    the matrices, so that nothing depends on how vLLM reads them. `model` is the base, with or
    without its weights, and `modules` are the last parts of the names of layers that vLLM adapts.

    Raises InputError for an adapter that is not plain LoRA for this base, or that adapts other
    layers, which vLLM would silently ignore.
    """
    try:
        plain = lora.read(folder)
    except InputError as error:
        reason = str(error).replace("cannot be combined", "cannot be served by vLLM")
        raise InputError(f"{reason} Use --engine local.") from None
    if adapters.copies(folder):
        raise InputError(
            f"{folder} brings layers of its own beside LoRA, which vLLM does not serve: use "
            "--engine local."
        )
    rank = max(a.shape[0] for a, _ in plain.pairs.values())
    tensors: dict[str, torch.Tensor] = {}
    for name, (a, b) in plain.pairs.items():
        if name.rpartition(".")[2] not in modules:
            raise InputError(f"{folder} adapts {name}, which vLLM does not: use --engine local.")
        lora.layer_of(model, plain, name)
        missing = rank - a.shape[0]
        scaled = (b.double() * plain.scales[name]).to(b.dtype)
        tensors[lora.ROOT + name + lora.A] = torch.nn.functional.pad(a, (0, 0, 0, missing))
        tensors[lora.ROOT + name + lora.B] = torch.nn.functional.pad(scaled, (0, missing))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": sorted({name.rpartition(".")[2] for name in plain.pairs}),
        "bias": "none",
        "inference_mode": True,
    }
    adapters.write({name: t.contiguous() for name, t in tensors.items()}, config, out)
    return rank
