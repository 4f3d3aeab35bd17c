import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.extraction import Matcher, by_label, prefix_disjoint, victim_exclusive

SHORT = st.text("ab原 ", min_size=1, max_size=5)
STRINGS = st.lists(SHORT, max_size=20)


def count_extracted(outputs, targets):
    matcher = Matcher(targets)
    return dict(Counter(target for output in outputs for target in matcher.hits(output)))


def slow(outputs, targets):
    """Ask every output about every target."""
    found = {}
    for target in set(targets):
        count = 0
        for output in outputs:
            if output.lstrip().startswith(target):
                count += 1
        if count:
            found[target] = count
    return found


@given(STRINGS, STRINGS)
def test_extraction_is_that_of_a_double_loop(outputs, targets):
    assert count_extracted(outputs, targets) == slow(outputs, targets)


def test_extraction_by_hand():
    outputs = ["Ann Lee, of Leeds", " Ann Lee", "\n 张三，男", "Dear Ann Lee", "ann lee", "An", ""]
    targets = ["Ann Lee", "Ann", "张三", "of Leeds", "Bob"]
    assert count_extracted(outputs, targets) == {"Ann Lee": 2, "Ann": 2, "张三": 1}
    assert count_extracted([], targets) == {}
    assert count_extracted(outputs, []) == {}


def test_extraction_takes_any_iterable_once():
    assert count_extracted((text for text in ["ab", "a"]), (text for text in ["a", "a", "ab"])) == {
        "a": 2,
        "ab": 1,
    }


def test_victim_exclusive_by_hand():
    victim = [
        ("Ann Lee", "NAME"),  # the label that comes first in the alphabet
        (" Ann Lee\n", "PERSON"),  # the same string
        ("Leeds", "ADDRESS"),
        ("eed", "ADDRESS"),  # stands inside the attacker's "Leeds"
        ("Bob", "PERSON"),
        ("  ", "PERSON"),
        ("张三", "PERSON"),
    ]
    attacker = ["He lives in Leeds.", "B", "ob"]
    found = victim_exclusive(victim, attacker)
    assert found == {"Ann Lee": "NAME", "Bob": "PERSON", "张三": "PERSON"}
    assert list(found) == sorted(found)
    assert victim_exclusive(victim, [])["Leeds"] == "ADDRESS"
    assert victim_exclusive([], attacker) == {}


PAIRS = st.lists(
    st.tuples(st.text("ab ", min_size=1, max_size=2), st.sampled_from("XYZ")), max_size=15
)


@given(PAIRS, STRINGS, st.integers(0, 99))
def test_victim_exclusive_is_what_no_attacker_text_holds(victim, attacker, seed):
    found = victim_exclusive(victim, attacker)
    strings = {text.strip() for text, _ in victim} - {""}
    assert set(found) == {s for s in strings if not any(s in text for text in attacker)}
    assert all((s, label) in {(t.strip(), lab) for t, lab in victim} for s, label in found.items())
    shuffled = random.Random(seed).sample(victim, len(victim))
    assert victim_exclusive(shuffled, attacker[::-1]) == found


def test_prefix_disjoint_by_hand():
    strings = ["Ann", "Ann Lee", "Ann Low", "Anna", "Bob", "B", "张三", "张", "Bob"]
    assert prefix_disjoint(strings) == ["Ann Lee", "Ann Low", "Anna", "Bob", "张三"]
    assert prefix_disjoint(strings, "literal") == ["Ann Lee", "Bob", "张三"]
    assert prefix_disjoint([]) == prefix_disjoint([], "literal") == []


@pytest.mark.parametrize("form", ["prefix-free", "literal"])
@given(strings=STRINGS, seed=st.integers(0, 99))
def test_no_kept_string_begins_another_and_order_does_not_matter(form, strings, seed):
    kept = prefix_disjoint(strings, form)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(strings)
    assert not any(a != b and b.startswith(a) for a in kept for b in kept)
    assert prefix_disjoint(random.Random(seed).sample(strings, len(strings)), form) == kept
    # Nothing is dropped without a reason, and one output never credits two.
    assert bool(kept) == bool(strings)
    assert all(len(count_extracted([output], kept)) <= 1 for output in strings)


@given(STRINGS)
def test_prefix_free_drops_beginnings_only(strings):
    kept = prefix_disjoint(strings)
    for dropped in set(strings) - set(kept):
        assert any(other != dropped and other.startswith(dropped) for other in kept)


@given(STRINGS)
def test_literal_keeps_one_string_a_first_character(strings):
    kept = prefix_disjoint(strings, "literal")
    assert [s[0] for s in kept] == sorted({s[0] for s in strings})
    for string in kept:
        assert all(len(s) <= len(string) for s in strings if s[0] == string[0])


def test_labels_are_counted_most_first():
    labels = {"a": "X", "b": "Y", "c": "Y", "d": "W"}
    assert list(by_label("abcd", labels).items()) == [("Y", 2), ("W", 1), ("X", 1)]
    assert by_label([], labels) == {}
