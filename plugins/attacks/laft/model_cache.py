"""Copies of a model that an attack tunes for itself: kept in a private folder, made only once."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api import AttackContext, InputError, Progress, UsageError
from fedaudit.federation import adapters
from fedaudit.system.files import atomic_text, read_json, sha256

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.training.finetune import FinetuneConfig, TrainingExample

DONE = "tuned.json"
"""Written last: a copy without it was not finished."""

FORM = 1
"""Counts up when the same examples and settings make another copy than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A tuned copy: one adapter on the base, which stands for what it was tuned from as well."""

    folder: Path
    sha256: str
    """Of its weights."""
    first: float
    """Mean loss of the first tenth of the batches, in nats a token."""
    last: float
    """The same of the last tenth."""
    cached: bool
    """Whether it had been made before."""


def tuned_copy(
    context: AttackContext,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
    progress: Callable[[str], Progress],
) -> Copy:
    """Return the copy of `context.tuned` tuned on `examples`, from the cache if it is there.

    Nothing is written but below the user's cache folder. Raises UsageError for a model that is
    not in this process, or that a defence answers for.
    """
    from fedaudit.engine.local import LocalEngine
    from fedaudit.engine.parallel.engine import ParallelEngine

    engine = context.engine.local if isinstance(context.engine, ParallelEngine) else context.engine
    if not isinstance(engine, LocalEngine) or context.tuned.heading is not None:
        raise UsageError(
            "A copy can only be tuned of a model whose weights are here: for a federation that "
            "answers through a defence, name the global adapter's --round."
        )
    adapter = Path(context.tuned.adapter) if context.tuned.adapter else None
    folder = _private(_private(_cache() / "tuned") / _name(engine, adapter, examples, tuning))
    done = _read(folder)
    if done is None:
        _make(folder, engine, adapter, examples, tuning, progress("tuning a copy"))
    details = done or _read(folder)
    assert details is not None
    return Copy(folder=folder, cached=done is not None, **details)


def _make(
    folder: Path,
    engine: "LocalEngine",
    adapter: Path | None,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
    progress: Progress,
) -> None:
    """Tune the copy and write it to `folder`, the marker of completion last."""
    from fedaudit.engine.training.finetune import tune

    tuned = tune(engine, adapter, examples, tuning, progress)
    adapters.write(tuned.tensors, tuned.config, folder)
    tenth = max(1, len(tuned.losses) // 10)
    table = {
        "sha256": sha256(folder / adapters.WEIGHTS),
        "first": sum(tuned.losses[:tenth]) / tenth,
        "last": sum(tuned.losses[-tenth:]) / tenth,
    }
    atomic_text(folder / DONE, json.dumps(table, indent=2) + "\n", mode=0o600)


def _read(folder: Path) -> dict[str, Any] | None:
    """Return what is known of the copy in `folder`; None where it is not whole or was changed."""
    try:
        table = read_json(folder / DONE, "")
        details = {"sha256": str(table["sha256"])} | {n: float(table[n]) for n in ("first", "last")}
        adapters.check(folder)
        same = sha256(folder / adapters.WEIGHTS) == details["sha256"]
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    return details if same else None


def _name(
    engine: "LocalEngine",
    adapter: Path | None,
    examples: Sequence["TrainingExample"],
    tuning: "FinetuneConfig",
) -> str:
    """Return a copy's name: the hash of all that it follows from."""
    files = [adapter / adapters.WEIGHTS, adapter / adapters.CONFIG] if adapter else []
    model = engine.base.model
    table = {
        "form": FORM,
        "base": engine.base.sha256,
        "adapter": [sha256(path) for path in files],
        "tuning": asdict(tuning),
        "lessons": [(example.prompt, example.answer) for example in examples],
        "arithmetic": f"{model.dtype} {model.device.type}",
    }
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:32]


def _cache() -> Path:
    """Return the folder of what fedaudit keeps for this user."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if named else Path.home() / ".cache") / "fedaudit"


def _private(folder: Path) -> Path:
    """Return `folder`, made where there is none, that nobody but its owner can read."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise InputError(f"{folder} cannot be made a folder: {error.strerror}.") from None
    return folder
