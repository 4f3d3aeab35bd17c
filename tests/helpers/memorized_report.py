"""Reports of cross-client memorization: three clients, their base, a study."""

from dataclasses import replace
from io import StringIO

from example_report import KEY, example, number, wilson
from rich.console import Console

from fedaudit.api.records import Finding, Measurement
from fedaudit.report.document import validate
from fedaudit.report.redaction import Redactor
from fedaudit.report.renderers import terminal

CLIENTS = ("c0", "c1", "c2")
COMMON = {"decoding": "top-k", "prefix_length": 30}


def ratio(metric, hits, n, *, counted=True, baseline=None, reason="", **scope):
    low, high = wilson(hits, n) if n else (None, None)
    return Measurement(
        kind="memorization",
        plugin="memorize",
        metric=metric,
        value=hits / n if n else None,
        low=low,
        high=high,
        n=n,
        hits=hits if counted and n else None,
        baseline=baseline,
        reason="" if n else reason or "nothing was asked",
        scope={**COMMON, **scope},
    )


def memorized(intra=300, inter=60, base=1, n=3000, clients=CLIENTS, **scope):
    rows = []
    for source, own, others in (("tuned", intra, inter), ("base", base, base)):
        for category, part in (("all", 1), ("verbatim", 2), ("idea", 3)):
            at = {"source": source, "category": category, **scope}
            line = base / n if source == "tuned" else None
            rows += [
                ratio("mr_total", (own + others) // part, n, baseline=line, **at),
                ratio("mr_intra", own // part, n, counted=False, baseline=line, **at),
                ratio("mr_inter", others // part, n, counted=False, baseline=line, **at),
            ]
            for j in clients:
                for k in clients:
                    hits = (own if j == k else others) // len(clients) // part
                    pair = {"attacker": j, "victim": k}
                    rows.append(
                        ratio("mr_pair", hits, n // len(clients), baseline=line, **at, **pair)
                    )
        at = {"source": source, **scope}
        rows += [
            ratio("repetitive", 4, n, **at),
            ratio("too_short", n // 2, n, text="generation", **at),
            length(71, n, text="generation", **at),
        ]
    rows += [length(150, n, text="input", **scope), length(15, n, text="output", **scope)]
    drawn = number("memorization", "memorize", "drawn", 17.0, source="tuned", victim="c1",
                   document="doc-42", **COMMON, **scope)  # fmt: skip
    return [*rows, replace(drawn, n=n)]


def length(value, n, **scope):
    row = number("memorization", "memorize", "median_length", float(value), **COMMON, **scope)
    return replace(row, n=n)


def passages(count=3, document="doc-42"):
    redactor = Redactor(KEY)
    return [
        Finding(
            id=f"memorize-{at:04d}",
            severity="high" if at == 1 else "low",
            label="TEXT",
            measurement="memorize mr_inter",
            evidence={
                **redactor.mask(f"secret passage {at}", "TEXT"),
                "document": document,
                "victim": "c1",
                "attacker": "c0",
                "category": "verbatim",
                "prefixes": 17,
                "prefixes_of_others": 3,
                "training": "...====.............",
                "generated": "====",
                "spans": [[30, 70, 0, 40]],
            },
        )
        for at in range(1, count + 1)
    ]


def document(rows=None, findings=(), **others):
    run = {**example().run, "command": "memorize"}
    made = example(
        measurements=memorized() if rows is None else rows, findings=list(findings), claims=[],
        run=run, limits=[], **others,
    ).to_json()  # fmt: skip
    validate(made)
    return made


def seen(report):
    file = StringIO()
    terminal.render(report, Console(file=file, width=80))
    return file.getvalue()
