"""fedaudit report in the forms that assessors and their tools read."""

import json

import pytest
from example_report import example, findings

from fedaudit.report.document import write


@pytest.fixture
def run(run, empty_folder):
    (empty_folder / "out").mkdir()
    write(example(verdict=None, findings=findings(2)), empty_folder / "out/report.json")
    return run


def test_an_annex_is_written_beside_the_report_or_where_one_says(run, tmp_path):
    words = ("report", "out", "--format", "annex", "--owner", "Court 1", "--expires", "2027-06-30")
    done = run(*words)
    assert (done.code, done.err) == (0, "Written: out/annex.html\n")
    text = (tmp_path / "out/annex.html").read_text()
    assert "<h1>Annex to the data protection impact assessment" in text
    assert "Owner: Court 1<" in text
    assert "Expires: 2027-06-30<" in text
    assert run(*words, "--out", "a.html").code == 0
    assert (tmp_path / "a.html").read_text() == text
    assert run("report", "out", "--format", "docx").err == "Written: out/annex.docx\n"
    assert run("report", "out", "--format", "docx").code == 0  # it replaces its own


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.html", b"<!DOCTYPE html>"),
        ("a.docx", b"PK"),
        ("a.MD", b"# "),
        ("a.csv", b"kind,"),
        ("a.json", b"{"),
    ],
)
def test_the_name_of_a_file_says_its_form(name, begins, run, tmp_path):
    assert run("report", "out", "--out", name).err.endswith(f"Written: {name}\n")
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_an_annex_with_a_name_of_word_is_one_of_word(run, tmp_path):
    assert run("report", "out", "--format", "annex", "--out", "a.docx").code == 0
    assert (tmp_path / "a.docx").read_bytes().startswith(b"PK")


def test_a_form_that_the_name_contradicts_is_refused(run, tmp_path):
    wrong = {("docx", "a.html"): ".docx", ("json", "a.csv"): ".json", ("annex", "a.md"): ".html or"}
    for (form, name), ending in wrong.items():
        words = ("report", "out", "--format", form, "--out", name)
        run.refused(
            2, *words, says=f"does not go with the name {name}: give it the ending {ending}"
        )
    run.refused(2, "report", "out", "--format", "pdf", "--out", "a.md", says="No report format")
    for words in (("--out", "a"), ("--format", "terminal", "--out", "a.html")):
        run.refused(2, "report", "out", *words, says="Say with --format in which form")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_parties_are_called_by_their_titles(run, tmp_path):
    words = ("report", "out", "--format", "html")
    assert run(*words, "--party", "c1=St Mary's Hospital", "--owner", "The DPO").code == 0
    page = (tmp_path / "out/report.html").read_text()
    assert "By The DPO with fedaudit" in page
    for wrong, says in (
        (("--party", "c1"), "--party c1 has no title"),
        (("--party", "c1=A", "--party", "c1=B"), "names c1 twice"),
    ):
        run.refused(2, *words, *wrong, says=says)
    run.refused(2, "report", "out", "--laws", says="--party and --laws go with")


def test_owner_and_expiry_go_with_forms_that_have_them(run):
    for words in (("--owner", "us"), ("--format", "csv", "--expires", "2027-01-01")):
        run.refused(2, "report", "out", *words, says="--owner and --expires go with")
    run.refused(
        2, "report", "out", "--format", "annex", "--expires", "soon", says="soon is not a date"
    )


def test_a_gate_ends_with_the_code_of_what_is_new(run, tmp_path):
    for name, count in (("same", 2), ("more", 3), ("none", 0)):
        (tmp_path / name).mkdir()
        report = example(verdict=None, findings=findings(count))
        write(report, tmp_path / name / "report.json")
    assert run("compare", "out", "same", "--gate").code == 0
    done = run("compare", "out", "more", "--gate", "--json", "gate.json")
    assert done.code == 1
    assert "* New and verified: 1 leak (PERSON)." in done.out
    assert "Against the baseline: fail (verdicts: fail, then fail)" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert json.loads((tmp_path / "gate.json").read_text())["gate"]["status"] == "fail"
    assert run("compare", "out", "none", "--gate").code == 0
    assert run("compare", "out", "more").code == 0


def test_what_is_no_baseline_is_refused_before_anything_is_asked(run, tmp_path):
    run.refused(3, "audit", "nowhere", "--baseline", "none.json", says="none.json cannot be read")
    altered = json.loads((tmp_path / "out/report.json").read_text())
    altered["verdict"]["status"] = "pass"
    (tmp_path / "altered.json").write_text(json.dumps(altered))
    run.refused(3, "compare", "altered.json", "out", "--gate", says="This is not a baseline.")
    run.refused(3, "compare", "out", "altered.json", "--gate", says="cannot be held against a")
