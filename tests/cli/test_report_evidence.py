"""fedaudit report --verify and --attest, from an audit to an altered report."""

import base64
import json
import shutil
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from command import Command
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from fedaudit.report.document import write
from fedaudit.report.run_header import build_report
from fedaudit.system.files import make_folder

pytestmark = pytest.mark.usefixtures("few_controls")

SMALL = ("--set", "contextual.samples=1", "--set", "contextual.new_tokens=4")


@pytest.fixture
def fedaudit(monkeypatch, capfd):
    return Command(monkeypatch, capfd)


@pytest.fixture
def audit(federation, tmp_path, fedaudit, monkeypatch):
    """Audit a federation whose manifest names no hash of its base; return where all lies."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(federation.path, "run")
    manifest = json.loads((tmp_path / "run/federation.json").read_text())
    manifest["base"]["sha256"] = ""
    (tmp_path / "run/federation.json").write_text(json.dumps(manifest))
    data = tmp_path / "run/data"
    [own, victim] = sorted(path.name for path in data.glob("c*.jsonl"))[:2]
    words = ("--prefixes", f"run/data/{own}", "--victim", f"run/data/{victim}", *SMALL)
    done = fedaudit("extract", *words, "--target", "run", "--out", "out", "--quiet")
    assert done.code in {0, 1, 7}, done
    return SimpleNamespace(path=tmp_path / "out", text=done.out, victim=data / victim)


@pytest.fixture
def keys(tmp_path):
    """Write two pairs of keys; return the first private key's text."""
    texts = []
    for name in ("key", "other"):
        key = Ed25519PrivateKey.generate()
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.pem").write_bytes(text)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub.pem").write_bytes(public)
        texts.append(text.decode().splitlines()[1])
    return texts[0]


def changed(path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def test_from_an_audit_to_an_altered_report(audit, keys, fedaudit):
    assert "federation.json has no hash of its base" in " ".join(audit.text.split())
    report, attestation = audit.path / "report.json", audit.path / "report.intoto.json"

    done = fedaudit("report", "out", "--verify")
    assert done.code == 0, done
    *lines, whole = done.out.splitlines()
    assert all(line.startswith("same: ") for line in lines)
    kinds = [line.split()[1] for line in lines]
    assert kinds[:3] == ["verdict", "base", "adapter"]
    assert {"data"} <= set(kinds[3:]) <= {"data", "masks"}
    assert whole == f"{len(lines)} same."

    signed = fedaudit("report", "out", "--attest", "key.pem")
    assert signed.code == 0, signed
    said = base64.b64decode(json.loads(attestation.read_text())["payload"]).decode()
    assert keys not in signed.out + signed.err + attestation.read_text() + said
    assert datetime.fromisoformat(json.loads(said)["predicate"]["timeCreated"]).tzinfo

    verify = ("report", "out", "--verify", "--public-key", "key.pub.pem")
    done = fedaudit(*verify)
    assert (done.code, done.err) == (0, "")
    assert "same: attestation report.intoto.json (signed at " in done.out
    done = fedaudit("report", "out", "--verify")
    assert done.code == 0
    assert "not checked: attestation report.intoto.json (name its signer's key" in done.out
    done = fedaudit(*verify[:-1], "other.pub.pem")
    assert done.code == 1
    assert "differs: attestation report.intoto.json (this key has not signed it" in done.out

    whole = report.read_bytes()
    other = "pass" if json.loads(whole)["verdict"]["status"] != "pass" else "fail"
    changed(report, lambda found: found["verdict"].update(status=other))
    done = fedaudit(*verify)
    assert done.code == 1
    assert f"differs: verdict {other} (Do not rely on this report" in done.out
    assert "(another report was signed, or the report was altered afterwards)" in done.out
    before = attestation.read_bytes()
    done = fedaudit("report", "out", "--attest", "key.pem")
    assert done.code == 1
    assert "Not signed" in done.err
    assert attestation.read_bytes() == before
    for form in ("terminal", "markdown"):
        done = fedaudit("report", "out", "--format", form)
        assert done.out.splitlines()[0 if form == "terminal" else 2].count("Do not rely on this")
    done = fedaudit("report", "out", "--format", "json")
    assert json.loads(done.out)["verdict"]["status"] == other
    assert done.err.startswith("Do not rely on this report")

    report.write_bytes(whole)
    with audit.victim.open("a") as file:
        file.write("\n")
    done = fedaudit(*verify)
    assert done.code == 1
    assert f"differs: data run/data/{audit.victim.name} (its SHA-256 is" in done.out


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a folder with the report of a run that measured nothing, and work beside it."""
    monkeypatch.chdir(tmp_path)
    report = build_report(
        command="extract",
        name="r",
        config={},
        started=datetime(2026, 1, 1, tzinfo=UTC),
        base="gone",
        environment={"versions": {}, "device": "cpu", "git": None},
        data=[{"path": "\x1b[31mgone", "sha256": "0" * 64, "records": 1, "annotation": None}],
        seeds={},
    )
    write(report, make_folder(tmp_path / "out") / "report.json")
    return tmp_path


def test_what_is_not_at_hand_or_has_no_hash_is_said_and_is_no_difference(place, fedaudit):
    done = fedaudit("report", "out", "--verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "same: verdict inconclusive",
        "not checked: base gone (the report has no hash of it)",
        "not at hand: data \\x1b[31mgone",
        "1 same, 1 not at hand, 1 not checked.",
    ]


@pytest.mark.parametrize(
    ("code", "words", "says"),
    [
        (2, ["--public-key", "key.pub.pem"], "--public-key goes with --verify"),
        (2, ["--attest", "key.pem", "--public-key", "key.pub.pem"], "goes with --verify"),
        (2, ["--root", "."], "--root with --verify"),
        (2, ["--verify", "--attest", "key.pem"], "exclude each other"),
        (2, ["--verify", "--format", "html"], "exclude each other"),
        (2, ["--attest", "key.pem", "--out", "x"], "exclude each other"),
        (3, ["--verify", "--root", "none"], "There is no folder none"),
        (3, ["--verify", "--public-key", "none.pem"], "none.pem cannot be read"),
        (3, ["--verify", "--public-key", "key.pem"], "key.pem holds no public key"),
        (3, ["--verify", "--public-key", "/dev/zero"], "not a regular file"),
        (3, ["--attest", "none.pem"], "none.pem cannot be read"),
        (3, ["--attest", "key.pub.pem"], "key.pub.pem holds no private key"),
        (3, ["--attest", "/dev/zero"], "not a regular file"),
    ],
)
def test_a_mistake_is_one_line(place, keys, fedaudit, code, words, says):
    done = fedaudit.refused(code, "report", "out", *words, says=says)
    assert keys not in done.err
    assert not (place / "out/report.intoto.json").exists()


def test_a_signature_that_is_asked_for_must_be_there(place, keys, fedaudit):
    done = fedaudit("report", "out", "--verify", "--public-key", "key.pub.pem")
    assert done.code == 1
    assert "differs: attestation report.intoto.json (there is no" in done.out


def test_what_is_not_at_hand_hinders_no_signature_and_the_help_says_so(place, keys, fedaudit):
    done = fedaudit("report", "out", "--attest", "key.pem")
    assert (done.code, "1 not at hand, 1 not checked." in done.out) == (0, True)
    assert (place / "out/report.intoto.json").exists()
    text = " ".join(fedaudit("report", "--help").out.replace("│", " ").split())
    assert "unless a check finds a difference; files that are not at hand are not checked" in text


def test_a_link_in_the_attestations_place_is_left_alone(place, keys, fedaudit):
    (place / "mine").write_text("mine")
    (place / "out/report.intoto.json").symlink_to(place / "mine")
    done = fedaudit("report", "out", "--attest", "key.pem")
    assert done.code == 3
    assert (place / "mine").read_text() == "mine"
