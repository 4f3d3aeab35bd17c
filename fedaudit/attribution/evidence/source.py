"""A bundle's estimates, compared with what the server says that it handed over."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.attribution import estimates as estimates_file
from fedaudit.attribution.estimates import Estimates
from fedaudit.attribution.evidence import bundle as bundles
from fedaudit.attribution.evidence import report_file
from fedaudit.attribution.evidence.bundle import Bundle
from fedaudit.attribution.evidence.decision_rows import state_of
from fedaudit.attribution.server import sums_log
from fedaudit.report.check import Check
from fedaudit.system.files import sha256

SHA256 = re.compile(r"[0-9a-fA-F]{64}")
HOW = (
    f"give the SHA-256 of {estimates_file.NAME} that the server printed (--estimates-sha256), or "
    "the log that you got from the server (--log)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvidence:
    """What a verifier got from the server itself, not from the accuser."""

    log: Path | None = None
    sha256: str = ""
    """The SHA-256 of estimates.json; empty where the server told none."""

    def __post_init__(self) -> None:
        if self.sha256 and not SHA256.fullmatch(self.sha256):
            raise UsageError(f"--estimates-sha256 {self.sha256!r} is no SHA-256 of 64 hex digits.")


def check_source(
    bundle: Bundle,
    folder: Path,
    estimates: Estimates,
    report: Mapping[str, Any],
    evidence: ServerEvidence,
) -> Iterator[Check]:
    """Yield whether a bundle is about what it names, and its estimates are those of the server.

    Raises InputError for the log of another run.
    """
    named: dict[str, object] = {
        "schema_version": bundles.SCHEMA_VERSION,
        "run": estimates.run,
        "rounds": tuple(r.round for r in estimates.rounds),
        "clients": estimates.clients,
        "settings": report_file.settings(report),
        "estimates": sha256(folder / bundles.ESTIMATES / estimates_file.NAME),
    }
    odd = [name for name, value in named.items() if getattr(bundle, name) != value]
    adapters = (f"{bundles.ESTIMATES}/{name}" for name in estimates_file.adapter_files(estimates))
    odd += ["files"] * any(name not in bundle.files for name in adapters)
    why = f"not as the estimates and the report have them: {', '.join(odd)}" if odd else ""
    yield Check(state=state_of(not odd), kind="bundle", name="names its contents", why=why)
    yield _check_estimates(str(named["estimates"]), estimates.run, evidence, report)


def _check_estimates(
    digest: str, run: str, evidence: ServerEvidence, report: Mapping[str, Any]
) -> Check:
    """Return whether the server handed over an estimates.json of this SHA-256, as the last one."""
    check = Check(state="not checked", kind="estimates", name="as the server handed them over")
    handed = []
    if evidence.log is not None:
        sums_log.read(evidence.log, run)  # raises InputError for another run's
        handed = sums_log.handed_over(evidence.log)
    stated = [evidence.sha256.lower()] if evidence.sha256 else []
    if not handed and not stated:
        return replace(check, why=HOW, rests=report_file.accusation(report))
    wrong = [last for last in (*stated, *handed[-1:]) if last != digest]
    if not wrong:
        return replace(check, state="same", why=f"SHA-256 {digest}")
    why = f"SHA-256 {digest}, the server's is {wrong[0]}"
    if digest in handed:
        why = f"{why}: it handed over more rounds later"
    return replace(check, state="differs", why=why)
