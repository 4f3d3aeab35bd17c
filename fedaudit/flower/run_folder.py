"""The federation's folder of a run that is going on, one round at a time.

It is whole at every moment: a round is named in federation.json only when its files are on disk,
and a run that was stopped is taken up again after its last round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation
from fedaudit.federation.manifest import BaseModel, Manifest, ManifestClient, Round, Template
from fedaudit.flower.arrays import Shapes, adapter_tensors, known_shapes
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    import torch

ROUNDS, INITIAL = "rounds", "rounds/000/global"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """What is known of a run before its first round."""

    base: BaseModel
    lora: Mapping[str, Any]
    aggregation: Mapping[str, Any]
    template: Template
    recorded: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class ClientUpdate:
    """What a client sent in a round, as far as it is kept."""

    name: str
    arrays: Mapping[str, Any]
    examples: int = 0
    weight: float = 1.0
    loss: float | None = None


@dataclass(slots=True)
class RecordedRun:
    """Writes the rounds of one run; raises InputError for what would make no federation."""

    path: Path
    facts: RunMetadata
    started: Manifest | None = None
    """What the folder says already, once there is a round."""
    shapes: Shapes | None = None
    """The shape of each tensor, in PEFT's order where the base is on this machine."""
    _weights: dict[str, float] = field(default_factory=dict)

    def open(self) -> None:
        """Look at what is there: nothing, or this run, unfinished."""
        if not (self.path / manifest.NAME).exists():
            self._check_empty()
            return
        found = open_federation(self.path).manifest
        if other := self._difference(found):
            raise InputError(
                f"{self.path} holds another run (it differs in {other}); name another folder, or "
                "remove it."
            )
        if found.status == "complete":
            raise InputError(f"{self.path} holds a run that is complete: name another folder.")
        self.started = found
        self._weights = {one.id: one.weight for one in found.clients}

    @property
    def last(self) -> int:
        """The last round that is recorded; -1 before the initial adapter."""
        return len(self.started.rounds) - 1 if self.started else -1

    def begin(self, arrays: Mapping[str, Any]) -> None:
        """Write the initial adapter, or compare it with the one that the run was begun with."""
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
        self, number: int, found: list[ClientUpdate]
    ) -> "list[tuple[ClientUpdate, dict[str, torch.Tensor]]]":
        """Return the clients' adapters, checked, before anybody changes them."""
        names = [one.name for one in found]
        for name in names:
            check_name(name, self.path, "the client")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"Round {number}: two clients call themselves {twice[0]!r}.")
        whose = f"Round {number}, the adapter of {{}}"
        return [(one, self._tensors(one.arrays, whose.format(one.name))) for one in found]

    def add(
        self,
        number: int,
        replies: "list[tuple[ClientUpdate, dict[str, torch.Tensor]]]",
        aggregated: Mapping[str, Any] | None,
        notes: list[str],
        privacy: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a finished round; one that gave no aggregate keeps the adapter that it had."""
        assert self.started is not None
        here = f"{ROUNDS}/{number:03d}"
        if aggregated is None:
            replies = []
            notes = [*notes, f"Round {number} gave no aggregate: the adapter stayed as it was."]
        after = (
            self.global_arrays()
            if aggregated is None
            else self._tensors(aggregated, f"The aggregate of round {number}")
        )
        self._write(after, f"{here}/global")
        for one, tensors in replies:
            self._write(tensors, f"{here}/clients/{one.name}")
        finished = Round(
            round=number,
            adapter=f"{here}/global",
            participants=tuple(one.name for one, _ in replies),
            clients={one.name: f"{here}/clients/{one.name}" for one, _ in replies},
            loss={
                one.name: round(one.loss, 6)
                for one, _ in replies
                if one.loss is not None and isfinite(one.loss)
            },
        )
        told = dict(self.started.recorded or {})
        told["notes"] = list(dict.fromkeys([*told["notes"], *notes]))
        told["privacy"] = privacy
        self._save(
            replace(
                self.started,
                clients=self._clients([one for one, _ in replies]),
                rounds=(*self.started.rounds, finished),
                recorded=told,
            ),
            here,
        )

    def finish(self) -> None:
        """Say in the manifest that the last round is over."""
        assert self.started is not None
        self.started = replace(self.started, status="complete")
        manifest.write(self.started, self.path)

    def note(self, text: str) -> None:
        """Keep something that each report is to say among its limits."""
        if self.started is not None:
            told = dict(self.started.recorded or {})
            told["notes"] = list(dict.fromkeys([*told["notes"], text]))
            self.started = replace(self.started, recorded=told)

    def _clients(self, replies: list[ClientUpdate]) -> tuple[ManifestClient, ...]:
        """Return all clients so far: each with what it said last, weights with a sum of 1."""
        assert self.started is not None
        examples = {one.id: one.examples for one in self.started.clients}
        for reply in replies:
            examples[reply.name] = reply.examples
            self._weights[reply.name] = reply.weight
        counted = all(examples.values())
        raw = {n: float(examples[n]) if counted else self._weights[n] for n in examples}
        total = sum(raw.values()) or 1.0
        return tuple(
            ManifestClient(id=name, examples=examples[name], weight=raw[name] / total)
            for name in sorted(examples, key=_order)
        )

    def _tensors(self, arrays: Mapping[str, Any], whose: str) -> "dict[str, torch.Tensor]":
        return adapter_tensors(arrays, self.shapes, self.facts.lora, whose)

    def _write_config(self, folder: str) -> None:
        import json

        from fedaudit.federation import adapter_options
        from fedaudit.system.files import atomic_text

        adapter_options.check(self.facts.lora, self.path / folder / adapters.CONFIG)
        text = json.dumps(self.facts.lora, indent=2, sort_keys=True)
        atomic_text(self.path / folder / adapters.CONFIG, text + "\n")

    def _write(self, tensors: "Mapping[str, torch.Tensor]", folder: str) -> None:
        """Write an adapter and read it again: what no command could read is no part of a run."""
        adapters.write(tensors, self.facts.lora, self.path / folder)
        adapters.read(self.path / folder)

    def _save(self, found: Manifest, below: str) -> None:
        from fedaudit.simulation.initialization import file_hashes

        files = {**found.files, **file_hashes(self.path, below)}
        found = replace(found, files=files)
        manifest.write(found, self.path)
        self.started = found

    def _check_empty(self) -> None:
        if self.path.is_dir():
            there = sorted(one.name for one in self.path.iterdir() if not one.name.startswith("."))
            if set(there) - {ROUNDS}:
                raise InputError(
                    f"{self.path} is not empty and holds no federation; name another folder."
                )
        elif self.path.exists():
            raise InputError(f"{self.path} is a file; a federation is recorded into a folder.")

    def _difference(self, found: Manifest) -> str:
        """Return in what a recorded run differs from this one; empty: in nothing."""
        if found.recorded is None:
            return "who made it: it was not recorded from Flower"
        pairs = {
            "the base": (found.base, self.facts.base),
            "the strategy": (found.recorded.get("strategy"), self.facts.recorded["strategy"]),
            "the aggregation": (dict(found.aggregation), dict(self.facts.aggregation)),
            "the template": (found.template, self.facts.template),
            "the LoRA configuration": (
                dict(adapters.check(self.path / found.rounds[0].adapter)),
                dict(self.facts.lora),
            ),
        }
        return next((what for what, (one, other) in pairs.items() if one != other), "")


def same(one: "Mapping[str, torch.Tensor]", other: "Mapping[str, torch.Tensor]") -> bool:
    """Tell whether two adapters are equal in every number."""
    import torch

    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def _order(name: str) -> tuple[str, int, str]:
    """Order c2 before c10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name
