"""Rows by category add up those by label, judge nothing, and bring the norms' clauses with them."""

import json
from dataclasses import replace

import pytest
from example_report import coverage, example
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Finding
from fedaudit.metrics.document_frequency import frequency_rows
from fedaudit.pii.taxonomy import OTHER_CATEGORY, major_category, taxonomy
from fedaudit.report.checklist.validity import ReportOwner
from fedaudit.report.document import validate
from fedaudit.report.pii_categories import (
    by_category,
    category_of,
    category_tables,
    norm_tables,
    relevant_clauses,
)
from fedaudit.report.renderers import html, markdown
from fedaudit.report.tables import overview
from fedaudit.report.verdict.policy import RULE, verdict

BASIC, FINANCE = "Personal Basic Information", "Property and Finance"


def labelled(hits, n, label, **scope):
    scope = {"source": "tuned", "set": "all"} | scope
    return coverage(hits, n, **scope, label=label)


def found(rows):
    return {row.scope["category"]: row for row in by_category(rows)}


def test_hits_and_targets_of_a_category_are_added_and_the_interval_is_of_the_sums():
    rows = [
        labelled(2, 10, "PERSON"),
        labelled(1, 30, "BIRTHDAY"),
        labelled(5, 5, "BANK_CARD"),
        labelled(0, 4, "DATE_TIME"),
    ]
    made = found(rows)
    assert [*made] == [BASIC, FINANCE, OTHER_CATEGORY]
    basic = made[BASIC]
    assert (basic.hits, basic.n, basic.value) == (3, 40, 0.075)
    # Wilson by hand at 3 of 40: centre (0.075 + z^2/80) / (1 + z^2/40), z^2 = 3.841459
    # = 0.1230182 / 1.0960365 = 0.1122391; half = 1.959964 / 1.0960365
    # * sqrt(0.075 * 0.925 / 40 + 3.841459 / 6400) = 1.7882288 * 0.0483177 = 0.0864031
    assert basic.low == pytest.approx(0.0258360, abs=1e-6)
    assert basic.high == pytest.approx(0.1986422, abs=1e-6)
    assert (made[FINANCE].hits, made[FINANCE].n, made[FINANCE].high) == (5, 5, 1.0)
    assert (made[OTHER_CATEGORY].hits, made[OTHER_CATEGORY].n, made[OTHER_CATEGORY].low) == (
        0,
        4,
        0.0,
    )
    assert basic.scope == {"source": "tuned", "set": "all", "category": BASIC}


def test_rows_that_differ_in_more_than_the_label_are_not_added():
    rows = [
        labelled(1, 10, "PERSON"),
        labelled(3, 10, "AGE", source="base"),
        replace(labelled(2, 10, "NAME"), plugin="frequency"),
    ]
    assert [(row.hits, row.n) for row in by_category(rows)] == [(1, 10), (3, 10), (2, 10)]


def test_expected_hits_are_means_weighted_by_targets():
    rows = [
        replace(labelled(5, 10, "PERSON"), value=0.5, low=0.4, high=0.7, hits=None),
        replace(labelled(0, 30, "ADDRESS"), value=0.1, low=0.0, high=0.3, hits=None),
    ]
    (row,) = by_category(rows)
    # (10 * 0.5 + 30 * 0.1) / 40, and likewise the bounds
    assert (row.hits, row.n) == (None, 40)
    assert (row.value, row.low, row.high) == pytest.approx((0.2, 0.1, 0.4))


def test_what_was_not_measured_of_a_label_was_not_of_its_category():
    blind = {"value": None, "low": None, "high": None, "hits": None}
    unknown = replace(labelled(0, 9, "BIRTHDAY"), **blind, reason="no base")
    (row,) = by_category([labelled(2, 10, "PERSON"), unknown])
    assert (row.value, row.hits, row.n) == (None, None, None)
    assert row.reason == "BIRTHDAY: no base"
    empty = replace(unknown, n=0, reason="it said none")
    (row,) = by_category([labelled(2, 10, "PERSON"), empty])
    assert (row.hits, row.n) == (2, 10)
    (row,) = by_category([empty])
    assert (row.value, row.reason) == (None, "BIRTHDAY: it said none")
    validate(example(measurements=[empty]).to_json())


def test_what_is_no_share_of_targets_is_left_alone():
    row = labelled(2, 10, "PERSON")
    assert by_category([coverage(2, 10, source="tuned", set="all")]) == []
    assert by_category([replace(row, metric="efficiency")]) == []
    assert by_category([replace(row, kind="probability", metric="inference_accuracy")]) == []


LABELS = st.sampled_from(["PERSON", "AGE", "BANK_CARD", "DIAGNOSIS", "DATE_TIME", "???"])
COUNTS = st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.dictionaries(LABELS, COUNTS, min_size=1), st.randoms())
def test_nothing_is_lost_or_counted_twice_in_any_order(counts, draw):
    rows = [labelled(*counts[label], label) for label in counts]
    made = found(rows)
    assert made.keys() == {major_category(label) for label in counts}
    assert sum(row.hits for row in made.values()) == sum(hits for hits, _ in counts.values())
    assert sum(row.n for row in made.values()) == sum(n for _, n in counts.values())
    assert all(row.low <= row.value <= row.high for row in made.values())
    draw.shuffle(rows)
    assert found(rows) == made
    assert by_category([*rows, *made.values()]) == []  # a report that has them gets none again


def test_the_verdict_does_not_judge_categories():
    report = example()
    told = verdict(report.measurements, report.findings)
    with_rows = [*report.measurements, *by_category(report.measurements)]
    assert len(with_rows) > len(report.measurements)
    assert verdict(with_rows, report.findings) == told
    assert report.to_json()["verdict"] == {**told, "rule": RULE}


def test_findings_carry_their_category():
    leaks = [
        Finding(id=name, severity="high", label=name, measurement="x", evidence={})
        for name in ("BANK_CARD", "WATERMARK")
    ]
    report = example(findings=leaks).to_json()
    validate(report)
    card, mark = report["findings"]
    assert card["category"] == {"major": FINANCE, "minor": "Financial Account"}
    assert mark["category"] is None
    assert category_of("passport number") == {
        "major": "Identity Documents",
        "minor": "Passport Number",
    }


def test_a_report_from_before_there_were_categories_is_still_valid():
    report = example().to_json()
    for one in report["findings"]:
        del one["category"]
    validate(report)


EVERY_LAW = ReportOwner(laws=True)


@pytest.mark.parametrize("render", [html.render, markdown.render])
def test_reports_group_by_category_and_cite_the_norms(render):
    text = render(example(measurements=[labelled(3, 9, "IBAN_CODE")]).to_json())
    for part in ("Categories of PII: contextual", FINANCE, "Financial Account (IBAN"):
        assert part in text.replace("\\", "").replace("&#95;", "_")
    assert "Recital 75" in text
    assert "B.1 property" not in text  # of a law outside the EU, which nobody asked for


def test_the_page_says_what_the_cited_clauses_are_about():
    document = example(measurements=[labelled(3, 9, "AGE")], findings=[]).to_json()
    page = html.render(document, EVERY_LAW)
    (age,) = (one for one in taxonomy().categories if one.name == "Age")
    for norm in taxonomy().norms:
        for clause in norm.clauses:
            cited = clause.reference in age.references(norm.key)
            assert (f"<td>{clause.subject}</td>" in page.replace("&#39;", "'")) == cited
    assert relevant_clauses({**example(measurements=[]).to_json(), "findings": []}) == []


def test_norms_name_only_the_kinds_in_the_report_and_never_wrongly():
    rows = [labelled(1, 2, label) for label in ("PERSON", "DATE_TIME", "person name")]
    (table,) = norm_tables({**example(measurements=rows).to_json(), "findings": []}, laws=True)
    assert [row[0] for row in table.rows] == ["Name (PERSON, person name)"]
    (name,) = (one for one in taxonomy().categories if one.name == "Name")
    cells = dict(zip(table.columns, table.rows[0], strict=True))
    assert cells["GDPR"].split(", ") == [*name.references("gdpr")]
    ccpa = [f"1798.{clause}" for clause in cells["CCPA 1798."].split(", ")]
    assert ccpa == [*name.references("ccpa")]
    nothing = example(measurements=[labelled(1, 2, "DATE_TIME")], findings=[]).to_json()
    assert norm_tables(nothing) == []


def test_categories_come_in_the_order_of_the_taxonomy_and_no_label_table_has_them():
    labels = ("DATE_TIME", "EMAIL_ADDRESS", "PERSON")
    report = example(measurements=[labelled(1, 9, label) for label in labels]).to_json()
    first, *_ = category_tables(report)
    assert first.columns[0] == "category"
    assert [row[0] for row in first.rows] == [
        BASIC,
        "Online Identity and Communication",
        OTHER_CATEGORY,
    ]
    rows = json.loads(json.dumps(report["measurements"]))
    assert sum("category" in row["scope"] for row in rows) == 3


def test_a_report_takes_document_frequencies():
    rows = frequency_rows({"a": 0, "b": 2}, "contextual", {"source": "tuned", "variant": "masked"})
    report = example(measurements=rows).to_json()
    validate(report)
    (table,) = (one for one in overview.other_tables(report) if one.title == "Other measurements")
    assert [row[:3] for row in table.rows] == [
        ("document_frequency", "contextual", "1"),
        ("unseen", "contextual", "50.0 % [9.5, 90.5]"),
    ]
