"""Pages as headless Chromium shows them: nothing cut, nothing scrolls sideways, axe content.

Needs Chromium on the path (Debian: `apt install chromium`); without it these are skipped.
"""

import gzip
import json
import os
import shutil
import struct
from pathlib import Path
from urllib.request import url2pathname

import attributed_report
import gated_report
import html5lib
import memorized_report
import pytest
from example_report import example, hostile

from fedaudit.report.comparison import compare
from fedaudit.report.document import write
from fedaudit.report.index import run_entries
from fedaudit.report.renderers import annex, comparison, html, run_index

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
REQUIRED = os.environ.get("FEDAUDIT_BROWSER") == "required"
"""Whether a machine without Chromium fails these tests; .ci/run says so."""
pytestmark = pytest.mark.skipif(
    not (CHROMIUM or REQUIRED), reason="there is no Chromium on the path"
)

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "tests/golden/demo_report.json.gz"
"""What `make demo` ended in."""
PICTURE = "docs/report.png"
HEIGHT = 500
"""The picture's height in pixels."""
LEAST_TEXT = 9  # pixels
PAPER = 718
"""The width of an A4 page without margins of 1 cm, at 96 pixels per inch."""
CUT = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const own = text.getBoundingClientRect();
      if (own.left < box.left - 1 || own.right > box.right + 1) found.push(text.textContent);
      if (own.top < box.top - 1 || own.bottom > box.bottom + 1) found.push(text.textContent);
    }
  }
  return found;
}"""
SMALLEST = """() => Math.min(Infinity, ...[...document.querySelectorAll("svg text")].map(
  text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
BEYOND = """() => [...document.querySelectorAll("main *")].filter(
  one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML)"""
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def reports():
    """Return a report of each kind, as its document."""
    memorized = memorized_report.memorized(), memorized_report.passages()
    return {
        "extraction": example().to_json(),
        "hostile": hostile("<b>" + "W" * 300).to_json(),
        "attribution": attributed_report.report(
            attributed_report.study(), findings=attributed_report.findings()
        ),
        "gate": gated_report.report(gated_report.study()),
        "memorization": memorized_report.document(*memorized),
        "nothing": example(measurements=[], findings=[], claims=[], limits=[]).to_json(),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the pages, as addresses of files: a report of each kind, and an index of runs."""
    folder = tmp_path_factory.mktemp("pages")
    for name, report in reports().items():
        (folder / f"{name}.html").write_text(html.render(report), "utf-8")
    for name in ("extraction", "attribution"):
        page = annex.render(reports()[name])
        (folder / f"annex of {name}.html").write_text(page, "utf-8")
    two = reports()["extraction"], reports()["nothing"]
    two[1]["measurements"] = two[0]["measurements"][:20]
    page = comparison.render(*two, compare(*two))
    (folder / "comparison.html").write_text(page, "utf-8")
    for name in ("one", "two"):
        (folder / name).mkdir()
        write(example(), folder / name / "report.json")
    (folder / "index.html").write_text(run_index.render(run_entries(folder), "Runs"), "utf-8")
    return {path.stem: path.as_uri() for path in sorted(folder.glob("*.html"))}


NAMES = (
    *("annex of attribution", "annex of extraction", "attribution", "comparison"),
    *("extraction", "gate", "hostile", "index", "memorization", "nothing"),
)
WIDE = ("annex of attribution", "attribution", "comparison", "extraction", "hostile")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_valid_html(name, pages):
    text = Path(url2pathname(pages[name].removeprefix("file://"))).read_text("utf-8")
    parser = html5lib.HTMLParser()
    document = parser.parse(text)
    assert parser.errors == []
    ids = [one.get("id") for one in document.iter() if one.get("id")]
    assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def shown(browser, pages):
    """Return a function that opens a page by its name at a width, always in the same tab."""
    with browser.new_context(bypass_csp=True) as context:
        page = context.new_page()

        def show(name, width, scheme="light", media="screen"):
            page.goto("about:blank")
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(media=media, color_scheme=scheme)
            page.goto(pages[name])
            return page

        yield show


@pytest.mark.parametrize(
    ("width", "scheme", "name"),
    [
        *((390, "dark", name) for name in NAMES),
        *((1280, "light", name) for name in WIDE),
        *(pytest.param(1280, "light", name, marks=pytest.mark.oracle)
          for name in NAMES if name not in WIDE),
    ],
)  # fmt: skip
def test_on_a_screen(shown, name, width, scheme):
    """Colours depend on the scheme alone, and places on the width."""
    from axe_playwright_python.sync_playwright import Axe

    page = shown(name, width, scheme)
    assert page.evaluate(SIDEWAYS) <= 0
    assert page.evaluate(CUT) == []
    assert page.evaluate(SMALLEST) >= LEAST_TEXT
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found] == []


@pytest.mark.parametrize("name", NAMES)
def test_on_paper(shown, name):
    page = shown(name, PAPER, media="print")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(CUT) == []
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_on_paper_all_that_is_folded_is_open(shown):
    page = shown("extraction", PAPER, media="print")
    heights = page.evaluate(
        """() => [...document.querySelectorAll("details")].map(
          one => one.getBoundingClientRect().height - one.firstElementChild.offsetHeight)"""
    )
    assert len(heights) > 5
    assert min(heights) > 10


def test_the_first_screen_answers_the_officer_s_questions(shown):
    page = shown("extraction", 1280)
    for question in ("Verdict:", "Whose data", "How many people", "Who could do it", "What to do"):
        box = page.get_by_text(question).first.bounding_box()
        assert box["y"] + box["height"] < 900, question


def test_findings_are_filtered_sorted_and_opened(shown):
    page = shown("extraction", 1280)
    rows = page.locator("#found tbody > tr")
    page.locator("#findings + details > summary").click()
    count = rows.count()
    assert count > 1
    page.get_by_label("Severity").select_option("high")
    visible = page.locator("#found tbody > tr:visible")
    assert 0 < visible.count() <= count
    assert set(page.locator("#found tr:visible > td:first-child").all_inner_texts()) == {"high"}
    page.get_by_role("searchbox").fill("no such leak")
    assert visible.count() == 0
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Severity").select_option("")
    page.get_by_role("button", name="leak", exact=True).click()
    leaks = page.locator("#found tbody > tr > td:nth-child(2)").all_inner_texts()
    assert leaks == sorted(leaks)
    page.locator("#found tbody details summary").first.click()
    assert page.locator("#found tbody details[open] dt").count() > 0


def test_a_link_opens_what_is_folded(shown):
    page = shown("extraction", 1280)
    assert not page.locator("#terms dt").first.is_visible()
    page.get_by_role("link", name="Terms").click()
    page.locator("#terms dt").first.wait_for(state="visible")


def test_a_table_of_runs_is_sorted_by_a_click(shown):
    page = shown("index", 1280)
    page.get_by_role("button", name="run", exact=True).click()
    cells = page.locator("tbody tr td:first-child").all_inner_texts()
    assert cells == sorted(cells)
    page.get_by_role("button", name="run", exact=True).click()
    assert page.locator("tbody tr td:first-child").all_inner_texts() == cells[::-1]


def test_the_picture_in_the_readme_is_of_the_demo_s_page(browser, tmp_path, request):
    """With --update-golden it is taken anew."""
    (tmp_path / "demo.html").write_text(html.render(json.loads(gzip.decompress(DEMO.read_bytes()))))
    page = browser.new_page(viewport={"width": 1000, "height": HEIGHT})
    page.goto((tmp_path / "demo.html").as_uri())
    taken = page.screenshot()
    verdict = page.locator(".verdict").bounding_box()
    page.close()
    assert 0 < verdict["y"] < verdict["y"] + verdict["height"] <= HEIGHT  # may this model ship?
    if request.config.getoption("--update-golden"):
        (ROOT / PICTURE).write_bytes(taken)
    kept = (ROOT / PICTURE).read_bytes()
    assert size(kept) == size(taken) == (1000, HEIGHT)
    assert f"]({PICTURE})" in (ROOT / "README.md").read_text("utf-8")


def size(picture):
    """Return the width and height that a PNG's header has."""
    return struct.unpack(">II", picture[16:24])
