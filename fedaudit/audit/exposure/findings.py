"""The secrets that training gave away, as findings."""

from collections.abc import Mapping, Sequence
from typing import Literal

from fedaudit.api.records import Finding
from fedaudit.audit.exposure.measurements import PLUGIN, exposure, is_maximal
from fedaudit.canaries.ranking import ScoredCanary

LABEL = "CANARY"
LISTED, LEVEL = 0.01, 0.05
"""The p value up to which a secret is listed, and that of all together up to which it is sure."""


def findings(scored: Sequence[ScoredCanary]) -> tuple[list[Finding], list[Mapping[str, str]]]:
    """Return planted secrets that stand too high for chance, and what --reveal writes of them.

    A secret that nobody trained on stands among the first k of n with the probability k / n. That
    is its p value: where it is above LEVEL over the number of planted secrets (Bonferroni), chance
    may have put it there, and the finding is "unverified".
    """
    planted = [one for one in scored if one.canary.times]
    made: list[Finding] = []
    plain: list[Mapping[str, str]] = []
    for number, one in enumerate(planted, 1):
        bits = exposure(one)
        if (p := 2**-bits) > LISTED:
            continue
        name = f"{PLUGIN}-{number:04d}"
        made.append(
            Finding(
                id=name,
                severity=_severity(one) if p * len(planted) <= LEVEL else "unverified",
                label=LABEL,
                measurement=f"{PLUGIN} exposure",
                evidence={
                    "text": one.canary.secret,
                    "exposure": bits,
                    "times": one.canary.times,
                    "client": one.canary.client,
                    "p_value": p,
                },
                safe=("client",),
            )
        )
        plain.append(
            {
                "id": name,
                "label": LABEL,
                "text": one.canary.secret,
                "client": one.canary.client,
                "sentence": one.canary.whole,
            }
        )
    return made, plain


def _severity(one: ScoredCanary) -> Literal["high", "medium"]:
    return "high" if is_maximal(one) else "medium"
