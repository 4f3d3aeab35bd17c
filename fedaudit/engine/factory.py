"""Engines made from their names, as --engine gives them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fedaudit.api.errors import UsageError
from fedaudit.engine.engine_name import parse
from fedaudit.engine.parallel import ray_cluster
from fedaudit.engine.vllm import options as vllm_options
from fedaudit.engine.vllm.options import VllmOptions

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine
    from fedaudit.engine.parallel.protocol import EngineConfig, EngineInfo
    from fedaudit.engine.remote.engine import CacheBackend
    from fedaudit.engine.vllm.engine import VllmEngine

    AnyEngine: TypeAlias = LocalEngine | ParallelEngine | VllmEngine


def check(name: str, device: str, options: VllmOptions | None) -> None:
    """Raise UsageError if an engine is unknown, cannot run here or does not take the options."""
    kind = parse(name).kind
    if kind == "vllm":
        vllm_options.check_device(device)
    elif options is not None:
        raise vllm_options.other_engine_error()
    elif kind == "ray":
        ray_cluster.check(device)


def check_shards(name: str) -> None:
    """Raise UsageError for vLLM: a merge checks with fedaudit's engine, whose draws differ."""
    if not stays_ready(name):
        raise UsageError(
            "The shards of an audit are checked by fedaudit's own engine, whose draws are not "
            "vLLM's: --shard does not go with --engine vllm."
        )


def engine_kind(name: str) -> str:
    """Return in words whose arithmetic gives the answers; answers of two kinds are never mixed."""
    return "fedaudit's engine" if stays_ready(name) else "vLLM"


def stays_ready(name: str) -> bool:
    """Tell whether an engine answers more questions after `finish`."""
    return parse(name).kind != "vllm"


def startup_note(name: str) -> str:
    """Return what to tell the user before an engine starts; empty if it starts quickly."""
    if stays_ready(name):
        return ""
    return "vLLM is started for this audit: half a minute, and several for a large model."


def make_engine(
    config: "EngineConfig",
    name: str,
    options: VllmOptions | None = None,
    make_cache: "Callable[[], CacheBackend] | None" = None,
) -> "tuple[AnyEngine, EngineInfo]":
    """Return the engine called `name`, and a description of its base.

    `make_cache` makes a cache for the completions of a vLLM server: if the server dies while it
    answers a piece of questions, those that it has answered are kept. Processes and servers end,
    and a cluster is given back, when the engine is garbage-collected or this process ends.
    """
    kind, gpus = parse(name)
    if kind != "vllm":
        from fedaudit.engine.parallel import engine as parallel

        return parallel.make_engine(config, name)
    from fedaudit.engine.vllm.engine import start_engine

    cache = make_cache() if make_cache else None
    return start_engine(config, gpus or 1, options or VllmOptions(), cache)


def finish(engine: "AnyEngine") -> Sequence[str]:
    """Stop the vLLM server of an engine; return the caveats that a report states on its answers.

    An engine in this process or on a cluster stays ready for more questions.
    """
    from fedaudit.engine.vllm.engine import VllmEngine

    if not isinstance(engine, VllmEngine):
        return ()
    engine.finish()
    return engine.caveats()
