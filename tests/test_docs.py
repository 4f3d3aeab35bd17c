"""The pages name what there is: modules, functions, rooms, and pages they link to."""

import ast
import json
import re
import runpy
import textwrap
from pathlib import Path

import pytest

import fedaudit

ROOT = Path(__file__).parents[1]
PAGES = [
    path for folder in (".", ".github", "docs") for path in sorted((ROOT / folder).glob("*.md"))
]
NAMED = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)(?::([A-Za-z_.]+))?`")


def members(path: Path) -> set[str]:
    """Return the names that a module defines, those of its classes with the class before a dot."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if hasattr(one, "name")}
    return found


def missing(text: str) -> list[str]:
    """Return what a text names of fedaudit's modules and their members that there is not."""
    wrong = []
    for place, member in NAMED.findall(text):
        path = next((p for p in (ROOT / "fedaudit" / place, ROOT / place) if p.exists()), None)
        if path is None or (member and member not in members(path)):
            wrong.append(f"{place}:{member}".rstrip(":"))
    return wrong


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/engine.md", "CONTRIBUTING.md"])
def test_modules_and_functions_that_a_page_names_are_there(name):
    text = (ROOT / name).read_text("utf-8")
    assert len(NAMED.findall(text)) > 10
    assert missing(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_to_import_are_there(page):
    wrong = []
    for name in re.findall(r"\b(fedaudit(?:\.(?!toml\b)[A-Za-z_]\w*)+)", page.read_text("utf-8")):
        parts = name.split(".")
        path, rest = ROOT / parts[0], parts[1:]
        while rest and (path / rest[0]).is_dir():
            path = path / rest.pop(0)
        if rest and (path / f"{rest[0]}.py").is_file():
            path = path / f"{rest.pop(0)}.py"
        code = (path / "__init__.py" if path.is_dir() else path).read_text("utf-8")
        if not all(re.search(rf"\b{member}\b", code) for member in rest):
            wrong.append(name)
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_examples_import_is_there(page):
    text = page.read_text("utf-8")
    for module, names in re.findall(r"(?m)^ *from (fedaudit(?:\.\w+)+) import (\w.*)$", text):
        path = ROOT.joinpath(*module.split("."))
        code = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(
            "utf-8"
        )
        for name in re.split(r",\s*", names):
            there = rf"(?m)^(?:class |def |from .*|import .*|\s+)?\b{name}\b"
            assert re.search(there, code), f"{page.name} imports {module}.{name}"


def test_what_is_missing_is_found():
    assert missing("`engine/local.py:LocalEngine.generate`, `engine/`, `plugins/attacks/`") == []
    wrong = "`engine/local.py:LocalEngine.answer`, `engine/probing.py:ask`, `probes/`"
    assert len(missing(wrong)) == 3


def test_the_architecture_names_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("## The rooms")[2].partition("\n## ")[0]
    rooms = {path.parent.name for path in (ROOT / "fedaudit").glob("*/__init__.py")}
    assert set(re.findall(r"`([a-z]+)/`", table.partition("`plugins/` has")[0])) == rooms


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_pages_of_ours_lead_somewhere(page):
    text = page.read_text("utf-8")
    if page.name == "report-fields.md":
        text = runpy.run_path(str(ROOT / "docs/site.py"))["with_tables"](text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (page.parent / place).resolve() if place else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor and path.suffix == ".md":
            headings = re.findall(r"(?m)^#+ (.+)$", path.read_text("utf-8"))
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{page.name} links to {target}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index)) | {"README.md"}
    assert linked == {path.name for path in (ROOT / "docs").glob("*.md")}


def test_ten_questions_are_answered_within_two_clicks():
    """From the README, or the site's first page, to the index, and from there to the section."""
    assert "](docs/README.md)" in (ROOT / "README.md").read_text("utf-8")
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    table = index.partition("## Ten questions")[2].partition("\n## ")[0]
    answers = re.findall(r"(?m)^\| .+\? \| \[.+\]\(([\w-]+\.md)#[\w-]+\) \|$", table)
    assert len(answers) == 10


def test_the_greedy_attack_of_the_plugin_page_runs():
    """It is not part of the page's package, which another test installs and runs."""
    from types import SimpleNamespace

    from fedaudit.api.records import Target
    from fedaudit.engine.fake import FakeEngine

    page = (ROOT / "docs/writing-a-plugin.md").read_text("utf-8")
    [code] = [
        block
        for block in re.findall(r"(?:^    .*\n|^\n)+", page, re.M)
        if "SamplingParams(temperature=0)" in block
    ]
    code = textwrap.dedent(code)
    engine = FakeEngine(lambda target, prompt, sample: " went home")
    context = SimpleNamespace(engine=engine, seed=0, tuned=Target(name="tuned", adapter="lora"))
    prompts = [tokens.ids for tokens in engine.tokenize(["The man", "The man", "A dog"])]
    place: dict[str, object] = {"context": context, "prompts": prompts}
    exec(code, place)
    assert place["said"] == " went home"
    assert [request.samples for _, request in engine.asked] == [1, 1]


def test_a_studys_table_is_what_its_report_gave():
    """No number of such a table is typed by hand: benchmarks/study_tables.py writes it."""
    made = runpy.run_path(str(ROOT / "benchmarks/study_tables.py"))
    kept = sorted((ROOT / "docs/studies").glob("*.json"))
    assert kept
    for path in kept:
        page = path.parents[1] / f"{path.stem}.md"
        text = page.read_text("utf-8")
        assert made["kept_path"](page) == path
        assert made["page_with_table"](text, json.loads(path.read_text("utf-8"))) == text


def test_the_tables_of_made_up_federations_are_what_was_kept(monkeypatch):
    """Nor in these: benchmarks/attribution_tables.py writes them."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    made = runpy.run_path(str(ROOT / "benchmarks/attribution_tables.py"))
    kinds = runpy.run_path(str(ROOT / "benchmarks/attribution_calibration.py"))
    kept, text = (
        ROOT / "docs/studies/calibration",
        (ROOT / "docs/attribution-errors.md").read_text("utf-8"),
    )
    for sets in made["SETS"]:
        main = made["read_records"](kept / f"main-{sets}.jsonl")
        assert [one["kind"] for one in main] == [one.name for one in kinds["scenarios"]()]
        assert {one["known"] for one in main} == {sets == "known"}
    assert made["page_with_tables"](text, kept) == text


def test_the_table_of_the_attribution_study_is_what_it_kept():
    """Nor in this one: benchmarks/attribution_study.py --table writes it."""
    made = runpy.run_path(str(ROOT / "benchmarks/attribution_study_tables.py"))
    kept, text = (
        ROOT / "docs/studies/attribution",
        (ROOT / "docs/fed-attr-study.md").read_text("utf-8"),
    )
    tasks = (*made["tasks"](made["SEEDS"]), *made["ablations"](), *made["fresh"]())
    known = {task.name for task in tasks}
    assert {path.stem for path in kept.glob("*-[0-9]*.json")} <= known
    assert made["page_with_table"](text, kept) == text


def test_every_page_is_once_in_the_navigation_of_the_site():
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    groups = re.findall(r"(?m)^  - ([\w-]+):$", text)
    assert groups == ["Start", "How-to", "Reference", "Method", "Studies"]
    pages = re.findall(r"(?m)^      - ([\w-]+\.md)$", text)
    assert sorted(pages) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_python_reference_names_what_the_package_exports():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    named = dict(
        reversed(path.rsplit(".", 1)) for path in re.findall(r"(?m)^::: (fedaudit\.\w+\..+)$", text)
    )
    assert named == fedaudit._HOMES
