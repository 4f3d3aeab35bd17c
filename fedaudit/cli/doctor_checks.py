"""The requirements of an audit on this machine, each tested in practice."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from fedaudit import nano
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.plugin import DETECTOR
from fedaudit.api.records import GenerationRequest, Target
from fedaudit.config import registry
from fedaudit.report.text.searched_kinds import MODEL_GAIN
from fedaudit.system import sandbox


def checks() -> list[tuple[str, Callable[[], str]]]:
    """Return (title, check) pairs; a check returns what it found, or raises."""
    return [
        ("plugins", _plugins),
        ("versions", _versions),
        ("devices", _devices),
        ("built-in model", _model),
        ("PII detection", _detection),
        ("files of others", _protection),
        ("disk", _disk),
    ]


def _plugins() -> str:
    return ", ".join(f"{len(registry.plugins(kind))} {kind}" for kind in registry.KINDS)


def _versions() -> str:
    from fedaudit.engine.environment import describe

    return ", ".join(f"{k} {v}" for k, v in describe("cpu")["versions"].items())


def _devices() -> str:
    import torch

    devices = [f"cpu ({len(os.sched_getaffinity(0))} cores)"]
    devices += [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
    ]
    return ", ".join(devices)


def _model() -> str:
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    engine = LocalEngine(load_base(nano.BASE, device="cpu"))
    tokens = engine.tokenize(["Claimant:"])[0].ids
    request = GenerationRequest(prompt=tokens, samples=2, max_new_tokens=4)
    texts = engine.generate(Target(name="base"), GenerationBatch([request], seed=0))[0].texts
    return f"{nano.BASE} answers ({len(texts)} continuations), SHA-256 {engine.base.sha256[:12]}"


def _detection() -> str:
    detector = registry.create("detector", DETECTOR)
    if not any(span.label == "EMAIL_ADDRESS" for span in detector.detect(["a@example.org"])[0]):
        raise RuntimeError("an e-mail address was not found")
    return f"{detector.describe()}; {MODEL_GAIN}"


def _protection() -> str:
    protections = sandbox.attempt("fedaudit.system.sandbox.protections", None, seconds=5.0)
    lacking = [name for name in ("no writing", "no programs", "no TCP") if name not in protections]
    note = "" if not lacking else f"; this kernel's Landlock does not cover {', '.join(lacking)}"
    return f"opened first in a process with {', '.join(protections)}{note}"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return f"{free:.0f} GiB free here"
