"""Findings of the exact estimator: targets that may come out, and the samples needed for that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fedaudit.api.records import Finding, Severity
from fedaudit.api.target_sets import ALL
from fedaudit.extraction.exact.expected_coverage import log_missed
from fedaudit.extraction.exact.measurements import PROBABILITIES
from fedaudit.extraction.exact.sources import ExactSources
from fedaudit.extraction.leak_tests import MATERIAL, LeakTests
from fedaudit.metrics.expected import samples_needed

Revealed = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A target that may come out in the audit's samples."""

    string: str
    position: int
    """Its index in the tuned model's walk."""
    chance: float
    low: float
    high: float
    """95 % bounds for the chance, which cover the walk's draws."""
    followed: float
    base: float | None

    @property
    def is_of_base(self) -> bool:
        """Tell whether the base gives it too, with a probability of MATERIAL or more."""
        return self.base is not None and self.base >= MATERIAL


def findings(exact: ExactSources, leak_tests: LeakTests | None = None) -> tuple[Finding, ...]:
    """Return a finding for each target with a probability of MATERIAL or more to come out.

    Its severity says how certain it is that training caused it, and is at most medium if the
    probability is below 0.5. The evidence holds the plain string under "text", which the report
    masks.
    """
    return tuple(
        _finding(exact, leak_tests, name, target) for name, target in _numbered_targets(exact)
    )


def revealed_findings(exact: ExactSources) -> Revealed:
    """Return the plain text of the findings, by id."""
    labels = exact.target_set.labels
    return tuple(
        {"id": name, "label": labels[target.string], "text": target.string}
        for name, target in _numbered_targets(exact)
    )


def _numbered_targets(exact: ExactSources) -> list[tuple[str, _Target]]:
    """Return (finding id, target) of every target found, the likeliest first.

    Targets that the base gives too come last.
    """
    log_least = exact.tuned.log_least
    order = sorted(
        _find_targets(exact),
        key=lambda t: (t.is_of_base, -t.chance, float(log_least[t.position]), t.string),
    )
    return [(f"{exact.plugin}-{number:04d}", target) for number, target in enumerate(order, 1)]


def _find_targets(exact: ExactSources) -> Iterator[_Target]:
    sources = exact.sets()[ALL]
    chances = sources.chances(exact.samples)
    tuned, base = chances["tuned"], chances.get("base")
    low, high = tuned.bounds()
    places = sources.places("tuned")
    for index, string in enumerate(sources.strings("tuned")):
        if tuned.value[index] >= MATERIAL:
            yield _Target(
                string=string,
                position=int(places[index]),
                chance=float(tuned.value[index]),
                low=float(low[index]),
                high=float(high[index]),
                followed=float(tuned.least[index]),
                base=float(base.value[index]) if base else None,
            )


def _severity(exact: ExactSources, leak_tests: LeakTests | None, target: _Target) -> Severity:
    string = target.string
    severity = (
        leak_tests.severity(string, exact.target_set.members.get(string, 0))
        if leak_tests
        else "low"
    )
    return "medium" if severity == "high" and target.chance < 0.5 else severity


def _finding(
    exact: ExactSources, leak_tests: LeakTests | None, name: str, target: _Target
) -> Finding:
    walked, index = exact.tuned, target.position
    log_miss = float(log_missed(walked, exact.samples)[index])
    likeliest = walked.likeliest.get(index, ())
    needed = {
        f"samples_for_{100 * p:.0f}_percent": samples_needed(log_miss, p) for p in PROBABILITIES
    }
    return Finding(
        id=name,
        severity=_severity(exact, leak_tests, target),
        label=exact.target_set.labels[target.string],
        measurement=f"{exact.plugin} coverage",
        evidence={
            "text": target.string,
            "probability": target.chance,
            "probability_low": target.low,
            "probability_high": target.high,
            "probability_of_base": target.base,
            "p_value": leak_tests.p.get(target.string) if leak_tests else None,
            "other_members": exact.target_set.members.get(target.string, 0),
            "followed": target.followed,
            "drawn": int(walked.drawn[index]),
            "trials": walked.draws * exact.size,
            "prefixes": int(walked.prefixes[index]),
            "likeliest": [[number, chance] for chance, number in likeliest],
            **({"prompt": likeliest[0][1]} if likeliest else {}),
            **needed,
        },
    )


def exact_caveats(exact: ExactSources) -> tuple[str, ...]:
    """Return caveats: which part of the numbers rests on draws, and what else limits them."""
    labels = exact.target_set.labels
    chance = exact.sets()[ALL].chances(exact.samples)["tuned"]
    low, expected, high = chance.total()
    followed, most = float(chance.least.sum()), float(chance.most.sum())
    caveats = [
        f"{exact.plugin}: {len(labels)} victim-exclusive strings; "
        f"{len(labels) - len(exact.target_set.disjoint)} of them are left out of the "
        "prefix-disjoint set.",
        f"{exact.plugin}: probabilities were computed, from {exact.tuned.rows:.1f} model rows a "
        f"prefix; branches below {exact.threshold:g}, less with every byte spelt, were drawn from. "
        f"With {exact.samples:,} samples {expected:.2f} targets are expected ({low:.2f} to "
        f"{high:.2f} with 95 %), {followed:.2f} of them by what was followed; at most {most:.2f} "
        "if all that was given up had spelt them.",
    ]
    if exact.base is None:
        caveats.append("The target has no base to compare with: what the base knew is not removed.")
    return tuple(caveats)
