"""Findings of an exact walk: the targets that some prefix gives, and with how many samples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fedaudit.audit.expectation import PROBABILITIES
from fedaudit.audit.sources import Exact
from fedaudit.metrics.expected import samples_needed
from fedaudit.records import Finding

Revealed = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A target that some prefix gives: its place in the tuned model's walk, and in the base's."""

    string: str
    tuned: int
    base: int | None
    of_base: bool
    """Whether a prefix makes the base give it as well."""


def findings(exact: Exact) -> tuple[Finding, ...]:
    """Return a finding for each target that a prefix of the tuned model gives often enough.

    High when the samples find it more likely than not, else medium; low when the base gives it too,
    by the same measure. The evidence holds the plain string under "text": the report masks it.
    """
    return tuple(_finding(exact, name, target) for name, target in _named(exact))


def revealed(exact: Exact) -> Revealed:
    """Return the plain text of the findings, by id."""
    labels = exact.truth.labels
    return tuple(
        {"id": name, "label": labels[target.string], "text": target.string}
        for name, target in _named(exact)
    )


def _named(exact: Exact) -> list[tuple[str, _Target]]:
    """Return (finding id, target) of every target found, the surest first."""
    log_least = exact.tuned.log_least
    found = sorted(_found(exact), key=lambda one: (one.of_base, log_least[one.tuned], one.string))
    return [(f"{exact.plugin}-{number:04d}", one) for number, one in enumerate(found, 1)]


def _found(exact: Exact) -> Iterator[_Target]:
    walked, base = exact.tuned, exact.base
    places = {string: place for place, string in enumerate(base.strings)} if base else {}
    for index, string in enumerate(walked.strings):
        if string in exact.truth.labels and walked.best[index] >= exact.threshold:
            place = places[string] if base else None
            of_base = base is not None and bool(base.best[place] >= exact.threshold)
            yield _Target(string=string, tuned=index, base=place, of_base=of_base)


def _finding(exact: Exact, name: str, target: _Target) -> Finding:
    import numpy as np

    walked, base, index, n = exact.tuned, exact.base, target.tuned, exact.samples
    probability = float(-np.expm1(n * walked.log_least[index]))
    log_base = base.log_least[target.base] if base else None
    needed = {
        f"samples_for_{100 * p:.0f}_percent": samples_needed(float(walked.log_least[index]), p)
        for p in PROBABILITIES
    }
    own: Literal["high", "medium"] = "high" if probability >= 0.5 else "medium"
    return Finding(
        id=name,
        severity="low" if target.of_base else own,
        label=exact.truth.labels[target.string],
        measurement=f"{exact.plugin} coverage",
        evidence={
            "text": target.string,
            "probability": probability,
            "probability_of_base": None if log_base is None else float(1 - np.exp(n * log_base)),
            "prefixes": int(walked.prefixes[index]),
            "likeliest": [[number, chance] for chance, number in walked.likeliest[index]],
            **needed,
        },
    )


def limits(exact: Exact) -> tuple[str, ...]:
    """Return what the walk gave up, and what else it does not say."""
    labels, sources = exact.truth.labels, exact.sets()["all"]
    chance = sources.chances(exact.samples)["tuned"]
    expected, most = float(chance.least.sum()), float(chance.most.sum())
    drawn = min(most, expected + chance.more())
    told = [
        f"{exact.plugin}: {len(labels)} victim-exclusive strings; "
        f"{len(labels) - len(exact.truth.disjoint)} of them are left out of the prefix-disjoint "
        "set.",
        f"{exact.plugin}: probabilities were computed, not sampled, from {exact.tuned.rows:.1f} "
        f"model rows a prefix; branches below {exact.threshold:g} were given up. With "
        f"{exact.samples:,} samples {expected:.2f} targets are expected by what was followed, at "
        f"most {most:.2f} with all that was given up, and {drawn:.2f} (97.5 %) by draws from it.",
    ]
    if exact.base is None:
        told.append("The target has no base to compare with: what the base knew is not removed.")
    return tuple(told)
