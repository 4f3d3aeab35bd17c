import base64
import hashlib
import re
from dataclasses import replace

import attributed_report
import gated_report
import pytest
from example_report import HOSTILE, coverage, example, extraction, hostile
from html_page import Page, shape

from fedaudit.report.charts.beside_chance import beside_chance
from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers.html import render
from fedaudit.report.tables import overview
from fedaudit.report.text.glossary import GLOSSARY


def test_the_verdict_comes_first_in_plain_words():
    text = render(example().to_json())
    assert text.lstrip().startswith("<!DOCTYPE html>")
    order = [
        "By fedaudit",
        "Not looked for:",
        "Verdict: fail",
        "Personal data of other parties can be pulled out of this model",
        "Whose data",
        "How many people",
        "What to do now",
        "Who could do it",
        "What came out, beside base and chance",
        "Findings, masked",
        "Everything else",
        "Why the verdict is as it is",
        "What was audited",
        "What was tried",
        "Extraction: contextual",
        "Kinds of PII: contextual",
        "Utility",
        "Claims",
        "Limits",
        "Terms",
    ]
    text = re.sub(r"(?s)<(nav|style|script)\b.*?</\1>", " ", text)
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_an_opened_finding_says_which_prompt_drew_it_beside_base_control_and_chance():
    evidence = {"label": "PERSON", "length": 7, "hmac": "ab" * 8, "outputs_of_base": 0}
    evidence |= {"p_value": 0.01, "controls": 40, "controls_drawn": 1}
    evidence["prompt"] = {"number": 1200, "tokens": 1, "before": ["PERSON", "PHONE"]}
    table = example().to_json()
    table["findings"] = [{**table["findings"][0], "evidence": evidence}]
    words = " ".join(Page(render(table)).texts).split()
    text = " ".join(words)
    drawn = "prompt 1,200: 1 token of the attacker's text before: Name, Personal Phone Number"
    for fact in (drawn, "outputs of base 0", "p value 0.01", "controls 40", "controls drawn 1"):
        assert fact in text


def test_the_reasons_of_a_verdict_stand_once_among_what_follows_from_them():
    table = example().to_json()
    text = " ".join(" ".join(Page(render(table)).texts).split())
    assert table["verdict"]["reasons"]
    for reason in table["verdict"]["reasons"]:
        assert text.count(reason) == 1


def test_the_page_loads_nothing_and_runs_one_script_named_by_its_hash():
    text = render(example().to_json())
    page = Page(text)
    tags = [tag for tag, _ in page.elements]
    assert not {*tags} & {"link", "img", "iframe", "object", "embed", "form", "base"}
    assert tags.count("script") == 1
    ids = {attributes.get("id") for _, attributes in page.elements}
    for tag, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "style", "srcset", "action"} & set(attributes)
        if "href" in attributes:
            assert (tag, attributes["href"][0]) == ("a", "#")
            assert attributes["href"][1:] in ids
    [policy] = [a["content"] for _, a in page.elements if "http-equiv" in a]
    script = re.search(r"(?s)<script>(.*?)</script>", text)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}';" in policy
    for word in ("://", "url(", "@import", "fetch", "XMLHttpRequest", "import("):
        assert word not in text


def test_a_page_has_few_words_before_its_fold_outs():
    shown = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", " ", render(example().to_json()))
    while (inner := re.sub(r"(?s)<details\b(?:(?!<details\b).)*?</details>", " ", shown)) != shown:
        shown = inner
    words = re.sub(r"<[^>]+>", " ", shown).split()
    assert len(words) <= 900
    assert {"people", "fedaudit", "Withhold"} <= set(words[:160])


@pytest.fixture(scope="module")
def harmless():
    """Return the shape of the page that hostile texts must leave as it is."""
    return shape(Page(render(hostile("harmless").to_json())))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name, harmless):
    text = render(hostile(HOSTILE[name]).to_json())
    page = Page(text)
    assert shape(page) == harmless
    assert not any(is_hidden(char) for char in text if char != "\n")
    assert make_visible(HOSTILE[name]) in page.texts


def test_every_table_is_whole():
    report = example().to_json()
    page = Page(render(report))
    for table in (
        *overview.extraction(report),
        *overview.utility(report),
        *overview.claim_table(report),
    ):
        cells = [cell for row in table.rows for cell in row if cell]
        assert all(cell in page.texts for cell in (*table.columns, *cells))


def test_findings_are_masked_and_counted():
    from example_report import findings

    text = render(example(findings=findings(150)).to_json())
    assert "150 findings" in text
    assert len(re.findall(r'<td data-name="leak" data-key="PERSON\(', text)) == 100
    assert "and 50 more in report.json" in text


def test_bars_stand_on_one_scale_beside_base_and_control():
    rows = [
        *extraction(),
        coverage(3, 10, source="tuned-not-base", label="PHONE_NUMBER", set="all"),
    ]
    report = example(measurements=rows).to_json()
    chart = beside_chance(report)
    assert [bar.heading for bar in chart.bars if bar.heading] == [
        "By attack",
        "By kind of data, contextual",
    ]
    total = chart.bars[0]
    [row] = [
        row
        for row in report["measurements"]
        if row["scope"] == {"source": "tuned-not-base", "set": "all"}
        and row["metric"] == "coverage"
    ]
    assert (total.value, total.low, total.high) == (row["value"], row["low"], row["high"])
    beside = {
        row["scope"]["source"]: row["value"]
        for row in report["measurements"]
        if row["metric"] == "coverage" and row["scope"].get("set") == "all"
        if "label" not in row["scope"]
    }
    assert dict(total.marks) == {"base": beside["base"], "control": beside["control"]}
    assert max(bar.high for bar in chart.bars) <= chart.top <= 1
    drawn = chart.scaled(300)
    assert drawn.bars[0].value == round(300 * row["value"] / chart.top, 1)
    assert all(0 <= bar.low <= bar.value <= bar.high <= 300 for bar in drawn.bars)


def test_nothing_found_and_nothing_measured_can_be_drawn():
    flat = replace(coverage(0, 5, source="tuned"), high=0.0)
    assert beside_chance(example(measurements=[flat]).to_json()).bars[0].high == 0
    unknown = replace(flat, value=None, low=None, high=None, reason="no data")
    report = example(measurements=[unknown]).to_json()
    assert beside_chance(report).bars == ()
    assert "The attack contextual gave no number." in render(report)


def test_no_two_bars_of_a_chart_have_one_name():
    for report in (example().to_json(), gated_report.report(gated_report.study())):
        groups, group = {}, ""
        for bar in beside_chance(report).bars:
            group = bar.heading or group
            assert bar.name not in groups.setdefault(group, set())
            groups[group].add(bar.name)


def test_an_unfinished_audit_says_so_first():
    text = render(example(status="interrupted").to_json())
    words = (text.index("The audit was interrupted"), text.index("Personal data of other parties"))
    assert words == tuple(sorted(words))


def test_an_empty_report_is_a_page():
    page = Page(render(example(measurements=[], findings=[], claims=[], limits=[]).to_json()))
    assert re.search("Verdict: inconclusive", " ".join(page.texts))


# what a reader sees


def test_names_of_bars_are_whole_and_no_text_shrinks_with_a_picture():
    """A picture that follows the window's width holds no text, or scrolls at a legible width."""
    rows = [*extraction(), coverage(1, 9, source="tuned-not-base", label="PHONE_NUMBER", set="all")]
    text = render(example(measurements=rows).to_json())
    assert '<span class="name">Personal Phone Number (PHONE_NUMBER)</span>' in text
    pictures = [text, render(attributed_report.report(attributed_report.study()))]
    found = [one for page in pictures for one in re.findall(r"(?s)<svg.*?</svg>", page)]
    assert any("<text" in picture for picture in found)
    for picture in found:
        if "<text" not in picture:
            continue
        _, _, width, _ = map(float, re.search(r'viewBox="([^"]+)"', picture)[1].split())
        assert 'class="plot"' in picture
        narrowest = float(re.search(r"min-width: (\d+)px", picture)[1])
        assert 13 * narrowest / width >= 9  # pixels of a letter


def test_every_plot_stands_in_a_box_that_scrolls():
    text = render(attributed_report.report(attributed_report.study()))
    boxed = re.findall(r'<div class="wide"[^>]*><svg class="plot"', text)
    assert len(boxed) == len(re.findall(r'<svg class="plot"', text)) > 0


def luminance(color):
    """Return the relative luminance of #rrggbb or #rgb (WCAG 2.1)."""
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    linear = [
        one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4
        for one in (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read(theme):
    style = re.search(r"(?s)<style>(.*?)</style>", render(example().to_json()))[1]
    light, dark = re.findall(r":root \{([^}]*)\}", style)
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style
    colors = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{3,6})", light if theme == "light" else dark))
    for name in ("ink", "muted", "bad", "good", "open", "blue", "violet", "gray"):
        assert contrast(colors[name], colors["paper"]) >= 4.5, name
    assert contrast(colors["ink"], colors["panel"]) >= 7
    used = set(re.findall(r"var\(--([a-z]+)\)", style))
    assert used <= colors.keys()


def test_only_terms_that_the_report_uses_are_explained():
    text = render(example(measurements=extraction(), claims=[]).to_json())
    terms = re.findall(r"<dt[^>]*>([^<]+)</dt>", text.partition("<summary>Terms")[2])
    assert {"coverage", "control", "tuned, not base", "95 % interval", "prompt start"} <= set(terms)
    assert not {"watermark", "secure aggregation", "Rouge-L", "perplexity", "gate"} & set(terms)
    assert len(terms) < len(GLOSSARY) / 2
