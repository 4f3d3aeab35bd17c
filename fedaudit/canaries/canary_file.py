"""The auditor's file of canaries, which is secret, and the commitment to it."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import PromptTemplate
from fedaudit.canaries.kinds import SECRET
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.config.options import build
from fedaudit.federation.commitments import canonical, parse_time
from fedaudit.system.files import Read, atomic_text, check_version, read_json, read_regular
from fedaudit.system.names import check_name

SCHEMA_VERSION = "1.0"
OWNER = "owner/canaries.json"
"""Where a simulation keeps the file, below the federation's folder."""
SCHEME = "fedaudit canaries 1"
"""What is hashed with the canaries, so that no other text is ever taken for them."""
MAX_CANARIES, MAX_TEXT_CHARS, MAX_TIMES = 10_000, 10_000, 100_000
"""The maximum canaries in a file, characters in a text, and copies of one canary."""

REFERENCES = 2
"""The minimum number of secrets given to no one: one control, and one to compare it with."""

_SALT = re.compile(r"[0-9a-f]{64}")
_TEXTS = ("text", "secret", "client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A secret in its sentence; one without copies is a control, which no one is given."""

    text: str
    """The sentence, with `{secret}` in the place of the secret."""
    secret: str
    client: str = ""
    times: int = 0
    """How many copies the client gets."""

    @property
    def sentence(self) -> str:
        """The sentence with its secret."""
        return self.text.replace(SECRET, self.secret)

    @property
    def prefix(self) -> str:
        """What stands before the secret."""
        return self.text.partition(SECRET)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySet:
    """What a file of canaries holds: all secrets are of one space."""

    schema_version: str = SCHEMA_VERSION
    made: str
    salt: str
    kind: str
    language: str
    label: str
    space: SecretSpace
    instruction: str = ""
    """What every canary is the answer to, in records of instructions; empty for plain texts."""
    canaries: tuple[Canary, ...]

    def heading(self, form: PromptTemplate) -> str:
        """Return what stands before every sentence in the text that is trained on."""
        return form.prompt(self.instruction, "") if self.instruction else ""

    @property
    def planted(self) -> tuple[Canary, ...]:
        """The canaries that are given to a client."""
        return tuple(canary for canary in self.canaries if canary.times)

    def missing_from(self, texts: Sequence[str], client: str) -> int:
        """Return how many of a client's canaries its texts lack, or lack copies of."""
        from fedaudit.metrics.document_frequency import document_frequency

        own = [canary for canary in self.planted if canary.client == client]
        copies = document_frequency([canary.sentence for canary in own], texts)
        return sum(copies[canary.sentence] < canary.times for canary in own)

    @property
    def controls(self) -> tuple[Canary, ...]:
        """The controls, which are given to no one."""
        return tuple(canary for canary in self.canaries if not canary.times)


def commitment(canaries: CanarySet) -> str:
    """Return the SHA-256 that commits to everything in the file, its salt included."""
    return hashlib.sha256(canonical({"scheme": SCHEME, **asdict(canaries)})).hexdigest()


def write(canaries: CanarySet, path: Path) -> None:
    """Write canaries into a file that only its owner can read."""
    text = json.dumps(asdict(canaries), indent=2, ensure_ascii=False)
    atomic_text(path, text + "\n", mode=0o600)


def read(path: Path, read_file: Read = read_regular) -> CanarySet:
    """Return the canaries in `path`; raises InputError, without any secret, for another file."""
    table = read_json(path, f"There is no file of canaries {path}.", read_file)
    check_version(table, path, SCHEMA_VERSION)
    _check_texts(table, path)
    try:
        canaries = build(CanarySet, table, path.name)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    _check(canaries, path)
    return canaries


def is_instruction(text: str) -> bool:
    """Tell whether canaries may answer this instruction; it may be empty, which means none."""
    return text.isprintable() and len(text) <= MAX_TEXT_CHARS and SECRET not in text


def _check_texts(table: Any, path: Path) -> None:
    """Refuse what `build` would refuse with the value in its message: it may be a secret."""
    items = table.get("canaries") if isinstance(table, Mapping) else None
    if not isinstance(items, list) or not 0 < len(items) <= MAX_CANARIES:
        raise InputError(
            f"{path} holds no canaries, or more than {MAX_CANARIES:,}; `fedaudit canary make` "
            "writes such a file."
        )
    for number, item in enumerate(items):
        if not isinstance(item, Mapping) or not all(
            isinstance(item.get(name, ""), str) for name in _TEXTS
        ):
            raise InputError(f"{path}: canary {number} is not a table of text, secret and client.")
    space = table.get("space")
    words = space.get("words", []) if isinstance(space, Mapping) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(
            f"{path}: its space is not a table, or has words that are not texts; "
            "`fedaudit canary make` writes such a file."
        )


def _check(canaries: CanarySet, path: Path) -> None:
    if not _SALT.fullmatch(canaries.salt):
        raise InputError(f"{path}: its salt is not 64 hexadecimal digits.")
    if parse_time(canaries.made) is None:
        raise InputError(f"{path}: {canaries.made!r} is not a time with a time zone.")
    for name, word in (
        ("kind", canaries.kind),
        ("language", canaries.language),
        ("label", canaries.label),
    ):
        check_name(word, path, f"the {name}")
    if not is_instruction(canaries.instruction):
        raise InputError(f"{path}: its instruction is not a line, or holds {SECRET}.")
    for number, canary in enumerate(canaries.canaries):
        if mistake := _mistake(canary, canaries.space):
            raise InputError(f"{path}: canary {number} {mistake}.")
        if canary.times:
            check_name(canary.client, path, "the client")
    if not canaries.planted:
        raise InputError(f"{path}: no one is given any of its canaries.")
    if canaries.space.size < len(canaries.planted) + REFERENCES:
        raise InputError(f"{path}: its space has no {REFERENCES} secrets that no one is given.")
    if len({canary.secret for canary in canaries.canaries}) < len(canaries.canaries):
        raise InputError(f"{path} holds one secret twice.")


def _mistake(canary: Canary, space: SecretSpace) -> str:
    """Return what is wrong with a canary, without its secret; empty if it is valid."""
    if canary.text.count(SECRET) != 1 or not canary.prefix or len(canary.text) > MAX_TEXT_CHARS:
        return f"needs a text that holds {SECRET} once, with words before it"
    if not canary.text.isprintable():
        return "has a text with characters that do not show"
    if canary.secret not in space:
        return "has a secret that is not of its space"
    if not 0 <= canary.times <= MAX_TIMES or bool(canary.times) != bool(canary.client):
        return f"needs a client and 1 to {MAX_TIMES:,} copies, or neither"
    return ""
