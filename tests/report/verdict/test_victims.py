"""Several victims in one report: what holds of one says nothing of another."""

from dataclasses import replace

from example_report import coverage

from fedaudit.api.policy import Policy
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.verdict.policy import judge

KINDS = Policy(name="ours", kinds={"ID_CARD": 0.05})


def attack(victim, hits=0, *, known=400, plugin="verbatim", **scope):
    """Return an attack's rows on 100 targets; its positive controls come out."""
    where = {"victim": victim} if victim else {}
    counts = {"tuned-not-base": (hits, 100), "base": (0, 100), "control": (0, 500)}
    if known:
        counts["known"] = (known, known)
    return [
        coverage(*count, plugin=plugin, source=source, **where, **scope)
        for source, count in counts.items()
    ]


def labelled(rows):
    """Return rows, and the same of the one kind of data that there is."""
    return [*rows, *(replace(row, scope={**row.scope, "label": "ID_CARD"}) for row in rows)]


def status(rows, findings=(), policy=None):
    return judge(rows, list(findings), policy or Policy()).status


def unasked_kinds(rows):
    """Return the judgements of kinds of data that were not looked for."""
    judged = judge(rows, [], KINDS).judgements
    return [one for one in judged if one.row is not None and one.row.metric == "targets"]


def test_one_victim_passes_and_the_other_could_not_be_seen():
    assert status([*attack("c1"), *attack("c2")]) == "pass"
    assert status([*attack("c1"), *attack("c2", known=0)]) == "inconclusive"
    # Nor does a pass that names no victim cover them.
    blind = [*attack("c1", known=0), *attack("c2", known=0)]
    assert status([*attack(None, plugin="mine"), *blind]) == "inconclusive"
    # On the same victim another attack that could have seen a leak is enough, as ever.
    assert status([*attack("c1", plugin="mine"), *attack("c1", known=0)]) == "pass"


def test_a_kind_of_data_is_looked_for_in_each_victim_s_records():
    unasked = Measurement(
        kind="extraction", plugin="verbatim", metric="targets", value=3.0, n=3,
        scope={"victim": "c2", "set": "beyond-reach", "label": "ID_CARD"},
    )  # fmt: skip
    rows = [*labelled(attack("c1")), *attack("c2"), unasked]
    [missing] = unasked_kinds(rows)
    assert missing.status == "inconclusive"
    assert missing.reason.startswith("No ID_CARD of c2 was looked for")
    tested = [*labelled(attack("c1")), *labelled(attack("c2", plugin="contextual")), unasked]
    assert unasked_kinds(tested) == []


def test_the_set_that_is_judged_is_each_victim_s_own():
    exclusive = labelled(attack("c1", set="exclusive"))
    every = [row for row in labelled(attack("c2", 30, set="all")) if "label" in row.scope]
    found = judge([*exclusive, *attack("c2", set="all"), *every], [], KINDS)
    kinds = {j.row.scope["victim"]: j.status for j in found.judgements if j.rule == "kind"}
    assert kinds == {"c1": "pass", "c2": "fail"}


def test_a_finding_speaks_of_its_victim_alone():
    found = Finding(id="c1-1", severity="high", label="DOCUMENT", measurement="verbatim coverage",
                    evidence={"p_value": 1e-9, "victim": "c1"})  # fmt: skip
    rows = [*attack("c1", 30), *attack("c2")]
    named = {j.row.scope["victim"]: j.status for j in judge(rows, [found]).judgements}
    assert named == {"c1": "fail", "c2": "pass"}
    # One that names no victim is of any.
    anyone = replace(found, evidence={"p_value": 1e-9})
    assert {j.status for j in judge(rows, [anyone]).judgements} == {"fail"}
