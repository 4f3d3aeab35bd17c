"""Findings of an exact walk: the targets that some prefix gives, and with how many samples."""

from collections.abc import Mapping
from typing import Literal

from fedaudit.audit.expectation import PROBABILITIES
from fedaudit.audit.sources import Exact
from fedaudit.metrics.expected import samples_needed
from fedaudit.records import Finding

Revealed = tuple[Mapping[str, str], ...]


def findings(exact: Exact) -> tuple[Finding, ...]:
    """Return a finding for each target that a prefix of the tuned model gives often enough.

    High when the samples find it more likely than not, else medium; low when the base gives it too,
    by the same measure. The evidence holds the plain string under "text": the report masks it.
    """
    return tuple(_finding(exact, name, index) for name, index in _named(exact))


def revealed(exact: Exact) -> Revealed:
    """Return the plain text of the findings, by id."""
    labels, strings = exact.truth.labels, exact.tuned.strings
    return tuple(
        {"id": name, "label": labels[strings[index]], "text": strings[index]}
        for name, index in _named(exact)
    )


def _named(exact: Exact) -> list[tuple[str, int]]:
    """Return (finding id, place in the walk) of every target found, the surest first."""
    walked = exact.tuned
    found = [
        index
        for index, string in enumerate(walked.strings)
        if string in exact.truth.labels and walked.best[index] >= exact.threshold
    ]
    found.sort(key=lambda i: (_of_base(exact, i), walked.log_least[i], walked.strings[i]))
    return [(f"{exact.plugin}-{number:04d}", index) for number, index in enumerate(found, 1)]


def _of_base(exact: Exact, index: int) -> bool:
    """Tell whether a prefix makes the base give a target as well."""
    if exact.base is None:
        return False
    place = exact.base.strings.index(exact.tuned.strings[index])
    return bool(exact.base.best[place] >= exact.threshold)


def _finding(exact: Exact, name: str, index: int) -> Finding:
    import numpy as np

    walked, base = exact.tuned, exact.base
    string, n = walked.strings[index], exact.samples
    probability = float(-np.expm1(n * walked.log_least[index]))
    log_base = base.log_least[base.strings.index(string)] if base else None
    needed = {
        f"samples_for_{100 * p:.0f}_percent": samples_needed(float(walked.log_least[index]), p)
        for p in PROBABILITIES
    }
    own: Literal["high", "medium"] = "high" if probability >= 0.5 else "medium"
    return Finding(
        id=name,
        severity="low" if _of_base(exact, index) else own,
        label=exact.truth.labels[string],
        measurement=f"{exact.plugin} coverage",
        evidence={
            "text": string,
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
