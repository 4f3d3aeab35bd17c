"""Any valid report can be shown: scopes are open, and a stranger may have written them."""

from io import StringIO

import pytest
from example_report import HOSTILE
from gated_report import report
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from fedaudit.api.records import Measurement
from fedaudit.report.attribution_parts import ATTRIBUTION, SUSPICION
from fedaudit.report.document import schema, validate
from fedaudit.report.kinds.registry import OURS
from fedaudit.report.redaction import is_hidden
from fedaudit.report.renderers import html, markdown, terminal
from fedaudit.report.text.attacks import attack_summaries
from fedaudit.report.verdict.policy import verdict

PROPERTIES = schema()["$defs"]["measurement"]["properties"]
WORDS = ("right", "none", "all", "own", "fusion", "shared alone", "legal alone", "federated", "up")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.sampled_from(list(HOSTILE.values()))
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
OPEN = (
    *(
        "key",
        "client",
        "adapter",
        "variant",
        "detection",
        "data",
        "candidates",
        "attempt",
        "prompts",
    ),
    *("attacker", "victim", "document", "text"),
    *("mark", "adjusted", "step", "strength", "clients"),
    *("stage", "which", "direction", "per_client_round", "transfers", "weights", "delta", "steps"),
)
SCOPES = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(PROPERTIES["scope"]["properties"]["source"]["enum"]),
        "set": st.sampled_from(PROPERTIES["scope"]["properties"]["set"]["enum"]),
        "label": st.sampled_from(["PERSON", *HOSTILE.values()]),
        "category": st.sampled_from(["Health", "other", *HOSTILE.values()]),
        **dict.fromkeys(OPEN, VALUES),
        "round": st.integers(0, 3) | VALUES,
    },
)


@st.composite
def measurements(draw):
    """Draw a row that the schema allows: any metric of any kind, anything in its scope."""
    value = draw(st.none() | st.floats(0, 1))
    count = st.integers(0, 10**6)
    return Measurement(
        kind=draw(st.sampled_from([*PROPERTIES["kind"]["examples"], "own_kind"])),
        plugin=draw(st.sampled_from(["a", "b", *HOSTILE.values()])),
        metric=draw(st.sampled_from([*PROPERTIES["metric"]["examples"], "own_metric"])),
        value=value,
        low=None if value is None else value / 2,
        high=None if value is None else (1 + value) / 2,
        n=draw(count),
        hits=draw(st.none() | count),
        chance=draw(st.none() | st.floats(0, 1)),
        baseline=draw(st.none() | st.floats(0, 1)),
        reason="not tried" if value is None else "",
        scope=draw(SCOPES),
    )


SHAPES = sorted(
    {shape for shapes in (*ATTRIBUTION.values(), SUSPICION) for shape in shapes},
    key=lambda shape: (shape[0], sorted(shape[1])),
)


@st.composite
def attributions(draw):
    """Draw a row that the tables of an attribution know, with anything in its scope."""
    metric, keys = draw(st.sampled_from(SHAPES))
    small = st.sampled_from(["c0", "c1", "all", *HOSTILE.values()]) | VALUES
    scope = {key: draw(st.integers(0, 3) | small if key == "round" else small) for key in keys}
    if "source" in keys:
        scope["source"] = "global"
    if draw(st.booleans()):
        scope["variant"] = draw(small)
    rate = metric in ("tpr", "fpr")
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    value = draw(st.none() | (st.floats(0, 1) if rate else numbers))
    count = draw(st.integers(0, 10**6))
    return Measurement(
        kind="attribution",
        plugin=draw(st.sampled_from(["fed_attr", "fed_attr", "direct", "client", "<b>"])),
        metric=metric,
        value=value,
        low=0.0 if rate and value is not None else None,
        high=1.0 if rate and value is not None else None,
        n=count if rate else draw(st.none() | st.just(count)),
        hits=draw(st.none() | st.integers(0, count)),
        baseline=draw(st.none() | st.just(4.0) | numbers),
        reason="it never\x1b[31m took part" if value is None else "",
        scope=scope,
    )


def shown(document):
    """Return what every renderer makes of a report."""
    file = StringIO()
    terminal.render(document, Console(file=file, width=80))
    return file.getvalue(), html.render(document), markdown.render(document)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(measurements() | attributions(), max_size=12))
def test_any_rows_can_be_shown(rows):
    document = report(rows)
    validate(document)
    texts = shown(document)
    assert max(map(cell_len, texts[0].splitlines())) <= 80
    for text in texts:
        assert not any(is_hidden(char) for char in text if char != "\n")
    assert texts[1].count("<script") == 1  # the page's own
    assert "<" not in texts[2]
    signs = {
        child.type
        for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(texts[2])
        for child in token.children or ()
    }
    assert signs <= {"text", "text_special", "strong_open", "strong_close"}
    assert all(isinstance(sentence, str) for sentence in attack_summaries(document))


def test_a_table_of_nothing_is_not_shown():
    row = Measurement(
        kind="defense",
        plugin="a",
        metric="dropped",
        value=None,
        low=None,
        high=None,
        n=3,
        hits=None,
        chance=None,
        baseline=None,
        reason="not tried",
        scope={"round": 0},
    )
    for text in shown(report([row])):
        assert "filters of made-up examples" not in text


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        *((kind, {"source": "tuned", "label": "PERSON"}) for kind in sorted(OURS)),
        *((kind, {}) for kind in ("extraction", "own_kind")),
    ],
    ids=str,
)
def test_a_metric_that_no_table_knows_stands_among_the_others(kind, scope):
    row = Measurement(
        kind=kind,
        plugin="mine",
        metric="own_metric",
        value=7.25,
        low=6.5,
        high=8.5,
        n=1234,
        scope=scope,
    )
    name = "own_kind: own_metric" if kind == "own_kind" else "own_metric"
    for text in shown(report([row])):
        told = text.replace("\\", "").replace("&quot;", '"')
        assert all(one in told for one in (name, "7.25 [6.5, 8.5]", "1,234", *scope.values()))


@given(st.lists(measurements() | attributions(), max_size=12), st.randoms(use_true_random=False))
def test_the_verdict_is_the_same_in_any_order(rows, chance):
    mixed = list(rows)
    chance.shuffle(mixed)
    one, other = verdict(rows, []), verdict(mixed, [])
    assert one["status"] == other["status"]
    assert sorted(one["reasons"]) == sorted(other["reasons"])


@pytest.mark.parametrize(
    ("kind", "named"), [("own_kind", "a (own_kind), b (own_kind)."), ("extraction", "a, b: ")]
)
def test_a_reason_names_plugins_by_their_names_whatever_the_order_of_rows(kind, named):
    scope = {"source": "base", "set": "targets"}
    rows = [
        Measurement(kind=kind, plugin=plugin, metric="coverage", value=0.5, n=10, scope=scope)
        for plugin in ("b", "a")
    ]
    first, reverse = verdict(rows, []), verdict(rows[::-1], [])
    assert first == reverse
    assert named in first["reasons"][0]
