"""Reports of a deployed gate: attacks under keys, what the defence measured, a study."""

from dataclasses import replace
from io import StringIO

from example_report import coverage, example, number, wilson
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.document import validate
from fedaudit.report.renderers import terminal
from fedaudit.report.tables import overview

KEYS = ("right", "wrong", "none", "other")
COMMAND = {"command": "fedaudit infer --target runs/secure_gate --client c0"}


def rate(kind, plugin, metric, hits, n, *, chance=None, baseline=None, reason="", **scope):
    low, high = wilson(hits, n) if n else (None, None)
    return Measurement(
        kind=kind,
        plugin=plugin,
        metric=metric,
        value=hits / n if n else None,
        low=low,
        high=high,
        n=n,
        hits=hits if n else None,
        chance=chance,
        baseline=baseline,
        reason="" if n else reason,
        scope=scope,
    )


# attacks


def picked(tuned, base=4, n=100, candidates=50, **scope):
    """Return the two rows of inference that a model and its base give."""
    common = {"chance": 1 / candidates, "candidates": candidates, **scope}
    one = ("probability", "ranking", "inference_accuracy")
    return [
        rate(*one, tuned, n, baseline=base / n, source="tuned", **common),
        rate(*one, base, n, source="base", **common),
    ]


def inferred(**scope):
    """Return what one `fedaudit infer` gives: a right key opens, nothing else does."""
    rows = []
    for key, hits in zip(KEYS, (25, 4, 5, 3), strict=True):
        at = {"client": "c0", "key": key, **scope}
        rows += picked(hits, **at)
        rows += picked(hits // 2, 1, 60, label="PERSON", **at)
        rows += picked(hits - hits // 2, 3, 40, label="PHONE_NUMBER", **at)
    return rows


def recalled(
    tuned, *, beyond=None, base=0, control=0, n=52, strings=512, plugin="untargeted", **scope
):
    """Return the rows of untargeted extraction for one model."""
    beyond = tuned if beyond is None else beyond
    rows = []
    for source, hits, said in (
        ("tuned", tuned, strings),
        ("base", base, strings + 54),
        ("tuned-not-base", beyond, strings),
    ):
        at = {"source": source, **scope}
        rows += [
            rate("extraction", plugin, "extraction_recall", hits, n, **at),
            rate("extraction", plugin, "extraction_precision", hits, said, **at, reason="nothing"),
            number("extraction", plugin, "queries", 1024, **at),
        ]
    rows[-1:] = []  # queries are of two models
    recall = ("extraction", plugin, "extraction_recall")
    rows.append(rate(*recall, 400, 400, source="known", **scope))
    return [*rows, rate(*recall, control, 208, source="control", **scope)]


def by_kind(hits, **scope):
    """Return recall by kind of what the base does not say; precision where the detector sees it."""
    at = {"source": "tuned-not-base", **scope}
    recall = ("extraction", "untargeted", "extraction_recall")
    return [
        rate(*recall, 0, 16, label="PERSON", **at),
        rate(*recall, hits, 4, label="EMAIL_ADDRESS", **at),
        rate(
            "extraction",
            "untargeted",
            "extraction_precision",
            hits,
            88,
            label="EMAIL_ADDRESS",
            **at,
        ),
        rate("extraction", "untargeted", "extraction_precision", 0, 30, label="URL", **at),
    ]


def verbatim(tuned=25, control=4, **scope):
    """Return the recalls of a search word for word, which has no precision."""
    at = {"detection": "verbatim", **scope}
    one = ("extraction", "untargeted", "extraction_recall")
    return [
        rate(*one, tuned, 52, source="tuned", **at),
        rate(*one, 0, 52, source="base", **at),
        rate(*one, tuned, 52, source="tuned-not-base", **at),
        rate(*one, control, 208, source="control", **at),
        rate(*one, 400, 400, source="known", **at),
    ]


def extracted(hits, *, n=50, plugin="contextual", **scope):
    """Return coverage of one set of targets by every source."""
    at = {"set": "all", **scope}
    return [
        coverage(hits + 2, n, plugin=plugin, source="tuned", **at),
        coverage(2, n, plugin=plugin, source="base", **at),
        coverage(hits, n, plugin=plugin, source="tuned-not-base", **at),
        coverage(0, 200, plugin=plugin, source="control", **at),
        coverage(400, 400, plugin=plugin, source="known", **at),
    ]


def attacked():
    """Return what extraction gives under every kind of key, with prompts and without."""
    rows = []
    for key, hits in zip(KEYS, (20, 0, 1, 0), strict=True):
        at = {"client": "c0", "key": key}
        rows += [*extracted(hits, **at), *recalled(hits, **at), *verbatim(hits, **at)]
        rows += by_kind(min(hits, 4), **at)
    return rows


def unasked():
    return [*recalled(3), *by_kind(3), *verbatim()]


# what a defence and a deployment measure


def gate(client="c0", accepted=0, n=100_000, **scope):
    one = {"client": client, **scope}
    attempts = {
        "random keys, one token each": (accepted, n),
        "keys with one sign changed": (0, 2_000),
    }
    prompts = {"right": 200, "malformed": 199, "empty": 200, "none": 200}
    return [
        *(
            rate("defense", "gate", "fpr", *counts, attempt=attempt, **one)
            for attempt, counts in attempts.items()
        ),
        *(
            rate("defense", "secure_gate", "routing_accuracy", hits, 200, prompts=kind, **one)
            for kind, hits in prompts.items()
        ),
    ]


def epsilon(value, client="c0", **scope):
    spent = {"delta": 1 / 24, "accountant": "prv", "noise_multiplier": 0.83}
    return number(
        "defense",
        "dp",
        "epsilon",
        value,
        client=client,
        **spent,
        sample_rate=1 / 3,
        steps=400,
        **scope,
    )


def fused(client="c0", adapter="secure", weights="0.91, 0.08", loss=1.234, **scope):
    at = {"stage": "fusion", "client": client, "adapter": adapter, "weights": weights}
    return number("defense", "secure_gate", "loss", loss, **at, **scope)


def costs(clients=("c0", "c1", "c2"), size=2_097_152, **scope):
    def cost(metric, value, **at):
        return number("cost", "simulation", metric, value, **at, **scope)

    return [
        cost("parameters", 2_112_000, which="frozen"),
        cost("parameters", 524_288, which="trainable", stage="federated"),
        cost("parameters", 524_288, which="trainable", stage="private", adapters=1, clients=3),
        cost("bytes_sent", 30 * size, direction="up", per_client_round=size, transfers=30),
        cost("bytes_sent", 30 * size, direction="down", per_client_round=size, transfers=30),
        cost("flops", 1.24e12, stage="federated"),
        cost("flops", 9.6e11, stage="private"),
        *(cost("flops", 3.1e10 + n, stage="fusion", client=c) for n, c in enumerate(clients)),
        *(cost("seconds", 0.00061, stage="gating", client=c) for c in clients),
        *(cost("seconds", 0.0047, stage="adapter", client=c) for c in clients),
    ]


def perplexity(value, **scope):
    return Measurement(
        kind="utility",
        plugin="utility",
        metric="perplexity",
        value=value,
        low=value - 0.2,
        high=value + 0.2,
        n=28,
        scope={"source": "tuned", **scope},
    )


def keyed_rows(clients=("c0", "c1"), **scope):
    rows = []
    for client in (*clients, "all"):
        for data, values in (("own", (6.31, 15.9, 6.5, 16.0)), ("held-out", (7.2, 8.8, 7.4, 8.9))):
            at = {"client": client, "data": data, **scope}
            right, none, own, shared = values
            rows += [
                perplexity(right, **at, key="right"),
                perplexity(none, **at, key="none"),
                perplexity(shared, **at, adapter="shared alone"),
                perplexity(own, **at, adapter="revealing alone"),
            ]
    return rows


def deployed():
    """Return what `simulate` reports of a federation that a gate guards."""
    clients = ("c0", "c1", "c2")
    return [
        *(row for who in clients for row in gate(who, accepted=int(who == "c2"))),
        *(epsilon(7.9 + n / 10, who) for n, who in enumerate(clients)),
        *(fused(who, adapter) for who in clients for adapter in ("secure", "revealing")),
        *keyed_rows(),
        *costs(),
        *(perplexity(3.1 + n, task="letters") for n in range(1)),
    ]


# a study


def study(names=("fedavg", "fedavg_secure_gate", "scrub_and_dp"), clients=("c0", "c1")):
    rows = []
    for number_, name in enumerate(names):
        for who in (*clients, "all"):
            scale = len(clients) if who == "all" else 1
            for key, hits in zip(("right", "none"), (25 + number_, 4), strict=True):
                at = {"client": who, "key": key, "variant": name}
                rows += picked(hits * scale, 4 * scale, 100 * scale, **at)
                rows += picked(hits * scale, 4 * scale, 100 * scale, label="PERSON", **at)
                rows += recalled(hits * scale, n=100 * scale, **at)
                rows += extracted(hits * scale, n=50 * scale, **at)
                rows += extracted(hits * scale, n=40 * scale, **at | {"set": "prefix-disjoint"})
        rows += [row for who in clients for row in gate(who, variant=name)]
        rows += [epsilon(8.0 + n, who, variant=name) for n, who in enumerate(clients)]
        rows += [fused(who, variant=name) for who in clients]
        rows += keyed_rows(clients, variant=name)
        rows += costs(clients, variant=name)
        for source, value in (("base", 4.2), ("tuned", 3.1 + number_), ("central", 2.9)):
            rows.append(replace(perplexity(value), scope={"source": source, "variant": name}))
    return rows


# what is shown of them


def report(rows, **changes):
    return example(measurements=rows, findings=[], claims=[], limits=[], **changes).to_json()


def printed(rows, width=80):
    """Return the lines of a report on the terminal from its first table on."""
    document = report(rows)
    validate(document)
    file = StringIO()
    terminal.render(document, Console(file=file, width=width))
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return lines[lines.index("") + 1 :]


def tables(rows):
    document = report(rows)
    return [*overview.attack_tables(document), *overview.other_tables(document)]


def table(rows, title):
    [found] = [one for one in tables(rows) if one.title == title]
    return found


def titles(rows):
    return [one.title for one in tables(rows)]
