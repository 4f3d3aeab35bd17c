import json
import math
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from example_report import HOSTILE, coverage, example, extraction, hostile, number
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import FedauditError, InputError
from fedaudit.api.records import Finding, Measurement
from fedaudit.metrics.significance import detectable
from fedaudit.report.document import dumps, read, schema, schema_violation, validate, write
from fedaudit.report.kinds.registry import OURS
from fedaudit.report.number_format import RATES
from fedaudit.report.redaction import is_hidden
from fedaudit.report.verdict.policy import verdict

DOCS = Path(__file__).parents[2] / "docs"


def without(document, *path):
    *parents, last = path
    inner = document
    for step in parents:
        inner = inner[step]
    del inner[last]
    return document


def changed(value, *path):
    document = example().to_json()
    *parents, last = path
    inner = document
    for step in parents:
        inner = inner[step]
    inner[last] = value
    return document


# the document


def test_a_report_is_valid_and_survives_the_disk(tmp_path):
    path = tmp_path / "report.json"
    write(example(), path)
    assert read(path) == example().to_json()
    text = path.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert list(json.loads(text)) == sorted(json.loads(text))
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_report_without_a_verdict_gets_the_computed_one():
    assert example().to_json()["verdict"]["status"] == "fail"
    given_one = {"status": "pass", "reasons": ["policy"]}
    assert example(verdict=given_one).to_json()["verdict"] == given_one


def test_numbers_of_numpy_become_plain_ones():
    row = replace(number("cost", "x", "seconds", np.float32(0.5)), n=np.int64(3))
    scope = {"flag": np.bool_(True), "budget": np.int64(7)}
    document = example(measurements=[replace(row, scope=scope)]).to_json()
    assert document["measurements"][0] | {} == document["measurements"][0]
    assert json.loads(dumps(document))["measurements"][0]["scope"] == {"flag": True, "budget": 7}
    validate(document)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_nan_never_reaches_a_file(tmp_path, bad):
    rows = [*extraction(), number("cost", "x", "seconds", bad)]
    with pytest.raises(ValueError, match=r"measurements\[17\]\.value is -?(nan|inf); write null"):
        write(example(measurements=rows), tmp_path / "report.json")
    hidden_inside = example(target=example().target | {"effect": {"kl": {"mean": bad}}})
    with pytest.raises(ValueError, match=r"target\.effect\.kl\.mean is"):
        write(hidden_inside, tmp_path / "report.json")
    assert not list(tmp_path.iterdir())


def test_what_json_does_not_have_is_named():
    with pytest.raises(TypeError, match=r"run\.config\.key is of type bytes"):
        example(run=example().run | {"config": {"key": b"secret"}}).to_json()


def test_a_report_that_breaks_its_own_schema_is_a_bug(tmp_path):
    with pytest.raises(ValueError, match="Not a valid report"):
        write(example(status="done"), tmp_path / "report.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_kept_exactly_and_sleeps_in_the_file(tmp_path, name):
    path = tmp_path / "report.json"
    write(hostile(HOSTILE[name]), path)
    text = path.read_text(encoding="utf-8")
    assert not any(is_hidden(char) for char in text if char != "\n")
    assert read(path)["limits"] == [HOSTILE[name]]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_reads_back_as_it_was(text):
    assert json.loads(dumps({text: [text]})) == {text: [text]}


def test_the_report_room_is_light_to_import():
    names = ["document", "number_format", "redaction", "tables.overview", "text.attacks"]
    names += ["text.summary", "renderers.html", "renderers.markdown", "renderers.terminal"]
    modules = ", ".join(f"fedaudit.report.{name}" for name in names)
    heavy = "{'rich', 'jinja2', 'jsonschema_rs', 'numpy', 'torch'}"
    code = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# writing


@pytest.mark.parametrize(("call", "code"), [("fsync", 28), ("fsync", 5), ("replace", 30)])
def test_a_failed_write_leaves_the_old_report(tmp_path, monkeypatch, call, code):
    path = tmp_path / "report.json"
    write(example(limits=("old",)), path)
    old = path.read_text()

    def failing(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(FedauditError, match=r"report\.json cannot be written") as caught:
        write(example(), path)
    monkeypatch.undo()
    assert "\n" not in str(caught.value)
    assert path.read_text() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_control_c_while_writing_leaves_the_old_report(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    write(example(limits=("old",)), path)
    old = path.read_text()

    def stopped(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write(example(), path)
    assert path.read_text() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_report_cannot_be_written_over_a_folder(tmp_path):
    (tmp_path / "report.json").mkdir()
    with pytest.raises(FedauditError, match="cannot be written"):
        write(example(), tmp_path / "report.json")


# reading and validation


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"x": ' * 900 + b"1" + b"}" * 900, "Not a valid report"),
        (b"[]", "Not a valid report"),
        (b"null", "Not a valid report"),
        (b"{}", "required property"),
        (b'{"schema_version": "2.0"}', "has schema version 2.0; this fedaudit reads 1.0"),
        (b'{"schema_version": "\\u001b[31m"}', r"version \\x1b\[31m"),
    ],
)
def test_what_is_no_report_is_one_clear_line(tmp_path, content, message):
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert str(path) in str(caught.value)


def test_a_missing_report_is_one_clear_line(tmp_path):
    for path in (tmp_path / "report.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read(path)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_refused_when_read(tmp_path, text):
    path = tmp_path / "report.json"
    document = dumps(changed({"kl": "HERE"}, "target", "effect"))
    path.write_text(document.replace('"HERE"', text))
    with pytest.raises(InputError, match=r"report\.target\.effect\.kl is"):
        read(path)


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ("done", ["status"], "status"),
        (None, ["measurements", 0, "value"], "reason"),
        ("0.5", ["measurements", 0, "value"], "measurements"),
        (math.inf, ["measurements", 4, "value"], "measurements"),
        (math.nan, ["measurements", 4, "value"], "measurements"),
        (1.5, ["measurements", 0, "value"], "maximum"),
        (None, ["measurements", 0, "low"], "low"),
        (None, ["measurements", 0, "n"], r"measurements\[0\]\.n"),
        (-1, ["measurements", 0, "hits"], "hits"),
        (True, ["measurements", 0, "n"], r"measurements\[0\]\.n"),
        ("Leaks", ["measurements", 0, "metric"], "metric"),
        ("idle gossip", ["measurements", 0, "kind"], "kind"),
        ("mine", ["measurements", 0, "scope", "source"], "source"),
        ("some", ["measurements", 0, "scope", "set"], "set"),
        ("yes", ["claims", 0, "holds"], "holds"),
        ("fatal", ["findings", 0, "severity"], "severity"),
        ("safe", ["verdict", "status"], "verdict"),
        ("today", ["run", "started"], "started"),
        ("abc", ["target", "sha256"], "sha256"),
        ({"start": "bos"}, ["target", "beginning"], "middle"),
        *(
            (
                {"start": "bos", "middle": "bos", "log_likelihood": scores},
                ["target", "beginning"],
                "target.beginning.log_likelihood",
            )
            for scores in ([1], {"start": 0.5}, {"start": {"bos": "high"}})
        ),
        *(
            ("1", ["target", "effect", name], f"target.effect.{name}")
            for name in ("texts", "mean_gain", "largest_change")
        ),
        ("x", ["surprise"], "surprise"),
        ("x", ["run", "surprise"], "surprise"),
        ("x", ["measurements", 0, "surprise"], "surprise"),
        ("x", ["findings", 0, "text"], "text"),
        ("Ann Example", ["findings", 0, "evidence", "text"], "evidence"),
        ([""], ["limits"], "limits"),
    ],
)
def test_what_breaks_the_schema_is_refused_by_name(value, path, message):
    with pytest.raises(InputError, match=message) as caught:
        validate(changed(value, *path))
    assert "\n" not in str(caught.value)


def test_every_section_is_required():
    assert schema()["properties"].keys() - set(schema()["required"]) == {
        "context",
        "coverage",
        "defenses",
    }
    for section in schema()["required"]:
        with pytest.raises(InputError, match=section):
            validate(without(example().to_json(), section))


def test_what_could_not_be_measured_needs_a_reason():
    row = replace(number("extraction", "x", "coverage", None), reason="no victim data")
    validate(example(measurements=[row]).to_json())


def test_a_count_of_nothing_keeps_its_upper_bound():
    validate(example(measurements=[coverage(0, 30, source="tuned")]).to_json())


# the schema and its page


def test_the_schema_is_valid_and_knows_the_records():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema())
    measurement = schema()["$defs"]["measurement"]
    fields = set(get_type_hints(Measurement))
    assert set(measurement["properties"]) == set(measurement["required"]) == fields
    assert set(measurement["properties"]["kind"]["examples"]) == OURS
    finding = schema()["properties"]["findings"]["items"]["properties"]
    severities = get_args(get_type_hints(Finding)["severity"])
    assert finding["severity"]["enum"] == list(severities)
    rates = measurement["allOf"][1]["if"]["properties"]["metric"]["enum"]
    assert set(rates) == RATES


def test_rows_are_checked_as_by_the_schema_with_its_references():
    from jsonschema import Draft202012Validator

    [row] = example(measurements=[coverage(3, 30, source="tuned")]).to_json()["measurements"]
    rule = {"$defs": schema()["$defs"], "$ref": "#/$defs/measurement"}
    slow, answers = Draft202012Validator(rule), []
    for key in row:
        for value in (None, -1, 0.5, 1.5, 2**60, "Ä", "", [], {}):
            changed = {**row, key: value}
            answers.append(slow.is_valid(changed))
            assert (schema_violation(changed) == "") == answers[-1], (key, value)
    assert 10 < sum(answers) < len(answers) - 10


def paths(node, place=""):
    """Yield the dotted path of every property of a schema."""
    if "$ref" in node:
        node = schema()["$defs"][node["$ref"].rpartition("/")[2]]
    for branch in node.get("anyOf", ()):
        yield from paths(branch, place)
    for name, inner in node.get("properties", {}).items():
        path = f"{place}.{name}" if place else name
        if isinstance(inner.get("items"), dict):
            path += "[]"
        yield path
        yield from paths(inner, path)
    if isinstance(node.get("items"), dict):
        yield from paths(node["items"], place)


def test_the_page_of_fields_has_every_field_and_metric_of_the_schema():
    page = (DOCS / "report-fields.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(DOCS / "site.py"))["with_tables"](page)
    documented = re.findall(r"^\| `([^`]+)` \| .", page, re.MULTILINE)
    metrics = schema()["$defs"]["measurement"]["properties"]["metric"]["examples"]
    assert len(documented) == len(set(documented))
    assert set(documented) == {*paths(schema()), *metrics}
    assert all(f'"{kind}": ' in page or f'"{kind}"`: ' in page for kind in OURS)
    for choices in ("status", "verdict", "findings", "measurements"):
        for value in re.findall(r"'enum': \[([^]]*)\]", str(schema()["properties"][choices])):
            assert all(f'"{choice}"' in page for choice in re.findall(r"'([^']+)'", value))


# the verdict


@pytest.mark.parametrize(
    ("chance", "status"), [(None, "pass"), (0.001, "pass"), (0.05, "inconclusive")]
)
def test_a_pass_must_have_been_able_to_tell_a_leak_from_the_base(chance, status):
    rows = [coverage(0, 200, source=name, set="exclusive") for name in ("base", "tuned-not-base")]
    rows += [coverage(0, 2000, source="control", set="exclusive")]
    rows += [coverage(400, 400, source="known", set="exclusive")]
    at = {"source": "tuned-not-base", "set": "exclusive", "test": "leak"}
    own = replace(rows[0], metric="p_value", value=1.0, low=None, high=None, n=200, hits=None)
    rows.append(replace(own, scope=at))
    if chance is not None:
        base = {"source": "base", "set": "exclusive"}
        rows.append(replace(own, metric="chance", value=chance, scope=base))
    # Of 200 that the base says with 5 % each, 20 come out in 1 of 100 audits (more than 10 %).
    assert verdict(rows, [])["status"] == status


def judged(known=(400, 400), **rows):
    spelt = {"beyond": "tuned-not-base"}
    rows["known"] = known
    return verdict(
        [coverage(*row, source=spelt.get(name, name), set="all") for name, row in rows.items()], []
    )


def test_a_leak_that_neither_base_nor_guessing_explains_fails():
    found = judged(beyond=(112, 500), base=(10, 500), control=(0, 300))
    # All 112 hits of 800 strings are among the 500 targets.
    p = comb(500, 112) / comb(800, 112)
    assert p == pytest.approx(6.8e-26, rel=0.01)
    [test] = found.pop("tests")
    assert (test["name"], test["p"], test["adjusted"]) == ("contextual", *[pytest.approx(p)] * 2)
    # Against the ten that the base may have lost it takes 25:
    # P(Bin(34, 1/2) >= 24) = 1.2 %, P(Bin(35, 1/2) >= 25) = 0.8 %.
    assert found.pop("detectable") == pytest.approx(detectable(25, 500))
    assert found == {
        "status": "fail",
        "level": 0.01,
        "reasons": [
            "contextual: 112 of 500 targets came out of the tuned model but not of its base, more"
            " than base and control explain (p = 6.8e-26)."
        ],
    }


def test_hits_within_the_reach_of_base_or_guessing_decide_nothing():
    # Four gained and none lost is 1/16.
    assert judged(beyond=(4, 50), base=(0, 50), control=(0, 500))["status"] == "inconclusive"
    guessed = judged(beyond=(100, 500), base=(0, 500), control=(2, 5))
    assert guessed["status"] == "inconclusive"
    # Two of five controls came out: 100 of 500 is less.
    assert "only a leak of 91.3% of them would have been seen" in guessed["reasons"][0]


def test_nothing_found_passes_where_a_leak_would_have_been_seen():
    nothing = judged(beyond=(0, 150), base=(0, 150), control=(0, 300))
    assert nothing["status"] == "pass"
    unseen = judged(beyond=(0, 150), base=(0, 150), control=(0, 300), known=(0, 400))
    assert unseen["status"] == "inconclusive"
    assert "0 of 400 positive controls came out" in unseen["reasons"][0]
    # Five are needed, (1/3)^5 or less: P(Bin(150, r) >= 5) = 0.9 at r = 5.3 %.
    assert "a leak of 5.3% of them would have been seen" in nothing["reasons"][0]
    assert judged(beyond=(0, 50), base=(0, 50), control=(0, 300))["status"] == "inconclusive"


@pytest.mark.parametrize("missing", ["base", "control"])
def test_a_leak_with_nothing_to_compare_it_with_is_inconclusive(missing):
    rows = {"beyond": (112, 500), "base": (10, 500), "control": (0, 300)}
    del rows[missing]
    found = judged(**rows)
    assert found["status"] == "inconclusive"
    assert f"there is no {missing} to compare with" in found["reasons"][0]


def test_no_extraction_and_no_number_are_inconclusive():
    nothing = {
        "status": "inconclusive",
        "reasons": ["No extraction was tried."],
        "level": 0.01,
        "tests": [],
        "detectable": None,
    }
    assert verdict([], []) == verdict([number("utility", "utility", "loss", 2.0)], []) == nothing
    no_base = judged(tuned=(112, 500), control=(1, 500))
    assert no_base["status"] == "inconclusive"
    assert "There is no base model" in no_base["reasons"][0]


@pytest.mark.parametrize("source", ["tuned", "tuned-not-base"])
def test_what_could_not_be_measured_is_inconclusive_and_says_why(source):
    row = coverage(1, 2, source=source)
    unknown = replace(row, value=None, low=None, high=None, reason="no victim data")
    assert verdict([unknown], [])["status"] == "inconclusive"
    assert "no victim data" in verdict([unknown], [])["reasons"][0]


def test_rows_are_compared_within_their_attack_and_scope():
    rows = [
        coverage(90, 100, source="tuned-not-base", set="all", budget=10),
        coverage(0, 100, source="base", set="all", budget=10),
        coverage(99, 100, source="base", set="all", budget=99),
        coverage(99, 100, source="base", set="all", budget=10, plugin="other"),
        coverage(99, 100, source="base", set="all", budget=10, label="PERSON"),
        coverage(99, 100, source="tuned", set="all", budget=10),
        coverage(0, 100, source="control"),  # holds for every set and budget
    ]
    assert verdict(rows, [])["status"] == "fail"


def test_one_failing_attack_fails_and_one_unknown_leaves_open():
    good = [
        coverage(0, 150, source="tuned-not-base", plugin="good"),
        coverage(0, 150, source="base", plugin="good"),
        coverage(0, 300, source="control", plugin="good"),
        coverage(400, 400, source="known", plugin="good"),
    ]
    row = coverage(1, 2, source="tuned-not-base", plugin="odd")
    odd = replace(row, value=None, low=None, high=None, reason="x")
    assert verdict(good, [])["status"] == "pass"
    assert verdict([*good, odd], [])["status"] == "inconclusive"
    mixed = verdict([*good, odd, *extraction()], list(example().findings))
    assert mixed["status"] == "fail"
    assert not any(reason.startswith(("good", "odd")) for reason in mixed["reasons"])


def test_expected_coverage_is_judged_without_hits():
    row = replace(coverage(90, 100, source="tuned-not-base"), hits=None)
    rows = [row, coverage(0, 100, source="base"), coverage(0, 100, source="control")]
    assert verdict(rows, [])["status"] == "fail"
    assert "90.00% targets" not in verdict(rows, [])["reasons"][0]


@pytest.mark.parametrize("digits", [309, 400, 4000])
def test_a_whole_number_beyond_every_float_is_in_no_report(tmp_path, digits):
    table = example().to_json()
    table["run"]["config"]["round"] = -(10**digits)
    (tmp_path / "report.json").write_text(json.dumps(table))
    with pytest.raises(InputError, match=r"report\.run\.config\.round is a whole number beyond"):
        read(tmp_path / "report.json")
    table["run"]["config"]["round"] = 10**308
    (tmp_path / "report.json").write_text(json.dumps(table))
    assert read(tmp_path / "report.json")["run"]["config"]["round"] == 10**308
