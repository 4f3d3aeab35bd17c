"""The secrets that training gave away, as findings."""

from collections.abc import Mapping, Sequence

from fedaudit.api.records import Finding
from fedaudit.audit.exposure.measurements import PLUGIN, exposure, is_maximal
from fedaudit.canaries.ranking import ScoredCanary

LABEL = "CANARY"
LEVEL = 0.01
"""The chance, at most, that any secret is listed of which the model knows nothing."""


def findings(scored: Sequence[ScoredCanary]) -> tuple[list[Finding], list[Mapping[str, str]]]:
    """Return planted secrets that stand too high for chance, and what --reveal writes of them.

    A secret that nobody trained on stands among the first k of n with the probability k / n; that
    is held against LEVEL over the number of planted secrets (Bonferroni).
    """
    planted = [one for one in scored if one.canary.times]
    made: list[Finding] = []
    plain: list[Mapping[str, str]] = []
    for number, one in enumerate(planted, 1):
        bits = exposure(one)
        if 2**-bits * len(planted) > LEVEL:
            continue
        name = f"{PLUGIN}-{number:04d}"
        made.append(
            Finding(
                id=name,
                severity="high" if is_maximal(one) else "medium",
                label=LABEL,
                measurement=f"{PLUGIN} exposure",
                evidence={
                    "text": one.canary.secret,
                    "exposure": bits,
                    "times": one.canary.times,
                    "client": one.canary.client,
                    "p_value": 2**-bits,
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
