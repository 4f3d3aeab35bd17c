"""Which of the tested marks each client of a simulation trained on."""

import handmade
import pytest

from fedaudit.api.watermark import Mark
from fedaudit.attribution.pipeline import true_marks
from fedaudit.federation import watermark_keys
from fedaudit.federation.folder import open_federation


@pytest.fixture
def fed(tmp_path):
    """Return a federation whose c1 trained on its only mark, m0."""
    made = handmade.write(tmp_path / "fed", clients=3, guilty=("c1",))
    handmade.marks(made.path / watermark_keys.OWNER)
    return open_federation(made.path)


def other(mark, **changed):
    return Mark(id=changed.get("id", mark.id), name=mark.name, options=mark.options,
                secret=changed.get("secret", mark.secret))  # fmt: skip


def test_a_mark_is_known_by_its_key(fed):
    [own] = watermark_keys.read(fed.path / watermark_keys.OWNER)
    nobody = {"c0": "", "c1": "", "c2": ""}
    assert true_marks(fed, [own]) == nobody | {"c1": "m0"}
    assert true_marks(fed, [other(own, id="new name")]) == nobody | {"c1": "new name"}
    assert true_marks(fed, [other(own, secret={"key": 5})]) == nobody
    assert true_marks(fed, [other(own, id="b", secret={"key": 5}), own]) == nobody | {"c1": "m0"}


def test_without_the_simulations_own_marks_ids_are_what_is_left(fed):
    [own] = watermark_keys.read(fed.path / watermark_keys.OWNER)
    (fed.path / watermark_keys.OWNER).unlink()
    assert true_marks(fed, [own])["c1"] == "m0"
    assert true_marks(fed, [other(own, id="b")])["c1"] == ""


def test_of_a_federation_that_was_not_simulated_nothing_is_known(tmp_path):
    made = handmade.write(tmp_path / "fed", clients=3, config={})
    assert true_marks(open_federation(made.path), []) == {}
