"""Conversations as TRL (`messages`) and ShareGPT (`conversations`) write them, and their text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fedaudit.api.errors import InputError
from fedaudit.api.records import Place, TextPiece, join_pieces
from fedaudit.api.templates import PromptTemplate

SURROGATE = re.compile("[\ud800-\udfff]")

Speaker = Literal["system", "user", "assistant"]

SPEAKERS: Mapping[str, Speaker] = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user", "tool": "user", "function": "user", "observation": "user",
    "assistant": "assistant", "gpt": "assistant", "model": "assistant", "chatgpt": "assistant",
    "bing": "assistant", "bard": "assistant", "function_call": "assistant",
}  # fmt: skip
"""Who says a turn, by what the formats call its speaker; what tools answer is given, like a
question."""

ROLES, CONTENTS = ("role", "from"), ("content", "value")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is given to a model, and what it answers; each of one turn or more, or of none."""

    system: list[TextPiece] = field(default_factory=list)
    user: list[TextPiece] = field(default_factory=list)
    assistant: list[TextPiece] = field(default_factory=list)

    def goes_on(self, speaker: Speaker) -> bool:
        """Tell whether a speaker's turn belongs to what is here, in the order of the template."""
        if speaker == "system":
            return not (self.user or self.assistant)
        return speaker == "assistant" or not self.assistant

    def add(self, speaker: Speaker, said: Sequence[TextPiece]) -> None:
        """Add what a turn says, on a line of its own."""
        part: list[TextPiece] = getattr(self, speaker)
        part += [TextPiece("\n"), *said] if part else said

    def given(self) -> tuple[list[TextPiece], list[TextPiece]]:
        """Return instruction and input: the system's turns and the user's, or what there is."""
        if join_pieces(self.system) and join_pieces(self.user):
            return self.system, self.user
        return [*self.system, *self.user], []

    def pieces(self, template: PromptTemplate) -> list[TextPiece]:
        """Return the exchange as a record of instruction, input and output is rendered."""
        instruction, given = self.given()
        prompt = template.fill(instruction, given) if instruction else []
        return [*prompt, *self.assistant]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of a record, those of one speaker in a row together."""

    exchanges: Sequence[Exchange]
    speakers: Sequence[Place]
    """Where the record names who speaks, and of what type a part of a turn is."""
    unread: Sequence[str]
    """The names of what else there is beside the turns' texts."""

    @property
    def has_answer(self) -> bool:
        """Tell whether the assistant says anything, be it an empty text."""
        return any(one.assistant for one in self.exchanges)

    def pieces(self, template: PromptTemplate) -> list[TextPiece]:
        """Return all exchanges, in order, on lines of their own."""
        result: list[TextPiece] = []
        for one in self.exchanges:
            result += [*([TextPiece("\n")] if result else []), *one.pieces(template)]
        return result


def conversation(lists: Mapping[str, Any], where: str) -> Conversation:
    """Return the turns of the lists, in order; they are by the name of their field.

    Raises InputError for what is no list of turns with a known speaker and text.
    """
    exchanges: list[Exchange] = []
    speakers: list[Place] = []
    unread: list[str] = []
    for name, turns in lists.items():
        if not isinstance(turns, list) or not turns:
            raise InputError(f"{where}: {name!r} must be a list of turns.")
        for number, turn in enumerate(turns):
            role, content = _keys(turn, f"{where}: turn {number + 1} of {name!r}")
            speaker = _speaker(turn[role], f"{where}: turn {number + 1} of {name!r}")
            said = list(_said(turn[content], (name, number, content), where))
            if not exchanges or not exchanges[-1].goes_on(speaker):
                exchanges.append(Exchange())
            exchanges[-1].add(speaker, said)
            speakers.append((name, number, role))
            speakers += [(*piece.place[:-1], "type") for piece in said if len(piece.place) > 3]
            unread += [f"{name}.{key}" for key in turn if key not in (role, content)]
    return Conversation(exchanges, speakers, list(dict.fromkeys(unread)))


def _keys(turn: Any, where: str) -> tuple[str, str]:
    """Return what a turn calls its speaker and its text, whatever the case of its letters."""
    lower = {key.strip().casefold(): key for key in turn} if isinstance(turn, dict) else {}
    role = next((lower[name] for name in ROLES if name in lower), None)
    content = next((lower[name] for name in CONTENTS if name in lower), None)
    if role is None or content is None:
        raise InputError(f"{where} needs 'role' and 'content', or 'from' and 'value'.")
    return role, content


def _speaker(name: Any, where: str) -> Speaker:
    known = SPEAKERS.get(name.strip().casefold()) if isinstance(name, str) else None
    if known is None:
        raise InputError(f"{where} is of {name!r}; known are {', '.join(SPEAKERS)}.")
    return known


def _said(content: Any, place: Place, where: str) -> Iterator[TextPiece]:
    """Yield the text of a turn: a string, or the texts in a list of its parts."""
    name = f"{place[0]}.{place[-1]}"
    if not isinstance(content, list):
        yield TextPiece(text_of(content, name, where), place)
        return
    for number, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            raise InputError(f"{where}: {name!r} must be text.")
        yield TextPiece(text_of(part["text"], name, where), (*place, number, "text"))


def text_of(value: Any, name: str, where: str) -> str:
    """Return a field's text, empty when it is absent or null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: {name!r} must be a string.")
    if SURROGATE.search(value):
        raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is no text.")
    return value
