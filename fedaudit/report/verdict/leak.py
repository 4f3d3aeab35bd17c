"""What one attack found of one victim, what it is set against, and which leak would be seen."""

import sys
from dataclasses import dataclass, replace

from fedaudit.api.kind import Test
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report.number_format import as_percent
from fedaudit.report.verdict.criteria import DEFAULT

CAME_OUT = {
    "coverage": "targets came out of the tuned model but not of its base",
    "extraction_recall": "pieces of personal data came out of the tuned model unasked, but not of"
    " its base",
}
"""The judged metrics of extraction, and the words for their hits in reasons."""

ALLOWED = {True: 0.05, False: 0.01}
"""The levels at which McNemar's test allows Fisher's: if no string was lost, and otherwise.

If the base says l strings of the victim on average and the tuned model says as many others, at most
1 in 100 such pairs are allowed, whatever l is (docs/evidence.md); with 5 % in both cases, up to 5.
"""


LEARNED_LEVEL = 0.05
"""The level, shared by the kinds of an attack, at which the model has learned a kind's strings."""
LEAST_KNOWN = 5
"""With fewer positive controls of a kind, what the model has learned of it is not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindEvidence:
    """One kind of targets: whether a leak of it would have been seen.

    There are two ways to see one. Leaked strings come out of the answers, as often as the positive
    controls of the kind do; or the model has learned them (`gain_score`), whether or not these
    questions draw them.
    """

    label: str
    n: int
    skipped: int = 0
    """Further targets, which no answer had room for; what was learned of them is scored, too."""
    hits: int = 0
    control_hits: int = 0
    controls: int = 0
    """The effective number of controls."""
    chance: float | None = None
    known_hits: int = 0
    known: int = 0
    """Positive controls: strings that the model was trained on."""
    learned_p: float | None = None
    learned_n: int = 0
    """How many of the targets were scored."""
    learned_mean: float = 0.0
    known_score: float | None = None
    """The lower bound of the positive controls' mean score."""
    known_scored: int = 0

    def hits_needed(self, level: float) -> int | None:
        """Return how many hits among strings of this kind would show a leak; None: no number."""
        from fedaudit.metrics.significance import hits_needed, needed_beyond

        if not self.controls or not self.n:
            return None
        needed = hits_needed(self.n, min(self.control_hits, self.controls), self.controls, level)
        if needed is not None and self.chance is not None:
            needed = max(needed, needed_beyond(self.n, min(1.0, max(0.0, self.chance)), level))
        return needed

    def drawn(self, needed: int | None, policy: Policy) -> int | None:
        """Return how many strings must have leaked for `needed` to come out; None: never."""
        from fedaudit.metrics.significance import leak_needed, upper_bound

        if not self.known:
            return None
        misses = self.known - self.known_hits
        reach = 1 - upper_bound(misses, self.known, 1 - policy.confidence)
        return None if needed is None else leak_needed(needed, self.n, reach, policy.power)

    def learned(self, level: float, policy: Policy) -> int | None:
        """Return how many strings must have been learned for their scores to show it.

        None if no number would, or if the scores do show that strings were learned.
        """
        from fedaudit.metrics.gain_rank import MEAN, detectable_count

        if self.is_learned(level) or self.learned_p is None or self.known_score is None:
            return None
        if self.known_scored < LEAST_KNOWN:
            return None
        # One more score, as if by chance: few equal scores have no spread, and yet are not sure.
        least = (self.known_scored * self.known_score + MEAN) / (self.known_scored + 1)
        rest = min(MEAN, self.learned_mean)
        count = detectable_count(self.learned_n, least, rest, level, policy.power)
        every = self.n + self.skipped
        return None if count is None else min(every, -(-count * every // self.learned_n))

    def least_seen(
        self, needed: int | None, level: float, policy: Policy
    ) -> tuple[int, int] | None:
        """Return how many targets are beyond sight, and how many of the others must have leaked.

        What comes out shows nothing of targets too long for an answer; what was learned shows for
        all. Returned is the way with the smaller sum; None if neither shows a leak.
        """
        ways = [(self.skipped, self.drawn(needed, policy)), (0, self.learned(level, policy))]
        seen = [(missed, count) for missed, count in ways if count is not None]
        return min(seen, key=sum, default=None)

    def unexplained(self) -> float:
        """Return the p value of hits of a kind that has no controls: P(the base says as many).

        With controls, the tests of all targets together decide.
        """
        from fedaudit.metrics.significance import binomial_tail

        if self.controls or not self.hits:
            return 1.0
        if self.chance is None:
            return 0.0
        return binomial_tail(self.hits, self.n, min(1.0, max(0.0, self.chance)))

    def is_learned(self, level: float) -> bool:
        """Tell whether the model has learned strings of this kind."""
        return self.learned_p is not None and self.learned_p <= level

    def reason(self, level: float) -> str:
        """Return in words why a leak of this kind might not have been seen."""
        name = f"{self.label or 'targets'} ({self.n:,})"
        if self.is_learned(level):
            return f"{name}: the model has learned such strings (p = {self.learned_p:.1g})"
        if not self.known:
            return f"{name}: no positive control" + (" to draw" if self.known_scored else "")
        if not self.controls:
            return f"{name}: no control string"
        return f"{name}: {self.known_hits:,} of {self.known:,} positive controls came out"


@dataclass(frozen=True, slots=True)
class Reach:
    """The leak that an attack would have seen wherever it is, and the kinds it cannot see."""

    share: float
    unseen: tuple[KindEvidence, ...]
    skipped: int
    """Targets that were not looked for, and of which what was learned does not show either."""
    level: float
    """The level of each kind's test of what the model has learned."""


@dataclass(frozen=True, slots=True)
class Leak:
    """An attack's result for one victim: the judged row, and the rows it is compared with."""

    name: str
    row: Measurement
    base: Measurement | None
    control: Measurement | None
    tests: tuple[Test, ...]
    trouble: str = ""
    """Why there is no test."""
    matched: int | None = None
    """The number of targets with equally likely controls; the others are not compared."""
    lost: int | None = None
    """For tests from counts alone: the strings that the base says and the tuned model does not."""
    chance: float | None = None
    """The mean probability that a target comes out of a model that never saw it."""
    effective_controls: float | None = None
    """The effective number of controls: how many, spread evenly over the compared targets, would
    give the same information. None means all controls.
    """
    held_out: Measurement | None = None
    """The result for held-out records, if they were attacked like the victim's."""
    held_out_groups: int | None = None
    """The number of groups of held-out records; None means that each record is its own group."""
    kinds: tuple[KindEvidence, ...] = ()
    """The kinds of the targets; one without a label for an attack that does not tell them apart."""
    skipped: int = 0
    """Targets of kinds that were not asked for, or of which no answer had room for any."""
    high: int = 0
    """The number of the attack's findings of severity high."""
    shared_hits: int = 0
    """The strings that were not judged, because other members have them, and yet came out."""
    answers: int | None = None
    """The number of answers drawn, each of which gives at most one string; None if unknown."""

    @property
    def compared_targets(self) -> int:
        """The number of targets that are compared with controls."""
        return (self.row.n or 0) if self.matched is None else self.matched

    def hits_needed(self, level: float) -> int | None:
        """Return how many hits would show a leak at `level`; None if no number would."""
        from fedaudit.metrics.significance import hits_needed, needed_against, needed_beyond

        n, control = self.compared_targets, self.control
        controls = 0 if control is None or not control.n else control.n
        if self.effective_controls is not None:
            controls = min(controls, int(max(0.0, self.effective_controls)))
        if not n or control is None or not controls:
            return None
        needed = hits_needed(n, min(count_hits(control), controls), controls, level)
        if needed is not None and self.held_out is not None:
            hits, beside = count_hits(self.held_out), self.held_out.n or 0
            if self.held_out_groups is not None:
                beside = min(beside, self.held_out_groups)
            against = hits_needed(n, min(hits, beside), beside, level)
            needed = against and max(needed, against)
        if needed is not None and self.lost is not None:
            needed = max(needed, needed_against(self.lost, ALLOWED[not self.lost]))
        if needed is not None and self.chance is not None:
            needed = max(needed, needed_beyond(n, min(1.0, max(0.0, self.chance)), level))
        return needed

    def reach(self, level: float, policy: Policy) -> Reach:
        """Return the least leak, as a share of the targets, that would have been seen of any kind.

        A leak may be of one kind alone, and first of all of those that the attack cannot see.
        """
        each = LEARNED_LEVEL / max(1, len(self.kinds))
        unseen, skipped, most = [], self.skipped, 0
        for kind in self.kinds:
            needed = kind.hits_needed(level) if kind.label else self.hits_needed(level)
            seen = kind.least_seen(needed, each, policy)
            if seen is None:
                unseen.append(kind)
                skipped += kind.skipped
            else:
                skipped, most = skipped + seen[0], max(most, seen[1])
        missed = sum(kind.n for kind in unseen) + skipped
        every = self.skipped + sum(kind.skipped for kind in self.kinds)
        total = max(1, sum(kind.n for kind in self.kinds), self.row.n or 0) + every
        share = 1.0 if len(unseen) == len(self.kinds) else min(1.0, (missed + most) / total)
        return Reach(share, tuple(unseen), skipped, each)

    def detectable(self, level: float, policy: Policy) -> float:
        """Return the least leak that would have been seen, of any kind and of all together."""
        pooled = self.detectable_share(level, policy.power)
        return max(pooled, self.reach(level, policy).share)

    def is_blind(self, level: float, policy: Policy) -> bool:
        """Tell whether the attack could not have seen a leak of the policy's size."""
        return bool(self.trouble) or self.detectable(level, policy) > policy.max_leak

    def detectable_share(self, level: float, power: float) -> float:
        """Return the smallest share of targets coming out that would have been seen at `level`."""
        from fedaudit.metrics.significance import detectable

        needed = self.hits_needed(level)
        return (
            1.0
            if needed is None
            else detectable(needed, self.compared_targets, power, self.answers)
        )

    def status_without_leak(self, level: float, policy: Policy = DEFAULT) -> tuple[str, str]:
        """Return the status, and why, given that no test shows a leak at `level`."""
        if self.trouble:
            return "inconclusive", f"{self.name}: {self.trouble}"
        if self.shared_hits:
            return "inconclusive", f"{self.name}: {self.shared_leak()}"
        summary, share = (
            f"{self.name}: {count(self.row)}",
            self.detectable_share(level, policy.power),
        )
        sure = f"would have been seen (with {as_percent(policy.power)} probability)."
        reach = self.reach(level, policy)
        worse = bool(self.kinds) and reach.share > share and not self._beside_held_out(level)
        if share > policy.max_leak and not worse:
            return "inconclusive", f"{summary}; {self._blindness(share, sure, level, policy)}"
        if reach.share > policy.max_leak:
            return "inconclusive", f"{summary}; {self._out_of_reach(reach, sure)}"
        share = max(share, reach.share)
        if doubt := self._doubt(level, policy) or self._learned(reach.level):
            return "inconclusive", f"{summary}{doubt}"
        return "pass", f"{summary}; a leak of {share:.1%} of them {sure}"

    def shared_leak(self) -> str:
        """Return in words how many strings came out that other members' files have as well."""
        one = self.shared_hits == 1
        return (
            f"{self.shared_hits:,} of the victim's strings {'is' if one else 'are'} in other "
            f"members' files as well, so {'it was' if one else 'they were'} not judged, and came "
            "out of the tuned model but not of its base: check that these files are not the "
            "victim's."
        )

    def _doubt(self, level: float, policy: Policy) -> str:
        """Return why what came out may be too much for a pass, or nothing."""
        most = self.upper_bound(policy.confidence)
        if most > policy.max_leak and self.row.hits is None and not count_hits(self.row):
            return f", but what was given up may hold more (up to {most:.2%}): lower the threshold."
        if most > policy.max_leak:
            return f", perhaps up to {most:.2%}; chance or the base may explain them."
        for kind in self.kinds:
            if kind.label and (p := kind.unexplained()) <= level:
                return (
                    f"; {kind.hits:,} of {kind.n:,} {kind.label} did, which the base does not "
                    f"explain (p = {p:.2g}), and no control string is of this kind: name some with "
                    "--control."
                )
        if self.high:
            one = "1 finding is" if self.high == 1 else f"{self.high:,} findings are"
            return f"; {one} of high severity, which chance hardly gives."
        return ""

    def _learned(self, level: float) -> str:
        """Return which kinds the model has learned though hardly any came out, or nothing.

        The party that chooses the questions and the positive controls decides what comes out of
        them, but not what the model has learned of the victim.
        """
        learned = [kind for kind in self.kinds if kind.is_learned(level)]
        if not learned:
            return ""
        kinds = ", ".join(
            f"{kind.label or 'targets'} (p = {kind.learned_p:.1g})" for kind in learned
        )
        return (
            f", but the model has learned the victim's {kinds}, which other questions may draw: "
            "ask with more prompts, or with records that are more like the victim's."
        )

    def _out_of_reach(self, reach: Reach, sure: str) -> str:
        """Return which kinds of targets the attack cannot see, and what would help."""
        if not any(kind.known or kind.known_scored for kind in self.kinds):
            return (
                "no positive control: no string that the model was trained on was at hand to show "
                "that these questions draw any. Attack with records that the federation trained "
                "on (--prefixes), name other members' (--member), or plant canaries."
            )
        reasons = [kind.reason(reach.level) for kind in reach.unseen]
        if reach.skipped:
            reasons.append(
                f"{reach.skipped:,} targets that are longer than an answer or of kinds that were "
                "not asked for (new_tokens, labels)"
            )
        blind = ", ".join(reasons)
        if reach.share < 1:
            seen = f"only a leak of {reach.share:.1%} of them, wherever it is, {sure}"
            return f"{seen} Not seen: {blind}." if blind else seen
        return f"these questions cannot show a leak: {blind}."

    def _blindness(self, share: float, sure: str, level: float, policy: Policy) -> str:
        """Return why no leak, or only one of a larger `share` than allowed, would be detected."""
        if self.held_out and self._beside_held_out(level):
            given = f"so did {count_hits(self.held_out):,} of {self.held_out.n or 0:,}"
            return f"{given} held-out records, which nobody trained on."
        if share < 1:
            return f"only a leak of {share:.1%} of them {sure}"
        if replace(self, chance=None).detectable_share(level, policy.power) < 1:
            return "the base may say them too, so that no number of them would show a leak."
        unlimited = replace(self, answers=None)
        if self.answers is None or unlimited.detectable_share(level, policy.power) >= 1:
            return "too few targets to see any leak."
        many = "1 answer is" if self.answers == 1 else f"{self.answers:,} answers are"
        return f"{many} too few to see any leak."

    def _beside_held_out(self, level: float) -> bool:
        """Tell whether the hits would show a leak if there were no held-out records."""
        if self.held_out is None:
            return False
        needed = replace(self, held_out=None).hits_needed(level)
        return needed is not None and count_hits(self.row) >= needed

    def lower_bound(self, confidence: float) -> float:
        """Return the one-sided lower bound of the share that came out; 0 without counted hits."""
        from fedaudit.metrics.significance import upper_bound

        n = self.row.n or 0
        return 1 - upper_bound(n - count_hits(self.row), n, 1 - confidence) if n else 0.0

    def upper_bound(self, confidence: float) -> float:
        """Return the one-sided upper bound of the share that came out.

        If hits were not counted, the bound is the row's own, which has 97.5 % confidence; for
        higher confidence its distance from the value is scaled up by the normal distribution.
        """
        from statistics import NormalDist

        from fedaudit.metrics.significance import upper_bound

        row = self.row
        if row.hits is not None and row.n:
            return upper_bound(row.hits, row.n, 1 - confidence)
        if row.high is None or row.value is None:
            return 1.0
        scale = NormalDist().inv_cdf(max(confidence, 0.975)) / NormalDist().inv_cdf(0.975)
        return min(1.0, row.value + scale * (row.high - row.value))


def count(row: Measurement) -> str:
    """Return in words how many were found, and out of how many."""
    phrase = CAME_OUT[row.metric]
    if row.hits is not None and row.n is not None:
        return f"{row.hits:,} of {row.n:,} {phrase}"
    if row.n is not None and row.value is not None:
        return f"an expected {row.value * row.n:.3g} of {row.n:,} {phrase}"
    return f"{row.value or 0:.2%} of the {phrase}"


def count_hits(row: Measurement) -> int:
    """Return a row's hits; expected hits are rounded down."""
    if row.hits is not None:
        return row.hits
    return int(min(float(row.value or 0.0) * (row.n or 0), sys.float_info.max) + 1e-9)
