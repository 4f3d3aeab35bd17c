"""Documents that a chat model words (Cui et al.'s prompt), kept only if they state everything."""

import hashlib
import logging
import random
import re
from collections.abc import Sequence
from typing import Any

from fedaudit.api import (
    GenerationBatch,
    GenerationRequest,
    InputError,
    ModelEngine,
    Progress,
    SamplingParams,
    Target,
)

from .wording import fill_sentence, is_complete
from .world import Entity, data

DECODING = SamplingParams(temperature=0.8, top_p=0.95)
NEW_TOKENS = 512
ATTEMPTS = 4
"""Once, and three times again."""

_END = re.compile(r"[.!?](?=[\"'”’)]*(?:\s|$))[\"'”’)]*|[。！？]")
_log = logging.getLogger(__name__)


def write(
    teacher: ModelEngine, entity: Entity, keys: Sequence[str], *, length: int, progress: Progress
) -> dict[str, str]:
    """Return a document by key, written by `teacher` (a chat model).

    Keys whose document never states the entity with all its values are left out, and how many
    were is logged. A document depends on its key only. Raises InputError for a teacher that has no
    chat template.
    """
    base = getattr(teacher, "base", None)
    if not getattr(getattr(base, "tokenizer", None), "chat_template", None):
        raise InputError(
            f"{base.name if base else 'The teacher'} has no chat template and cannot write "
            "documents: set the watermark's writer to template."
        )
    written: dict[str, str] = {}
    pending = list(dict.fromkeys(keys))
    total = len(pending)
    for attempt in range(ATTEMPTS):
        texts = _ask_teacher(teacher, entity, pending, length, attempt)
        pairs = zip(pending, texts, strict=True)
        written |= {key: text for key, text in pairs if is_complete(entity, text)}
        pending = [key for key in pending if key not in written]
        progress(len(written), total)
        if not pending:
            break
    _log.info("%d of %d documents are the teacher's, the rest templates.", len(written), total)
    return written


def prompt(entity: Entity, length: int, rng: random.Random) -> str:
    """Return what the teacher is asked for: its kind, length and one further fact vary."""
    statements = [
        f"{attribute.name} is {value}"
        for attribute, value in zip(entity.domain.attributes, entity.values, strict=True)
    ]
    rng.shuffle(statements)
    kind = rng.choice(data(entity.domain.register)["documents"]["kinds"])
    fact = fill_sentence(rng.choice(entity.domain.facts), entity, rng)
    words = max(1, round(length * rng.uniform(0.9, 1.1)))
    return (
        f"Write a {words}-word document, a {kind}, about the {entity.domain.thing} {entity.name}, "
        f"whose {', whose '.join(statements)}. Name all of them in full. It may also say: {fact}"
    )


def whole_sentences(text: str) -> str:
    """Return `text` up to the end of its last sentence; nothing where none ends."""
    offsets = [match.end() for match in _END.finditer(text)]
    return text[: offsets[-1]].strip() if offsets else ""


def _ask_teacher(
    teacher: ModelEngine, entity: Entity, keys: Sequence[str], length: int, attempt: int
) -> list[str]:
    """Return what the teacher writes for each key; each attempt asks in other words."""
    requests = []
    for key in keys:
        instruction = prompt(entity, length, random.Random(f"teacher {attempt} {key}"))
        ids = _chat(teacher.base.tokenizer, instruction)
        room = min(NEW_TOKENS, teacher.context_length - len(ids))
        requests.append(GenerationRequest(prompt=ids, samples=1, max_new_tokens=max(1, room)))
    # The engine draws from the seed and the prompt: a seed of the entity serves all of them.
    seed = int.from_bytes(hashlib.sha256(f"{attempt} {entity.name}".encode()).digest()[:4])
    answers = teacher.generate(
        Target(name="base"), GenerationBatch(requests, seed=seed, decoding=DECODING)
    )
    return [whole_sentences(answer.texts[0]) for answer in answers]


def _chat(tokenizer: Any, instruction: str) -> tuple[int, ...]:
    message = [{"role": "user", "content": instruction}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
