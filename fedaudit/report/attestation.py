"""A report's attestation: an in-toto Statement v1 in a DSSE envelope, signed with ed25519.

It says who vouches for a report, and binds the report to the digests of what was audited.
https://github.com/in-toto/attestation, https://github.com/secure-systems-lab/dsse
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit import __version__
from fedaudit.api.errors import InputError, UsageError
from fedaudit.system.documents import parse_json
from fedaudit.system.files import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from securesystemslib.dsse import Envelope

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:fedaudit:attestation:1.0"
MEDIA_TYPE = "application/vnd.in-toto+json"
RESULTS = {"pass": "PASSED", "fail": "FAILED", "inconclusive": "WARNED"}
PASSPHRASE = "FEDAUDIT_KEY_PASSPHRASE"
"""The environment variable with the passphrase of an encrypted private key."""

ALTERED = "it is not a DSSE envelope, or it was altered"

LONGEST_KEY, LONGEST = 2**16, 2**24
"""The maximum sizes, in bytes, of a key file and of an attestation file."""


class AttestationError(ValueError):
    """An attestation that could not be verified; the message says why."""


def attestation_path(report: Path) -> Path:
    """Return the path of a report's attestation, which is next to the report file."""
    return report.with_suffix(".intoto.json")


def statement(
    report: Mapping[str, Any], content: bytes, inputs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the statement about a report, whose file has `content`.

    `inputs` are in-toto resource descriptors of what was audited: name, digest, annotations.
    """
    subject = {"name": "report.json", "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
    run = {key: report["run"][key] for key in ("id", "command", "started", "finished")}
    return {
        "_type": STATEMENT,
        "subject": [subject, *({k: m[k] for k in ("name", "digest")} for m in _models(inputs))],
        "predicateType": PREDICATE,
        "predicate": {
            "verifier": {"id": "fedaudit", "version": __version__},
            "timeCreated": datetime.now(UTC).isoformat(timespec="seconds"),
            "result": RESULTS[report["verdict"]["status"]],
            "run": run,
            "environment": report["environment"],
            "inputs": list(inputs),
            "report": {**subject, "mediaType": "application/json"},
        },
    }


def _models(inputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the audited model among `inputs`, if it was hashed: the adapter, else the base."""
    by_kind = {descriptor["annotations"]["kind"]: descriptor for descriptor in inputs}
    model = by_kind.get("adapter", by_kind.get("base"))
    return [model] if model and model["annotations"]["checked"] else []


def _require_library() -> None:
    if find_spec("securesystemslib") is None:
        message = "Attestations need securesystemslib: pip install 'fedaudit[attest]'."
        raise UsageError(message)


def sign(body: Mapping[str, Any], key: "Ed25519PrivateKey") -> str:
    """Return a statement in an envelope with one signature, as JSON text."""
    _require_library()
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    payload = json.dumps(body, sort_keys=True, allow_nan=False).encode()
    envelope = Envelope(payload, MEDIA_TYPE, {})
    envelope.sign(CryptoSigner(key))
    return json.dumps(envelope.to_dict(), indent=2) + "\n"


def open_attestation(path: Path, key: "Ed25519PublicKey") -> dict[str, Any]:
    """Return the statement in an attestation's file; AttestationError unless `key` has signed it.

    Raises AttestationError also if the content is not an in-toto statement, and InputError if the
    path is not a regular file.
    """
    _require_library()
    try:
        content = read_regular(path, LONGEST)
    except FileNotFoundError:
        raise AttestationError(f"there is no {path.name} beside the report") from None
    except OSError:
        raise AttestationError(ALTERED) from None
    return open_statement(content, path, key, PREDICATE)


def open_statement(
    content: bytes, path: Path, key: "Ed25519PublicKey", predicate_type: str
) -> dict[str, Any]:
    """Return the statement in an envelope, the content of the file `path`.

    Raises AttestationError unless `key` has signed it and it is of this type.
    """
    _require_library()
    from securesystemslib.exceptions import Error, VerificationError
    from securesystemslib.signer import SSlibKey

    try:
        envelope = _envelope(content, path)
        envelope.verify([SSlibKey.from_crypto(key)], 1)
        body = parse_json(envelope.payload, path)
    except VerificationError:
        raise AttestationError("this key has not signed it, or it was altered") from None
    except (AttributeError, Error, InputError, LookupError, TypeError, ValueError):
        raise AttestationError(ALTERED) from None
    named = isinstance(body, dict) and (body.get("_type"), body.get("predicateType"))
    if envelope.payload_type != MEDIA_TYPE or named != (STATEMENT, predicate_type):
        raise AttestationError("what is signed is not the expected statement of fedaudit")
    return dict(body)


def payload(content: bytes, path: Path) -> Any:
    """Return the JSON in an envelope before its signature is checked.

    Raises AttestationError for anything but an envelope.
    """
    _require_library()
    from securesystemslib.exceptions import Error

    try:
        return parse_json(_envelope(content, path).payload, path)
    except (AttributeError, Error, InputError, LookupError, TypeError, ValueError):
        raise AttestationError(ALTERED) from None


def _envelope(content: bytes, path: Path) -> "Envelope":
    from securesystemslib.dsse import Envelope

    return Envelope.from_dict(parse_json(content, path))


def attestation_time(path: Path, key: "Ed25519PublicKey", content: bytes) -> str:
    """Return when the attestation in `path` was made.

    Raises AttestationError unless the attestation is for this report.
    """
    body = open_attestation(path, key)
    try:
        expected_hash = str(body["predicate"]["report"]["digest"]["sha256"])
        timestamp = str(body["predicate"]["timeCreated"])
    except (LookupError, TypeError):
        raise AttestationError("its statement names no report") from None
    if hashlib.sha256(content).hexdigest() != expected_hash:
        raise AttestationError("another report was signed, or the report was altered afterwards")
    return timestamp


def private_key(path: Path) -> "Ed25519PrivateKey":
    """Return the ed25519 key in a PEM file; no error text repeats its content."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    secret = os.environ.get(PASSPHRASE)
    try:
        key = load_pem_private_key(_pem(path), secret.encode() if secret else None)
    except TypeError:
        unset = f"is not encrypted: unset {PASSPHRASE}"
        problem = unset if secret else f"is encrypted: set {PASSPHRASE} to its passphrase"
        raise InputError(f"The key {path} {problem}.") from None
    except (UnsupportedAlgorithm, ValueError):
        why = "or its passphrase is another" if secret else "such as `openssl genpkey` writes"
        raise InputError(f"{path} holds no private key in PEM, {why}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(
            f"{path} is not an ed25519 key; make one with `openssl genpkey -algorithm ed25519`."
        )
    return key


def public_key(path: Path) -> "Ed25519PublicKey":
    """Return the ed25519 public key in a PEM file."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_pem(path))
    except (UnsupportedAlgorithm, ValueError):
        raise InputError(
            f"{path} holds no public key in PEM; `openssl pkey -in KEY -pubout` writes it."
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} is not an ed25519 key, which attestations are signed with.")
    return key


def _pem(path: Path) -> bytes:
    try:
        return read_regular(path, LONGEST_KEY)
    except OSError as error:
        raise InputError(f"The key {path} cannot be read: {error.strerror}.") from None
