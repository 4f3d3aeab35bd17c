"""Writes the federation folder of a Flower run, one round at a time.

It is valid at every moment: federation.json names a round only when its files are on disk, and an
interrupted run resumes after its last round.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.engine.loading.received_adapter import Shapes, adapter_tensors, known_shapes
from fedaudit.federation import adapter_options, adapters, manifest
from fedaudit.federation.folder import client_order, open_federation
from fedaudit.federation.manifest import BaseModel, Manifest, ManifestClient, Round, Template
from fedaudit.flower.mods import sent_tensors
from fedaudit.system.files import atomic_text
from fedaudit.system.names import check_name
from fedaudit.system.staging import remove_stale_stages

if TYPE_CHECKING:
    import torch

ROUNDS, INITIAL = "rounds", "rounds/000/global"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """What is known about a run before its first round."""

    base: BaseModel
    lora: Mapping[str, Any]
    aggregation: Mapping[str, Any]
    template: Template
    recorded: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class ClientUpdate:
    """What is kept of a client's update in a round."""

    name: str
    arrays: Mapping[str, Any]
    examples: int = 0
    weight: float = 1.0
    loss: float | None = None


@dataclass(slots=True)
class RecordedRun:
    """Writes the rounds of one run; raises InputError for data that make no valid federation."""

    path: Path
    facts: RunMetadata
    started: Manifest | None = None
    """The manifest already in the folder, once there is a round."""
    shapes: Shapes | None = None
    """The shape of each tensor, in PEFT's order where the base is on this machine."""
    _weights: dict[str, float] = field(default_factory=dict)

    def open(self) -> None:
        """Check that the folder is empty or holds this run, unfinished."""
        if not (self.path / manifest.NAME).exists():
            self._check_empty()
            return
        existing = open_federation(self.path).manifest
        if aspect := self._difference(existing):
            raise InputError(
                f"{self.path} holds another run (it differs in {aspect}); name another folder, or "
                "remove it."
            )
        if existing.status == "complete":
            raise InputError(f"{self.path} holds a run that is complete: name another folder.")
        remove_stale_stages(self.path, below=True)
        self.started = existing
        self._weights = {client.id: client.weight for client in existing.clients}

    @property
    def last(self) -> int:
        """The last round that is recorded; -1 before the initial adapter."""
        return len(self.started.rounds) - 1 if self.started else -1

    def begin(self, arrays: Mapping[str, Any]) -> None:
        """Write the initial adapter, or compare it with the one that the run began with."""
        if self.started is None:
            self._write_config(INITIAL)
            self.shapes = known_shapes(self.facts.base.name, self.path / INITIAL)
            tensors = self._tensors(arrays, "The initial adapter")
            self._write(tensors, INITIAL)
            self.shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            self._save(Manifest(
                base=self.facts.base, clients=(), rounds=(Round(round=0, adapter=INITIAL),),
                aggregation=self.facts.aggregation, template=self.facts.template, seeds={},
                recorded={**self.facts.recorded, "notes": list(self.facts.recorded["notes"])},
            ), INITIAL)  # fmt: skip
            return
        first = adapters.read(self.path / INITIAL)
        self.shapes = known_shapes(self.facts.base.name, self.path / INITIAL) or {
            name: tuple(tensor.shape) for name, tensor in first.items()
        }
        if not same(first, self._tensors(arrays, "The initial adapter")):
            raise InputError(
                f"{self.path} holds another run (it began with another adapter): seed the initial "
                "adapter to go on, or name another folder."
            )

    def global_arrays(self) -> "dict[str, torch.Tensor]":
        """Return the global adapter after the last round."""
        assert self.started is not None
        return adapters.read(self.path / self.started.rounds[-1].adapter)

    def check_start(self, number: int, arrays: Mapping[str, Any]) -> None:
        """Raise InputError unless a round follows the last one and begins where that ended."""
        if number != self.last + 1:
            raise InputError(
                f"{self.path}: round {number} follows round {self.last}; record every round."
            )
        if not same(self.global_arrays(), self._tensors(arrays, f"Round {number}")):
            raise InputError(
                f"Round {number} does not begin with what round {self.last} gave: something behind "
                "the recorder changes the global adapter. Give record() the outermost strategy."
            )

    def replies(
        self, number: int, updates: list[ClientUpdate]
    ) -> "list[tuple[ClientUpdate, dict[str, torch.Tensor]]]":
        """Return the clients' adapters, checked, before anybody changes them."""
        names = [update.name for update in updates]
        for name in names:
            check_name(name, self.path, "the client")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"Round {number}: two clients call themselves {twice[0]!r}.")
        label = f"Round {number}, the adapter of {{}}"
        return [
            (update, self._tensors(update.arrays, label.format(update.name))) for update in updates
        ]

    def add(
        self,
        number: int,
        replies: "list[tuple[ClientUpdate, dict[str, torch.Tensor]]]",
        aggregated: Mapping[str, Any] | None,
        notes: list[str],
        privacy: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a finished round; without an aggregate it keeps the previous adapter."""
        assert self.started is not None
        folder = f"{ROUNDS}/{number:03d}"
        if aggregated is None:
            replies = []
            notes = [*notes, f"Round {number} gave no aggregate: the adapter stayed as it was."]
        after = (
            self.global_arrays()
            if aggregated is None
            else self._tensors(aggregated, f"The aggregate of round {number}")
        )
        self._write(after, f"{folder}/global")
        for update, tensors in replies:
            self._write(tensors, f"{folder}/clients/{update.name}")
        finished = Round(
            round=number,
            adapter=f"{folder}/global",
            participants=tuple(update.name for update, _ in replies),
            clients={update.name: f"{folder}/clients/{update.name}" for update, _ in replies},
            loss={
                update.name: round(update.loss, 6)
                for update, _ in replies
                if update.loss is not None and isfinite(update.loss)
            },
        )
        self.note(*notes)
        metadata = {**(self.started.recorded or {}), "privacy": privacy}
        self._save(
            replace(
                self.started,
                clients=self._clients([update for update, _ in replies]),
                rounds=(*self.started.rounds, finished),
                recorded=metadata,
            ),
            folder,
        )

    def finish(self) -> None:
        """Mark the run as complete in the manifest."""
        assert self.started is not None
        self.started = replace(self.started, status="complete")
        manifest.write(self.started, self.path)

    def note(self, *texts: str) -> None:
        """Add notes that every report lists among its caveats."""
        if self.started is not None:
            metadata = dict(self.started.recorded or {})
            metadata["notes"] = list(dict.fromkeys([*metadata["notes"], *texts]))
            self.started = replace(self.started, recorded=metadata)

    def _clients(self, replies: list[ClientUpdate]) -> tuple[ManifestClient, ...]:
        """Return all clients so far, each with its latest numbers; weights sum to 1."""
        assert self.started is not None
        examples = {client.id: client.examples for client in self.started.clients}
        for reply in replies:
            examples[reply.name] = reply.examples
            self._weights[reply.name] = reply.weight
        counted = all(examples.values())
        raw = {n: float(examples[n]) if counted else self._weights[n] for n in examples}
        total = sum(raw.values()) or 1.0
        return tuple(
            ManifestClient(id=name, examples=examples[name], weight=raw[name] / total)
            for name in sorted(examples, key=client_order)
        )

    def _tensors(self, arrays: Mapping[str, Any], label: str) -> "dict[str, torch.Tensor]":
        return adapter_tensors(sent_tensors(arrays), self.shapes, self.facts.lora, label)

    def _write_config(self, folder: str) -> None:
        adapter_options.check(self.facts.lora, self.path / folder / adapters.CONFIG)
        text = json.dumps(self.facts.lora, indent=2, sort_keys=True)
        atomic_text(self.path / folder / adapters.CONFIG, text + "\n")

    def _write(self, tensors: "Mapping[str, torch.Tensor]", folder: str) -> None:
        """Write an adapter and read it back: an unreadable one must not become part of a run."""
        adapters.write(tensors, self.facts.lora, self.path / folder)
        adapters.read(self.path / folder)

    def _save(self, new_manifest: Manifest, below: str) -> None:
        from fedaudit.simulation.initialization import file_hashes

        files = {**new_manifest.files, **file_hashes(self.path, below)}
        new_manifest = replace(new_manifest, files=files)
        manifest.write(new_manifest, self.path)
        self.started = new_manifest

    def _check_empty(self) -> None:
        if self.path.is_dir():
            names = sorted(p.name for p in self.path.iterdir() if not p.name.startswith("."))
            if set(names) - {ROUNDS}:
                raise InputError(
                    f"{self.path} is not empty and holds no federation; name another folder."
                )
        elif self.path.exists():
            raise InputError(f"{self.path} is a file; a federation is recorded into a folder.")

    def _difference(self, existing: Manifest) -> str:
        """Return the aspect in which a recorded run differs from this one; empty if in none."""
        if existing.recorded is None:
            return "who made it: it was not recorded from Flower"
        pairs = {
            "the base": (existing.base, self.facts.base),
            "the strategy": (existing.recorded.get("strategy"), self.facts.recorded["strategy"]),
            "the aggregation": (dict(existing.aggregation), dict(self.facts.aggregation)),
            "the template": (existing.template, self.facts.template),
            "the LoRA configuration": (
                dict(adapters.check(self.path / existing.rounds[0].adapter)),
                dict(self.facts.lora),
            ),
        }
        return next((name for name, (old, new) in pairs.items() if old != new), "")


def same(a: "Mapping[str, torch.Tensor]", b: "Mapping[str, torch.Tensor]") -> bool:
    """Tell whether two adapters are equal in every number."""
    import torch

    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)
