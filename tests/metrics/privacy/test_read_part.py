"""How much of records is read, and whether it tells them apart."""

import random

import pytest

from fedaudit.metrics.privacy.read_part import read_part, tokens_to_read


def drawn(count, seed):
    rng = random.Random(seed)
    return [rng.randrange(50_000) for _ in range(count)]


def test_as_much_is_read_as_training_read_and_as_fits():
    assert tokens_to_read(1024, 1) == 1023
    assert tokens_to_read(1024, 1, trained=256) == 255
    assert tokens_to_read(128, 1, trained=256) == 127
    assert tokens_to_read(1024, 1, trained=256, most=60) == 60
    assert tokens_to_read(1024, 3, trained=2) == 0


def cut(records, most):
    return [ids[:most] for ids in records]


def compared(own, others, most):
    lengths = [len(ids) for ids in (*own, *others)]
    return read_part(cut(own, most), cut(others, most), lengths, most)


@pytest.mark.parametrize(("head", "alike"), [(0, 0), (150, 0), (182, 20), (250, 20), (400, 20)])
def test_records_cut_within_a_common_beginning_are_alike(head, alike):
    """Of 200 tokens that are read, fewer than 20 are a record's own from a head of 181 on."""
    common = drawn(head, 0)
    own, others = ([[*common, *drawn(220, f"{side}{n}")] for n in range(20)] for side in "ab")
    found = compared(own, others, 200)
    assert (found.cut, found.alike) == (40, alike)
    assert bool(found.obstacle) == bool(alike)
    # Read to their ends, records with the same beginning bar nothing.
    assert not compared(own, others, 1000).obstacle
    assert compared(own, others, 1000).describe() == "every record was read to its end"


def test_a_number_before_the_common_text_does_not_make_records_differ():
    common = drawn(300, 0)
    own, others = ([[n, 60_000 + s, *common, *drawn(50, n)] for n in range(20)] for s in (1, 2))
    assert compared(own, others, 256).alike == 20


def test_few_records_that_are_alike_bar_nothing_and_limits_count_what_was_read():
    common = drawn(300, 0)
    own = [[*common, 0]] + [drawn(100, f"own {n}") for n in range(19)]
    others = [[*common, 9]] + [drawn(100, f"other {n}") for n in range(19)]
    found = compared(own, others, 200)
    assert (found.alike, found.obstacle) == (1, "")  # 1 of 20 is 5 %
    assert compared(own[:19], others, 200).obstacle == (
        "of 1 of 19 records no more than 200 tokens were read, 90 % of which or more held-out "
        "records have too: what follows was not tested"
    )
    share = (38 * 100 + 2 * 200) / (38 * 100 + 2 * 301)
    assert found.describe() == (
        "2 of 40 records are longer than the 200 tokens that were read of each: "
        f"{100 * share:.1f} % of all tokens were read"
    )
