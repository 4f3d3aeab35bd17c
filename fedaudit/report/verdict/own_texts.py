"""A client's own texts as positive controls: what a search for other clients' would have seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.api.estimates import Estimate, difference
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement

SHORT_SHARE = 0.5
"""The share of continuations too short to find anything in from which on a reason names them."""


@dataclass(frozen=True, slots=True)
class OwnTexts:
    """How often a client's prefixes draw its own texts, which the model was trained on."""

    reach: float
    """The lower bound of how often they come out of the tuned model and not of its base."""
    told: str
    """What came out, in words."""


def of_client(
    client: str,
    tuned: Measurement,
    base: Measurement,
    short: Measurement | None,
    policy: Policy,
) -> OwnTexts:
    """Return what came out of a client's own texts, from the counts of both models.

    Both may draw the same ones, so that at least as many as they differ by came out of the tuned
    model alone. The bound is Clopper and Pearson's, one-sided.
    """
    from fedaudit.metrics.significance import upper_bound

    n = tuned.n or 1
    hits = max(0, (tuned.hits or 0) - (base.hits or 0))
    reach = 1 - upper_bound(n - hits, n, 1 - policy.confidence)
    told = f"{hits:,} of {n:,} positive controls of {client} came out{_of_short(short)}"
    return OwnTexts(reach, told)


def of_all(
    tuned: Measurement | None, base: Measurement | None, short: Measurement | None
) -> list[OwnTexts]:
    """Return what came out of all clients' own texts, from the means of both models, if known."""
    estimates = [
        Estimate(row.value, row.low, row.high)
        for row in (tuned, base)
        if row is not None
        and row.value is not None
        and row.low is not None
        and row.high is not None
    ]
    if len(estimates) < 2:
        return []
    gain = difference(*estimates)
    told = f"{max(0.0, gain.value):.1%} of the positive controls came out{_of_short(short)}"
    return [OwnTexts(max(0.0, gain.low), told)]


def _of_short(short: Measurement | None) -> str:
    if short is None or not short.hits or (short.value or 0) < SHORT_SHARE:
        return ""
    return f" ({short.hits:,} of {short.n:,} continuations are too short to find anything in)"


@dataclass(frozen=True, slots=True)
class Sight:
    """What a search could have seen of a leak, by the own texts that came out of it."""

    controls: Sequence[OwnTexts] = ()
    searched: Measurement | None = None
    """How many of the victim's texts were looked for; None: all of them."""

    def leak(self, most: float) -> float:
        """Return the largest leak that may be there where a share of at most `most` came out.

        The share is divided by how often own texts come out. Of texts that were not looked for,
        nothing would have come out, so that all of them may have leaked.
        """
        reach = min((control.reach for control in self.controls), default=0.0)
        hidden = 0.0
        if self.searched is not None and self.searched.n:
            hidden = 1 - (self.searched.hits or 0) / self.searched.n
        return min(1.0, max(0.0, most) / reach + hidden) if reach > 0 else 1.0

    def reason(self, most: float) -> str:
        """Return in words why a leak might not have been seen."""
        leak = self.leak(most)
        reasons = [control.told for control in self.controls] or ["no positive control"]
        row = self.searched
        if row is not None and (missing := (row.n or 0) - (row.hits or 0)):
            attacker, victim = (row.scope.get(name) for name in ("attacker", "victim"))
            not_drawn = int(str(row.scope.get("not_drawn", 0)))
            causes = [f"{attacker} has them as well"] if missing > not_drawn else []
            causes += ["--compat looks for a sample only"] if not_drawn else []
            reasons.append(
                f"{missing:,} of {row.n:,} texts of {victim} were not looked for, "
                f"because {' and '.join(causes)}"
            )
        why = ", ".join(reasons)
        if leak >= 1:
            return f"these prefixes cannot show a leak: {why}"
        return f"only a leak of {leak:.1%} would have been seen: {why}"
