"""Conversations as TRL (`messages`) and ShareGPT (`conversations`) write them, and their text."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
    "ai": "assistant", "bot": "assistant", "chatbot": "assistant", "agent": "assistant",
    "tool_call": "assistant", "tool_calls": "assistant", "prompter": "user", "ipython": "user",
    "environment": "user", "tool_response": "user", "tool_result": "user", "tool_output": "user",
    "function_response": "user", "function_result": "user",
}  # fmt: skip
"""The speaker of a turn, by its name in the formats; what a tool answers is the user's, as it is
given to the model."""

CALLS = ("tool_calls", "function_call")
"""The keys of a turn that calls tools, whose content may be missing."""

ROLES, CONTENTS = ("role", "from"), ("content", "value")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a model is given and what it answers, each of any number of turns."""

    system: list[TextPiece] = field(default_factory=list)
    user: list[TextPiece] = field(default_factory=list)
    assistant: list[TextPiece] = field(default_factory=list)

    def goes_on(self, speaker: Speaker) -> bool:
        """Tell whether a speaker's turn belongs to what is here, in the order of the template."""
        if speaker == "system":
            return not (self.user or self.assistant)
        return speaker == "assistant" or not self.assistant

    def add(self, speaker: Speaker, pieces: Sequence[TextPiece]) -> None:
        """Add what a turn says, on a line of its own."""
        existing: list[TextPiece] = getattr(self, speaker)
        existing += [TextPiece("\n"), *pieces] if existing else pieces

    def prompt_pieces(self) -> tuple[list[TextPiece], list[TextPiece]]:
        """Return instruction and input: the system's and the user's turns, or the turns of one."""
        if join_pieces(self.system) and join_pieces(self.user):
            return self.system, self.user
        return [*self.system, *self.user], []

    def pieces(self, template: PromptTemplate) -> list[TextPiece]:
        """Return the exchange as a record of instruction, input and output is rendered."""
        instruction, context = self.prompt_pieces()
        prompt = template.fill(instruction, context) if instruction else []
        return [*prompt, *self.assistant]


@dataclass(frozen=True, slots=True)
class Conversation:
    """All turns of a record, those of one speaker in a row together."""

    exchanges: Sequence[Exchange]
    speakers: Sequence[Place]
    """Where the record names who speaks, and of what type a part of a turn is."""
    unread: Sequence[str]
    """The names of other keys of turns, which are not read."""

    @property
    def has_answer(self) -> bool:
        """Tell whether the assistant says anything, be it an empty text."""
        return any(exchange.assistant for exchange in self.exchanges)

    def pieces(self, template: PromptTemplate) -> list[TextPiece]:
        """Return all exchanges, in order, on lines of their own."""
        result: list[TextPiece] = []
        for exchange in self.exchanges:
            result += [*([TextPiece("\n")] if result else []), *exchange.pieces(template)]
        return result


def conversation(lists: Mapping[str, Any], where: str) -> Conversation:
    """Return the turns of the lists, in order; `lists` is by field name.

    Raises InputError for what is not a list of turns with a known speaker and text.
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
            pieces, parts = _turn_texts(turn.get(content), (name, number, content), where)
            calls = {
                key: _call_texts(turn[key], (name, number, key)) for key in CALLS if turn.get(key)
            }
            if any(calls.values()):
                pieces = [piece for piece in pieces if piece.text]
                pieces += [piece for texts in calls.values() for piece in texts]
            if not exchanges or not exchanges[-1].goes_on(speaker):
                exchanges.append(Exchange())
            exchanges[-1].add(speaker, pieces)
            speakers.append((name, number, role))
            speakers += [(*p.place[:-1], "type") for p in pieces if p.place[-1:] == ("text",)]
            unread += [f"{name}.{key}" for key in turn if key not in (role, content, *CALLS)]
            unread += [*parts, *(f"{name}.{key}" for key, texts in calls.items() if not texts)]
    return Conversation(exchanges, speakers, list(dict.fromkeys(unread)))


def _keys(turn: Any, where: str) -> tuple[str, str]:
    """Return what a turn calls its speaker and its text, whatever the case of its letters."""
    lower = {key.strip().casefold(): key for key in turn} if isinstance(turn, dict) else {}
    role = next((lower[name] for name in ROLES if name in lower), None)
    content = next((lower[name] for name in CONTENTS if name in lower), None)
    if role is not None and content is None and any(turn.get(name) for name in CALLS):
        return role, "content"
    if role is None or content is None:
        raise InputError(f"{where} needs 'role' and 'content', or 'from' and 'value'.")
    return role, content


def _speaker(name: Any, where: str) -> Speaker:
    speaker = SPEAKERS.get(name.strip().casefold()) if isinstance(name, str) else None
    if speaker is None:
        raise InputError(f"{where} has an unknown speaker; known are {', '.join(SPEAKERS)}.")
    return speaker


def _turn_texts(content: Any, key_path: Place, where: str) -> tuple[list[TextPiece], list[str]]:
    """Return the text of a turn, a string or the texts of its parts, and the parts without any.

    Parts that some tools write have all keys of all parts, null where they do not belong.
    """
    name = f"{key_path[0]}.{key_path[-1]}"
    if not isinstance(content, list):
        return [TextPiece(text_of(content, name, where), key_path)], []
    pieces: list[TextPiece] = []
    unread: list[str] = []
    for number, part in enumerate(content):
        if isinstance(part, str):
            pieces.append(TextPiece(text_of(part, name, where), (*key_path, number)))
            continue
        if not isinstance(part, dict):
            raise InputError(f"{where}: {name!r} must be text.")
        if isinstance(part.get("text"), str):
            text = text_of(part["text"], name, where)
            pieces.append(TextPiece(text, (*key_path, number, "text")))
        elif part.get("text") is not None:
            raise InputError(f"{where}: {name!r} must be text.")
        given = (key for key in part if part[key] is not None and key not in ("type", "text"))
        unread += [f"{name}.{key}" for key in given]
        if not pieces and list(part) == ["type"]:
            unread.append(f"{name}.type")  # {"type": "image"}: the image is in another column
    return _on_lines(pieces), unread


def _on_lines(parts: Sequence[TextPiece]) -> list[TextPiece]:
    """Return the parts of a turn with a line's end between two whose words would be joined."""
    pieces = list(parts[:1])
    for before, part in pairwise(parts):
        apart = before.text[-1:].isspace() or part.text[:1].isspace()
        pieces += [part] if apart or not part.text else [TextPiece("\n"), part]
    return pieces


def _call_texts(calls: Any, key_path: Place) -> list[TextPiece]:
    """Return the arguments of calls of tools, which models are trained on as well."""
    listed = isinstance(calls, list)
    pieces: list[TextPiece] = []
    for number, call in enumerate(calls if listed else [calls]):
        place = (*key_path, number) if listed else key_path
        given = call
        if isinstance(given, Mapping) and isinstance(given.get("function"), Mapping):
            given, place = given["function"], (*place, "function")
        arguments = given.get("arguments") if isinstance(given, Mapping) else None
        place = (*place, "arguments")
        if isinstance(arguments, str):
            texts = [TextPiece(arguments, place)]
        else:
            texts = list(_json_pieces(arguments, place)) if isinstance(arguments, Mapping) else []
        if not any(SURROGATE.search(piece.text) for piece in texts):
            pieces += texts
    return pieces


def _json_pieces(value: Any, place: Place) -> Iterator[TextPiece]:
    """Yield a value as a server writes it in JSON, but for what it escapes in strings."""
    if isinstance(value, str):
        yield from (TextPiece('"'), TextPiece(value, place), TextPiece('"'))
    elif isinstance(value, Mapping | list):
        named = isinstance(value, Mapping)
        yield TextPiece("{" if named else "[")
        for number, key in enumerate(value if named else range(len(value))):
            name = f"{json.dumps(key, ensure_ascii=False)}: " if named else ""
            yield TextPiece(", " * (number > 0) + name)
            yield from _json_pieces(value[key], (*place, key))
        yield TextPiece("}" if named else "]")
    else:
        yield TextPiece(json.dumps(value))


def text_of(value: Any, name: str, where: str) -> str:
    """Return a field's text, empty when it is absent or null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: {name!r} must be a string.")
    if SURROGATE.search(value):
        raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is not text.")
    return value
