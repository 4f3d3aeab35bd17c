"""The notebook of docs/: its cells run as they stand, and its figures are the command's."""

import ast
import csv
import json
from math import isnan
from pathlib import Path

from command import Command

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]
HERE = {
    "TARGET": "fedaudit-nano",
    "ADAPTER": "lora",
    "PREFIXES": "own.jsonl",
    "VICTIM": "victim.jsonl",
    "OPTIONS": {"contextual": {"context": 4}},
    "OUT": "notebook",
}


def run_cells(settings):
    """Run the code cells in one namespace, with `settings` in place of the tagged cell's values.

    Return the namespace, and what each cell shows: the value of its last expression.
    """
    names, shown = {}, []
    for cell in CELLS:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if "parameters" in cell["metadata"].get("tags", ()):
            assert settings.keys() == names.keys() - {"__builtins__"}
            names |= settings
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    return names, shown


def test_its_figures_are_those_of_the_command_to_the_last_digit(here, monkeypatch, capfd):
    names, shown = run_cells(HERE)
    run = Command(monkeypatch, capfd)
    words = ("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--target",
             "fedaudit-nano", "--adapter", "lora", "--set", "contextual.context=4")  # fmt: skip
    done = run(*words, "--out", "cli", "--quiet")
    ours, theirs = (json.loads(Path(d, "report.json").read_text()) for d in ("notebook", "cli"))
    assert done.code == {"pass": 0, "fail": 1, "inconclusive": 7}[shown[0]]
    for part in ("measurements", "findings", "verdict", "target", "seeds"):
        assert ours[part] == theirs[part]
    assert run("report", "cli", "--format", "csv", "--out", "cli.csv").code == 0
    with Path("cli.csv").open() as file:
        lines = list(csv.DictReader(file))
    frame = names["frame"]
    assert len(lines) == len(frame)
    for field in ("value", "low", "high"):
        told = [line[field] for line in lines]
        assert told == ["" if isnan(value) else repr(value) for value in frame[field].tolist()]


def test_its_tables_are_those_of_the_report(here):
    names, shown = run_cells(HERE)
    rows = [row for row in names["report"].rows() if row["metric"] == "coverage"]
    scopes = ("scope.label", "scope.category", "scope.budget")
    whole = [row for row in rows if all(row[scope] is None for scope in scopes)]
    totals, kinds, findings = shown[1:]
    assert totals["value"].tolist() == [row["value"] for row in whole]
    assert set(kinds.index) == {"PERSON", "PLACE"}
    assert kinds["value"].tolist() == sorted(kinds["value"], reverse=True)
    assert sum(findings.values()) == len(names["report"].findings)


def test_it_is_a_notebook_without_outputs():
    assert json.loads(NOTEBOOK.read_text())["nbformat"] == 4
    assert len({cell["id"] for cell in CELLS}) == len(CELLS)
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
