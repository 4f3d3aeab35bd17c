import re
from dataclasses import replace
from html.parser import HTMLParser

import attributed_report
import pytest
from example_report import HOSTILE, coverage, example, extraction, hostile

from fedaudit.report.redaction import is_hidden, make_visible
from fedaudit.report.renderers.html import charts, render
from fedaudit.report.tables import overview
from fedaudit.report.text.glossary import GLOSSARY

VOID = {"meta", "line", "rect"}


class Page(HTMLParser):
    """The elements and texts of a page; complains of a tag that is not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shape(page):
    """Return elements and attribute names: what text must never change."""
    return [(tag, sorted(attributes)) for tag, attributes in page.elements]


def test_the_verdict_comes_first_in_plain_words():
    text = render(example().to_json())
    assert text.lstrip().startswith("<!DOCTYPE html>")
    order = [
        "Verdict: fail",
        "Personal data of other parties can be pulled out of this model",
        "What was audited",
        "What was tried",
        "What came out",
        "<svg",
        "Extraction: contextual",
        "Kinds of PII: contextual",
        "Leaks, masked",
        "Utility",
        "Claims",
        "Limits",
        "Terms",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_the_page_loads_nothing_and_runs_nothing():
    page = Page(render(example().to_json()))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "a", "base"}
    for _, attributes in page.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "href", "style", "srcset", "action"} & set(attributes)
    policies = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert len(policies) == 1
    assert "default-src 'none'" in policies[0]
    text = render(example().to_json())
    assert "://" not in text
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(name):
    text = render(hostile(HOSTILE[name]).to_json())
    page = Page(text)
    assert shape(page) == shape(Page(render(hostile("harmless").to_json())))
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
    assert text.count("PERSON(") == 100
    assert "and 50 more in report.json" in text
    assert "Ann Example" not in text


def test_bars_are_drawn_to_scale():
    report = example(measurements=extraction()).to_json()
    chart, kinds = charts(report)
    assert kinds.title == chart.title.replace("Coverage", "Kinds of PII")
    labels = {row["scope"].get("label") for row in report["measurements"]}
    assert {bar.name for bar in kinds.bars} == labels - {None}
    assert max(bar.high for bar in kinds.bars) == 300
    tuned = chart.bars[0]
    # 300 units for the longest interval, which ends at the disjoint set's upper bound
    longest = max(
        row["high"]
        for row in report["measurements"]
        if row["high"] and not row["scope"].get("label")
    )
    assert tuned.value == round(300 * 0.24 / longest, 1)
    assert max(bar.high for bar in chart.bars) == 300
    assert all(0 <= bar.low <= bar.value <= bar.high for bar in chart.bars)
    assert [bar.name for bar in chart.bars[:4]] == [
        "tuned, all",
        "base, all",
        "tuned, not base, all",
        "control, all",
    ]


def test_nothing_found_and_nothing_measured_can_be_drawn():
    flat = replace(coverage(0, 5, source="tuned"), high=0.0)
    assert charts(example(measurements=[flat]).to_json())[0].bars[0].high == 0
    unknown = replace(flat, value=None, low=None, high=None, reason="no data")
    report = example(measurements=[unknown]).to_json()
    assert charts(report) == []
    assert "The attack contextual gave no number." in render(report)


def test_a_long_name_is_shortened_in_the_picture_only():
    row = coverage(1, 2, source="tuned", victim="x" * 100)
    report = example(measurements=[row]).to_json()
    assert len(charts(report)[0].bars[0].name) == 48
    assert "x" * 100 in render(report)


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
    assert '<span class="name">PHONE_NUMBER</span>' in text
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


def test_contrast_is_computed_as_wcag_has_it():
    assert contrast("#fff", "#000") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


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
    terms = re.findall(r"<dt>([^<]+)</dt>", text.partition("<h2>Terms</h2>")[2])
    assert {"coverage", "control", "tuned, not base", "95 % interval", "prompt start"} <= set(terms)
    assert not {"watermark", "secure aggregation", "Rouge-L", "perplexity", "gate"} & set(terms)
    assert len(terms) < len(GLOSSARY) / 2
