"""Asking a model the questions of a plan piece by piece, remembering the answers of one audit."""

import json
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b

from fedaudit.audit.plan import Plan, Question, chunks
from fedaudit.interfaces import Case, Progress
from fedaudit.records import Decoding, Probe, Target

PIECE = 100_000
"""Answers that are held at once."""
ROOM = 2**29
"""Bytes of answers that are remembered for other attacks of the same audit."""
OVERHEAD = 250
"""Bytes that an entry takes besides its text, about."""

Answer = tuple[int, Question, Sequence[str]]
"""How many prefixes come before a question, the question, and the texts that answer it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How every question of an attack is asked."""

    samples: int
    new_tokens: int
    decoding: Decoding


class Memory:
    """Answers that several attacks of one audit share, up to a number of bytes.

    Sample i of a prompt depends on the seed, the prompt and i alone, so who wants fewer samples
    gets the first ones. When it is full the earliest answers stay: attacks ask what matters most
    first.
    """

    def __init__(self, room: int = 0) -> None:
        self.room = room
        self.spared: Counter[Target] = Counter()
        """Answers that were not asked for again, by who would have been asked."""
        self._kept: dict[tuple[Hashable, bytes], bytes] = {}

    def recall(self, where: Hashable, prompt: Sequence[int], samples: int) -> list[str] | None:
        """Return the first `samples` answers to a prompt, None when there are not as many."""
        kept = self._kept.get((where, _digest(prompt))) if self._kept else None
        texts: list[str] = json.loads(kept.decode("utf-8", "surrogatepass")) if kept else []
        return texts[:samples] if len(texts) >= samples else None

    def keep(self, where: Hashable, prompt: Sequence[int], texts: Sequence[str]) -> None:
        """Remember the answers to a prompt where there is room, in place of fewer ones."""
        if self.room <= 0:
            return
        value = json.dumps(texts, ensure_ascii=False).encode("utf-8", "surrogatepass")
        key = (where, _digest(prompt))
        old = self._kept.get(key)
        room = self.room + (len(old) + OVERHEAD if old else 0) - len(value) - OVERHEAD
        if room >= 0:
            self._kept[key], self.room = value, room


@dataclass(frozen=True, kw_only=True)
class Sharing(Case):
    """A case whose attacks remember each other's answers."""

    memory: Memory = field(default_factory=Memory)


def sharing(case: Case, memory: Memory) -> Sharing:
    """Return `case` with a memory that other cases of the same engine may have too."""
    same = {one.name: getattr(case, one.name) for one in fields(Case)}
    return Sharing(**same, memory=memory)


def answers(case: Case, target: Target, plan: Plan, manner: Manner) -> Iterator[Answer]:
    """Yield the answers to every question of a plan in its order; few are held at once."""
    memory = case.memory if isinstance(case, Sharing) else Memory()
    told, total = case.progress(f"asking {target.name}"), plan.size * manner.samples
    for piece in chunks(plan, max(1, PIECE // manner.samples)):
        done = piece[0][0] * manner.samples
        texts = _piece(case, target, piece, manner, memory, _from(told, done, total))
        for (start, question), some in zip(piece, texts, strict=True):
            yield start, question, some
    told(total, total)


def _piece(
    case: Case,
    target: Target,
    piece: Sequence[tuple[int, Question]],
    manner: Manner,
    memory: Memory,
    progress: Progress,
) -> Sequence[Sequence[str]]:
    """Return the answers to some questions: remembered ones, and the others from the engine."""
    where = (target.adapter, target.heading, case.seed, manner.decoding, manner.new_tokens)
    wanted = [manner.samples * question.copies for _, question in piece]
    found: list[Sequence[str] | None] = [
        memory.recall(where, question.prompt, samples)
        for (_, question), samples in zip(piece, wanted, strict=True)
    ]
    missing = [index for index, texts in enumerate(found) if texts is None]
    memory.spared[target] += sum(wanted) - sum(wanted[index] for index in missing)
    probes = [
        Probe(
            prompt=piece[index][1].prompt,
            samples=wanted[index],
            max_new_tokens=manner.new_tokens,
        )
        for index in missing
    ]
    generated = (
        case.engine.generate(
            target, probes, seed=case.seed, decoding=manner.decoding, progress=progress
        )
        if probes
        else []
    )
    for index, probe, generation in zip(missing, probes, generated, strict=True):
        memory.keep(where, probe.prompt, generation.texts)
        found[index] = generation.texts
    return [texts for texts in found if texts is not None]


def _from(told: Progress, before: int, total: int) -> Progress:
    def progress(done: int, _: int) -> None:
        told(min(before + done, total), total)

    return progress


def _digest(prompt: Sequence[int]) -> bytes:
    return blake2b(array("q", prompt).tobytes(), digest_size=16).digest()
