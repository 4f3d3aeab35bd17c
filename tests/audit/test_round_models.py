"""Which rounds' global models an audit asks."""

import json

from command import Command

from fedaudit.audit import other_models
from fedaudit.audit.input_files import InputReader
from fedaudit.audit.request import ExtractionRequest
from fedaudit.audit.target import resolve
from fedaudit.report.document import validate


def found(federation, number=None, target=None, **options):
    request = ExtractionRequest(
        prefixes=federation.path / "data/c0.jsonl",
        attacks=("contextual", "membership"),
        options={"membership": options},
    )
    return other_models.find_rounds(request, resolve(target or str(federation.path), None, number))


def test_rounds_before_the_audited_one_for_who_asks(federation):
    assert found(federation) == {}
    asked = found(federation, organisation=True)
    assert asked == {1: federation.path / "rounds/001/global"}
    assert found(federation, 1, organisation=True) == {}
    assert found(federation, target="fedaudit-nano", organisation=True) == {}
    [model] = other_models.round_targets(asked).values()
    assert (model.name, model.adapter) == ("round 1", str(asked[1]))
    facts = other_models.round_facts(asked, InputReader())
    assert facts["rounds' SHA-256"].keys() == {"1"}


def test_the_whole_audit_says_that_it_cannot_tell(federation, tmp_path, monkeypatch, capfd):
    held = tmp_path / "held.jsonl"
    texts = [f"Note {n}: the parties of case {n} met on a rainy day in York." for n in range(9)]
    held.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run = Command(monkeypatch, capfd)
    words = ("extract", "--target", federation.path, "--attack", "membership", "--prefixes",
             federation.path / "data/c0.jsonl", "--held-out", held, "--out", tmp_path / "out",
             "--set", "membership.organisation=true")  # fmt: skip
    shown = run(*words)
    assert shown.code in (0, 1, 7), shown
    assert "Did the organisation take part" in shown.out
    report = json.loads((tmp_path / "out/report.json").read_text())
    validate(report)
    [row] = [r for r in report["measurements"] if r["scope"].get("unit") == "organisation"]
    assert (row["metric"], row["value"], row["scope"]["rounds"]) == ("p_value", None, 2)
    assert any("whether it took part cannot be told" in limit for limit in report["limits"])
