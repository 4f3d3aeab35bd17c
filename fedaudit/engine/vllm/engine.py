"""The engine that starts its own vLLM server, for models that do not fit on one GPU."""

import time
import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.api.progress import Progress
from fedaudit.api.records import Target
from fedaudit.engine.device import DTYPES
from fedaudit.engine.loading import checkpoint, loader, saved_tokenizer
from fedaudit.engine.loading.adapter_shapes import empty_model
from fedaudit.engine.lora import adapter as lora
from fedaudit.engine.lora.active import Version, version
from fedaudit.engine.parallel.protocol import EngineConfig, EngineInfo
from fedaudit.engine.remote.completion_cache import CacheBackend, CompletionCache
from fedaudit.engine.remote.engine import RemoteEngine
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.remote.probe import MIN_CONTEXT, find_scoring_problem, probe
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.spending import RequestBudget
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse
from fedaudit.engine.vllm.installation import find_vllm
from fedaudit.engine.vllm.options import RANKS, VllmOptions
from fedaudit.engine.vllm.server import BASE, TOKENIZER, ServerArgs, VllmServer
from fedaudit.federation import adapters
from fedaudit.system.http_client import HttpStatusError, ServerUnreachable

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
        super().__init__(base, base, tokenizer, abilities, CompletionCache(cache))

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
    model = empty_model(path)
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
