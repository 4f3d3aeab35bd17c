"""The examples run as they stand."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_report_is_read_in_pandas(tmp_path):
    pytest.importorskip("pandas")
    content = gzip.decompress((ROOT / "tests/golden/demo_report.json.gz").read_bytes())
    (tmp_path / "report.json").write_bytes(content)
    words = [sys.executable, str(ROOT / "examples/read_report.py"), "report.json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    document = json.loads(content)
    verdict, head, *lines = done.stdout.splitlines()
    assert verdict == f"verdict: {document['verdict']['status']}"
    assert head.split() == ["plugin", "scope.label", "hits", "n", "value", "low", "high"]
    wanted = {
        (row["plugin"], row["scope"]["label"], str(row["hits"]), str(row["n"]))
        for row in document["measurements"]
        if row["metric"] == "coverage"
        and row["scope"].get("set") == "exclusive"
        and row["scope"].get("source") == "tuned-not-base"
        and row["scope"].get("label") is not None
        and row["scope"].get("budget") is None
    }
    assert wanted
    assert {tuple(line.split()[:4]) for line in lines} == wanted


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_an_example_has_fewer_than_sixty_lines(path):
    assert len(path.read_text("utf-8").splitlines()) < 60
