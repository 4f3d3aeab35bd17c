"""What was measured so far, in a file: whole or absent, and of one device and one program."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.system.files import atomic_text, read_regular

NAME = "gpu.json"
FORMAT = "fedaudit gpu benchmark 1"


class Results:
    """The steps that are done, by name; each is written as it ends."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Take up what `folder` holds; raises InputError for what is not of this kind.

        `about` says what is measured: results of another device, version or size do not mix.
        """
        self._path = folder / NAME
        self.about = dict(about)
        self.steps: dict[str, Any] = {}
        if self._path.exists():
            self.steps = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(read_regular(self._path).decode("utf-8"))
        except (OSError, ValueError, RecursionError):
            raise InputError(
                f"{self._path} is torn or no JSON: move it away, or name another --out."
            ) from None
        known = isinstance(found, dict) and found.get("format") == FORMAT
        if not known or not _sound(found.get("steps")):
            raise InputError(f"{self._path} is no file of this benchmark: name another --out.")
        if found.get("about") != self.about:
            before = found.get("about") if isinstance(found.get("about"), dict) else {}
            other = [key for key in self.about if before.get(key) != self.about[key]]
            raise InputError(
                f"{self._path} holds results of another {' and '.join(other) or 'kind'}: "
                "name another --out."
            )
        steps: dict[str, Any] = found["steps"]
        return steps

    def done(self, name: str) -> bool:
        """Say whether a step need not run again: it ended, or cannot run here."""
        return name in self.steps and "failed" not in self.steps[name]

    def keep(self, name: str, found: Mapping[str, Any]) -> None:
        """Write a step's results; one with a number that is none counts as failed."""
        self.steps[name] = dict(found)
        if not _finite(self.steps[name]):
            self.steps[name] = {"failed": "a number is infinite or none"}
        whole = {"format": FORMAT, "about": self.about, "steps": self.steps}
        atomic_text(self._path, json.dumps(whole, indent=1, allow_nan=False) + "\n")


def _sound(steps: Any) -> bool:
    return isinstance(steps, dict) and all(isinstance(one, dict) for one in steps.values())


def _finite(found: Any) -> bool:
    if isinstance(found, dict):
        return all(map(_finite, found.values()))
    if isinstance(found, list):
        return all(map(_finite, found))
    return not isinstance(found, float) or math.isfinite(found)
