"""fedaudit report --verify and --attest: checking what a report says, and signing it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.cli.console import print_note, print_text
from fedaudit.system.files import existing_path
from fedaudit.system.outputs import ATTESTATION, check_output, write_output

if TYPE_CHECKING:
    from fedaudit.report.check import Check

DIFFERS = 1
"""The exit code where something differs from what the report says."""


def print_verification(path: Path, key: Path | None, root: Path | None) -> int:
    """Print a line for every statement of a report that can be checked, and the totals."""
    report, content = _read(path)
    checks = [*_checks(report, path, root), *_signature(path, key, content)]
    return DIFFERS if print_checks(checks) else 0


def sign_report(path: Path, key: Path, root: Path | None) -> int:
    """Sign a report unless a check differs, and write the attestation beside it.

    What is not at hand or cannot be checked is signed with the digest that the report has.
    """
    from fedaudit.report import attestation

    signer = attestation.private_key(key)
    attestation_path = attestation.attestation_path(path)
    check_output(attestation_path, ATTESTATION)
    report, content = _read(path)
    checks = _checks(report, path, root)
    if print_checks(checks):
        print_note("Not signed: something differs from what the report says.")
        return DIFFERS
    statement = attestation.statement(report, content, _inputs(checks))
    write_output(attestation_path, attestation.sign(statement, signer), ATTESTATION)
    print_note(f"Written: {attestation_path}")
    return 0


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return a report and the bytes that it was read from."""
    from fedaudit.report import document

    content = document.content(path)
    return document.parse_report(content, path), content


def _checks(report: Mapping[str, Any], path: Path, root: Path | None) -> "list[Check]":
    from fedaudit.audit.verification import verify_assessment, verify_report

    if root:
        existing_path(root, "folder")
    return [*verify_report(report, path.parent, root), *verify_assessment(report)]


def _signature(path: Path, key: Path | None, content: bytes) -> "list[Check]":
    from fedaudit.report import attestation
    from fedaudit.report.check import Check

    attestation_path = attestation.attestation_path(path)
    check = Check(state="not checked", kind="attestation", name=attestation_path.name)
    if key is None:
        why = "name its signer's key with --public-key"
        return [replace(check, why=why)] if attestation_path.exists() else []
    try:
        timestamp = attestation.attestation_time(
            attestation_path, attestation.public_key(key), content
        )
    except attestation.AttestationError as error:
        return [replace(check, state="differs", why=str(error))]
    return [replace(check, state="same", why=f"signed at {timestamp} with the key of {key.name}")]


def _inputs(checks: "Sequence[Check]") -> list[dict[str, Any]]:
    """Return in-toto's descriptors of what was audited: the report's where it is not at hand."""
    return [
        {
            "name": check.name,
            "digest": check.digest,
            "annotations": {"kind": check.kind, "checked": check.state == "same"},
        }
        for check in checks
        if check.digest
    ]


def print_checks(checks: "Sequence[Check]") -> bool:
    """Print a line for each check, and how many there are of each state; tell if any differs."""
    for check in checks:
        print_text(" ".join(str(check).split()))
    count = Counter[str](check.state for check in checks)
    states = ("same", "differs", "not at hand", "not checked")
    print_text(", ".join(f"{count[state]} {state}" for state in states if count[state]) + ".")
    return count["differs"] > 0
