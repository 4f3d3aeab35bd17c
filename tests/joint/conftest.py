"""Members of a joint audit, each with its own folder, who send each other files."""

import json
import shutil
from pathlib import Path

import fake_audit
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fedaudit.extraction import controls
from fedaudit.joint import intersection, keys


class Members:
    def __init__(self, run, names):
        self.run, self.names = run, names

    def commit(self, *words, **files):
        for name in self.names:
            key = Path(f"{name}.pem")
            form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*form))
            self.step("commit", name, "--as", name, "--key", key, "--ours", files[name], *words)

    def step(self, step, name, *words, codes=(0,)):
        outcome = self.run("joint", step, name, *words)
        assert outcome.code in codes, outcome
        return outcome

    def send(self, pattern):
        """Bring every member's files to all others, an answer to its receiver only."""
        for sender in self.names:
            for path in Path(sender).glob(f"{sender}{pattern}"):
                for name in self.names:
                    if name != sender and (
                        "-for-" not in path.name or f"-for-{name}." in path.name
                    ):
                        shutil.copy(path, name)

    def to_answers(self):
        self.send(".commit.json")
        for name in self.names:
            self.step("ask", name, "--quiet")
        self.send(".ask.zip")
        for name in self.names:
            self.step("answer", name)
        self.send(".answer-for-*.zip")

    def to_results(self, *words):
        for name in self.names:
            self.step("count", name, "--quiet", *words, codes=(0, 1, 7))
        self.send(".result.json")


@pytest.fixture
def members(run, monkeypatch):
    # So that sets have few elements to encrypt.
    monkeypatch.setattr(intersection, "LEAST", 4)
    monkeypatch.setattr(controls, "MAX_CONTROLS", 8)
    monkeypatch.setattr(keys, "LONGEST_PIECE", 12)
    return lambda *names: Members(run, names)


@pytest.fixture
def files(here):
    """Write three members' records: a and c share people, and all have some of their own."""
    people = {"a": fake_audit.NAMES[:6], "b": fake_audit.NAMES[5:10], "c": fake_audit.NAMES[8:]}
    found = {}
    for number, (name, who) in enumerate(people.items()):
        path = Path(f"{name}.jsonl")
        lines = [
            json.dumps(fake_audit.document(n, who[n % len(who)], fake_audit.PLACES[n % 2]))
            for n in range(6 + number)
        ]
        path.write_text("\n".join(lines) + "\n")
        found[name] = path
    return found
