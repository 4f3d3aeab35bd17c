"""fedaudit report --verify and --attest: what a report says, checked, and vouched for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedaudit.audit.verification.report import Check

DIFFERS = 1
"""The exit code where something differs from what the report says."""


def print_verification(path: Path, key: Path | None, root: Path | None) -> int:
    """Print a line for everything that a report says and that can be checked, and a sum."""
    found, content = _read(path)
    checks = [*_checks(found, path, root), *_signature(path, key, content)]
    print_checks(checks)
    return DIFFERS if any(one.state == "differs" for one in checks) else 0


def sign_report(path: Path, key: Path, root: Path | None) -> int:
    """Sign a report whose every check holds, and write the attestation beside it."""
    from fedaudit.cli.console import print_note
    from fedaudit.report import attestation
    from fedaudit.system.files import atomic_text

    signer = attestation.private_key(key)
    found, content = _read(path)
    checks = _checks(found, path, root)
    print_checks(checks)
    if any(one.state == "differs" for one in checks):
        print_note("Not signed: something differs from what the report says.")
        return DIFFERS
    said = attestation.statement(found, content, _inputs(found, checks))
    place = attestation.place(path)
    atomic_text(place, attestation.sign(said, signer))
    print_note(f"Written: {place}")
    return 0


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return a report and the bytes that it was read from."""
    from fedaudit.report import document

    content = document.content(path)
    return document.parse_report(content, path), content


def _checks(report: Mapping[str, Any], path: Path, root: Path | None) -> "list[Check]":
    from fedaudit.audit.verification.report import verify_report
    from fedaudit.system.files import existing_path

    if root:
        existing_path(root, "folder")
    return list(verify_report(report, path.parent, root))


def _signature(path: Path, key: Path | None, content: bytes) -> "list[Check]":
    from fedaudit.audit.verification.report import Check
    from fedaudit.report import attestation

    place = attestation.place(path)
    one = Check(state="not checked", kind="attestation", name=place.name)
    if key is None:
        why = "name its signer's key with --public-key"
        return [replace(one, why=why)] if place.exists() else []
    try:
        made = attestation.attestation_time(place, attestation.public_key(key), content)
    except attestation.Refused as error:
        return [replace(one, state="differs", why=str(error))]
    return [replace(one, state="same", why=f"signed at {made} with the key of {key.name}")]


def _inputs(report: Mapping[str, Any], checks: "Sequence[Check]") -> list[dict[str, Any]]:
    """Return in-toto's descriptors of what was audited.

    What is not at hand has the digest that the report says. That of an earlier version's adapter
    or base is left out there: nobody can tell which of its files it covers.
    """
    known = "base_sha256" in report["target"]
    return [
        {
            "name": one.name,
            "digest": one.digest,
            "annotations": {"kind": one.kind, "checked": one.state == "same"},
        }
        for one in checks
        if one.digest and (known or one.state == "same" or "sha256" in one.digest)
    ]


def print_checks(checks: "Sequence[Check]") -> None:
    """Print a line for each check, and how many there are of each state."""
    from fedaudit.report.redaction import make_visible

    for one in checks:
        print(make_visible(" ".join(str(one).split())))
    count = Counter[str](one.state for one in checks)
    states = ("same", "differs", "not at hand", "not checked")
    print(", ".join(f"{count[state]} {state}" for state in states if count[state]) + ".")
