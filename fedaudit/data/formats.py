"""What frameworks call the fields of a record, and the text that each of their formats means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import PiiSpan, Place, TextPiece, join_pieces
from fedaudit.api.templates import PromptTemplate
from fedaudit.data import annotated_spans
from fedaudit.data.conversation import Conversation, conversation, text_of
from fedaudit.pii.field_names import shown_name

FIELDS = ("text", "prefix", "instruction", "input", "output", "task", "group")
"""The fields of text as fedaudit calls them."""

ALIASES: Mapping[str, str] = {
    **{name: name for name in ("id", "pii", *FIELDS)},
    "prompt": "instruction",  # TRL
    "question": "instruction",
    "context": "input",  # Dolly, Shepherd
    "response": "output",  # Dolly, Shepherd, OpenFedLLM, FlowerTune
    "completion": "output",  # TRL
    "chosen": "output",  # preference data of TRL
    "source_text": "text",  # AI4Privacy
    "answer": "output",
    "category": "task",  # Dolly, Shepherd
    "messages": "turns",  # TRL
    "conversations": "turns",  # ShareGPT
}
"""What a field is, by its name in small letters."""

TRL = (["prompt", "completion"], ["prompt", "chosen"])
"""Fields of prompt and answer between which TRL writes nothing."""

WHOLE = ("content", "document", "body", "note", "passage", "sentence")
"""What others call a text; such a field may be anything, so it is asked about, not read."""

NEEDED = (
    "a record needs 'text', 'instruction' and 'output' (or what other frameworks call them), "
    "'messages', 'conversations', or 'prefix'"
)


class EmptyRecordError(InputError):
    """A record without any text, which is left out of a file that has others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContent:
    """What a record says, whatever it calls its fields."""

    pieces: tuple[TextPiece, ...]
    """Together the text."""
    fields: Mapping[str, str]
    """Instruction, input, output, task and group; empty where there is none."""
    names: Mapping[str, str]
    """What the record calls its fields, by what fedaudit calls them."""
    is_prompt: bool
    fixed: frozenset[Place]
    """Strings that say how to read the record: ids, tasks, groups, who speaks."""
    unread: tuple[str, ...]
    """The names of fields that mean nothing here, or are beside a text that does not hold them."""

    @property
    def text(self) -> str:
        """The text that is trained on."""
        return join_pieces(self.pieces)

    def holds(self, span: PiiSpan) -> bool:
        """Tell whether a span has a character of the record's own, not only of the template."""
        offset = 0
        for piece in self.pieces:
            end = offset + len(piece.text)
            if piece.place and max(offset, span.start) < min(end, span.end):
                return True
            offset = end
        return False


def content(record: Mapping[str, Any], template: PromptTemplate, where: str) -> RecordContent:
    """Return what a record says; InputError where that is not clear or an answer is missing."""
    names, unread = _names(record, where)
    lists = _lists(record, names)
    fields = {
        role: text_of(record[names[role]], names[role], where)
        for role in FIELDS
        if role in names and names[role] not in lists
    }
    text_role = next((role for role in ("text", "prefix") if fields.get(role)), None)
    if fields.get("prefix") and (fields.get("text") or fields.get("instruction") or lists):
        raise InputError(f"{where}: 'prefix' is a whole prompt, without 'text' or 'instruction'.")
    talk = conversation(lists, where) if lists and not text_role else None
    if text_role:
        pieces = [TextPiece(fields[text_role], (names[text_role],))]
        unread += lists
    elif talk:
        pieces = _of_turns(talk, fields, names, template, where, next(iter(lists)))
    else:
        pieces = _of_fields(record, fields, names, template, where, unread)
    unread += _outside(join_pieces(pieces), fields, names)
    if talk and len(talk.exchanges) == 1:
        instruction, context = talk.exchanges[0].prompt_pieces()
        answer = join_pieces(talk.exchanges[0].assistant)
        fields |= {
            "instruction": join_pieces(instruction),
            "input": join_pieces(context),
            "output": answer,
        }
    elif talk:
        fields = {role: fields[role] for role in ("task", "group") if role in fields}
    fixed = [(names[role],) for role in ("id", "pii", "task", "group") if role in names]
    return RecordContent(
        pieces=tuple(pieces),
        fields={role: fields.get(role, "") for role in FIELDS[2:]},
        names=names,
        is_prompt=text_role == "prefix",
        fixed=frozenset([*fixed, *(talk.speakers if talk else ())]),
        unread=tuple(dict.fromkeys(map(shown_name, [*unread, *(talk.unread if talk else ())]))),
    )


def _outside(text: str, fields: Mapping[str, str], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of instruction, input and output of which the text, as given, lacks a word.

    A text that a framework rendered itself may have other white space than its fields.
    """
    for role in ("instruction", "input", "output"):
        value = fields.get(role, "")
        if value not in text and " ".join(value.split()) not in " ".join(text.split()):
            yield names[role]


def _names(record: Mapping[str, Any], where: str) -> tuple[dict[str, str], list[str]]:
    """Return the record's names of its fields, by their role, and the names of unread fields.

    Of two fields of one role one must be empty, or both equal.
    """
    names: dict[str, str] = {}
    unread: list[str] = []
    annotation = _annotation(record, where)
    has_text = any(_has_role(name, "text") and isinstance(record[name], str) for name in record)
    for name in sorted(record):
        role = "pii" if name == annotation else ALIASES.get(name.strip().casefold())
        value = record[name]
        if role is None or (has_text and role != name and _odd(role, value)):
            unread.append(name)
        elif value is None or (value == "" and role in names):
            continue
        elif role not in names or record[names[role]] == "":
            names[role] = name
        elif record[names[role]] != value:
            pair = f"{names[role]!r} and {name!r}"
            raise InputError(f"{where}: {pair} are both the {role}, and differ; keep one.")
        elif name == role:
            names[role] = name
    return names, unread


def _annotation(record: Mapping[str, Any], where: str) -> str | None:
    """Return the field with the annotation of a record that has no `pii`, whatever it is called.

    Raises:
        InputError: where there is annotation in a form that is not known, which would be lost.
    """
    if any(_has_role(name, "pii") and record[name] is not None for name in record):
        return None
    fields = {
        name: annotated_spans.parse(record[name])
        for name in sorted(record)
        if name.strip().casefold() in annotated_spans.OTHER_NAMES
        or annotated_spans.are_tags(record[name])
    }
    readable = [name for name, value in fields.items() if annotated_spans.is_annotation(value)]
    if len(readable) > 1:
        pair = " and ".join(repr(shown_name(name)) for name in readable[:2])
        raise InputError(f"{where}: {pair} both annotate; keep one.")
    for name, value in fields.items():
        if not readable and annotated_spans.would_be_lost(name, value):
            raise InputError(
                f"{where}: {shown_name(name)!r} is annotation without offsets, which would be "
                "lost; write it as 'pii', a list of spans with 'start', 'end' and 'label', or "
                "rename the field."
            )
    others = (name for name in sorted(record) if annotated_spans.names_people(record[name]))
    if not readable:
        readable = [name for name in others if not _has_role(name, "turns")][:1]
    empty = [name for name, value in fields.items() if value == [] and name not in ("label", "ner")]
    return next(iter([*readable, *empty]), None)


def _has_role(name: str, role: str) -> bool:
    return ALIASES.get(name.strip().casefold()) == role


def _odd(role: str, value: Any) -> bool:
    """Tell whether a value is not text although its field's name asks for text."""
    return role in FIELDS and not isinstance(value, str) and value is not None


def _lists(record: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the lists of turns of a record, by name: its own, or TRL's prompt and completion.

    Of preference data it is the prompt with the answer that was chosen, or that answer alone, which
    may hold the prompt.
    """
    if "turns" in names:
        return {names["turns"]: record[names["turns"]]}
    pair = [names[role] for role in ("instruction", "output") if role in names]
    if [name.strip().casefold() for name in pair] not in (*TRL, ["chosen"]):
        return {}
    values = {name: record[name] for name in pair}
    return values if all(isinstance(value, list) for value in values.values()) else {}


def _of_turns(
    talk: Conversation,
    fields: Mapping[str, str],
    names: Mapping[str, str],
    template: PromptTemplate,
    where: str,
    name: str,
) -> list[TextPiece]:
    """Return the text of a conversation; fields beside it must repeat one of its turns."""
    pieces = talk.pieces(template)
    texts = {piece.text for piece in pieces if piece.place}
    for role in ("instruction", "input", "output"):
        if fields.get(role) and fields[role] not in texts:
            raise InputError(
                f"{where}: {name!r} and {names[role]!r} are both what is trained on, and differ; "
                "keep one."
            )
    if not talk.has_answer:
        raise InputError(f"{where}: no one answers in {name!r}. {_explicit()}")
    return pieces


def _of_fields(
    record: Mapping[str, Any],
    fields: Mapping[str, str],
    names: Mapping[str, str],
    template: PromptTemplate,
    where: str,
    unread: Sequence[str],
) -> list[TextPiece]:
    """Return instruction, input and output as the template renders them, or as TRL joins them."""
    if names.get("output", "").strip().casefold() == "chosen" and "instruction" not in names:
        return [TextPiece(fields["output"], (names["output"],))]
    if not fields.get("instruction"):
        for name in record:
            if any(_has_role(name, role) for role in ("text", "prefix", "instruction")):
                raise EmptyRecordError(
                    f"{where}: {name!r} is empty; leave out what is not a record."
                )
        raise InputError(
            f"{where}: {NEEDED}; it has {_list_fields(record)}.{_suggest_name(unread)}"
        )
    if "output" not in names:
        raise InputError(
            f"{where}: {names['instruction']!r} without an answer; the record has "
            f"{_list_fields(record)}.{_suggest_name(unread)} {_explicit()}"
        )
    prompt, context, answer = (
        [TextPiece(fields[role], (names[role],))] if fields.get(role) else []
        for role in ("instruction", "input", "output")
    )
    keys = [names[role].strip().casefold() for role in ("instruction", "output")]
    if keys in TRL and not context:
        return [*prompt, *answer]
    return [*template.fill(prompt, context), *answer]


def _explicit() -> str:
    return 'Add "output": "" where it is to be empty, or write a prompt as {"prefix": "..."}.'


def _list_fields(record: Mapping[str, Any]) -> str:
    return ", ".join(dict.fromkeys(repr(shown_name(name)) for name in record)) or "no field"


def _suggest_name(unread: Sequence[str]) -> str:
    """Return the nearest known name of a field that is unknown, as a question."""
    near = (f" Is {name!r} meant as {alias!r}?" for name, alias in _nearest(unread))
    return next(near, "")


def _nearest(unread: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in unread:
        if name.strip().casefold() in WHOLE:
            yield name, "text"
        for alias in get_close_matches(name.strip().casefold(), ALIASES, n=1, cutoff=0.75):
            yield name, alias
