"""An attestation is what in-toto and DSSE say it is, and holds for one report and one key."""

import base64
import hashlib
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from example_report import SHA256, example

from fedaudit.api.errors import InputError
from fedaudit.report import attestation
from fedaudit.report.attestation import (
    AttestationError,
    attestation_time,
    open_attestation,
    sign,
    statement,
)
from fedaudit.report.document import dumps

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
REPORT = example().to_json()
CONTENT = dumps(REPORT).encode()


def described(kind, checked=True):
    notes = {"kind": kind, "checked": checked}
    return {"name": f"a {kind}", "digest": {"dirHash": SHA256}, "annotations": notes}


def said(*inputs):
    return statement(REPORT, CONTENT, inputs)


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "report.intoto.json"
    path.write_text(sign(said(described("adapter")), KEY))
    return path


def altered(path, change):
    envelope = json.loads(path.read_text())
    change(envelope)
    path.write_text(json.dumps(envelope))


def test_the_signature_is_over_what_dsse_says(place):
    envelope = json.loads(place.read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    assert kind == "application/vnd.in-toto+json"
    [signature] = envelope["signatures"]
    # DSSE 1.0: PAE(type, body) = "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body
    covered = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    KEY.public_key().verify(base64.b64decode(signature["sig"]), covered)  # raises where it is not


def test_the_statement_binds_report_inputs_and_environment(place):
    found = json.loads(base64.b64decode(json.loads(place.read_text())["payload"]))
    own = {"name": "report.json", "digest": {"sha256": hashlib.sha256(CONTENT).hexdigest()}}
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["subject"] == [own, {"name": "a adapter", "digest": {"dirHash": SHA256}}]
    predicate = found["predicate"]
    assert predicate["report"] == {**own, "mediaType": "application/json"}
    assert predicate["environment"] == REPORT["environment"]
    assert predicate["inputs"] == [described("adapter")]
    assert predicate["result"] == "FAILED"
    assert predicate["run"]["id"] == "run-1"


def test_only_a_model_that_was_at_hand_is_a_subject():
    assert len(said(described("data"))["subject"]) == 1
    assert len(said(described("adapter", checked=False), described("base"))["subject"]) == 1
    both = said(described("data"), described("base"), described("adapter"))
    assert [one["name"] for one in both["subject"]] == ["report.json", "a adapter"]
    assert said(described("base"))["subject"][1]["name"] == "a base"


def test_it_holds_for_this_report_and_this_key(place):
    made = attestation_time(place, KEY.public_key(), CONTENT)
    assert made == open_attestation(place, KEY.public_key())["predicate"]["timeCreated"]
    with pytest.raises(AttestationError, match="this key has not signed it"):
        attestation_time(place, OTHER.public_key(), CONTENT)
    with pytest.raises(AttestationError, match="the report was altered"):
        attestation_time(place, KEY.public_key(), CONTENT + b" ")


def test_what_was_signed_cannot_be_exchanged(place):
    def another(envelope):
        payload = json.loads(base64.b64decode(envelope["payload"]))
        digest = hashlib.sha256(b"forged").hexdigest()
        payload["predicate"]["report"]["digest"]["sha256"] = digest
        envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()

    altered(place, another)
    with pytest.raises(AttestationError, match="or it was altered"):
        attestation_time(place, KEY.public_key(), b"forged")


@pytest.mark.parametrize(
    "change",
    [
        lambda envelope: envelope.update(payloadType="text/plain"),
        lambda envelope: envelope.update(signatures=[]),
        lambda envelope: envelope.update(signatures=5),
        lambda envelope: envelope["signatures"][0].update(sig="AAAA"),
        lambda envelope: envelope["signatures"][0].update(sig=None),
        lambda envelope: envelope["signatures"][0].update(keyid="0" * 64),
        lambda envelope: envelope["signatures"].append(envelope["signatures"][0]),
        lambda envelope: envelope.update(payload="***"),
        lambda envelope: envelope.pop("payload"),
    ],
)
def test_an_altered_envelope_is_refused(place, change):
    altered(place, change)
    with pytest.raises(AttestationError, match="altered"):
        attestation_time(place, KEY.public_key(), CONTENT)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{" * 10**6, "\udcff", "7"])
def test_what_is_no_envelope_is_refused(place, text):
    place.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AttestationError, match="not a DSSE envelope"):
        attestation_time(place, KEY.public_key(), CONTENT)


def test_no_attestation_at_all_is_refused(tmp_path):
    with pytest.raises(AttestationError, match=r"there is no report\.intoto\.json"):
        attestation_time(tmp_path / "report.intoto.json", KEY.public_key(), CONTENT)


@pytest.mark.parametrize(
    "signed",
    [
        {"_type": attestation.STATEMENT, "predicateType": "https://slsa.dev/provenance/v1"},
        {"_type": "https://in-toto.io/Statement/v0.1", "predicateType": attestation.PREDICATE},
        {"_type": attestation.STATEMENT, "predicateType": attestation.PREDICATE},
        [],
    ],
)
def test_another_statement_by_the_same_key_is_refused(place, signed):
    place.write_text(sign(signed, KEY))
    with pytest.raises(AttestationError, match="statement"):
        attestation_time(place, KEY.public_key(), CONTENT)


# keys


def private(key=KEY, encryption=None):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def public(key=KEY):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def test_keys_are_read_from_pem(tmp_path, monkeypatch):
    path = tmp_path / "key.pem"
    path.write_bytes(private())
    assert attestation.private_key(path).sign(b"x") == KEY.sign(b"x")
    path.write_bytes(public())
    attestation.public_key(path).verify(KEY.sign(b"x"), b"x")
    path.write_bytes(private(encryption=BestAvailableEncryption(b"open")))
    monkeypatch.setenv(attestation.PASSPHRASE, "open")
    assert attestation.private_key(path).sign(b"x") == KEY.sign(b"x")


@pytest.mark.parametrize(
    ("content", "passphrase", "says"),
    [
        (b"", None, "no private key in PEM"),
        (public(), None, "no private key in PEM"),
        (b"\x00" * 100_000, None, "too large"),
        (private(generate_private_key(SECP256R1())), None, "not an ed25519 key"),
        (private(encryption=BestAvailableEncryption(b"open")), None, "is encrypted: set"),
        (private(encryption=BestAvailableEncryption(b"open")), "shut", "its passphrase is another"),
        (private(), "shut", "is not encrypted: unset"),
    ],
)
def test_what_is_no_private_key_is_told_without_it(
    tmp_path, monkeypatch, content, passphrase, says
):
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    if passphrase:
        monkeypatch.setenv(attestation.PASSPHRASE, passphrase)
    with pytest.raises(InputError, match=says) as caught:
        attestation.private_key(path)
    assert content[30:60].decode("latin1") not in str(caught.value) or not content[30:60]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (private(), "no public key in PEM"),
        (b"ssh-ed25519 AAAA", "no public key in PEM"),
        (public(generate_private_key(SECP256R1())), "not an ed25519 key"),
    ],
)
def test_what_is_no_public_key_is_told(tmp_path, content, says):
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        attestation.public_key(path)


def test_a_key_that_is_not_there_is_told(tmp_path):
    for read in (attestation.private_key, attestation.public_key):
        with pytest.raises(InputError, match="cannot be read"):
            read(tmp_path / "none.pem")
