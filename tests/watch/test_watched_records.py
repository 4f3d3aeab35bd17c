"""What a member compares with what."""

import random
from dataclasses import replace

import pytest

from fedaudit.api.errors import InputError
from fedaudit.api.records import Document
from fedaudit.canaries.canary_file import Canary, CanarySet
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.watch.records import watched_records


def documents(*texts, group=""):
    return [Document(id=str(n), text=text, group=group) for n, text in enumerate(texts)]


def canaries(*secrets):
    return CanarySet(
        made="2026-11-29T00:00:00+00:00", salt="0" * 64, kind="phone", language="en",
        label="PHONE", space=SecretSpace(pattern="07#"),
        canaries=tuple(Canary(text="Call {secret}.", secret=s, client="c0", times=2)
                       for s in secrets),
    )  # fmt: skip


def test_only_canaries_that_own_records_hold_are_counted():
    file = canaries("071", "072", "073")
    mine, theirs, apart = file.canaries
    file = replace(file, canaries=(mine, replace(theirs, client="c1"), replace(apart, client="")))
    own = documents("a", "Call 071.", "Call 071.", "Call 072.")
    found = watched_records(own, documents("b"), file, references=5)
    assert [canary.secret for canary in found.own_canaries] == ["071"]
    assert found.canaries == file
    assert "Of the 3 planted canaries in the file, the 1" in found.limits[0]
    assert not watched_records(own, documents("b"), references=5).limits
    both = watched_records([*own, *documents("Call 072.")], documents("b"), file, references=5)
    assert [canary.secret for canary in both.own_canaries] == ["071", "072"]


def texts(units):
    return [[document.text for document in unit] for unit in units]


def test_every_text_once_and_none_on_both_sides_or_of_a_canary():
    own = documents("a b", "a b", "both", "Call 071.", "Call 071.", "Call 072.")
    found = watched_records(own, documents("c d", "both", "c d"), canaries("071"), references=5)
    assert texts(found.own) == [["Call 072."], ["a b"], ["both"]]
    assert texts(found.held_out) == [["c d"]]
    assert found.unit == "record"


def test_a_group_counts_once_and_the_order_of_a_file_does_not_matter():
    own = [*documents("x1", "x2", group="x"), *documents("y", group="y"), *documents("z")]
    found = watched_records(own, documents("h"), references=5)
    assert texts(found.own) == [["x1", "x2"], ["y"], ["z"]]
    assert found.unit == "group"
    assert watched_records(own[::-1], documents("h"), references=5) == found


def test_what_was_trained_on_in_another_spelling_or_group_is_no_control():
    own = [*documents("Paid  the BANK.", "other"), *documents("first letter", group="ann")]
    held_out = [
        *documents("paid the bank.", "new"),  # the same but for case and spaces
        *documents("second letter", group="ann"),  # a person whose other letter was trained on
        *documents("third letter", group="bo"),
    ]
    found = watched_records(own, held_out, references=5)
    assert texts(found.held_out) == [["third letter"], ["new"]]
    with pytest.raises(InputError, match="nothing to compare"):
        watched_records(own, documents("second letter", group="ann"), references=5)


def test_nothing_to_compare():
    with pytest.raises(InputError, match="nothing to compare"):
        watched_records(documents("a"), documents("a"), references=5)


def test_canaries_of_too_small_a_space():
    # 07# has ten secrets, of which one is planted.
    own = documents("a", "Call 071.", "Call 071.")
    with pytest.raises(InputError, match="9 secrets left"):
        watched_records(own, documents("b"), canaries("071"), references=10)
    watched_records(own, documents("b"), canaries("071"), references=9)


def some(words, seed):
    rng = random.Random(seed)
    return documents(*(" ".join(rng.choices(words, k=12)) for _ in range(60)))


def test_sets_of_two_sources_are_refused_and_of_one_are_not():
    words = [f"w{n}" for n in range(10, 90)]
    assert not watched_records(some(words, 1), some(words, 2), references=5).refusal
    refused = watched_records(some(words[:40], 1), some(words[40:], 2), references=5).refusal
    assert "by words" in refused
