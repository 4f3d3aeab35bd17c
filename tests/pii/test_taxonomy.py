"""The taxonomy is whole, every label means one thing, and the page says what the data say."""

import json
import runpy
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config import registry
from fedaudit.nano.people import LABELS
from fedaudit.pii.taxonomy import (
    NORMS,
    OTHER_CATEGORY,
    category,
    in_order,
    major_category,
    taxonomy,
)

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "docs/site.py"))["with_tables"](
    (ROOT / "docs/taxonomy.md").read_text("utf-8")
)
BASIC = [
    "Name",
    "Birthday",
    "Address",
    "Gender",
    "Ethnicity",
    "Age",
    "Nationality",
]  # FedPII, figure 13


def test_there_are_seven_major_and_thirty_six_minor_categories():
    known = taxonomy()
    assert (len(known.majors), len(known.categories)) == (7, 36)
    assert len({one.name for one in known.categories}) == 36
    assert {one.major for one in known.categories} == {name for name, _ in known.majors}


def test_the_papers_first_major_category_is_as_it_names_it():
    named = [c.name for c in taxonomy().categories if c.major == "Personal Basic Information"]
    assert set(named) == {*BASIC, "Family Relationship", "Personal Phone Number"}
    for label in ("Work Experience", "Work Place", "Medication Record"):
        assert category(label) is not None


@pytest.mark.parametrize("one", taxonomy().categories, ids=lambda one: one.name)
def test_every_category_is_complete(one):
    assert one.description.endswith(".")
    assert one.examples
    assert one.labels
    for norm in taxonomy().norms:
        references = one.references(norm.key)
        assert references, norm.key
        assert len(set(references)) == len(references)
        assert set(references) <= {clause.reference for clause in norm.clauses}


def test_every_clause_is_cited_and_says_what_it_is_about():
    for norm in taxonomy().norms:
        cited = {r for one in taxonomy().categories for r in one.references(norm.key)}
        assert cited == {clause.reference for clause in norm.clauses}
        assert all(clause.subject for clause in norm.clauses)


def test_a_label_means_one_category():
    counts = Counter(label for one in taxonomy().categories for label in one.labels)
    assert [label for label, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("label", LABELS.values())
def test_the_generators_labels_have_a_category(label):
    assert category(label) is not None


def test_what_the_detector_finds_by_itself_has_a_category():
    detector = registry.create("detector", "presidio")
    found = {
        label
        for labels in detector._labels_by_language(detector._engines()).values()
        for label in labels
    }
    assert {label for label in found if category(label) is None} == set()


@pytest.mark.parametrize("label", ["DATE_TIME", "ORGANIZATION", "NRP", "URL", "MISC", "", "小名"])
def test_what_means_several_things_or_nothing_known_is_other(label):
    assert category(label) is None
    assert major_category(label) == OTHER_CATEGORY


@given(st.sampled_from(taxonomy().categories), st.sampled_from(" -_"), st.booleans())
def test_case_and_joints_do_not_matter(one, joint, lower):
    for label in (one.name, *one.labels):
        spelt = label.replace("_", joint).replace(" ", joint)
        assert category(spelt.lower() if lower else spelt) is one


def test_majors_come_in_the_order_of_the_taxonomy():
    assert in_order([OTHER_CATEGORY, "Health", "Personal Basic Information", "Health"]) == [
        "Personal Basic Information",
        "Health",
        OTHER_CATEGORY,
    ]


def test_it_is_read_once_and_cannot_be_changed():
    assert taxonomy() is taxonomy()
    with pytest.raises(FrozenInstanceError):
        taxonomy().categories[0].name = "x"


def test_the_labels_of_the_dev_set_have_a_category():
    data = ROOT.parent / "shared/data/echr_dev.jsonl"
    if not data.exists():
        pytest.skip("the dev set is not here")
    with data.open(encoding="utf-8") as lines:
        labels = {span["label"] for line in lines for span in json.loads(line).get("pii") or ()}
    assert {label for label in labels if category(label) is None} == set()


@pytest.mark.parametrize("one", taxonomy().categories, ids=lambda one: one.name)
def test_the_page_has_the_category_as_the_data_have_it(one):
    cells = [
        one.name,
        one.description,
        "; ".join(one.examples),
        *("; ".join(one.references(norm)) for norm in NORMS),
        ", ".join(f"`{label}`" for label in one.labels),
    ]
    line = f"| {' | '.join(cells)} |"
    section = PAGE.partition(f"\n### {one.major}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    assert line in section.splitlines()


def test_the_page_has_no_category_that_the_data_lack():
    sections = PAGE.partition("\n## The categories\n")[2].partition("\n## ")[0]
    lines = [line for line in sections.splitlines() if line.startswith("| ")]
    headers = [line for line in lines if line.startswith(("| category", "| --- "))]
    assert len(headers) == 2 * 7
    assert len(lines) - len(headers) == 36


@pytest.mark.parametrize("norm", taxonomy().norms, ids=lambda norm: norm.key)
def test_the_page_says_what_every_clause_is_about(norm):
    section = PAGE.partition(f"\n### {norm.name}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    assert norm.title in section.replace("\n", " ")
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    clauses = [f"| {clause.reference} | {clause.subject} |" for clause in norm.clauses]
    assert lines[2:] == clauses


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("IDCARDNUM", "Identity Card Number"),  # AI4Privacy
        ("B-GIVENNAME2", "Name"),
        ("TEL", "Personal Phone Number"),
        ("BUILDING", "Address"),
        ("LOCATION-OTHER", "Address"),  # i2b2
        ("I-PER", "Name"),  # CoNLL
        ("GPE", "Address"),  # OntoNotes
        ("CODE", "Other Official Number"),  # TAB
        ("EMAIL_ADDRESS", "E-mail Address"),  # Presidio
    ],
)
def test_labels_of_public_schemes_are_known(label, name):
    found = category(label)
    assert found is not None
    assert found.name == name
    assert category("B-HOROSCOPE") is None
