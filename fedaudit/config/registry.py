"""The installed plugins: found through entry points, the built-in ones too."""

import dataclasses
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggy

from fedaudit.api import hooks
from fedaudit.api.errors import PluginError, unknown_name_error
from fedaudit.api.plugin import Plugin
from fedaudit.config.option_text import option_docs, toml_value
from fedaudit.config.options import build_settings
from fedaudit.system.failures import ARITY, error_text

GROUP = "fedaudit"
KINDS = {
    "attack": "fedaudit_attacks",
    "aggregation": "fedaudit_aggregators",
    "defense": "fedaudit_defenses",
    "detector": "fedaudit_detectors",
    "watermark": "fedaudit_watermarks",
    "secure aggregation": "fedaudit_secure_aggregations",
    "attribution": "fedaudit_attributors",
    "paraphraser": "fedaudit_paraphrasers",
    "importer": "fedaudit_importers",
}


_loading: list[tuple[str, str]] = []
"""The plugin that is being loaded: its entry point's name, and its package."""
_HOOK = re.compile(r"unknown hook '(\w+)'")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
"""Names of plugins, which options and tables have as keys."""


@cache
def manager() -> pluggy.PluginManager:
    """Return the plugin manager with every entry point loaded.

    Raises PluginError naming the plugin that does not load or shares its name. The environment
    variable FEDAUDIT_DISABLE_PLUGINS (names, comma-separated) leaves plugins out.
    """
    pm = pluggy.PluginManager(GROUP)
    pm.add_hookspecs(hooks)
    for name in os.environ.get("FEDAUDIT_DISABLE_PLUGINS", "").split(","):
        pm.set_blocked(name.strip())
    entries = list(entry_points(group=GROUP))
    # pluggy would silently drop the second of two equal names, a built-in for instance.
    if clash := [name for name, count in Counter(e.name for e in entries).items() if count > 1]:
        owners = ", ".join(sorted({e.dist.name for e in entries if e.name == clash[0] and e.dist}))
        raise PluginError(f"Two plugins share the entry-point name {clash[0]!r}: {owners}.")
    _loading.clear()
    for entry in entries:
        _loading.append((entry.name, entry.dist.name if entry.dist else "an unknown package"))
        try:
            pm.load_setuptools_entrypoints(GROUP, name=entry.name)
            pm.check_pending()
        except (Exception, SystemExit, GeneratorExit) as error:
            _loading.clear()
            owner, why = (
                entry.dist.name if entry.dist else "an unknown package",
                _load_problem(error),
            )
            raise PluginError(f"Plugin {entry.name!r} of {owner} does not load: {why}") from error
        # Of a KeyboardInterrupt it stays: where signals are known it is asked whose that was.
        _loading.clear()
    return pm


@cache
def plugins(kind: str) -> dict[str, type[Plugin]]:
    """Return the installed plugin classes of a kind by name, sorted."""
    offered: dict[str, type[Plugin]] = {}
    for implementation in getattr(manager().hook, KINDS[kind]).get_hookimpls():
        try:
            classes = [_check_plugin(cls) for cls in implementation.function()]
        except (Exception, SystemExit, GeneratorExit) as error:
            name = f"{implementation.plugin_name!r} of {_shipped(implementation.plugin)}"
            raise PluginError(f"Plugin {name} does not load: {_load_problem(error)}") from error
        for cls in classes:
            if cls.name in offered:
                owners = f"{distribution(offered[cls.name])} and {distribution(cls)}"
                raise PluginError(
                    f"Two plugins offer the {kind} {cls.name!r}: {owners}; remove one of them."
                )
            offered[cls.name] = cls
    return dict(sorted(offered.items()))


def _load_problem(error: BaseException) -> str:
    if isinstance(error, pluggy.PluginValidationError) and (name := _HOOK.search(str(error))):
        return str(unknown_name_error("hook", name[1], KINDS.values()))
    if isinstance(error, GeneratorExit):
        return "it raises GeneratorExit"
    return "it calls sys.exit" if isinstance(error, SystemExit) else error_text(error)


def _check_plugin(cls: type[Plugin]) -> type[Plugin]:
    is_dataclass = isinstance(cls, type) and dataclasses.is_dataclass(cls)
    if not is_dataclass or not getattr(cls, "name", ""):
        raise TypeError(f"{cls!r} is not a plugin, which is a dataclass with a name.")
    if not isinstance(cls.name, str) or not _NAME.fullmatch(cls.name):
        raise TypeError(f"{cls.__name__} has a name that is not letters, digits, _ and -.")
    if not issubclass(cls, Plugin) or not isinstance(cls.paper, str):
        raise TypeError(
            f"{cls.__name__} is not a Plugin of fedaudit.api, or its paper is not text."
        )
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise TypeError(f"{cls.__name__} does not define {', '.join(missing)}.")
    return cls


def create(kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Return the plugin `name` of `kind` with `options` as its fields."""
    offered = plugins(kind)
    if name not in offered:
        raise unknown_name_error(kind, name, offered)
    return build_settings(offered[name], options or {}, f"{kind} {name}")


def distribution(cls: type[Plugin]) -> str:
    """Return the name and version of the package that ships `cls`."""
    for plugin, dist in manager().list_plugin_distinfo():
        module = getattr(plugin, "__name__", "")
        if cls.__module__ == module or cls.__module__.startswith(f"{module}."):
            return f"{dist.project_name} {dist.version}"
    return cls.__module__.partition(".")[0]


def plugin_behind(error: BaseException) -> tuple[str, str] | None:
    """Return the plugin that raised an error, in its own code or in code that it called.

    That is its entry point's name, and the package that ships it; None for other errors.
    """
    causes: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in causes:
        causes.append(following)
        following = following.__cause__  # Python's own, where a generator raised StopIteration
    found = (plugin_in(map(str, _places(one))) for one in causes)
    return next(filter(None, found), None) or _misdeclared(error)


def plugin_in(files: Iterable[str]) -> tuple[str, str] | None:
    """Return the plugin that the innermost, the last, of these files of code belongs to.

    That is its entry point's name, and the package that ships it; None without one.
    """
    if _loading:
        return _loading[-1]
    if not manager.cache_info().currsize:  # none was loaded, so none was called
        return None
    for file in reversed([*files]):
        for name, plugin in manager().list_name_plugin():
            if _holds(Path(getattr(plugin, "__file__", None) or "-"), Path(file)):
                return name, _shipped(plugin)
    return None


def _misdeclared(error: BaseException) -> tuple[str, str] | None:
    """Return the plugin with a function whose signature a call does not fit.

    Such an error comes from the caller's line; its message names the function.
    """
    found = ARITY.match(error_text(error)) if isinstance(error, TypeError) else None
    if not found or not manager.cache_info().currsize:
        return None
    outer, *inner = found[1].split(".")
    for name, plugin in manager().list_name_plugin():
        root = Path(getattr(plugin, "__file__", None) or "-")
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and _holds(root, Path(file)):
                part = vars(module).get(outer)
                for attribute in inner:
                    part = getattr(part, attribute, None)
                if part is not None:
                    return name, _shipped(plugin)
    return None


def _shipped(plugin: object) -> str:
    for known, dist in manager().list_plugin_distinfo():
        if known is plugin:
            return f"{dist.project_name} {dist.version}"
    return "an unknown package"


def _places(error: BaseException) -> list[Path]:
    """Return the files in an error's traceback, and a worker process's, the innermost last."""
    local_files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    worker_files = re.findall(
        r'File "(.+?)", line', error_text(error.__cause__) if error.__cause__ else ""
    )
    return [*local_files, *map(Path, worker_files)]


def _holds(module: Path, file: Path) -> bool:
    """Tell whether a file is a module's, or lies in its package."""
    return module.parent in file.parents if module.name == "__init__.py" else module == file


def summary(cls: type[Plugin]) -> str:
    """Return the first line of a plugin's docstring."""
    return (cls.__doc__ or "").strip().partition("\n")[0]


def describe(kind: str, cls: type[Plugin]) -> list[str]:
    """Return lines on a plugin: what it does, its paper, package, and options.

    Each option has its default, as `--set` takes it, and below it what it means.
    """
    lines = [f"{kind} {cls.name}: {summary(cls)}", f"paper: {cls.paper or 'none'}"]
    lines.append(f"package: {distribution(cls)}")
    docs = option_docs(cls)
    for option in dataclasses.fields(cls):  # type: ignore[arg-type]
        lines.append(f"  {option.name} = {_default(option)}")
        if option.name in docs:
            lines.append(f"      {docs[option.name]}")
    return lines


def _default(option: "dataclasses.Field[Any]") -> str:
    if option.default_factory is not dataclasses.MISSING:
        return toml_value(option.default_factory())
    return "required" if option.default is dataclasses.MISSING else toml_value(option.default)
