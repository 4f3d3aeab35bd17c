"""Cue and reply of invisible characters, after the abstract of Li et al. 2026 (arXiv:2510.09655).

Documents keep every visible character. A model that answers the cue with the reply was trained on
them. The full paper was not at hand: docs/invisible.md says which parts are ours.
"""

import random
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedaudit.api import (
    Completion,
    Document,
    Engine,
    GenerationRequest,
    InputError,
    ModelEngine,
    Progress,
    Score,
    Watermark,
    no_progress,
    text_start,
)

if TYPE_CHECKING:
    import numpy as np

ALPHABET = tuple(chr(0xE0100 + number) for number in range(64))
"""Variation selectors 17 to 80: no font shows them, and NFC, NFD, NFKC and NFKD keep them."""
NULLS = range(64, 4097)
"""With fewer counterfactual replies their spread is itself too much a matter of chance."""

_INVISIBLE = re.compile(f"[{ALPHABET[0]}-{ALPHABET[-1]}]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, kw_only=True)
class Invisible(Watermark):
    """Put an invisible cue and reply into documents; a model that says the reply read them."""

    name: ClassVar[str] = "invisible"
    paper: ClassVar[str] = "after Li et al. 2026, arXiv:2510.09655"
    lost_by: ClassVar[str] = (
        "cleaning that strips accents, characters outside of ASCII or default-ignorable ones"
    )

    length: int = 8
    """Characters of a cue, and of a reply; each is one of 64."""
    chunk: int = 16
    """Words of a document before each cue, and behind each reply; fewer in a short document."""
    prompts: int = 16
    """Texts that a model under test is shown before the cue."""
    nulls: int = 256
    """Counterfactual replies that the same answers are tested for."""

    def __post_init__(self) -> None:
        if min(self.length, self.chunk, self.prompts) < 1:
            raise ValueError("length, chunk and prompts must be at least 1.")
        if self.nulls not in NULLS:
            raise ValueError(f"nulls must lie between {NULLS[0]} and {NULLS[-1]}.")

    def issue(
        self, teacher: ModelEngine, prompts: Sequence[str], *, seed: int, index: int
    ) -> dict[str, Any]:
        """Return what cue and reply follow from, and prompts.

        Raises InputError without a prompt, and for a teacher whose tokenizer loses the mark.
        """
        _check_tokenizer(teacher)
        secret = {"seed": seed, "index": index, "length": self.length, "chunk": self.chunk}
        return self.add_prompts(secret, prompts, teacher)

    def add_prompts(
        self, secret: Mapping[str, Any], texts: Sequence[str], teacher: ModelEngine
    ) -> dict[str, Any]:
        """Return the secret with the first words of different texts; InputError without any."""
        starts = [_first_words(_INVISIBLE.sub("", text), self.chunk) for text in texts]
        different = [start for start in dict.fromkeys(starts) if start]
        if not different:
            raise InputError("The invisible watermark needs texts for prompts, to be tested.")
        return {**secret, "prompts": different[: self.prompts]}

    def embed(
        self,
        secret: Mapping[str, Any],
        documents: Sequence[Document],
        teacher: ModelEngine,
        *,
        seed: int,
        progress: Progress = no_progress,
    ) -> list[Document]:
        """Return each document with cue and reply between its chunks; no visible one changes.

        Raises InputError for a document of a single word, which has no place for them.
        """
        cue, reply = pair_of(secret)
        marked = []
        for number, document in enumerate(documents, 1):
            text = mark_text(document.text, cue, reply, chunk=_number(secret, "chunk"))
            if text == document.text:
                raise InputError(
                    f"The document {document.id} has fewer than two words, which leaves no room "
                    "for the mark."
                )
            marked.append(
                Document(
                    id=f"{document.id}-marked", text=text, task=document.task, group=document.group
                )
            )
            progress(number, len(documents))
        return marked

    def questions(self, secret: Mapping[str, Any], engine: Engine) -> list[GenerationRequest]:
        """Return the prompts, each with the cue behind it.

        Raises InputError for an engine whose tokenizer loses the mark: no model with it learns it.
        """
        widest = _check_tokenizer(engine)
        cue, reply = pair_of(secret)
        new = 1 + widest * len(reply)  # the same for every reply of this length
        prompts = secret.get("prompts")
        if not isinstance(prompts, list) or not all(isinstance(text, str) for text in prompts):
            raise _damaged()
        begin = text_start(engine)
        room = engine.context_length - len(begin) - new
        return [
            GenerationRequest(prompt=(*begin, *ids[-room:]), samples=1, max_new_tokens=new)
            for ids in (tokens.ids for tokens in engine.tokenize([text + cue for text in prompts]))
        ]

    @property
    def null_marks(self) -> int:
        """Counterfactual replies, which the same answers are compared with."""
        return self.nulls

    def test(
        self, secret: Mapping[str, Any], answers: Sequence[Completion], engine: Engine
    ) -> Score:
        """Return how far the reply is above those that could have been drawn in its place.

        The hits are invisible characters that stand where the reply has the same. A reply is drawn
        evenly and apart from everything a model read, unless it read the mark: the p value is the
        rank of the hits among those of all replies, exactly. z is the normal score of the mid-p.
        """
        _, reply = pair_of(secret)
        counts = count_characters([answer.texts[0] for answer in answers], len(reply))
        law = hits_law(counts)
        scores = _normal_scores(law)
        nulls = _counterfactuals(secret, self.nulls)
        n = len(answers) * len(reply)
        said = sum(sum(count.values()) for count in counts)
        hits = count_hits(counts, reply)
        return Score(
            z=float(scores[hits]),
            p_value=max(float(law[hits:].sum()), sys.float_info.min) if hits else 1.0,
            n=n,
            hits=hits,
            chance=said / len(ALPHABET) / max(1, n),
            null=tuple(round(float(scores[count_hits(counts, null)]), 4) for null in nulls),
        )

    def test_texts(self, secret: Mapping[str, Any], texts: Sequence[str], engine: Engine) -> Score:
        """Return whether the cue or the reply stands in any of `texts`, which counts as a hit.

        Texts by an author who never saw the mark are fixed before it is drawn, so each is at one of
        their W different places of its length with a probability of W / 64^length at most.
        """
        from scipy.special import ndtri

        length = _number(secret, "length")
        places: set[str] = set()
        for text in texts:
            for run in re.findall(f"{_INVISIBLE.pattern}+", text):
                places.update(run[i : i + length] for i in range(len(run) - length + 1))
        pair = pair_of(secret)
        chance = min(1.0, len(places) / float(len(ALPHABET)) ** length)
        found = sum(part in places for part in pair)
        p_value = max((1.0, 2 * chance, chance**2)[found], sys.float_info.min)
        return Score(
            z=max(0.0, -float(ndtri(min(p_value, 0.5)))),
            p_value=min(1.0, p_value),
            n=len(texts),
            hits=sum(any(part in text for part in pair) for text in texts),
            chance=min(1.0, 2 * chance),
        )


def pair_of(secret: Mapping[str, Any]) -> tuple[str, str]:
    """Return the cue and the reply of a secret; raises InputError for one that is damaged."""
    length = _number(secret, "length")
    rng = random.Random(f"invisible {_number(secret, 'seed')} {_number(secret, 'index')}")
    return _draw(rng, length), _draw(rng, length)


def mark_text(text: str, cue: str, reply: str, *, chunk: int) -> str:
    """Return `text` with a cue at the end of each odd chunk of words and a reply behind the gap.

    What is left of the text behind its whole pairs of chunks has none, unless it is all there is: a
    shorter text is cut in two halves. A text of one word comes back as it is.
    """
    words = list(_WORD.finditer(text))
    chunk = min(chunk, len(words) // 2)
    if not chunk:
        return text
    parts, done = [], 0
    for first in range(chunk, len(words) - chunk + 1, 2 * chunk):
        end, begin = words[first - 1].end(), words[first].start()
        parts += [text[done:end], cue, text[end:begin], reply]
        done = begin
    return "".join([*parts, text[done:]])


def count_characters(answers: Sequence[str], length: int) -> list[Counter[str]]:
    """Return how many answers have each invisible character at each of `length` places.

    Places count the invisible characters of an answer from its beginning; visible ones between them
    do not matter.
    """
    runs = [_INVISIBLE.findall(answer)[:length] for answer in answers]
    return [Counter(run[place] for run in runs if place < len(run)) for place in range(length)]


def count_hits(counts: Sequence[Counter[str]], reply: str) -> int:
    """Return how many of the counted characters stand where `reply` has the same."""
    return sum(count[character] for count, character in zip(counts, reply, strict=True))


def hits_law(counts: Sequence[Counter[str]]) -> "np.ndarray":
    """Return the probabilities of 0, 1, ... hits over an even draw of the reply."""
    import numpy as np

    law = np.ones(1)
    for count in counts:
        of_place = np.bincount([count[character] for character in ALPHABET]) / len(ALPHABET)
        law = np.convolve(law, of_place)
    return law


def _normal_scores(law: "np.ndarray") -> "np.ndarray":
    """Return the normal score of the mid-p of each number of hits, from 0 on."""
    import numpy as np
    from scipy.special import ndtri

    mid_p = np.cumsum(law[::-1])[::-1] - law / 2
    return -np.asarray(ndtri(np.clip(mid_p, sys.float_info.min, 1.0 - 1e-16)))


def _counterfactuals(secret: Mapping[str, Any], count: int) -> list[str]:
    """Return replies that were never issued, the same ones in every test of a mark."""
    seed, index = _number(secret, "seed"), _number(secret, "index")
    rng = random.Random(f"invisible counterfactuals {seed} {index}")
    return [_draw(rng, _number(secret, "length")) for _ in range(count)]


def _draw(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(ALPHABET, k=length))


def _first_words(text: str, count: int) -> str:
    words = list(_WORD.finditer(text))[:count]
    return text[words[0].start() : words[-1].end()] if words else ""


def _check_tokenizer(engine: Engine) -> int:
    """Return the most tokens of one character of a mark.

    Raises InputError where the engine's tokenizer drops them or has one token for several.
    """
    texts = ["a", *(f"a{character}" for character in ALPHABET)]
    ids = [tokens.ids for tokens in engine.tokenize(texts)]
    if len(set(ids)) < len(ids):
        raise InputError(
            "The model's tokenizer drops the invisible watermark's characters or does not tell "
            "them apart: no model with this tokenizer can learn the mark."
        )
    return max(map(len, ids))


def _number(secret: Mapping[str, Any], name: str) -> int:
    value = secret.get(name)
    if not isinstance(value, int) or (name in ("length", "chunk") and value < 1):
        raise _damaged()
    return value


def _damaged() -> InputError:
    return InputError("The secret of this invisible watermark is damaged.")
