"""Recognition of a folder's layout by its contents."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from shutil import get_unpack_formats

from fedaudit.api.errors import InputError, UsageError, unknown_name_error
from fedaudit.api.importer import Importer
from fedaudit.config import registry
from fedaudit.conversion.source import SourceFolder
from fedaudit.federation import adapter_origin, adapters
from fedaudit.federation.folder import is_federation
from fedaudit.system.files import suggest_neighbour
from fedaudit.system.numbers import count_of

SHOWN_NAMES = 3


def open_source(path: Path) -> SourceFolder:
    """Return a folder to import; raises InputError for a file, or for a federation's folder."""
    if not path.exists():
        raise InputError(f"There is no folder {path}.{suggest_neighbour(path)}")
    if not path.is_dir():
        ends = tuple(end for _, names, _ in get_unpack_formats() for end in names)
        packed = path.name.lower().endswith(ends)
        instead = "unpack it and name the folder" if packed else "name the folder that it lies in"
        raise InputError(f"{path} is a file: {instead}.")
    if is_federation(path):
        raise InputError(f"{path} is a federation's folder already: --target {path} audits it.")
    return SourceFolder(path)


def recognize(source: SourceFolder, layout: str = "") -> tuple[Importer, SourceFolder]:
    """Return the importer that knows a folder's layout, and the folder of the run in it.

    With `layout`, only the importer of that name is tried. Raises InputError, with a description of
    the folder, if no importer knows it, if several do, or if it holds several runs.
    """
    matches = list(_matches(source, layout))
    if len(matches) > 1:
        choices = " and ".join(
            f"{importer.name} ({_list_names(places)})" for importer, places in matches
        )
        raise InputError(f"{source.path} may be {choices}: say which with --layout.")
    if not matches:
        raise _unknown_layout_error(source, layout)
    [(importer, places)] = matches
    if len(places) > 1:
        raise InputError(
            f"{source.path} holds {len(places)} runs of {importer.name} ({_list_names(places)}): "
            "name the folder of one."
        )
    return importer, source.below(places[0])


def origin_caveats(folder: Path, base: str) -> list[str]:
    """Return sentences on signs that the adapter in `folder` belongs to another base than `base`.

    Raises InputError where the layout that it is a round of says so, as FLoRA's does.
    """
    source = SourceFolder(folder)
    if any("/" in name and name.endswith((".bin", ".safetensors")) for name in source.files):
        around = SourceFolder(folder.resolve().parent)
        for importer, places in _matches(around, ""):
            if "" in places and not importer.generic:  # others know too little to say so
                importer.read(around)
    return adapter_origin.merged_base_caveats(folder, source.files, base)


def is_known(source: SourceFolder) -> bool:
    """Tell whether some importer knows a folder's layout, even if it holds several runs."""
    return bool(_matches(source, ""))


def why_unknown(source: SourceFolder, layout: str = "") -> str:
    """Return in words what is in a folder that no importer knows, and which layouts they know."""
    problem = f"not the layout {layout}" if layout else "no layout that fedaudit knows"
    hint = "" if layout else f" It knows {', '.join(registry.plugins('importer'))}."
    if adapters.CONFIG in source.files and not _is_adapter(source):
        hint += (
            " PEFT keeps an adapter in a folder of its own: put each file of weights into one, "
            f"round_1 and so on, as {adapters.WEIGHTS} beside a copy of {adapters.CONFIG}."
        )
    elif any(PurePosixPath(name).match("adapter_model-*-of-*") for name in source.files):
        hint += f" Adapters of PEFT in several files are not read: save each as {adapters.WEIGHTS}."
    elif count := sum(PurePosixPath(name).name == adapters.CONFIG for name in source.files):
        hint += (
            f" To import {count_of(count, 'adapter')} of PEFT, call their folders round_1, round_2 "
            "and so on."
        )
    return f"has {problem}: it holds {_describe_folder(source)}.{hint}"


def _matches(source: SourceFolder, layout: str) -> list[tuple[Importer, Sequence[str]]]:
    """Return the importers that know a folder; generic ones only if no other does."""
    offered = registry.plugins("importer")
    if layout and layout not in offered:
        raise unknown_name_error("layout", layout, offered)
    importers: list[Importer] = [
        registry.create("importer", n) for n in offered if layout in ("", n)
    ]
    for generic in (False, True):
        candidates = [importer for importer in importers if importer.generic is generic]
        if matches := [
            (importer, places) for importer in candidates if (places := importer.runs(source))
        ]:
            return matches
    return []


def _unknown_layout_error(source: SourceFolder, layout: str) -> InputError | UsageError:
    if _is_adapter(source):
        return UsageError(
            f"{source.path} is one adapter, no federation: audit it with --target BASE --adapter "
            f"{source.path}."
        )
    return InputError(f"{source.path} {why_unknown(source, layout)}")


def _is_adapter(source: SourceFolder) -> bool:
    """Tell whether a folder itself is one PEFT adapter, in safetensors or pickled."""
    weights = (adapters.WEIGHTS, *adapters.PICKLED)
    return adapters.CONFIG in source.files and any(name in source.files for name in weights)


def _describe_folder(source: SourceFolder) -> str:
    """Return in a few words what is in a folder."""
    folders = sorted({name.partition("/")[0] for name in source.files if "/" in name})
    kinds = Counter(PurePosixPath(name).suffix or "no suffix" for name in source.files)
    files = ", ".join(f"{n:,} x {kind}" for kind, n in kinds.most_common(SHOWN_NAMES))
    counts = [f"{count_of(len(source.files), 'file')} ({files})"] if source.files else ["no files"]
    if folders:
        counts.append(f"{count_of(len(folders), 'folder')} ({_list_names(folders)})")
    if source.links:
        counts.append(f"{count_of(len(source.links), 'link')}, not followed")
    return ", ".join(counts)


def _list_names(names: Sequence[str]) -> str:
    ellipsis = ", ..." if len(names) > SHOWN_NAMES else ""
    return ", ".join(name or "." for name in names[:SHOWN_NAMES]) + ellipsis
