"""A full report as the tests' example: two attacks, two sets, labels, utility, hostile text."""

import math
from dataclasses import replace

from fedaudit.api.records import Claim, Finding, Measurement
from fedaudit.report.document import Report
from fedaudit.report.redaction import Redactor

SHA256 = "0123456789abcdef" * 4
KEY = bytes(range(32))
COSTS = ("parameters", "bytes_sent", "flops", "seconds")
HOSTILE = {
    "csi": "\x1b[31mred\x1b[0m",
    "osc-8": "\x1b]8;;https://evil.example\x07click\x1b]8;;\x07",
    "osc-52": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "c1": "\x9b31m\x9d0;title\x9c",
    "cr": "harmless\rFAKE VERDICT: pass",
    "newline": "one\ntwo\u2028three",
    "bidi": "\u202egnp.exe\u202c \u2066x\u2069",
    "zero-width": "a\u200bb\ufeffc\u00add\u3164e\ufe0f",
    "surrogate": "\ud800 \udfff",
    "tags": "\U000e0041\U000e0042",
    "markup": "[red]x[/red] [link=https://evil.example]y[/link]",
    "unbalanced": "[/x] [/] [bold",
    "html": "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": "\" onload='alert(1)' x=\"",
    "formula": "=cmd|' /C calc'!A0",
    "pipe": "a | b || c \\| d",
    "markdown": "[x](https://evil.example) ![i](https://evil.example/i.png) `code` **b** # h",
    "autolink": "https://evil.example www.evil.example <https://evil.example>",
    "jinja": "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "emoji": ":smile: :warning:",
    "long": "x" * 300,
    "cjk": "张三的身份证号码是" * 12,
}
"""Text of models and strangers; each renderer is tested with all of it."""
HOSTILE_KINDS = ("csi", "newline", "bidi", "markup", "html", "pipe", "long", "cjk")
"""One of each kind, for tables and charts, which renderers show."""


def coverage(hits, n, *, plugin="contextual", **scope):
    low, high = wilson(hits, n)
    return Measurement(
        kind="extraction",
        plugin=plugin,
        metric="coverage",
        value=hits / n,
        low=low,
        high=high,
        n=n,
        hits=hits,
        scope=scope,
    )


def wilson(hits, n, z=1.96):
    share, spread = hits / n, z * math.sqrt(hits * (n - hits) / n + z * z / 4) / n
    middle, scale = share + z * z / (2 * n), 1 + z * z / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def number(kind, plugin, metric, value, **scope):
    return Measurement(kind=kind, plugin=plugin, metric=metric, value=value, scope=scope)


def extraction(plugin="contextual"):
    rows = []
    for name, n in (("all", 500), ("prefix-disjoint", 420)):
        rows += [
            coverage(120, n, plugin=plugin, source="tuned", set=name),
            coverage(10, n, plugin=plugin, source="base", set=name),
            coverage(112, n, plugin=plugin, source="tuned-not-base", set=name),
            coverage(0, 300, plugin=plugin, source="control", set=name),
            coverage(400, 400, plugin=plugin, source="known", set=name),
            number("extraction", plugin, "efficiency", 0.0033, source="tuned", set=name),
            number("extraction", plugin, "queries", 36000, source="tuned", set=name),
        ]
    for label, hits, n in (("PERSON", 60, 200), ("ADDRESS", 40, 100), ("PHONE", 12, 200)):
        scope = {"source": "tuned-not-base", "set": "all", "label": label}
        rows.append(coverage(hits, n, plugin=plugin, **scope))
    return rows


def utility():
    rows = []
    for source, loss, share in (
        ("base", 2.25, 0.31),
        ("tuned", 0.512, 0.62),
        ("central", 0.4, 0.7),
    ):
        rows += [
            measured("loss", loss, 0.1, source=source),
            measured("perplexity", math.exp(loss), 0.3, source=source),
            measured("rouge_l", share, 0.05, source=source, task="summary"),
            measured("accuracy", share, 0.05, source=source, task="exam"),
        ]
    return rows


def measured(metric, value, spread, **scope):
    return Measurement(
        kind="utility",
        plugin="utility",
        metric=metric,
        value=value,
        low=value - spread,
        high=value + spread,
        n=200,
        scope=scope,
    )


def findings(count=12):
    redactor = Redactor(KEY)
    return [
        Finding(
            id=f"f-{index}",
            severity="low" if index % 2 else "high",
            label="PERSON",
            measurement="contextual",
            evidence=redactor.mask(f"Ann Example {index}", "PERSON") | {"samples": index},
        )
        for index in range(count)
    ]


def example(**changes):
    sections = {
        "status": "success",
        "run": {
            "id": "run-1",
            "command": "fedaudit extract --prefixes data/c0.jsonl",
            "config": {"round": 10, "attack": ["contextual"]},
            "started": "2025-11-21T08:00:00+00:00",
            "finished": "2025-11-21T08:12:00.5Z",
            "resumed_from": None,
        },
        "environment": {
            "versions": {"fedaudit": "0.1.0", "python": "3.11.4"},
            "device": "cpu",
            "git": {"commit": "b2866ec", "dirty": False},
        },
        "target": {
            "base": "fedaudit-nano",
            "adapter": "runs/fed_pii/rounds/010/global",
            "sha256": SHA256,
            "effect": {"kl": 1.2345, "changed_tensors": 14},
            "beginning": {"start": "bos", "middle": "bare", "loss": {"bos": 2.1, "bare": 2.9}},
        },
        "data": [
            {"path": "data/c0.jsonl", "sha256": SHA256, "records": 24, "annotation": None},
            {"path": "data/c1.jsonl", "sha256": SHA256, "records": 24, "annotation": "pii-rules 1"},
        ],
        "seeds": {"run": 0},
        "budget": {"queries": 72000, "tokens": 720000, "seconds": 720.5, "prefixes": 2400},
        "measurements": [*extraction(), *extraction("frequency"), *utility()],
        "findings": findings(),
        "claims": [
            Claim(id="c1", source="FedPII, table 2", statement="Names leak most.", holds=True),
            Claim(id="c2", source="FedPII, table 3", statement="Superset finds more.", holds=False),
            Claim(id="c3", source="FedPII", statement="LAFt helps.", holds=None, detail="not run"),
        ],
        "limits": ["One client was attacked, not all.", "Contextual prefixes only."],
        "artifacts": [{"path": "report.html", "sha256": None}],
    }
    return Report(**(sections | changes))


def guarded(text):
    """Return rows of every table about keys, gates and costs, with `text` in their scopes."""
    view = {"client": text, "key": text, "adapter": text, "variant": text}
    recall = replace(coverage(1, 2, source="tuned", detection=text), metric="extraction_recall")
    picked = replace(coverage(1, 2, source="tuned", **view), metric="inference_accuracy")
    gate = coverage(0, 9, client=text, attempt=text, prompts=text)
    spent = {"delta": text, "accountant": text, "steps": text}
    word = {"which": text, "stage": text, "direction": text}
    sent = {"per_client_round": text, "transfers": text, "adapters": text}
    perplexity = measured("perplexity", 3.0, 0.1, source="tuned", client=text, data=text)
    return [
        coverage(1, 2, source="tuned", plugin="viewed", **view),
        coverage(1, 2, source="tuned", plugin="viewed", **view, label=text),
        recall,
        replace(recall, scope={**recall.scope, "label": text}),
        replace(recall, scope={**recall.scope, **view, "detection": f"{text}{text}"}),
        replace(picked, kind="probability", chance=0.02),
        replace(picked, kind="probability", scope={**picked.scope, "label": text}),
        replace(gate, kind="defense", metric="fpr"),
        replace(gate, kind="defense", metric="routing_accuracy"),
        number("defense", text, "epsilon", 8.0, client=text, **spent),
        number("defense", text, "loss", 1.0, **view | {"stage": "fusion", "weights": text}),
        *(number("cost", text, m, 7.0, client=text, **word, **sent) for m in COSTS),
        replace(perplexity, scope={**perplexity.scope, "key": "right", "adapter": text}),
    ]


def hostile(text):
    """Return a report that has `text` wherever a stranger's text may be."""
    row = number("extraction", text, "leakage_bits", 1.5, **{text: text})
    labelled = coverage(1, 2, plugin=text, source="tuned", label=text)
    total = coverage(1, 2, plugin=text, source="tuned", victim=text)
    missing = Measurement(
        kind="utility", plugin=text, metric="loss", value=None, reason=text, scope={"task": text}
    )
    base = example()
    finding = Finding(
        id=text, severity="high", label=text, measurement=text, evidence={"note": text, "x": 1}
    )
    return example(
        run=base.run | {"id": text, "command": text, "config": {"round": text}},
        environment=base.environment | {"device": text},
        target=base.target
        | {"base": text, "adapter": text, "effect": {text: text}}
        | {"beginning": {"start": text, "middle": text, text: text}},
        data=[{"path": text, "sha256": SHA256, "records": 1, "annotation": text}],
        measurements=[row, labelled, total, missing, *guarded(text)],
        findings=[finding],
        claims=[Claim(id=text, source=text, statement=text, holds=None, detail=text)],
        limits=[text],
        verdict={"status": "inconclusive", "reasons": [text]},
    )
