"""Where a run took place: versions, device, and the commit of the code when there is one."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedaudit.api.errors import TargetError

PACKAGES = (
    "fedaudit",
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "numpy",
    "scipy",
    "presidio-analyzer",
)


def describe(device: str) -> dict[str, Any]:
    """Return the `environment` section of the report."""
    commit = git_commit()
    return {
        "versions": dict(_versions()),
        "device": device_name(device),
        "git": commit and dict(commit),
    }


# What runs is what was imported: later reports of a process have the same versions and commit.
@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def device_name(device: str) -> str:
    """Return the device in words: a GPU by its name, a CPU with its threads."""
    import torch

    from fedaudit.engine.device import device_for

    try:
        torch_device = device_for(device)
    except TargetError:  # the device is on the Ray cluster, which has answered
        return f"{device}: on another machine"
    if torch_device.type == "cuda":
        return f"{torch_device}: {torch.cuda.get_device_name(torch_device)}"
    return f"{torch_device}: {platform.machine()}, {torch.get_num_threads()} threads"


def machine_facts(device: str) -> str:
    """Return what can still change the answers of a model in one dtype: the device and torch."""
    import torch

    return f"{device_name(device)}, torch {torch.__version__}"


@cache
def git_commit() -> dict[str, Any] | None:
    """Return the commit that fedaudit runs from, None for an installed wheel."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    head, changes = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain")
    return {"commit": head, "dirty": bool(changes)} if head and changes is not None else None


def _git(root: Path, *words: str) -> str | None:
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
