"""A federation trained again without a client, and how it is told from others."""

from dataclasses import replace

import counterfactual_run
import pytest
import torch

from fedaudit.api.errors import InputError, UsageError
from fedaudit.federation import adapters, manifest
from fedaudit.federation.counterfactual import check_origin, find_counterpart
from fedaudit.federation.folder import latest, open_federation
from fedaudit.simulation import session
from fedaudit.simulation.rounds import participants
from fedaudit.simulation.runner import simulate


@pytest.fixture(scope="module")
def three(small, tmp_path_factory):
    """Return the settings of a federation of three, its folder, and that without c1."""
    run = tmp_path_factory.mktemp("runs") / "run"
    training = replace(small.training, steps=2)
    config, place = counterfactual_run.train(replace(small, training=training), run)
    return config, run, place


def test_it_lies_in_the_run_and_says_what_it_is(three):
    config, run, place = three
    assert place == run / "without/c1"
    found = open_federation(place).manifest
    assert found.counterfactual == {"without": ["c1"], "config_sha256": config.sha256()}
    assert [client.id for client in found.clients] == ["c0", "c2"]
    assert sum(client.weight for client in found.clients) == pytest.approx(1)
    assert [one.participants for one in found.rounds] == [(), ("c0", "c2"), ("c0", "c2")]
    assert not (place / "data/c1.jsonl").exists()
    assert not (place / "central").exists()
    assert latest(run.parent) == run


def test_the_others_begin_as_they_did(three):
    _, run, place = three
    for name in ("rounds/000/global", "rounds/001/clients/c0", "rounds/001/clients/c2"):
        weights = f"{name}/adapter_model.safetensors"
        assert (run / weights).read_bytes() == (place / weights).read_bytes()
    for data in ("c0", "c2", "held_out"):
        name = f"data/{data}.jsonl"
        assert (run / name).read_bytes() == (place / name).read_bytes()


def test_its_first_round_is_the_mean_of_those_that_are_left(three):
    _, run, place = three
    sizes = {one.id: one.examples for one in open_federation(run).manifest.clients}
    share = sizes["c0"] / (sizes["c0"] + sizes["c2"])
    one, two = (adapters.read(run / f"rounds/001/clients/{who}") for who in ("c0", "c2"))
    found = adapters.read(place / "rounds/001/global")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, share * one[name] + (1 - share) * two[name])


def test_a_federation_that_nobody_was_left_out_of_is_what_it_was(small, federation):
    assert "without" not in small.table()
    assert "counterfactual" not in (federation.path / manifest.NAME).read_text()
    other = replace(small, clients=3, without=("c2",))
    assert other.sha256() != replace(small, clients=3).sha256()
    assert participants(replace(small, clients=3), 1) == ["c0", "c1", "c2"]
    assert participants(other, 1) == ["c0", "c1"]


def test_it_is_found_beside_the_federation_that_it_is_of(three):
    _, run, place = three
    audited = open_federation(run)
    assert find_counterpart(audited, "c1").path == place
    assert find_counterpart(audited, "c0") is None
    assert check_origin(audited, open_federation(place)).without == ("c1",)


def test_that_of_another_federation_is_refused(three, federation, small, tmp_path):
    _, run, place = three
    theirs, ours = open_federation(place), open_federation(run)
    with pytest.raises(InputError, match=r"of another federation than .* its settings differ"):
        check_origin(open_federation(federation.path), theirs)
    with pytest.raises(InputError, match="not a counterfactual federation; `fedaudit simulate"):
        check_origin(ours, open_federation(federation.path))
    base = replace(theirs.manifest.base, sha256="0" * 64)
    changed = replace(theirs, manifest=replace(theirs.manifest, base=base))
    with pytest.raises(InputError, match="its bases differ"):
        check_origin(ours, changed)
    files = {**theirs.manifest.files, "data/c0.jsonl": "0" * 64}
    with pytest.raises(InputError, match="its clients differ"):
        check_origin(ours, replace(theirs, manifest=replace(theirs.manifest, files=files)))


@pytest.mark.parametrize(
    ("without", "kind", "message"),
    [
        (["c7"], UsageError, "No client named 'c7'.*There is: c0, c1, c2"),
        (["c0", "c1", "c2"], UsageError, "leaves no client"),
    ],
)
def test_whom_nobody_can_leave_out(three, without, kind, message):
    config, run, _ = three
    with pytest.raises(kind, match=message):
        session.settings(config, without, run)


def test_the_federation_itself_comes_first(three, tmp_path):
    config, run, _ = three
    with pytest.raises(InputError, match="without --without first"):
        session.check_original(config, tmp_path / "nothing")
    with pytest.raises(InputError, match=r"another run .it differs in seed"):
        session.check_original(replace(config, seed=1), run)


def test_that_somebody_was_left_out_is_a_setting_that_differs(three):
    config, run, _ = three
    with pytest.raises(InputError, match=r"another run .it differs in without\)"):
        session.check_original(config, run / "without/c1")


def test_a_round_of_nobody_is_refused(small, tmp_path):
    config = replace(small, clients=2, participation=0.5, rounds=8)
    drawn = participants(config, 1)[0]
    with pytest.raises(UsageError, match=f"draws no one but {drawn}"):
        simulate(
            replace(config, without=(drawn,)), tmp_path / "run", listener=counterfactual_run.silent
        )


def test_a_manifest_that_does_not_say_whose_it_is(three, tmp_path):
    _, _, place = three
    found = open_federation(place).manifest
    manifest.write(replace(found, counterfactual={"without": ["c1"]}), tmp_path)
    with pytest.raises(InputError, match="counterfactual"):
        manifest.read(tmp_path)
