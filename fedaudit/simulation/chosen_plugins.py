"""A plugin in settings: its name, or a table with the name and its options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.system.files import existing_path, lines_sha256


def with_content(chosen: Any) -> Any:
    """Return a plugin's table with the name of each file of records replaced by its content."""
    if not isinstance(chosen, Mapping):
        return chosen
    return {
        key: lines_sha256(existing_path(Path(value), "file"))
        if isinstance(value, str) and (value.endswith(".jsonl") or Path(value).is_file())
        else value
        for key, value in chosen.items()
    }


def name_and_options(
    chosen: str | Mapping[str, Any], default: str, setting: str = ""
) -> tuple[str, dict[str, Any]]:
    """Return the plugin name and options given by a name or by a table that has a name.

    Raises UsageError, which names the `setting`, for options of no plugin.
    """
    if isinstance(chosen, str):
        return chosen, {}
    options = dict(chosen)
    name = str(options.pop("name", default))
    if options and not name:
        where = f": set {setting}.name" if setting else " beside them"
        raise UsageError(f"The options {', '.join(options)} need a plugin's name{where}.")
    return name, options
