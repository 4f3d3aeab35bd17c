"""Findings that were taken out of a report are missed where its measurements count them."""

import json
from io import StringIO

import pytest
from attributed_report import attributed
from attributed_report import findings as accusations
from attributed_report import report as attribution_report
from rich.console import Console

from fedaudit.api.records import Finding, Measurement
from fedaudit.audit.exposure import findings as canary_findings
from fedaudit.audit.memorization import findings as memorization_findings
from fedaudit.audit.verification.report import verdict as verify_verdict
from fedaudit.extraction.leak_tests import MATERIAL
from fedaudit.report.comparison import compare
from fedaudit.report.document import dumps
from fedaudit.report.renderers import terminal
from fedaudit.report.verdict.completeness import finding_counts
from fedaudit.report.verdict.completeness.finding_counts import count_missing_findings
from fedaudit.report.verdict.recheck import recheck


def finding(number, measurement, name="", **evidence):
    attack = measurement.partition(" ")[0]
    return Finding(
        id=name or f"{attack}-{number:04d}",
        severity="low",
        label="PERSON",
        measurement=measurement,
        evidence=evidence,
    )


def row(plugin, metric, hits=None, n=10, *, kind="extraction", value=0.5, chance=None, **scope):
    return Measurement(
        kind=kind, plugin=plugin, metric=metric, value=value, n=n, hits=hits, chance=chance,
        scope=scope,
    )  # fmt: skip


def found(measurement, count, **evidence):
    return [finding(number, measurement, **evidence) for number in range(1, count + 1)]


MEMORIZED = {"source": "tuned", "category": "all"}

HONEST = {
    "contextual": (
        [row("contextual", "coverage", 3, source="tuned", set="all"),
         row("contextual", "coverage", 9, source="tuned", set="all", label="PERSON"),
         row("contextual", "coverage", 9, source="tuned", set="all", budget=5, samples=2)],
        found("contextual coverage", 3),
    ),
    "superset": (
        [row("superset", "efficiency", 2, source="tuned", set="all")],
        found("superset coverage", 2),
    ),
    "exact": (
        [row("frequency", "vx_pii", n=50, value=1.75, source="tuned", set="all",
             estimator="exact")],
        found("frequency coverage", 2, probability=0.75),
    ),
    "candidates": (
        [row("contextual", "precision", n=10, source="tuned", set="all", top=10)],
        found("contextual candidates", 10),
    ),
    "verbatim": (
        [row("verbatim", "coverage", 2, source="tuned", records="victim"),
         row("verbatim", "coverage", 2, source="tuned", records="victim", task="summary"),
         row("verbatim", "coverage", 5, source="held-out", records="victim")],
        found("verbatim edit_distance", 2),
    ),
    "discoverable": (
        [row("discoverable", "coverage", 4, source="tuned-not-base", records="victim",
             threshold=0.9),
         row("discoverable", "coverage", 6, source="tuned", records="victim", threshold=0.9)],
        found("discoverable rouge_l", 2, pairs=2),
    ),
    "untargeted": (
        [row("untargeted", "extraction_recall", 2, source="tuned-not-base"),
         row("untargeted", "extraction_recall", 4, source="tuned-not-base",
             detection="verbatim")],
        found("untargeted extraction_recall", 2),
    ),
    "benign": (
        [row("benign", "extraction_recall", 2, source="tuned-not-base", detection="verbatim")],
        found("benign extraction_recall", 2),
    ),
    "ranking": (
        [row("ranking", "inference_accuracy", hits, kind="probability", source=source,
             candidates=20) for source, hits in (("tuned", 5), ("base", 3))],
        found("ranking inference_accuracy", 2),
    ),
    "memorize": (
        [row("memorize", "mr_pair", 4, kind="memorization", attacker="c0", victim="c1",
             **MEMORIZED),
         row("memorize", "mr_pair", 1, kind="memorization", attacker="c1", victim="c1",
             **MEMORIZED)],
        [finding(1, "memorize mr_inter", victim="c1", prefixes=4, prefixes_of_others=3),
         finding(2, "memorize mr_inter", victim="c1", prefixes=1, prefixes_of_others=1)],
    ),
    "canary": (
        [row("canary", "maximal_exposure", 2, kind="exposure", chance=0.001, source="tuned",
             times=4),
         row("canary", "maximal_exposure", 1, kind="exposure", chance=0.001, source="tuned",
             times=0)],
        [finding(number, "canary exposure", times=4) for number in (2, 5)],
    ),
    "gate": (
        [row("gate", "fpr", 3, kind="defense", attempt=name) for name in ("no key", "pieces")],
        [finding(n, "gate fpr", name=f"gate-{n:02d}", attempt=name)
         for n, name in ((1, "no key"), (2, "pieces"))],
    ),
}  # fmt: skip
"""By attack: measurements, and the fewest findings that go with them."""


@pytest.mark.parametrize("attack", HONEST)
def test_no_finding_can_be_taken_out_unseen(attack):
    rows, findings = HONEST[attack]
    assert count_missing_findings(rows, findings) == 0
    for index in range(len(findings)):
        assert count_missing_findings(rows, [*findings[:index], *findings[index + 1 :]]) > 0
    assert count_missing_findings(rows, []) > 0


@pytest.mark.parametrize(
    ("scope", "plugin"),
    [({"key": "right"}, "contextual"), ({"variant": "plain"}, "contextual"), ({}, "openings")],
)
def test_authorised_answers_studies_and_other_plugins_call_for_no_finding(scope, plugin):
    assert not count_missing_findings(
        [row(plugin, "coverage", 3, source="tuned", set="all", **scope)], []
    )


def test_inferred_data_are_counted_by_kind():
    rows = [
        row("ranking", "inference_accuracy", hits, kind="probability", source=source,
            candidates=20, **scope)
        for scope, tuned, base in (
            ({}, 4, 4), ({"label": "PERSON"}, 4, 2), ({"label": "DATE"}, 0, 2)
        )
        for source, hits in (("tuned", tuned), ("base", base))
    ]  # fmt: skip
    findings = found("ranking inference_accuracy", 2)
    assert [count_missing_findings(rows, findings[:n]) for n in (2, 1, 0)] == [0, 1, 2]


def test_pairs_of_clients_are_counted_together():
    rows = [
        row("contextual", "coverage", 1, source="tuned", set="all", attacker=a, victim=v)
        for a, v in (("c0", "c1"), ("c1", "c0"))
    ]
    findings = [
        finding(1, "contextual coverage", name=f"{pair}-contextual-0001")
        for pair in ("c0-c1", "c1-c0")
    ]
    assert count_missing_findings(rows, findings) == 0
    assert count_missing_findings(rows, findings[1:]) == 1


@pytest.mark.parametrize(
    ("ids", "missing"),
    [
        (["superset-0001", "superset-0002"], 0),
        (["superset-0002"], 1),
        (["superset-0001", "superset-0004"], 2),
        (["superset-0001", "superset-0001-2", "superset-0002-2", "superset-0002"], 0),
        (["superset-0001", "superset-0002", "superset-0002-2"], 1),
        (["superset-0001", "superset-0001-2", "superset-0002"], 0),
        (["superset-0001-2", "superset-0002"], 1),
        (["c0-c1-superset-0001", "c1-c0-superset-0002"], 1),
        (["superset-999999999"], 999_999_998),
        ([f"superset-{'9' * 9999}"], 0),
    ],
)
def test_a_number_that_is_left_out_is_missing(ids, missing):
    found = [finding(0, "superset coverage", name=name) for name in ids]
    assert count_missing_findings([], found) == missing


def test_the_numbers_of_other_plugins_may_have_gaps():
    assert count_missing_findings([], [finding(7, "superset_of_mine coverage")]) == 0
    assert count_missing_findings([], [finding(7, "my coverage", name="superset-0007")]) == 0


def test_texts_beyond_the_most_listed_are_not_missing():
    rows, _ = HONEST["memorize"]
    listed = found("memorize mr_inter", finding_counts.MAX_TEXTS, victim="c2", prefixes=1)
    assert count_missing_findings(rows, listed) == 0


@pytest.mark.parametrize("value", [1e308, -1e308, "many", None, [], True])
def test_a_strangers_evidence_breaks_nothing(value):
    for rows, findings in HONEST.values():
        evidence = {key: value for f in findings for key in f.evidence}
        changed = [finding(n, f.measurement, f.id, **evidence) for n, f in enumerate(findings)]
        assert count_missing_findings(rows, changed) >= 0


def test_what_is_listed_is_what_the_audits_list():
    assert finding_counts.LEAST_PROBABILITY == MATERIAL
    assert finding_counts.MAX_TEXTS == memorization_findings.MAX_EXAMPLES
    assert finding_counts.LEAST_RANK == canary_findings.LISTED


def read(findings):
    return json.loads(dumps(attribution_report(attributed(), findings=findings)))


def test_a_flagged_client_without_a_finding_is_told_wherever_a_report_is_shown():
    assert recheck(read(accusations())).message == ""
    report = read(accusations()[1:])
    told = "Do not rely on this report: 1 or more of its findings are missing."
    assert (recheck(report).message, recheck(report).holds) == (told, False)
    file = StringIO()
    terminal.render(report, Console(file=file, width=200))
    assert file.getvalue().startswith(told)
    assert "Verdict: fail (findings are missing)" in file.getvalue()
    assert verify_verdict(report).state == "differs"
    assert f"The second report: {told}" in compare(read(accusations()), report).notes
    assert recheck(read([])).message.endswith(": 2 or more of its findings are missing.")
