"""The files that members send each other, and the folder in which each member keeps them.

Every file says who sent it and which files it answers, in a statement (in-toto) that is signed with
ed25519 (DSSE). Encrypted sets lie beside their statement in a ZIP archive; the statement has
their SHA-256.
"""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.extraction.positive_controls import MAX_KNOWN
from fedaudit.joint.elements import BINS
from fedaudit.report import attestation
from fedaudit.system.documents import parse_json
from fedaudit.system.files import read_regular
from fedaudit.system.outputs import OutputKind, check_output, signed, write_output

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PREDICATE = "urn:fedaudit:joint:1.0"
COMMIT, ASK, ANSWER, RESULT = "commit", "ask", "answer", "result"
SETUP, REQUEST = "setup", "request"
FORMS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    COMMIT: {"public_key": (str,), "asked": (int,), "records": (dict,), "terms": (dict,)},
    ASK: {"commitments": (dict,), "base": (str,), "prefixes": (int,), "known": (dict,)},
    ANSWER: {"commitments": (dict,), "to": (str,), "request": (str,)},
    RESULT: {
        "commitments": (dict,),
        "report": (str,),
        "verdict": (dict,),
        "rows": (list, type(None)),
        "findings": (list,),
        "limits": (list,),
    },
}
"""What the statement of each step must have, and its types."""
TERMS: Mapping[str, tuple[type, ...]] = {
    "protocol": (int,),
    "adapter": (str, type(None)),
    "template": (str,),
    "attack": (dict,),
    "budget": (int,),
    "seed": (int,),
}
"""What all members commit to and must agree on, and its types."""
SETS = {ASK: (SETUP, REQUEST), ANSWER: (ANSWER,)}
"""The encrypted sets of each step; each has a part for every bin of keys (`Elements`)."""
MOST_ASKED = 2**24
"""The most keys that a member may ask about."""
STATEMENT = "statement.intoto.json"
LONGEST = 2**32
"""The most bytes of encrypted sets in one file."""
LONGEST_STATEMENT = 2**27
"""The most bytes of a file that is a statement only."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PRIVATE = "private"
"""The part of a member's folder that must not be sent."""

_KINDS = {
    ".json": signed("a file of a joint audit", PREDICATE),
    ".zip": OutputKind("a file of a joint audit", mark=STATEMENT.encode()),
}


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a member sent: its statement, the encrypted sets, and a digest of the statement."""

    body: Mapping[str, Any]
    parts: Mapping[str, bytes]
    digest: str

    def bins(self, name: str) -> list[bytes]:
        """Return the parts of a set, one for each bin of keys."""
        return [self.parts[part] for part in _parts(name)]


def _parts(name: str) -> list[str]:
    """Return the names in an archive of the parts of a set."""
    return [f"{name}-{i:02}" for i in range(BINS)]


def check_name(name: str) -> None:
    """Raise UsageError for a member's name that cannot be part of a file's name."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a member's name: use letters, digits, - and _, at most 64."
        )


def path_of(folder: Path, step: str, sender: str, receiver: str = "") -> Path:
    """Return the path of a member's file in a folder; an answer is for one receiver."""
    end = "zip" if step in (ASK, ANSWER) else "json"
    return folder / f"{sender}.{step}{f'-for-{receiver}' if receiver else ''}.{end}"


def check_place(folder: Path, step: str, sender: str, receiver: str = "") -> None:
    """Raise InputError unless a member's file can be written into a folder (`write`)."""
    path = path_of(folder, step, sender, receiver)
    check_output(path, _KINDS[path.suffix])


def write(
    path: Path,
    key: "Ed25519PrivateKey",
    body: Mapping[str, Any],
    sets: Mapping[str, Sequence[bytes]],
) -> None:
    """Write a signed statement, and the sets that belong to it, as one file.

    Raises InputError if another file than one of the same kind is in its place.
    """
    parts = {
        part: content
        for name, bins in sets.items()
        for part, content in zip(_parts(name), bins, strict=True)
    }
    envelope = attestation.sign(
        {
            "_type": attestation.STATEMENT,
            "subject": [
                {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
                for name, content in parts.items()
            ],
            "predicateType": PREDICATE,
            "predicate": body,
        },
        key,
    )
    content = envelope.encode()
    if path.suffix == ".zip":
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            for name, part in {STATEMENT: content, **parts}.items():
                file.writestr(zipfile.ZipInfo(name), part)
        content = archive.getvalue()
    write_output(path, content, _KINDS[path.suffix])


def read(path: Path, key: "Ed25519PublicKey | None" = None) -> Message:
    """Return what is in a file, signed with `key` or, without one, with the key that it names.

    Raises InputError for a file that is missing, altered, or not of a joint audit.
    """
    try:
        content = read_regular(path, LONGEST if path.suffix == ".zip" else LONGEST_STATEMENT)
        statement, parts = _unpack(content) if path.suffix == ".zip" else (content, {})
    except FileNotFoundError:
        raise InputError(f"{path} is missing: ask its sender for it.") from None
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
    try:
        key = key or public_key(attestation.payload(statement, path)["predicate"]["public_key"])
        body = attestation.open_statement(statement, path, key, PREDICATE)
        digests = {one["name"]: one["digest"]["sha256"] for one in body["subject"]}
        predicate = body["predicate"]
    except (attestation.AttestationError, LookupError, TypeError, ValueError) as error:
        why = error if isinstance(error, attestation.AttestationError) else "it lacks its statement"
        raise InputError(f"{path} is not accepted: {why}.") from None
    if digests != {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}:
        raise InputError(f"{path} is not accepted: its sets are not those that were signed.")
    # The statement, not its signature or its archive, is what a digest stands for.
    plain = json.dumps(body, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Message(body=predicate, parts=parts, digest=hashlib.sha256(plain).hexdigest())


def check(message: Message, step: str, sender: str, path: Path) -> None:
    """Raise InputError unless a message is what a step sends, by `sender`, in every part."""
    body = message.body
    if not isinstance(body, dict) or (body.get("step"), body.get("member")) != (step, sender):
        raise InputError(f"{path} is not the {step} file of {sender}.")
    form = FORMS[step]
    lacking = [name for name in form if name not in body or type(body[name]) not in form[name]]
    if step == COMMIT and not lacking:
        _check_terms(body["terms"], sender)
    parts = {part for name in SETS.get(step, ()) for part in _parts(name)}
    if lacking or message.parts.keys() != parts or not _sound(body, step):
        what = f"its {lacking[0]}" if lacking else "a part of it"
        raise InputError(f"{path} is not as fedaudit joint writes it: {what} has another form.")


def _check_terms(terms: Mapping[str, Any], sender: str) -> None:
    """Raise InputError unless a member committed to every term and to nothing else.

    A term that one member lacks would be compared with none.
    """
    if lacking := [key for key in TERMS if key not in terms]:
        raise InputError(
            f"{sender} committed to no {' and no '.join(lacking)}: every member needs a file that "
            "fedaudit joint commit of the same version wrote."
        )
    if unknown := sorted(terms.keys() - TERMS.keys()):
        raise InputError(
            f"{sender} committed to {unknown[0]!r}, which is unknown here: every member needs a "
            "file that fedaudit joint commit of the same version wrote."
        )


def _sound(body: Mapping[str, Any], step: str) -> bool:
    """Return whether the numbers and names in a statement are possible ones."""
    if step == COMMIT:
        records, terms = body["records"], body["terms"]
        return (
            0 < body["asked"] <= MOST_ASKED
            and type(records.get("count")) is int
            and type(records.get("annotation")) in (str, type(None))
            and all(type(terms[key]) in types for key, types in TERMS.items())
            and isinstance(terms["attack"].get("name"), str)
        )
    if step == ASK:
        return body["prefixes"] > 0 and all(
            isinstance(row, list)
            and len(row) == 2
            and type(row[0]) in (int, float)
            and type(row[1]) is int
            and 0 <= row[0] <= row[1]
            and 0 < row[1] <= MAX_KNOWN
            for row in body["known"].values()
        )
    if step == RESULT:
        texts = all(isinstance(limit, str) for limit in body["limits"])
        return texts and body["verdict"].get("status") in [*attestation.RESULTS]
    return True


def _unpack(content: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the statement and the sets in an archive, which are stored as they are.

    A small archive cannot become large: compressed, encrypted and overlapping parts are refused.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = file.infolist()
        plain = all(m.compress_type == zipfile.ZIP_STORED and not m.flag_bits & 1 for m in members)
        if not plain or sum(member.file_size for member in members) > len(content):
            raise zipfile.BadZipFile("its parts are not stored as fedaudit joint stores them")
        parts = {member.filename: file.read(member) for member in members}
    return parts.pop(STATEMENT), parts


def public_key(pem: str) -> "Ed25519PublicKey":
    """Return an ed25519 public key in PEM; raises ValueError for anything else."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem.encode())
    except (AttributeError, UnsupportedAlgorithm) as error:
        raise ValueError("not a key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError("not an ed25519 key")
    return key


def public_pem(key: "Ed25519PrivateKey") -> str:
    """Return the public key that belongs to a private one, in PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    spki = PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(Encoding.PEM, spki).decode()


def read_private(path: Path) -> Any:
    """Return the JSON in a member's private file; raises InputError where there is none."""
    try:
        return parse_json(read_regular(path), path)
    except OSError:
        raise InputError(
            f"{path.parent.parent} is not the folder of a member: begin with fedaudit joint commit."
        ) from None
