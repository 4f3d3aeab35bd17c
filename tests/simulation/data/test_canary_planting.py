"""Whose records get canaries in a simulation, how often, and that nothing else changes."""

import stat
from collections import Counter
from dataclasses import replace

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.canaries import canary_file
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.federation import manifest
from fedaudit.simulation import initialization, preparation
from fedaudit.simulation.data.canary_planting import plant_canaries
from fedaudit.simulation.data.settings import CanarySettings


@pytest.fixture(scope="module")
def plain(small):
    return replace(small, clients=3, defenses=())


def planting(plain, **changes):
    return replace(plain, canaries=CanarySettings(**{"count": 6, "times": (1, 4)} | changes))


def dealt(annotated=True):
    """Return five documents of each of three clients."""
    pii = () if annotated else None
    return [
        [Document(id=f"{c}-{n}", text=f"case {c} {n}", pii=pii) for n in range(5)] for c in "abc"
    ]


def test_every_client_gets_copies_of_its_own_canaries_and_keeps_its_documents(plain):
    given, found = plant_canaries(planting(plain), dealt(), [])
    assert [(one.client, one.times) for one in found.planted] == [
        ("c0", 1), ("c0", 4), ("c1", 1), ("c1", 4), ("c2", 1), ("c2", 4)
    ]  # fmt: skip
    for number, (own, before) in enumerate(zip(given, dealt(), strict=True)):
        copies = [one for one in own if one not in before]
        assert len(own) == 10
        assert sorted(one.id for one in own if one in before) == [one.id for one in before]
        wanted = {one.sentence: one.times for one in found.planted if one.client == f"c{number}"}
        assert Counter(one.text for one in copies) == wanted
        assert all(
            one.strings() == ((secret_in(found, one.text), "PHONE_NUMBER"),) for one in copies
        )
        assert given[number][:5] != before  # among them, not behind them
    assert len({one.id for own in given for one in own}) == 30


def secret_in(found, text):
    [secret] = [one.secret for one in found.planted if one.sentence == text]
    return secret


def test_some_clients_and_records_without_annotation(plain):
    given, found = plant_canaries(planting(plain, clients=("c1",)), dealt(annotated=False), [])
    assert [len(own) for own in given] == [5, 5 + 3 * (1 + 4), 5]
    assert {one.client for one in found.planted} == {"c1"}
    assert all(one.pii is None for own in given for one in own)


def test_the_seed_says_which_and_none_planted_is_none(plain):
    one, two = (plant_canaries(planting(plain), dealt(), []) for _ in range(2))
    assert one[0] == two[0]
    other = plant_canaries(planting(replace(plain, seed=9)), dealt(), [])
    assert [c.secret for c in other[1].planted] != [c.secret for c in one[1].planted]
    assert plant_canaries(plain, dealt(), []) == (dealt(), None)


def test_who_is_left_out_is_named_by_no_canary(plain):
    """The others' canaries are those that they have beside it."""
    everybody = plant_canaries(planting(plain), dealt(), [])
    without = plant_canaries(planting(replace(plain, without=("c1",))), dealt(), [])
    assert [one.client for one in without[1].planted] == ["c0", "c0", "c2", "c2"]
    assert set(without[1].canaries) < set(everybody[1].canaries)
    assert without[1].controls == everybody[1].controls
    assert (without[0][0], without[0][2]) == (everybody[0][0], everybody[0][2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 5}, r"canaries\.count 5 is too few.* 6 in all"),
        ({"clients": ("c7",)}, "No client with canaries named 'c7'"),
        ({"clients": ("c1", "c1")}, r"canaries\.times and canaries\.clients name nothing twice"),
        ({"kind": "fone"}, "Did you mean 'phone'"),
        ({"language": "fr"}, "No language of canaries named 'fr'"),
        ({"count": 990}, "secrets of this kind.* too few"),
        ({"instruction": "one\ntwo"}, r"canaries\.instruction takes one line"),
    ],
)
def test_canaries_that_cannot_be_are_refused_before_data_are_made(
    plain, settings, message, tmp_path
):
    with pytest.raises(UsageError, match=message):
        preparation.prepare(planting(plain, **settings), tmp_path / "run")
    assert preparation.prepare(planting(plain), tmp_path / "run")


def test_a_federation_keeps_the_file_for_its_owner_alone(plain, tmp_path):
    from fedaudit.engine.loading.loader import load_base

    config = planting(plain)
    fresh = load_base("fedaudit-nano", device="cpu")  # an adapter is drawn on it
    server = registry.create("aggregation", "fedavg")
    initialization.create(config, tmp_path / "run", fresh, server)
    path = tmp_path / "run" / canary_file.OWNER
    found = canary_file.read(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    form = template(config.template)
    for one in manifest.read(tmp_path / "run").clients:
        texts = Counter(d.text for d in corpus.read(tmp_path / "run" / one.data, form))
        assert all(texts[c.sentence] == c.times for c in found.planted if c.client == one.id)
