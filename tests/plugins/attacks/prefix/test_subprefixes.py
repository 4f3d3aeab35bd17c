from collections import Counter

import pytest
import worked
from fedaudit_plugins.attacks.prefix.subprefixes import attacker_subprefixes, distinct_subprefixes
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.plugin import PromptStart
from fedaudit.api.records import Document
from fedaudit.extraction.prefixes import PiiOccurrence, pii_occurrences


def place(*tokens, start=False, label="X", after=""):
    return PiiOccurrence(prefix=tokens, tokens=(9,), at_start=start, label=label, after=after)


def spelled(fake, found):
    return [
        (fake._text(p.prefix), p.at_start, int(count))
        for p, count in zip(found, found.counts, strict=True)
    ]


WORKED = [
    (" claimant", False, 3),
    ("The claimant", True, 2),
    ("So the claimant", True, 1),
    ("; her friend", False, 1),
    (" the claimant", False, 1),
    (" her friend", False, 1),
    (" friend", False, 1),
]


def test_the_worked_example():
    fake = worked.engine()
    found = distinct_subprefixes(pii_occurrences(fake, worked.ATTACKER, 3), 3)
    assert spelled(fake, found) == WORKED
    assert len(found) == 7
    assert found.counts.sum() == 10


def test_the_order_of_the_documents_changes_nothing():
    fake = worked.engine()
    assert (
        spelled(fake, distinct_subprefixes(pii_occurrences(fake, worked.ATTACKER[::-1], 3), 3))
        == WORKED
    )


def test_a_minimum_cuts_the_order():
    fake = worked.engine()
    found = distinct_subprefixes(pii_occurrences(fake, worked.ATTACKER, 3), 3)
    assert [fake._text(p.prefix) for p in found.first(found.reaching(2))] == [
        " claimant",
        "The claimant",
    ]
    assert [found.reaching(n) for n in (1, 2, 3, 4)] == [7, 2, 1, 0]
    assert list(found.first(2)) == list(found.first(found.reaching(2)))
    assert list(found.first(99)) == list(found) == list(found.first(99))
    assert len(found.first(3)) == 3
    assert found.first(3)[1] == found[1]
    with pytest.raises(IndexError):
        found.first(3)[3]


def test_the_whole_prefix_at_a_documents_start_is_another_one():
    found = distinct_subprefixes([place(1, 2, start=True), place(3, 1, 2)], 2)
    assert {(p.prefix, p.at_start) for p in found} == {
        ((2,), False),
        ((1, 2), True),
        ((1, 2), False),
    }
    alike = distinct_subprefixes([place(1, 2, start=True), place(3, 1, 2)], 2, starts=False)
    assert {(p.prefix, p.at_start) for p in alike} == {((2,), False), ((1, 2), False)}
    assert alike.counts.tolist() == [2, 2]


def test_no_prompt_is_asked_twice_whatever_the_beginnings():
    for beginning in (PromptStart(), PromptStart(start="bos", middle="bare")):
        fake = worked.engine(prompt_starts={"bare": (), "bos": (999,)})
        twice = worked.marked("Now the claimant Ed Dun.", ("Ed Dun", "PERSON"))
        # At context 2, " the claimant" stands at the start of nothing, "The claimant" does.
        case = worked.case(fake, attacker=[*worked.ATTACKER, twice], beginning=beginning)
        found = attacker_subprefixes(case, 2)
        prompts = Counter(case.with_start(p.prefix, at_start=p.at_start) for p in found)
        assert set(prompts.values()) == {1}


def test_the_label_is_the_commonest_behind_it():
    kinds = [("B", ","), ("A", "."), ("A", "."), ("C", ","), ("B", ",")]
    found = distinct_subprefixes([place(1, label=label, after=after) for label, after in kinds], 1)
    [only] = found
    assert (only.label, only.after) == ("A", ".")  # as often as B: the smaller one
    assert only.tokens == ()


def test_nothing_to_cut():
    found = distinct_subprefixes([], 5)
    assert len(found) == 0
    assert list(found) == list(found.first(3)) == []


def test_a_ready_made_prompt_longer_than_the_context_loses_its_beginning():
    fake = worked.engine()
    prompt = Document(id="p", text="one two three", is_prompt=True)
    found = attacker_subprefixes(worked.case(fake, attacker=[prompt]), 2)
    assert spelled(fake, found) == [(" two three", False, 1), (" three", False, 1)]


PLACES = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.booleans()), max_size=10
)


@given(PLACES, st.integers(1, 6), st.booleans())
def test_it_is_the_set_of_the_definition(drawn, context, starts):
    occurrences = [place(*tokens, start=start) for tokens, start in drawn]
    wanted = Counter(
        (one.prefix[-n:], starts and one.at_start and n == len(one.prefix))
        for one in occurrences
        for n in range(1, min(context, len(one.prefix)) + 1)
    )
    found = distinct_subprefixes(occurrences, context, starts=starts)
    told = [(p.prefix, p.at_start) for p in found]
    assert dict(zip(told, found.counts.tolist(), strict=True)) == wanted
    assert len(set(told)) == len(told)
    assert found.counts.tolist() == sorted(wanted.values(), reverse=True)
