"""Extraction without sampling noise: for an auditor, who knows the targets, it can be computed.

One walk of each model gives the probability that a continuation of each prefix begins with each
target; what any number of samples finds follows from the probabilities of missing it, which
multiply over prefixes and samples. docs/exact.md has the formulas.
"""

from fedaudit.audit import expectation, probable
from fedaudit.audit.asking import Manner
from fedaudit.audit.plan import Plan
from fedaudit.audit.scoring import Truth
from fedaudit.audit.sources import Exact
from fedaudit.audit.walking import walked
from fedaudit.interfaces import Case, Result


def result(
    plugin: str,
    case: Case,
    plan: Plan,
    truth: Truth,
    manner: Manner,
    *,
    threshold: float,
    sweeps: bool = True,
) -> Result:
    """Return what `manner.samples` and, with `sweeps`, other numbers of samples find."""
    targets, control = list(truth.labels), sorted(truth.control)
    found = Exact(
        plugin=plugin,
        truth=truth,
        tuned=walked(case, case.tuned, plan, [*targets, *control], manner, threshold),
        base=walked(case, case.base, plan, targets, manner, threshold) if case.base else None,
        size=plan.size,
        samples=manner.samples,
        threshold=threshold,
        sweeps=sweeps,
    )
    return Result(
        measurements=tuple(expectation.rows(found)),
        findings=probable.findings(found),
        limits=probable.limits(found),
        revealed=probable.revealed(found),
    )
