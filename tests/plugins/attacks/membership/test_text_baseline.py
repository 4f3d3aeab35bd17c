import random

from fedaudit_plugins.attacks.membership import text_baseline

from fedaudit.api import Document
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
