"""A folder of many runs: which are found, trends over rounds, one page that loads nothing."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command import Command
from example_report import HOSTILE, coverage, example, findings, hostile

from fedaudit.api.errors import InputError
from fedaudit.report.document import write
from fedaudit.report.index import run_entries, runs_table, trend_tables, trends
from fedaudit.report.renderers import run_index


def audit(round_, hits, day=1, federation="runs/fed", **changes):
    base = example()
    adapter = f"{federation}/rounds/{round_:03}/global"
    counts = {"tuned": hits, "base": 0, "tuned-not-base": hits, "base-not-tuned": 0, "control": 0}
    rows = [coverage(k, 100, source=source, set="all") for source, k in counts.items()]
    return example(
        measurements=rows, findings=findings(hits % 5), verdict=None,
        target=base.target | {"adapter": adapter},
        run=base.run | {"started": f"2026-01-{day:02}T08:00:00+00:00"}, **changes,
    )  # fmt: skip


def save(folder, name, report):
    (folder / name).mkdir(parents=True)
    write(report, folder / name / "report.json")


@pytest.fixture
def folder(tmp_path):
    save(tmp_path, "a", audit(1, 5, day=1))
    save(tmp_path, "b/c", audit(3, 20, day=2))
    save(tmp_path, "d", audit(3, 40, day=3))
    save(tmp_path, "other", audit(2, 50, day=4, federation="runs/else"))
    (tmp_path / "d/report.html").write_text("page")
    (tmp_path / "old").mkdir()
    old = audit(1, 1).to_json() | {"schema_version": "0.9"}
    (tmp_path / "old/report.json").write_text(json.dumps(old))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/report.json").write_text("{")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/report.json").write_text("{")
    return tmp_path


class Page(HTMLParser):
    """Collects tags, their attributes and the cells of the first table."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self._open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("td", "h1"):
            self.cells.append("")
            self._open = True

    def handle_endtag(self, tag):
        if tag in ("td", "h1"):
            self._open = False

    def handle_data(self, data):
        if self._open:
            self.cells[-1] += data


def test_the_newest_is_first_and_what_cannot_be_read_is_last_with_its_reason(folder):
    found = run_entries(folder)
    assert [str(one.path.parent) for one in found] == ["other", "d", "b/c", "a", "broken", "old"]
    assert [bool(one.problem) for one in found] == [False] * 4 + [True] * 2
    assert found[5].problem == ("The report has schema version 0.9; this fedaudit reads 1.0.")
    assert "is not JSON" in found[4].problem
    assert (found[1].federation, found[1].round, found[1].page) == ("runs/fed", 3, True)


def test_a_folder_without_a_report_is_said_to_be_so(tmp_path):
    with pytest.raises(InputError, match=r"There is no report\.json in"):
        run_entries(tmp_path)


def test_trends_are_of_one_federation_and_the_newest_run_of_a_round(folder):
    found = trends(run_entries(folder))
    assert {one.federation for one in found} == {"runs/fed"}
    [one] = found
    assert [(number, row["hits"]) for number, row in one.points] == [(1, 5), (3, 40)]
    [table] = trend_tables(found)
    assert table.columns == ("what", "round 1", "round 3")
    assert table.rows[0][1].startswith("5.0 % [")


def test_trends_do_not_depend_on_the_order_of_runs(folder):
    entries = run_entries(folder)
    assert trends(entries) == trends(entries[::-1])


def test_of_many_rounds_a_narrow_table_has_the_first_the_last_and_some_between(tmp_path):
    for number in range(1, 11):
        save(tmp_path, f"r{number}", audit(number, number))
    [table] = trend_tables(trends(run_entries(tmp_path)), 4)
    assert table.columns[1:] == ("round 1", "round 4", "round 7", "round 10")
    assert table.notes == ("6 rounds between them are on the page.",)


def test_an_altered_report_is_said_not_to_hold(tmp_path):
    one = audit(1, 50).to_json()
    (tmp_path / "x").mkdir()
    one["verdict"]["status"] = "pass"
    (tmp_path / "x/report.json").write_text(json.dumps(one))
    assert run_entries(tmp_path)[0].verdict == "its own measurements contradict it"


def test_the_page_loads_nothing_and_runs_only_its_own_script(folder):
    text = run_index.render(run_entries(folder), "Runs")
    page = Page(text)
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv"))
    [script] = re.findall(r"(?s)<script>(.*?)</script>", text)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    names = {name for _, attrs in page.tags for name in attrs}
    assert not names & {"src", "onclick", "onload", "srcset", "xlink:href"}
    links = [a["href"] for tag, a in page.tags if "href" in a and not a["href"].startswith("#")]
    assert links == ["./d/report.html"]
    assert text.count("<figure>") == 1
    assert "prefers-color-scheme: dark" in text
    assert "max-width: 40rem" in text


def test_every_cell_has_what_it_is_sorted_by_and_its_name_on_a_phone(folder):
    page = Page(run_index.render(run_entries(folder), "Runs"))
    cells = [attrs for tag, attrs in page.tags if tag == "td" and "data-key" in attrs]
    assert len(cells) == 4 * 8
    rounds = [one["data-key"] for one in cells if one["data-name"] == "round"]
    assert rounds == ["2", "3", "3", "1"]
    assert {one["data-name"] for one in cells} >= {"run", "verdict", "findings"}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_text(tmp_path, name):
    base = hostile(HOSTILE[name])
    target = base.target | {"adapter": f"{HOSTILE[name]}/rounds/001/global"}
    save(tmp_path, "one", replace(base, target=target))
    text = run_index.render(run_entries(tmp_path), HOSTILE[name])
    plain = run_index.render(run_entries(tmp_path), "x")
    assert len(Page(text).tags) == len(Page(plain).tags)
    assert not [tag for tag, attrs in Page(text).tags if tag in ("img", "iframe", "object")]
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_the_name_of_a_folder_is_only_text(tmp_path):
    save(tmp_path, '"><img src=x> #?%', audit(1, 1))
    (tmp_path / '"><img src=x> #?%' / "report.html").write_text("page")
    page = Page(run_index.render(run_entries(tmp_path), "Runs"))
    assert "img" not in [tag for tag, _ in page.tags]
    [link] = [attrs["href"] for _, attrs in page.tags if "href" in attrs]
    assert link == "./%22%3E%3Cimg%20src%3Dx%3E%20%23%3F%25/report.html"


def test_the_command_prints_a_line_for_each_and_writes_the_page(folder, monkeypatch, capfd):
    run = Command(monkeypatch, capfd)
    done = run("report", folder)
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 80
    for text in ("b/c", "fail", "By round: fed", "Not read", "schema version 0.9"):
        assert text in done.out
    assert done.err == f"Written: {folder / 'index.html'}\n"
    assert Path(folder, "index.html").read_text().startswith("<!DOCTYPE html>")
    assert run("report", folder, "--format", "terminal").err == ""
    run.refused(2, "report", folder, "--format", "csv", says="A folder of runs is shown as html")
    assert run("report", folder / "d", "--format", "csv").code == 0


def test_only_a_page_that_fedaudit_wrote_is_written_over(folder, monkeypatch, capfd):
    run = Command(monkeypatch, capfd)
    page = folder / "index.html"
    page.write_text("<p>somebody's</p>")
    run.refused(3, "report", folder, says="it stays as it is; choose another file")
    assert page.read_text() == "<p>somebody's</p>"
    assert run("report", folder, "--format", "terminal").code == 0
    assert run("report", folder, "--out", folder / "other.html").code == 0
    page.write_bytes((folder / "other.html").read_bytes().replace(b"newest", b"oldest"))
    assert run("report", folder).code == 0
    assert "the newest first" in page.read_text()


def test_runs_say_how_grave_their_findings_are(folder):
    line = runs_table(run_entries(folder)).rows[2]
    # 20 % 5 = 0 findings
    assert line[:1] + line[2:] == ("b/c", "2026-01-02 08:00", "3", "fail", "-")
