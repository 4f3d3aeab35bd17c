"""How far clients are from being alike, and the caveat where whole groups leave them so."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.records import Document
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data.label_skew import (
    LabelSkew,
    label_skew,
    label_skew_caveats,
    measure_label_skew,
    write_label_skew,
)
from fedaudit.simulation.data.partition import deal_documents
from fedaudit.simulation.data.settings import Partition, Records
from fedaudit.simulation.initialization import documents, split

COUNTS = st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=1, max_size=6)


def test_the_skew_by_hand():
    assert label_skew([[3, 1], [1, 3]]) == 0.25
    assert label_skew([[2, 2], [5, 5], [0, 0]]) == 0.0
    assert label_skew([[4, 0, 0], [0, 4, 0], [0, 0, 4]]) == pytest.approx(2 / 3)
    assert label_skew([]) == label_skew([[0, 0]]) == 0.0


@given(COUNTS, st.integers(1, 5), st.randoms())
def test_the_skew_is_a_share_that_no_order_and_no_scale_changes(counts, factor, rng):
    found = label_skew(counts)
    assert 0 <= found < 1
    assert label_skew([[factor * n for n in row] for row in counts]) == pytest.approx(found)
    order = rng.sample(range(3), 3)
    assert label_skew([[row[at] for at in order] for row in counts]) == pytest.approx(found)
    assert label_skew(rng.sample(counts, len(counts))) == pytest.approx(found)


def cases(count, size, tasks):
    """Return cases, each with documents of every task as often as of the others."""
    return [
        Document(
            id=f"{case}-{n}", text=f"{case} {n}", group=f"case{case}", task=tasks[n % len(tasks)]
        )
        for case in range(count)
        for n in range(size)
    ]


def test_cases_of_every_task_leave_nothing_of_a_skew():
    found = cases(60, 8, ["a", "b", "c", "d"])
    classes = ["abcd".index(d.task) for d in found]
    settings = Partition(method="dirichlet", alpha=0.1)
    dealt = deal_documents(found, classes, clients=5, alpha=0.1, seed=1)
    measured = measure_label_skew(settings, found, classes, dealt, 1)
    assert measured.found == 0.0
    assert measured.meant > 0.3


@pytest.mark.parametrize(
    "settings",
    [
        Partition(method="iid"),
        Partition(method="dirichlet", whole_groups=False),
        Partition(method="corpus"),
    ],
)
def test_nothing_is_measured_where_nothing_can_be_lost(settings):
    found = cases(4, 4, ["a", "b"])
    assert measure_label_skew(settings, found, [0, 1] * 8, [found], 1) is None
    alone = [replace(d, group="") for d in found]
    assert measure_label_skew(Partition(method="dirichlet"), alone, [0, 1] * 8, [alone], 1) is None


def test_the_caveat_says_both_and_what_to_set(tmp_path):
    (tmp_path / "data").mkdir()
    config = Simulation(
        base="fedaudit-nano", partition=Partition(method="dirichlet", alpha=0.1, by="task")
    )
    assert label_skew_caveats(config, tmp_path) == []
    write_label_skew(LabelSkew(0.2, 0.4), tmp_path)
    assert label_skew_caveats(config, tmp_path) == []
    write_label_skew(LabelSkew(0.08, 0.45), tmp_path)
    [said] = label_skew_caveats(config, tmp_path)
    assert "more alike than partition.alpha = 0.1 means" in said
    assert "shares of each task are 0.08 from everybody's on average (0: alike)" in said
    assert said.endswith("0.45 with partition.whole_groups = false")


def test_parted_groups_are_skewed_as_alpha_means():
    tasks = ["record", "reading", "summary", "classification"]
    records = Records(cases=24, documents_per_case=12, languages=["en"], tasks=tasks)
    own = Simulation(
        base="fedaudit-nano",
        clients=4,
        records=records,
        partition=Partition(method="dirichlet", alpha=0.1),
    )
    whole, parted = (
        split(replace(own, partition=replace(own.partition, whole_groups=flag)), made, None)
        for flag in (True, False)
        for made in [documents(own)]
    )
    assert whole.skew.found < 0.5 * whole.skew.meant
    assert parted.skew is None
    counts = [[sum(d.task == task for d in share) for task in tasks] for share in parted.clients]
    assert label_skew(counts) == pytest.approx(whole.skew.meant, abs=1e-4)
