"""Reports of an attribution: what the protocol says of each client, the baselines, a study."""

import math
from dataclasses import replace
from io import StringIO
from statistics import fmean

from example_report import SHA256, example, wilson
from rich.console import Console

from fedaudit.api.records import Finding, Measurement
from fedaudit.report.document import validate
from fedaudit.report.renderers import terminal
from fedaudit.report.tables.attribution import attribution

THRESHOLD = 4.0
ROUNDS = (1, 2, 3, 4, 5)
SCORES = {
    "court-1": ("mark-a", (3.1, 3.6, 2.9, 4.2, 3.8)),
    "bank-2": ("mark-b", (2.4, 2.2, 3.0, 2.8, 2.6)),
    "ward-3": ("mark-a", (0.4, -0.8, 1.1, 0.2, 0.5)),
    "ward-4": ("mark-b", (-0.6, 0.1, None, -0.3, None)),
}
"""The mark that speaks most against a client, and its score in each round that it took part in."""

TRUTH = {"court-1": "mark-a", "bank-2": "mark-b"}


def row(plugin, metric, value, *, reason="", n=None, hits=None, baseline=None, **scope):
    return Measurement(
        kind="attribution",
        plugin=plugin,
        metric=metric,
        value=value,
        n=n,
        hits=hits,
        baseline=baseline,
        reason=reason,
        scope=scope,
    )


def share(plugin, metric, hits, n, **scope):
    if not n:
        reason = "no client that took part is innocent"
        return row(plugin, metric, None, n=0, reason=reason, **scope)
    low, high = wilson(hits, n)
    return replace(row(plugin, metric, hits / n, n=n, hits=hits, **scope), low=low, high=high)


def combined(scores):
    return sum(scores) / math.sqrt(len(scores))


def tail(z):
    return math.erfc(z / math.sqrt(2)) / 2


def client(name, mark, scores, **scope):
    """Return the rows of one client under one mark."""
    took = {n: s for n, s in zip(ROUNDS, scores, strict=True) if s is not None}
    at, values = {"client": name, "mark": mark, **scope}, list(took.values())
    z = combined(values)
    common = {"n": len(values), **at}
    return [
        row("fed_attr", "stouffer_z", z, baseline=THRESHOLD, **common),
        row("fed_attr", "p_value", tail(z), **common),
        row("fed_attr", "p_value", min(1.0, 8 * tail(z)), adjusted="holm", **common),
        *rounds(took, **at),
    ]


def rounds(took, **at):
    rows = []
    for count, (number, score) in enumerate(took.items(), 1):
        z = combined(list(took.values())[:count])
        rows += [
            row("fed_attr", "stouffer_z", z, n=count, round=number, **at),
            row("fed_attr", "score", score, round=number, **at),
        ]
    return rows


def absent(name="ward-5", **scope):
    """Return the row of a client that never took part."""
    reason = "it took part in none of the rounds"
    return row(
        "fed_attr", "stouffer_z", None, n=0, baseline=THRESHOLD, reason=reason, client=name, **scope
    )


def power(hits=97, n=100, **scope):
    """Return in how many of `n` simulated federations a usual mark is found."""
    return share("fed_attr", "marked_found", hits, n, strength=14.0, rounds=5, **scope)


def innocent(**scope):
    """Return the rows of clients that are not flagged, where a usual mark would have been seen."""
    return [
        *(
            one
            for name, (mark, scores) in SCORES.items()
            if name not in TRUTH
            for one in client(name, mark, scores, **scope)
        ),
        power(**scope),
    ]


def known(**scope):
    """Return what is known where the truth is."""
    z = {n: combined([s for s in v if s is not None]) for n, (_, v) in SCORES.items()}
    groups = {"marked": [z[n] for n in z if n in TRUTH]}
    groups["innocent"] = [z[n] for n in z if n not in TRUTH]
    return [
        share("fed_attr", "tpr", 2, 2, **scope),
        share("fed_attr", "fpr", 0, 2, **scope),
        *(
            row("fed_attr", "stouffer_z", fmean(values), n=len(values), clients=name, **scope)
            for name, values in groups.items()
        ),
    ]


def privacy(**scope):
    def one(metric, value, **at):
        n = at.pop("n", None)
        return row("fed_attr", metric, value, n=n, **at, **scope)

    rows = [one("queries", 500.0)]
    for number in ROUNDS:
        rows += [
            one("sets", 88.0 + number, round=number),
            one("smallest_set", 5.0, round=number),
            one("determined", 10.0 if number > 1 else 8.0, round=number, n=88 + number),
            one("estimator_variance", 0.9722, round=number),
            one("leakage_bits", 2410.4 - number, round=number, strength=0.4512),
            one("effective_masks", 1.31, round=number),
        ]
    return [
        *rows,
        one("seconds", 4.2, step="sums"),
        one("seconds", 212.0, step="scoring"),
    ]


def protocol(**scope):
    """Return all that the protocol measured."""
    return [
        *(
            one
            for name, (mark, scores) in SCORES.items()
            for one in client(name, mark, scores, **scope)
        ),
        *known(**scope),
        *privacy(**scope),
    ]


def baselines(**scope):
    """Return what the other methods say: a statistic, a suspicion, the global model."""
    z = {"court-1": 9.1, "bank-2": 7.7, "ward-3": 4.4, "ward-4": 1.2}
    rows = []
    for name, value in z.items():
        at = {"client": name, "mark": SCORES[name][0], **scope}
        rows += [
            row("direct", "stouffer_z", value, baseline=THRESHOLD, **at),
            row("direct", "p_value", tail(value), **at),
            row("direct", "flagged", float(value > THRESHOLD), **at),
        ]
    for index, name in enumerate(z):
        at = {"client": name, **scope}
        rows += [
            row("fldetector", "suspicion", 0.1 + index / 10, **at),
            row("fldetector", "flagged", 0.0, **at),
        ]
    return [
        *rows,
        share("direct", "tpr", 2, 2, **scope),
        share("direct", "fpr", 1, 2, **scope),
        share("fldetector", "tpr", 0, 2, **scope),
        share("fldetector", "fpr", 0, 2, **scope),
        row("global", "z", 12.4, n=900, hits=520, mark="mark-a", source="global", **scope),
        row("global", "p_value", tail(12.4), mark="mark-a", source="global", **scope),
    ]


def attributed():
    return [*protocol(), *baselines()]


def study(names=("kgw-fedit", "kgw-flora", "fictitious-fedit")):
    return [one for name in names for one in (*protocol(variant=name), *baselines(variant=name))]


def findings():
    return [
        Finding(
            id=f"fed_attr-{name}",
            severity="high",
            label="WATERMARK",
            measurement="fed_attr stouffer_z",
            evidence={
                "client": name,
                "mark": mark,
                "z": round(combined(SCORES[name][1]), 2),
                "p_value": 8 * tail(combined(SCORES[name][1])),
                "rounds": 5,
            },
        )
        for name, mark in TRUTH.items()
    ]


# what is shown of them


def report(rows, **changes):
    """Return the document of an attribution, which asks no model and so has no effect."""
    base = example()
    config = {"config": {"threshold": THRESHOLD}, "command": "fedaudit attribute --rounds runs/x"}
    sections = {
        "run": base.run | config,
        "target": base.target | {"adapter": None, "effect": {}, "beginning": None},
        "data": [
            {
                "path": "marks.json",
                "sha256": SHA256,
                "records": 2,
                "annotation": None,
                "unit": "mark",
            }
        ],
        "budget": base.budget | {"queries": 500, "tokens": None, "prefixes": None},
        "findings": [],
        "claims": [],
        "limits": [],
    }
    return example(measurements=rows, **(sections | changes)).to_json()


def printed(document, width=80):
    validate(document)
    file = StringIO()
    terminal.render(document, Console(file=file, width=width))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def table(rows, title):
    [found] = [one for one in attribution(report(rows)) if one.title == f"Attribution: {title}"]
    return found


def column(found, name):
    return [row[found.columns.index(name)] for row in found.rows]
