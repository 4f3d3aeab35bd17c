import random
import re
from dataclasses import replace
from functools import partial

import pytest

from fedaudit.api import Document
from fedaudit.metrics.privacy import text_baseline
from fedaudit.metrics.privacy.roc import auc

WORDS = [f"w{n}" for n in range(300)]


def some(name, seed, words=WORDS, count=40, per_group=1):
    rng = random.Random(seed)
    return [
        Document(
            id=f"{name}{n}",
            text=" ".join(rng.choices(words, k=15)),
            group=f"{name}{n // per_group}",
        )
        for n in range(count)
    ]


def test_the_same_kind_of_texts_is_told_apart_no_more_often_than_said():
    above = 0
    for seed in range(100):
        found = text_baseline.cross_validated(
            some("m", 2 * seed), some("o", 2 * seed + 1), seed=seed
        )
        above += auc(*found).low > 0.5
    assert above <= 8  # of 100 at 2.5 %: more is 1 in 300


def test_what_only_names_a_group_tells_nothing():
    # Every group has a word of its own, which no other fold knows.
    def named(name, seed):
        documents = some(name, seed, count=80, per_group=2)
        return [
            Document(id=one.id, text=f"{one.text} {one.group} {one.group}x", group=one.group)
            for one in documents
        ]

    found = text_baseline.cross_validated(named("m", 1), named("o", 2), seed=0)
    # Below one half, as what is learnt from the other folds of one set is when it is left out.
    assert auc(*found).low <= 0.5


def test_other_words_are_seen():
    found = text_baseline.cross_validated(some("m", 1), some("o", 2, words=WORDS[60:]), seed=0)
    assert auc(*found).low > 0.5


def test_the_order_of_records_does_not_matter():
    ours, theirs = some("m", 1), some("o", 2)
    found = text_baseline.cross_validated(ours, theirs, seed=3)
    again = text_baseline.cross_validated(ours[::-1], theirs[::-1], seed=3)
    assert [sorted(one) for one in found] == [sorted(one) for one in again]


def test_too_few_groups():
    assert text_baseline.cross_validated(some("m", 1), some("o", 2, count=19), seed=0) is None


def test_groups_dealt_anew_keep_the_level_where_texts_are_made_from_few_forms():
    forms = [[f"{form} {n}" for n in range(8)] for form in range(4)]

    def formed(name, seed):
        rng = random.Random(seed)
        return [
            Document(id=f"{name}{n}", text=" ".join([*rng.choice(forms), f"x{seed}{name}{n}"]))
            for n in range(20)
        ]

    low = 0
    for seed in range(20):
        p = text_baseline.permutation_p_value(
            formed("m", 2 * seed), formed("o", 2 * seed + 1), seed=seed, draws=19
        )
        low += p <= 0.05
    assert low <= 5  # of 20 at 5 %: more is 1 in 3,000
    other = some("o", 2, words=WORDS[60:])
    assert text_baseline.permutation_p_value(some("m", 1), other, seed=0, draws=39) == 1 / 40
    assert text_baseline.permutation_p_value(some("m", 1), other[:19], seed=0) is None


def told_apart(ours, theirs, seed):
    by_text = auc(*text_baseline.cross_validated(ours, theirs, seed=seed))
    return by_text, text_baseline.texts_differ(ours, theirs, by_text, seed=seed)


def test_records_of_few_people_are_no_sets_of_two_sources(monkeypatch):
    """A group's records are alike, so the interval of the area is too narrow; the rule is not."""
    few = partial(text_baseline.permutation_p_value, draws=79)  # as few as can show the level
    monkeypatch.setattr(text_baseline, "permutation_p_value", few)

    def like(name, seed):
        rng = random.Random(seed)
        found = []
        for group in range(20):
            words = rng.choices(WORDS, k=12)
            found += [
                Document(
                    id=f"{name}{group}-{n}",
                    text=" ".join([*words, *rng.choices(WORDS, k=3)]),
                    group=f"{name}{group}",
                )
                for n in range(6)
            ]
        return found

    narrow = refused = 0
    for seed in range(10):
        by_text, shifted = told_apart(like("m", 2 * seed), like("o", 2 * seed + 1), seed)
        narrow += by_text.low > 0.5
        refused += bool(shifted)
    assert narrow >= 2  # at 2.5 % two of 10 come once in 40 times
    assert refused <= 2  # more would be 1 in 600


def test_sets_of_two_years_are():
    def dated(documents, year):
        return [
            replace(one, text=f"{one.text} {year}") if n % 3 else one
            for n, one in enumerate(documents)
        ]

    ours, theirs = dated(some("m", 1), "2019"), dated(some("o", 2), "2024")
    assert told_apart(ours, theirs, 0)[1]
    assert not told_apart(some("m", 1), some("o", 2), 0)[1]


def reading(seed, count=30):
    """Return sentences of one source, with names, commas and dates."""
    rng = random.Random(seed)
    return [
        f"Mr {rng.choice(WORDS).title()}, {rng.choice(WORDS)}: seen {rng.randint(1, 28)}.{month}."
        f"{rng.randint(2019, 2022)} {' '.join(rng.choices(WORDS, k=rng.randint(9, 15)))}"
        for month in [rng.randint(1, 12) for _ in range(count)]
    ]


def later(text):
    return re.sub(r"20(19|2\d)", lambda year: str(int(year[0]) + 2), text)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (str.lower, "letter case"),
        (str.upper, "letter case"),
        (lambda text: text.replace(" ", "  "), "spaces"),
        (lambda text: f"{text}\n", "spaces"),
        (lambda text: text.replace(",", ""), "punctuation"),
        (lambda text: text.replace(".", "/"), "punctuation"),
        (lambda text: text + " " + " ".join(random.Random(text).choices(WORDS, k=4)), "length"),
        (later, "dates or numbers"),
    ],
)
@pytest.mark.parametrize("few", [False, True])
def test_sets_that_differ_in_form_alone_are_told_apart(change, kind, few):
    """In either direction, and with 14 groups on a side as well, where no classifier is asked."""
    sides = [
        [
            Document(id=f"{side}{n}", text=text)
            for n, text in enumerate(reading(side, 14 + 46 * (not few)))
        ]
        for side in (1, 2)
    ]
    if few and change is later:
        return  # too few for so gradual a difference
    changed = [replace(one, text=change(one.text)) for one in sides[0]]
    for ours, theirs in ((changed, sides[1]), (sides[1], changed)):
        p, found = text_baseline.feature_test(ours, theirs, seed=0)
        assert p <= text_baseline.SHIFTED / 2
        # Punctuation that leaves a word in another form is a difference in words, too.
        assert found in (kind, "words")
        assert text_baseline.texts_differ(ours, theirs, None, seed=0) == found
    assert text_baseline.texts_differ(*sides, None, seed=0) == ""


def test_a_word_of_one_set_by_hand():
    """Of 4 and 4 groups 2 of 70 deals put a word of four as unevenly."""
    ours = [Document(id=f"m{n}", text=f"same year u{n}", group=f"m{n}") for n in range(4)]
    theirs = [Document(id=f"o{n}", text=f"same o{n}", group=f"o{n}") for n in range(4)]
    p = text_baseline.feature_test(ours, theirs, seed=0, draws=6999)[0]
    assert p == pytest.approx(2 / 70, abs=0.01)
    assert text_baseline.feature_test(ours[::-1], theirs[::-1], seed=0, draws=6999)[0] == p
    # A word that is everywhere, or in fewer than four groups, tells nothing.
    assert text_baseline.feature_test(theirs, theirs, seed=0)[0] == 1.0


def test_large_groups_and_small_ones_of_one_source_are_not_told_apart():
    """Records that are held out one by one leave small groups, which hold fewer words."""

    def groups(name, seed, per_group):
        rng = random.Random(seed)
        return [
            Document(
                id=f"{name}{g}-{n}", text=" ".join(rng.choices(WORDS, k=15)), group=f"{name}{g}"
            )
            for g in range(40)
            for n in range(per_group)
        ]

    low = 0
    for seed in range(20):
        ours, theirs = groups("m", 2 * seed, 6), groups("o", 2 * seed + 1, 2)
        low += text_baseline.feature_test(ours, theirs, seed=seed)[0] <= 0.05
    assert low <= 4  # at 5 %: more is 1 in 400; it was all of them where groups were not cut


def test_groups_are_cut_to_like_sizes_by_hand():
    def group(name, size):
        return [Document(id=f"{name}{n}", text=f"{name}{n}", group=name) for n in range(size)]

    ours = [group("a", 5), group("b", 1), group("c", 3)]
    theirs = [group("d", 2), group("e", 2), group("f", 4)]
    cut = text_baseline._of_like_sizes(ours, theirs, random.Random(0))
    # Sorted 1 3 5 and 2 2 4: the smaller of each pair.
    assert [[len(one) for one in side] for side in cut] == [[1, 2, 4], [1, 2, 4]]
    # Of sides of unlike numbers each takes the size in the same place of the other.
    cut = text_baseline._of_like_sizes(ours, theirs[:1], random.Random(0))
    assert [[len(one) for one in side] for side in cut] == [[1, 2, 2], [2]]
