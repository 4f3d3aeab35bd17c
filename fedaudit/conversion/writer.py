"""The adapters of a foreign federation, copied or converted into rounds of one of ours."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.importer import ForeignAdapter, ForeignFederation
from fedaudit.conversion import configuration
from fedaudit.conversion.configuration import GivenConfig
from fedaudit.conversion.source import SourceFolder, is_dump
from fedaudit.federation import adapter_options, adapters
from fedaudit.system.files import atomic, atomic_text, open_regular


@dataclass(frozen=True, slots=True)
class Move:
    """An adapter of the source, and its new folder below the federation's."""

    adapter: ForeignAdapter
    folder: str


@dataclass(slots=True)
class Writer:
    """Writes the adapters of one run, and nothing else, into `out`."""

    run: SourceFolder
    out: Path
    base: str
    given_config: GivenConfig | Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def write(self, federation: ForeignFederation) -> None:
        """Write every adapter; raises InputError for one that cannot be audited."""
        every = list(moves(federation))
        for move in every:
            atomic_text(
                self.out / move.folder / adapters.CONFIG,
                json.dumps(self._config(move.adapter), indent=2, sort_keys=True) + "\n",
            )
        for move in every:
            if not is_dump(move.adapter.weights):
                self._copy(move.adapter.weights, self.out / move.folder / adapters.WEIGHTS)
            for name, source in saved_tokenizer(self.run, move).items():
                self._copy(source, self.out / move.folder / name)
        self._convert([move for move in every if is_dump(move.adapter.weights)])
        for move in every:
            weights = move.adapter.weights
            named = not (is_dump(weights) and self.run.look(weights).ordered)
            check_written(self.out / move.folder, self.run.path / weights, named=named)

    def _config(self, adapter: ForeignAdapter) -> dict[str, Any]:
        """Return the checked configuration of an adapter."""
        if adapter.config:
            path = self.run.file_path(adapter.config)
            config = configuration.read(path, f"There is no {path}.")
        else:
            path = self.run.file_path(adapter.weights)
            dump = self.run.look(adapter.weights)
            config = dict(configuration.complete(self.given_config, dump, path, self.base))
        if config.get("peft_type") != "LORA":
            raise InputError(f"{path} is an adapter of type {config.get('peft_type')!r}; fedaudit "
                             "audits LoRA.")  # fmt: skip
        adapter_options.check(config, path)
        return config

    def _copy(self, name: str, path: Path) -> None:
        with (
            atomic(path) as temporary,
            temporary.open("wb") as to,
            open_regular(self.run.file_path(name)) as file,
        ):
            shutil.copyfileobj(file, to)

    def _convert(self, dumps: list[Move]) -> None:
        """Convert all pickled files and archives of arrays, in one process with limits."""
        if not dumps:
            return
        from fedaudit.engine.loading.dumps import Conversion, convert

        omitted_counts = convert(
            [
                Conversion(
                    self.run.file_path(move.adapter.weights),
                    self.out / move.folder / adapters.WEIGHTS,
                    self._shapes(move),
                )
                for move in dumps
            ]
        )
        if any(omitted_counts):
            self.notes.append(
                f"Up to {max(omitted_counts):,} tensors of a file are left out, which are not LoRA "
                "weights: if training changed them too, the audit is of another model."
            )

    def _shapes(self, move: Move) -> dict[str, tuple[int, ...]] | None:
        """Return names and shapes for arrays without names, in order; None if they have names."""
        if not self.run.look(move.adapter.weights).ordered:
            return None
        from fedaudit.engine.loading.loader import adapter_shapes

        return adapter_shapes(self.base, self.out / move.folder)


def moves(federation: ForeignFederation) -> Iterator[Move]:
    """Yield each adapter with its new folder: a round's global one, then its clients'."""
    for round_ in federation.rounds:
        folder = f"rounds/{round_.round:03d}"
        yield Move(round_.adapter, f"{folder}/global")
        for client, adapter in sorted(round_.clients.items()):
            yield Move(adapter, f"{folder}/clients/{client}")


def saved_tokenizer(run: SourceFolder, move: Move) -> dict[str, str]:
    """Return the tokenizer files that a trainer saved beside a global adapter, by their names.

    They lie beside its configuration or its weights.
    """
    if not move.folder.endswith("/global"):
        return {}
    folders = {n.rpartition("/")[0] for n in (move.adapter.config, move.adapter.weights) if n}
    starts = [f"{folder}/" if folder else "" for folder in sorted(folders)]
    places = {
        name.removeprefix(start): name
        for start in starts
        for name in run.files
        if name.startswith(start)
    }
    return {
        name: place
        for name, place in places.items()
        if name in adapters.TOKENIZER or adapters.is_chat_template(name)
    }


def check_written(folder: Path, source: Path, *, named: bool = True) -> None:
    """Raise InputError, naming the source, for an adapter that no audit could load.

    Pass `named` as false for arrays that came without names: these have already been compared with
    the base, including their ranks.
    """
    from fedaudit.engine.loading import loader, ranks

    try:
        said = adapters.check(folder)
        tensors, config = adapters.read_weights(folder), loader.configuration(folder, said)
        mismatch = next(ranks.rank_mismatches(config, tensors), None) if named else None
    except InputError as error:
        message = str(error).replace(str(folder / adapters.WEIGHTS), str(source))
        raise InputError(message.replace(str(folder), str(source))) from None
    if mismatch:
        raise InputError(
            f"{source} has the rank {mismatch.rank}, and its configuration says "
            f"{mismatch.configured} of {mismatch.module}: it is of another training, or adapters "
            "of several clients were stacked in it."
        )
