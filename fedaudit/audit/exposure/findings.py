"""Findings: planted secrets whose rank is too high for chance."""

from collections.abc import Mapping, Sequence
from typing import Literal

from fedaudit.api.records import Finding
from fedaudit.audit.exposure.measurements import PLUGIN, exposure, is_maximal
from fedaudit.canaries.ranking import ScoredCanary

LABEL = "CANARY"
LISTED, LEVEL = 0.01, 0.05
"""The p value up to which a secret is listed, and the family-wise level of significance."""


def findings(scored: Sequence[ScoredCanary]) -> tuple[list[Finding], list[Mapping[str, str]]]:
    """Return findings for planted secrets with a high rank, and what --reveal writes about them.

    A secret that nobody trained on ranks among the first k of n with probability k / n, which is
    its p value. If that exceeds LEVEL divided by the number of planted secrets (Bonferroni), the
    rank may be due to chance, and the finding is "unverified".
    """
    planted = [s for s in scored if s.canary.times]
    listed_findings: list[Finding] = []
    plain: list[Mapping[str, str]] = []
    for number, scored_canary in enumerate(planted, 1):
        bits = exposure(scored_canary)
        if (p := 2**-bits) > LISTED:
            continue
        name = f"{PLUGIN}-{number:04d}"
        listed_findings.append(
            Finding(
                id=name,
                severity=_severity(scored_canary) if p * len(planted) <= LEVEL else "unverified",
                label=LABEL,
                measurement=f"{PLUGIN} exposure",
                evidence={
                    "text": scored_canary.canary.secret,
                    "exposure": bits,
                    "times": scored_canary.canary.times,
                    "client": scored_canary.canary.client,
                    "p_value": p,
                },
                safe=("client",),
            )
        )
        plain.append(
            {
                "id": name,
                "label": LABEL,
                "text": scored_canary.canary.secret,
                "client": scored_canary.canary.client,
                "sentence": scored_canary.canary.sentence,
            }
        )
    return listed_findings, plain


def _severity(scored_canary: ScoredCanary) -> Literal["high", "medium"]:
    return "high" if is_maximal(scored_canary) else "medium"
