"""What a member commits to before it asks: its records, the model and the attack.

The private part of a member's folder holds the secrets of its encrypted sets. With them, guesses of
its strings can be tested, so only the member's own user may read it.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.audit.stored_request import to_table
from fedaudit.config.options import build
from fedaudit.extraction.controls import sample_controls
from fedaudit.extraction.targets import strings_by_label
from fedaudit.joint import exchange
from fedaudit.joint.elements import BINS, Elements
from fedaudit.joint.exchange import ASK, COMMIT, TERMS, Message
from fedaudit.joint.inputs import JointInputs, attack_of, resolve
from fedaudit.joint.intersection import Asker, Holder, library, padded_bin
from fedaudit.joint.keys import asked_keys
from fedaudit.joint.request import JointRequest
from fedaudit.metrics.extraction import victim_exclusive
from fedaudit.report import attestation
from fedaudit.system.files import atomic_text, check_free, restrict_to_owner

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PROTOCOL = 1
"""The number of the rules by which keys are made; members of different rules cannot audit."""
STATE = "member.json"


@dataclass(frozen=True, kw_only=True)
class Member:
    """A member of a joint audit: its folder, its request and its secrets."""

    folder: Path
    name: str
    request: JointRequest
    key: Path
    salt: bytes
    holder: Holder
    asker: Asker
    sha256: str
    """The SHA-256 of its records, as it committed to them."""

    @cached_property
    def inputs(self) -> JointInputs:
        """The inputs of its request; raises InputError if its records have changed."""
        inputs = resolve(self.request)
        if self.sha256 != inputs.ours.sha256:
            raise InputError(
                f"{self.request.ours} has changed since it was committed to: begin again with "
                "fedaudit joint commit, in another folder, and send the new commitment."
            )
        return inputs

    @cached_property
    def strings(self) -> dict[str, str]:
        """The member's strings with their labels."""
        pairs = [pair for document in self.inputs.ours.documents for pair in document.strings()]
        return victim_exclusive(pairs, [])

    @cached_property
    def controls(self) -> dict[str, str]:
        """Strings like its own, which none of its records has, with their labels."""
        documents, control = self.inputs.ours.documents, self.inputs.control
        pairs = [p for d in (control.documents if control else ()) for p in d.strings()]
        return dict(
            sample_controls(
                self.strings,
                [document.text for document in documents],
                seed=self.request.seed,
                donors=strings_by_label(documents),
                real_controls={s.strip(): label for s, label in pairs if s.strip()},
            )
        )

    @cached_property
    def asked(self) -> Elements:
        """The keys that it asks of every other member."""
        return Elements(asked_keys({*self.strings, *self.controls}))

    @property
    def private(self) -> Path:
        """The part of its folder that it must not send."""
        return self.folder / exchange.PRIVATE

    @property
    def public_key(self) -> "Ed25519PublicKey":
        """The key that checks its signatures."""
        return attestation.private_key(self.key).public_key()

    def send(
        self,
        step: str,
        body: Mapping[str, Any],
        sets: Mapping[str, Sequence[bytes]],
        receiver: str = "",
    ) -> Path:
        """Write a signed file that the others, or one receiver, need; return its path."""
        path = exchange.path_of(self.folder, step, self.name, receiver)
        whole = {"step": step, "member": self.name, **body}
        exchange.write(path, attestation.private_key(self.key), whole, sets)
        return path

    def commitment(self) -> dict[str, Any]:
        """Return what the others may know before they ask."""
        inputs, attack = self.inputs, attack_of(self.request)
        file, form = inputs.ours, inputs.form
        return {
            "public_key": exchange.public_pem(attestation.private_key(self.key)),
            "records": {
                "count": len(file.documents),
                "annotation": file.annotation,
                "hmac": hmac.new(self.salt, file.sha256.encode(), "sha256").hexdigest(),
            },
            "asked": padded_bin(self.asked) * BINS,
            "terms": {
                "protocol": PROTOCOL,
                "adapter": inputs.adapter_sha256,
                "template": hashlib.sha256(repr(form).encode()).hexdigest(),
                "attack": {"name": attack.name, **asdict(attack)},
                "budget": self.request.budget,
                "seed": self.request.seed,
            },
        }


def commit(folder: Path, name: str, request: JointRequest, key: Path) -> Path:
    """Begin a member's part in `folder`; return the file that all others need."""
    exchange.check_name(name)
    library()  # which may not be installed
    attestation.private_key(key)
    check_free(folder / exchange.PRIVATE, "a member's secrets")
    exchange.check_place(folder, COMMIT, name)
    inputs = resolve(request)
    member = Member(
        folder=folder,
        name=name,
        request=request,
        key=key,
        salt=secrets.token_bytes(32),
        holder=Holder.new(),
        asker=Asker.new(),
        sha256=inputs.ours.sha256,
    )
    body = member.commitment()
    restrict_to_owner(member.private)
    state = {
        "member": name,
        "request": to_table(request),
        "key": str(key.absolute()),
        "salt": member.salt.hex(),
        "holder": member.holder.secret.hex(),
        "asker": member.asker.secret.hex(),
        "sha256": member.sha256,
    }
    atomic_text(member.private / STATE, json.dumps(state, indent=2) + "\n", 0o600)
    return member.send(COMMIT, body, {})


def open_member(folder: Path) -> Member:
    """Return the member whose folder this is; raises InputError for any other folder."""
    path = folder / exchange.PRIVATE / STATE
    state = exchange.read_private(path)
    try:
        table = {name: value for name, value in state["request"].items() if name != "kind"}
        return Member(
            folder=folder,
            name=state["member"],
            request=build(JointRequest, table, "request"),
            key=Path(state["key"]),
            salt=bytes.fromhex(state["salt"]),
            holder=Holder(bytes.fromhex(state["holder"])),
            asker=Asker(bytes.fromhex(state["asker"])),
            sha256=state["sha256"],
        )
    except (AttributeError, LookupError, TypeError, ValueError):
        raise InputError(f"{path} is not as fedaudit joint commit wrote it.") from None


def read_commitments(folder: Path) -> dict[str, Message]:
    """Return the commitment of every member whose file is in `folder`, by name.

    Raises InputError for fewer than two, and if members do not audit the same model in one way.
    """
    found = {}
    for path in sorted(folder.glob(f"*.{COMMIT}.json")):
        name, message = path.name.removesuffix(f".{COMMIT}.json"), exchange.read(path)
        exchange.check(message, COMMIT, name, path)
        found[name] = message
    if len(found) < 2:
        raise InputError(
            f"{folder} holds the commitments of {len(found)} members: put those of all members "
            "there, at least two."
        )
    (first, own), *others = found.items()
    for name, message in others:
        # Each of them has every term and no other, as was checked on reading.
        differing = [key for key in TERMS if message.body["terms"][key] != own.body["terms"][key]]
        if differing:
            raise InputError(
                f"{first} and {name} committed to different audits: their {', '.join(differing)} "
                "differ. All members need the same model and the same options."
            )
    return found


def key_lines(folder: Path) -> Iterator[str]:
    """Yield who takes part, and the key of each, to be compared with what its owner says."""
    for name, message in read_commitments(folder).items():
        digest = hashlib.sha256(message.body["public_key"].encode()).hexdigest()
        yield f"{name}: key {digest[:16]}, commitment {message.digest[:16]}"


def fingerprints(commitments: Mapping[str, Message]) -> dict[str, str]:
    """Return the SHA-256 of every commitment, by name."""
    return {name: message.digest for name, message in commitments.items()}


def receive(
    folder: Path, step: str, sender: str, commitments: Mapping[str, Message], receiver: str = ""
) -> Message:
    """Return the file that a member sent in a step.

    Raises InputError unless that member signed it, for an audit of these very commitments, and
    for more prefixes than all agreed on: the more were asked, the more chance explains.
    """
    path = exchange.path_of(folder, step, sender, receiver)
    message = exchange.read(path, exchange.public_key(commitments[sender].body["public_key"]))
    exchange.check(message, step, sender, path)
    if message.body["commitments"] != fingerprints(commitments):
        raise InputError(
            f"{path} belongs to other commitments than those in {folder}: every member needs the "
            "same commitments of the same members."
        )
    budget = commitments[sender].body["terms"]["budget"]
    if step == ASK and message.body["prefixes"] > budget:
        raise InputError(
            f"{path} says that {sender} asked {message.body['prefixes']:,} prefixes, more than the "
            f"{budget:,} of --budget that all members committed to."
        )
    return message
