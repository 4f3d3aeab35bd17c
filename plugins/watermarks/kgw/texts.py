"""What the teacher is asked to write, what it makes of a document, and what detectors ask."""

import hashlib
from collections.abc import Iterator, Sequence

from fedaudit.api import Document, InputError, ModelEngine, Tokens, text_start

from .writing import WritingJob

REPHRASE = (
    "Rephrase the following text in other words. Keep its meaning, its facts and about its "
    "length. Answer with the rephrased text only.\n\n"
)


def rewrite(
    document: Document, teacher: ModelEngine, *, key: int, shortest: int, longest: int
) -> tuple[WritingJob, tuple[int, ...]]:
    """Ask a teacher with a chat template to rephrase; the marked text begins with nothing.

    Only as much of a document is shown as fits in half of the context.
    """
    [tokens] = teacher.tokenize([document.text])
    frame = len(_rephrase_prompt(teacher, ""))
    room = max(1, (teacher.context_length - frame) // 2)
    text = document.text
    if len(tokens.ids) > room:
        text = text[: tokens.offsets[room - 1][1]]
    prompt = _rephrase_prompt(teacher, text)
    new = min(longest, teacher.context_length - len(prompt))
    if new < 1:
        raise InputError(f"The document {document.id} does not fit the teacher's context.")
    return WritingJob(prompt, min(shortest, len(tokens.ids), new), new, key), ()


def _rephrase_prompt(teacher: ModelEngine, text: str) -> tuple[int, ...]:
    tokenizer = teacher.base.tokenizer
    # Some templates write today's date, or let the model think aloud, unless they are asked not to.
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": REPHRASE + text}],
        tokenize=False,
        add_generation_prompt=True,
        date_string="26 Jul 2024",
        enable_thinking=False,
    )
    return tuple(tokenizer(rendered, add_special_tokens=False)["input_ids"])


def continue_text(
    document: Document, teacher: ModelEngine, *, key: int, prefix_length: int, length: int
) -> tuple[WritingJob, tuple[int, ...]]:
    """Let a teacher go on from a document's first tokens, which the marked text begins with.

    `prefix_length` tokens are kept, or half of a short document; `length` is of the whole marked
    text, that of the document where 0. Raises InputError where there is nothing to continue.
    """
    [tokens] = teacher.tokenize([document.text])
    prefix = tokens.ids[: min(prefix_length, len(tokens.ids) // 2)] or tokens.ids[:1]
    prompt = (*text_start(teacher), *prefix)
    if not prompt:
        raise InputError(f"The document {document.id} is empty, and so is its watermarked one.")
    room = teacher.context_length - len(prompt)
    new = max(1, min(room, (length or len(tokens.ids)) - len(prefix)))
    if room < 1:
        raise InputError(f"The document {document.id} does not fit the teacher's context.")
    return WritingJob(prompt, new, new, key), prefix


def text_of(teacher: ModelEngine, tokens: Sequence[int]) -> str:
    """Return tokens as text, without half a character at the end."""
    decoded: str = teacher.base.tokenizer.decode(list(tokens), skip_special_tokens=True)
    return decoded.rstrip("\ufffd")


def key_of(seed: int, document: Document) -> int:
    """Return the 64-bit key of what is drawn for a document."""
    text = f"{seed}:{document.id}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def text_beginnings(
    texts: Sequence[str], tokens: Sequence[Tokens], *, count: int, length: int, longest: int
) -> list[str]:
    """Return up to `count` different prefixes of texts, to be continued by a model under test.

    First the first `length` tokens of each; then, where there are too few texts, 2, 3, ... times
    as many; then all other lengths from half of that on, up to `longest`. A text shorter than
    `length` is taken whole. There are fewer if the texts have no more.
    """
    prefixes: dict[str, None] = {}
    for cut in _cuts(length, min(longest, max((len(t.ids) for t in tokens), default=0))):
        for text, ids in zip(texts, tokens, strict=True):
            prefix = text if cut == length and len(ids.ids) <= cut else _cut(text, ids, cut)
            if prefix.strip() and len(prefixes) < count:
                prefixes[prefix] = None
        if len(prefixes) == count:
            break
    return list(prefixes)


def _cuts(length: int, longest: int) -> Iterator[int]:
    yield length
    yield from range(2 * length, longest, length)
    yield from (n for n in range(max(1, length // 2), longest) if n % length)


def _cut(text: str, tokens: Tokens, cut: int) -> str:
    """Return the first `cut` tokens of a longer text, and nothing of a shorter one."""
    return text[: tokens.offsets[cut - 1][1]] if cut < len(tokens.ids) else ""
