"""FLForensics' rules on points by hand, and both ways to cluster them."""

import numpy as np
import pytest
from fedaudit_plugins.attribution import flforensics
from hypothesis import given, settings
from hypothesis import strategies as st

RNG = np.random.default_rng(0)


def blob(x, y, count, width=0.02):
    return RNG.normal(size=(count, 2)) * width + [x, y]


def flagged(points, labels):
    found = flforensics.malicious(np.array(points, dtype=float), np.array(labels))
    return np.flatnonzero(found).tolist()


def test_each_axis_is_divided_by_its_range_and_not_shifted():
    points = np.array([[1.0, -10.0], [3.0, 0.0], [2.0, 30.0]])
    assert flforensics.scale_axes(points).tolist() == [[0.5, -0.25], [1.5, 0.0], [1.0, 0.75]]
    # Rounding on an axis without range stays rounding; a zero axis stays zero.
    still = flforensics.scale_axes(np.array([[-5.0, 0.0], [-5.0 * (1 + 1e-15), 0.0]]))
    np.testing.assert_allclose(still, [[-1, 0], [-1, 0]])


def test_one_suspect_minority_is_flagged():
    points = [[-1.0, 1.0]] * 4 + [[0.2, 9.0]] * 3
    assert flagged(points, [0] * 4 + [1] * 3) == [4, 5, 6]
    # Its influence on clean texts does not matter then; a negative one on target texts does.
    points = [[1.0, 1.0]] * 4 + [[-0.2, 9.0]] * 3
    assert flagged(points, [0] * 4 + [1] * 3) == []


def test_half_of_the_clients_are_no_minority():
    points = [[-1.0, 0.0]] * 3 + [[1.0, 0.0]] * 3
    assert flagged(points, [0] * 3 + [1] * 3) == []
    assert flagged(points, [0] * 6) == []
    assert flagged(points, [flforensics.NOISE] * 6) == []


def test_among_several_the_ratio_of_all_of_them_decides():
    # Suspect: label 1 (2 points, mean 1, .2, ratio .2) and label 2 (3 points, mean 1, 2, ratio 2).
    # Together: mean of clean (2 * .2 + 3 * 2) / 5 = 1.28 over 1.
    points = [[-1.0, 0.0]] * 6 + [[1.0, 0.1], [1.0, 0.3]] + [[1.0, 2.0]] * 3
    labels = [0] * 6 + [1] * 2 + [2] * 3
    assert flagged(points, labels) == [6, 7]
    # A ratio of exactly that of all suspects counts as small.
    assert flagged([[-1.0, 0.0]] * 6 + [[1.0, 1.0]] * 4, [0] * 6 + [1] * 2 + [2] * 2) == [
        6,
        7,
        8,
        9,
    ]


def test_clients_without_a_cluster_are_judged_one_by_one_among_several():
    # Noise is suspect as a group (4 of 13, mean (1 + 2 + 1 - 1) / 4), so there are two groups; the
    # bound is that of the only cluster, 1/2.
    noise = [[1.0, 0.4], [2.0, 1.0], [1.0, 0.6], [-1.0, -9.0]]
    points = [[-1.0, 0.0]] * 6 + [[1.0, 0.5]] * 3 + noise
    labels = [0] * 6 + [1] * 3 + [flforensics.NOISE] * 4
    assert flagged(points, labels) == [6, 7, 8, 9, 10]
    # Where noise is not a suspect group, and one cluster is, only that is flagged.
    noise[-1] = [-9.0, 0.0]
    assert flagged(points[:9] + noise, labels) == [6, 7, 8]
    # As in the released code, noise that is the only suspect group is flagged as a whole.
    assert flagged([[-1.0, 0.0]] * 6 + [[3.0, 9.0], [-1.0, 0.0]], [0] * 6 + [-1] * 2) == [6, 7]


PLANTED = np.concatenate([blob(-0.5, 0.5, 14), blob(0.5, 0.1, 8)])


def test_hdbscan_finds_a_minority_of_eight():
    points = flforensics.scale_axes(PLANTED)
    labels = flforensics.density_labels(points, 7)
    assert flagged(points, labels) == list(range(14, 22))


def test_hdbscan_makes_no_minority_of_ten_clients():
    # FedAttr's remark: a cluster of seven is not a minority of ten, and all of them are noise.
    points = flforensics.scale_axes(np.concatenate([blob(-0.5, 0.5, 7), blob(0.5, 0.1, 3)]))
    labels = flforensics.density_labels(points, 7)
    assert set(labels.tolist()) == {flforensics.NOISE}
    assert flagged(points, labels) == []


def test_kmeans_finds_three_of_ten_and_as_many_groups_as_there_are():
    points = flforensics.scale_axes(np.concatenate([blob(-0.5, 0.5, 7), blob(0.5, 0.1, 3)]))
    labels = flforensics.mean_labels(points, 0)
    assert len(set(labels.tolist())) == 2
    assert flagged(points, labels) == [7, 8, 9]
    more = np.concatenate([blob(x, y, 4) for x, y in ((0, 0), (0, 1), (1, 0), (1, 1))])
    assert len(set(flforensics.mean_labels(flforensics.scale_axes(more), 0).tolist())) == 4


def test_the_number_of_means_is_that_of_the_best_silhouette():
    def silhouette(points, labels):
        total = 0.0
        for i, one in enumerate(points):
            far = {k: np.linalg.norm(points[labels == k] - one, axis=1) for k in set(labels)}
            own = far.pop(labels[i])
            if len(own) > 1:
                inside, outside = own.sum() / (len(own) - 1), min(d.mean() for d in far.values())
                total += (outside - inside) / max(inside, outside)
        return total / len(points)

    from sklearn.cluster import KMeans

    points = np.random.default_rng(3).normal(size=(9, 2))
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    tried = [KMeans(k, n_init=10, random_state=0).fit(ordered).labels_ for k in (2, 3, 4, 5)]
    values = [silhouette(ordered, labels) for labels in tried]
    labels = flforensics.mean_labels(ordered, 0)
    assert silhouette(ordered, labels) == pytest.approx(max(values))


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_clients_that_are_all_alike_are_one_cluster(count):
    points = flforensics.scale_axes(np.array([[3.0, 1 / 7 + i * 1e-17] for i in range(count)]))
    assert set(flforensics.mean_labels(points, 0).tolist()) == {0}
    assert flagged(points, flforensics.mean_labels(points, 0)) == []


def test_two_places_are_two_clusters_however_many_means_are_tried():
    points = np.array([[0.0, 0.0]] * 4 + [[1.0, 0.0]] * 3)
    assert flforensics.mean_labels(points, 0).tolist() in ([0] * 4 + [1] * 3, [1] * 4 + [0] * 3)


@settings(deadline=None, max_examples=15)
@given(st.permutations(range(len(PLANTED))), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_neither_order_nor_the_units_matter(order, first, second):
    points = flforensics.scale_axes(PLANTED[order] * [first, second])
    wanted = [index for index, place in enumerate(order) if place >= 14]
    assert flagged(points, flforensics.density_labels(points, 7)) == wanted
    assert flagged(points, flforensics.mean_labels(points, 0)) == wanted
