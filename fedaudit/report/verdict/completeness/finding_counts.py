"""How many findings a report lacks, by its measurements and by the numbers of its findings.

A measurement calls for a least number of findings: what it does not count exactly, as the texts
behind a memorization ratio, is bounded from below. Neither the attacks of plugins from elsewhere
are counted nor those of studies, which average their measurements.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fedaudit.api.completion import HELD_OUT
from fedaudit.api.records import Finding, Measurement
from fedaudit.api.target_sets import ALL
from fedaudit.report.verdict.attribution import PROTOCOL, tested_clients

Findings = Sequence[Finding]
Rows = Sequence[Measurement]

NEW, TUNED, BASE = "tuned-not-base", "tuned", "base"
PREFIX_ATTACKS = ("contextual", "frequency", "superset", "laft")
NUMBERED = (
    *PREFIX_ATTACKS,
    *("verbatim", "discoverable", "untargeted", "benign", "ranking", "memorize", "gate"),
)
"""The attacks whose findings are numbered without a gap."""

NUMBER = re.compile(rf"((?:.*-)?({'|'.join(NUMBERED)}))-(\d{{2,9}})(?:-(\d{{1,9}}))?", re.DOTALL)
"""A finding's id: the attack, perhaps behind a pair of clients or a key, its number, its copy."""

PARTS = frozenset({"label", "category", "task", "budget", "samples"})
"""Scope keys of rows about a part of the targets or of the budget."""

LEAST_PROBABILITY = 0.01
"""The exact estimator lists every target that comes out with this probability or more."""
MAX_TEXTS = 100
"""The most texts that `memorize` lists."""
LEAST_RANK = 0.01
"""A planted secret is listed if chance gives so high a rank with this probability or less."""
ROUNDING = 1e-6


def count_missing_findings(measurements: Iterable[Measurement], findings: Findings) -> int:
    """Return the least number of findings that a report lacks.

    What comes out under a right key is measured, but is no finding.
    """
    rows: dict[str, list[Measurement]] = defaultdict(list)
    for row in measurements:
        if "variant" not in row.scope and row.scope.get("key") != "right":
            rows[row.plugin].append(row)
    listed: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        listed[_attack(finding)].append(finding)
    missing = _count_gaps(findings)
    for name, rule in RULES.items():
        missing[name] = max(missing[name], rule(rows[name], listed[name]))
    return missing.total()


def _attack(finding: Finding) -> str:
    return finding.measurement.partition(" ")[0]


def _count_gaps(findings: Findings) -> Counter[str]:
    """Return how many numbers are left out, by attack.

    The attacks of an audit number their findings from 1 on. Where several attacks give the same
    id, it has a copy for each: so no number has fewer copies than a higher one.
    """
    copies: dict[tuple[str, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        match = NUMBER.fullmatch(finding.id)
        if match and match[2] == _attack(finding):
            copies[match[1], match[2]][int(match[3])].add(int(match[4] or 1))
    gaps = Counter[str]()
    for (_, attack), by_number in copies.items():
        expected = 0
        numbers = sorted(by_number, reverse=True)
        for number, lower in zip(numbers, [*numbers[1:], 0], strict=True):
            expected = max(expected, *by_number[number])
            gaps[attack] += expected * (number - lower) - len(by_number[number])
    return gaps


def _totals(rows: Rows, kind: str, metric: str, source: str) -> list[Measurement]:
    """Return the rows of a source about all targets and the whole budget."""
    return [
        row
        for row in rows
        if (row.kind, row.metric, row.scope.get("source")) == (kind, metric, source)
        and not PARTS & row.scope.keys()
    ]


def _hits(rows: Iterable[Measurement]) -> int:
    return sum(row.hits or 0 for row in rows)


def _sum(findings: Findings, field: str) -> float:
    return sum(_number(finding, field) for finding in findings)


def _number(finding: Finding, field: str) -> float:
    """Return a number in a finding's evidence, from 0 to a billion."""
    value = finding.evidence.get(field)
    return min(max(value, 0), 1e9) if isinstance(value, int | float) else 0


def _prefix_attack(rows: Rows, findings: Findings) -> int:
    """Return how many strings that were drawn, or are expected, no finding is of."""
    all_targets = [row for row in rows if row.scope.get("set") == ALL]
    drawn = max(
        _hits(_totals(all_targets, "extraction", metric, TUNED))
        for metric in ("coverage", "efficiency")
    )
    tops = [row.n or 0 for row in rows if row.metric == "precision" and row.value is not None]
    lacking = max(drawn, *tops, 0) - len(findings)
    expected = [
        row
        for row in _totals(all_targets, "extraction", "vx_pii", TUNED)
        if row.scope.get("estimator") == "exact"
    ]
    return max(lacking, _unlikely_rest(expected, findings)) if expected else lacking


def _unlikely_rest(expected: Rows, findings: Findings) -> int:
    """Return how many targets would account for what listed and unlikely ones do not."""
    unlisted = max(0, sum(row.n or 0 for row in expected) - len(findings))
    explained = _sum(findings, "probability") + LEAST_PROBABILITY * unlisted
    rest = sum(min(row.value or 0.0, row.n or 0) for row in expected) - explained
    return math.ceil(rest) if rest > ROUNDING else 0


def _asked(rows: Rows, source: str) -> list[Measurement]:
    """Return the coverages of the records that were asked, without those held out beside them."""
    totals = _totals(rows, "extraction", "coverage", source)
    return [row for row in totals if row.scope.get("records") != HELD_OUT]


def _verbatim(rows: Rows, findings: Findings) -> int:
    return _hits(_asked(rows, TUNED)) - len(findings)


def _discoverable(rows: Rows, findings: Findings) -> int:
    pairs = _hits(_asked(rows, NEW) or _asked(rows, TUNED))
    return math.ceil(pairs - _sum(findings, "pairs"))


def _untargeted(rows: Rows, findings: Findings) -> int:
    return _recalled([row for row in rows if "detection" not in row.scope]) - len(findings)


def _benign(rows: Rows, findings: Findings) -> int:
    return _recalled(rows) - len(findings)


def _recalled(rows: Rows) -> int:
    kind, metric = "extraction", "extraction_recall"
    return _hits(_totals(rows, kind, metric, NEW) or _totals(rows, kind, metric, TUNED))


def _ranking(rows: Rows, findings: Findings) -> int:
    """Return how many of the truths that only the tuned model picks have no finding, at least."""
    listed = Counter(finding.label for finding in findings)
    gained = Counter[str]()
    for row, gain in _gains([row for row in rows if "label" in row.scope]).values():
        gained[str(row.scope["label"])] += gain
    total = sum(gain for _, gain in _gains([r for r in rows if "label" not in r.scope]).values())
    return max(total - len(findings), (gained - listed).total())


def _gains(rows: Rows) -> dict[str, tuple[Measurement, int]]:
    """Return how many more truths the tuned model picks than its base, and a row, by question.

    Of several numbers of candidates, the one with the largest gain counts.
    """
    picked = [r for r in rows if (r.kind, r.metric) == ("probability", "inference_accuracy")]
    bases = {_key(row, "source"): row for row in picked if row.scope.get("source") == BASE}
    gains: dict[str, tuple[Measurement, int]] = {}
    for row in picked:
        if row.scope.get("source") == TUNED and (base := bases.get(_key(row, "source"))):
            question, gain = _key(row, "source", "candidates"), (row.hits or 0) - (base.hits or 0)
            if gain > gains.get(question, (row, 0))[1]:
                gains[question] = row, gain
    return gains


def _key(row: Measurement, *without: str) -> str:
    return str(sorted((key, str(value)) for key, value in row.scope.items() if key not in without))


def _memorize(rows: Rows, findings: Findings) -> int:
    """Return of how many clients fewer texts are listed than prefixes drew.

    Texts that other clients' prefixes drew count separately from those that their own did.
    """
    if len(findings) >= MAX_TEXTS:
        return 0
    listed: dict[tuple[str, bool], float] = defaultdict(float)
    for finding in findings:
        victim = str(finding.evidence.get("victim"))
        by_others = _number(finding, "prefixes_of_others")
        listed[victim, True] += by_others
        listed[victim, False] += _number(finding, "prefixes") - by_others
    drawn: dict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
    for row in rows:
        scope = row.scope
        if (row.metric, scope.get("source"), scope.get("category")) == ("mr_pair", TUNED, ALL):
            attacker, victim = str(scope.get("attacker")), str(scope.get("victim"))
            drawn[_key(row, "attacker", "victim")][victim, attacker != victim] += row.hits or 0
    return min((sum(n > listed[k] for k, n in h.items()) for h in drawn.values()), default=0)


def _canary(rows: Rows, findings: Findings) -> int:
    """Return how many secrets that are likelier than all others have no finding."""
    listed = Counter(str(finding.evidence.get("times")) for finding in findings)
    highest = [
        row
        for row in _totals(rows, "exposure", "maximal_exposure", TUNED)
        if row.scope.get("times") and row.chance is not None and row.chance <= LEAST_RANK
    ]
    return sum(max(0, (row.hits or 0) - listed[str(row.scope["times"])]) for row in highest)


def _gate(rows: Rows, findings: Findings) -> int:
    """Return how many kinds of attempts that opened the gate have no finding."""
    opened = Counter(
        str(row.scope["attempt"])
        for row in rows
        if row.metric == "fpr" and row.hits and "attempt" in row.scope
    )
    return (opened - Counter(str(f.evidence.get("attempt")) for f in findings)).total()


def _attribution(rows: Rows, findings: Findings) -> int:
    """Return how many flagged clients no finding accuses."""
    flagged = {test.client for test in tested_clients(rows) if test.flagged}
    return len(flagged - {str(finding.evidence.get("client")) for finding in findings})


RULES: Mapping[str, Callable[[Rows, Findings], int]] = {
    **dict.fromkeys(PREFIX_ATTACKS, _prefix_attack),
    "verbatim": _verbatim,
    "discoverable": _discoverable,
    "untargeted": _untargeted,
    "benign": _benign,
    "ranking": _ranking,
    "memorize": _memorize,
    "canary": _canary,
    "gate": _gate,
    PROTOCOL: _attribution,
}
"""By attack: how many findings it lacks; not above 0 where it lacks none."""
