"""Of a member's result only what it may say of its own strings enters the common report."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedaudit.api.records import Measurement
from fedaudit.joint import combining, exchange, member
from fedaudit.joint.exchange import COMMIT, RESULT
from fedaudit.report.document import to_plain
from fedaudit.report.verdict.recheck import recheck

NAMES = ("a", "b", "c")
KEYS = {name: Ed25519PrivateKey.generate() for name in NAMES}
TERMS = {"protocol": 1, "adapter": "0" * 64, "template": "0" * 64,
         "attack": {"name": "contextual"}, "budget": 40, "seed": 0}  # fmt: skip
PROVEN = 1e-6


def write(folder, name, step, body):
    path = exchange.path_of(folder, step, name)
    exchange.write(path, KEYS[name], {"member": name, "step": step, **body}, {})


def row(metric, value, scope, **numbers):
    return Measurement(
        kind="extraction", plugin="contextual", metric=metric, value=value, scope=scope, **numbers
    )


def pair(attacker, victim, p):
    """Return the rows of 10 of 50 strings that came out, with the p value of the leak."""
    scope = {"attacker": attacker, "victim": victim, "set": "exclusive"}
    new = {**scope, "source": "tuned-not-base"}
    rows = [
        row("coverage", 0.2, new, low=0.1, high=0.4, n=50, hits=10),
        row("coverage", 0.0, {**scope, "source": "base"}, low=0.0, high=0.1, n=50, hits=0),
        row("coverage", 0.0, {**scope, "source": "control"}, low=0.0, high=0.1, n=50, hits=0),
        row("p_value", p, {**new, "test": "leak"}, n=50),
        row("p_value", 1.0, {**new, "test": "string"}, n=50),
    ]
    return to_plain(rows, "rows")


def pairs(victim, p):
    return [table for name in NAMES if name != victim for table in pair(name, victim, p)]


def changed(table, **scope):
    return {**table, "scope": {**table["scope"], **scope}}


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        records = {"count": 3, "annotation": None, "hmac": "0"}
        key = exchange.public_pem(KEYS[name])
        write(tmp_path, name, COMMIT,
              {"public_key": key, "asked": 1024, "records": records, "terms": TERMS})  # fmt: skip
    return tmp_path


@pytest.fixture
def send(folder):
    """Write a member's result."""
    commitments = member.fingerprints(member.read_commitments(folder))

    def write_result(name, rows, status="fail", findings=()):
        body = {"commitments": commitments, "report": "0" * 64, "rows": rows,
                "verdict": {"status": status, "rule": 1}, "findings": [*findings],
                "limits": []}  # fmt: skip
        write(folder, name, RESULT, body)

    for name in NAMES:
        write_result(name, pairs(name, PROVEN))
    return write_result


def test_honest_results_are_taken_as_they_are(folder, send):
    combined = combining.combine(folder)
    assert (combined.doubts, combined.status) == ({}, "fail")
    assert len(combined.report.measurements) == 3 * len(pairs("a", PROVEN))
    assert [*combined.lines()] == [
        "a's strings: fail", "b's strings: fail", "c's strings: fail", "all members: fail"
    ]  # fmt: skip


OWN = pairs("c", 1.0)
LIES = {
    "others' strings": [*OWN, *pairs("a", 1.0), *pairs("b", 1.0)],
    "another pair's accusation": [*OWN, *pair("a", "b", PROVEN)],
    "accusation of a stranger's loss": [*OWN, *pair("a", "m9", PROVEN)],
    "strangers as attackers": [*OWN, *(t for i in range(12) for t in pair(f"x{i}", "c", 1.0))],
    "itself as attacker": [*OWN, *pair("c", "c", 1.0)],
    "no attacker": [*OWN, *({**t, "scope": {"victim": "c"}} for t in OWN[:1])],
    "the same twice": [*OWN, *OWN],
    "the same twice, contradicting": [*OWN, *pairs("c", PROVEN)],
    "a stranger's share": [*OWN, changed(OWN[0], member="x9")],
    "another attack": [*OWN, *({**t, "plugin": "other"} for t in OWN)],
    "another kind": [*OWN, *({**t, "kind": "membership"} for t in OWN)],
    "another scope": [*OWN, *(changed(t, client="a") for t in OWN)],
    "a scope that is no text": [*OWN, changed(OWN[0], label=["a"])],
    "more tests of a pair": [*OWN, *(changed(OWN[0], test=f"x{i}") for i in range(50))],
    "one pair only": pair("a", "c", 1.0),
    "no row": [],
    "another form": [*OWN, {"x": 1}],
    "no table": [*OWN, None],
    "another metric's form": [*OWN, {**OWN[0], "metric": "NO METRIC"}],
    "numbers too large": [{**t, "n": 10**400} if t["n"] else t for t in OWN],
}  # fmt: skip


@pytest.mark.parametrize("rows", LIES.values(), ids=LIES)
def test_one_liar_neither_hides_a_proven_leak_nor_stops_the_report(folder, send, rows):
    send("c", rows, "inconclusive")
    combined = combining.combine(folder)
    assert combined.statuses == {"a": "fail", "b": "fail", "c": "inconclusive"}
    assert combined.doubts.keys() == {"c"}
    assert combined.status == "fail"
    report = combined.report.to_json()
    assert report["verdict"]["status"] == "fail"
    assert recheck(report).holds
    assert len(report["verdict"]["tests"]) == 8  # two of each pair of a and b
    of_c = [one for one in report["measurements"] if one["scope"]["victim"] == "c"]
    assert [(one["scope"]["attacker"], one["value"]) for one in of_c] == [("a", None), ("b", None)]
    assert all(one["reason"].startswith("c: its counts are left out") for one in of_c)
    assert f"c: {combined.doubts['c']}." in report["limits"]


def nothing(attacker, victim):
    """Return the rows of 200 strings of which none came out, though every positive control did."""
    scope = {"attacker": attacker, "victim": victim, "set": "exclusive"}
    new = {**scope, "source": "tuned-not-base"}
    known = {**scope, "source": "known"}
    rows = [
        row("coverage", 0.0, new, low=0.0, high=0.01, n=200, hits=0),
        row("coverage", 0.0, {**scope, "source": "base"}, low=0.0, high=0.01, n=200, hits=0),
        row("coverage", 0.0, {**scope, "source": "control"}, low=0.0, high=0.01, n=2000, hits=0),
        row("coverage", 1.0, known, low=0.9, high=1.0, n=60, hits=60),
        row("p_value", 1.0, {**new, "test": "leak"}, n=200),
    ]
    return to_plain(rows, "rows")


def test_counts_that_are_left_out_bar_a_pass(folder, send):
    """What the others measured says nothing of the strings of c."""
    own = {name: [t for x in NAMES if x != name for t in nothing(x, name)] for name in NAMES}
    for name in NAMES:
        send(name, own[name], "pass")
    combined = combining.combine(folder)
    assert (combined.status, combined.doubts) == ("pass", {})
    send("c", own["a"], "pass")
    combined = combining.combine(folder)
    assert combined.statuses == {"a": "pass", "b": "pass", "c": "inconclusive"}
    assert combined.status == combined.report.to_json()["verdict"]["status"] == "inconclusive"
    send("a", None, "pass")
    combined = combining.combine(folder)
    assert (combined.status, combined.report) == ("inconclusive", None)
    assert "c's strings: inconclusive (its counts are left out: row " in [*combined.lines()][2]


@pytest.mark.parametrize(
    ("stated", "p", "status", "doubt"),
    [
        ("pass", PROVEN, "fail", "it says pass, but its counts give fail"),
        ("inconclusive", PROVEN, "fail", "it says inconclusive, but its counts give fail"),
        ("pass", 1.0, "inconclusive", "it says pass, but its counts give inconclusive"),
        ("fail", 1.0, "fail", "its counts are left out: it says fail, but they give inconclusive"),
    ],
)
def test_a_verdict_that_its_own_counts_contradict_is_marked(folder, send, stated, p, status, doubt):
    send("a", pairs("a", p), stated)
    combined = combining.combine(folder)
    assert combined.statuses["a"] == status
    assert combined.doubts == {"a": doubt}
    assert f"a: {doubt}." in combined.report.limits
    assert f"a's strings: {status} ({doubt})" in combined.lines()


def test_all_members_together_are_judged_no_milder_than_one(folder, send):
    """p = 0.002 is below 0.01 / 4, the level of a's four tests, and not below 0.01 / 12."""
    for name in "bc":
        send(name, pairs(name, 1.0), "inconclusive")
    send("a", pairs("a", 0.002), "fail")
    combined = combining.combine(folder)
    assert combined.doubts == {}
    assert combined.report.to_json()["verdict"]["status"] == "inconclusive"
    assert combined.status == "fail"
    assert any("own verdict is fail, and goes for all" in one for one in combined.report.limits)


def test_a_finding_is_of_the_attack_that_was_agreed(folder, send):
    finding = {"id": "x", "severity": "low", "label": "PERSON", "measurement": "fed_attr flagged"}
    send("c", pairs("c", PROVEN), findings=[finding])
    [shown] = combining.combine(folder).report.findings
    assert (shown.id, shown.measurement) == ("c-x", "contextual coverage")
    send("c", pairs("c", PROVEN), findings=[{**finding, "severity": "none"}])
    assert combining.combine(folder).doubts == {
        "c": "its counts are left out: a finding has another form"
    }
