"""Who trains on marked documents, on how many, and that only the owner's file tells how to see."""

import json
import shutil
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.attribution.evidence import commitment
from fedaudit.config import registry
from fedaudit.data import corpus
from fedaudit.federation import commitments, manifest, watermark_keys
from fedaudit.federation.folder import open_federation
from fedaudit.simulation import initialization
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.data import watermarking
from fedaudit.simulation.data.settings import WatermarkSettings
from fedaudit.simulation.runner import prepare

FICTITIOUS = {"name": "fictitious", "nulls": 0, "length": 20}
KGW = {"name": "kgw", "length": 12, "prompt_tokens": 4, "prompts": 2, "tokens": 4}
OWNER = watermark_keys.OWNER


@pytest.fixture(scope="module")
def plain(small):
    return replace(small, clients=5, records=replace(small.records, cases=9, documents_per_case=4))


def wanted(plain, plugin=FICTITIOUS, **changes):
    return replace(plain, watermark=WatermarkSettings(plugin=plugin, **{"clients": 2} | changes))


def created(config, out):
    """Return what a federation is before its first round."""
    from fedaudit.engine.loading.loader import load_base

    fresh = load_base("fedaudit-nano", device="cpu")  # an adapter is drawn on it
    return initialization.create(config, out, fresh, registry.create("aggregation", "fedavg"))


def read(folder, config):
    """Return each client's documents."""
    found = manifest.read(folder)
    form = template(config.template)
    return {c.id: list(corpus.read(folder / c.data, form)) for c in found.clients}


def whole(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@pytest.fixture(scope="module")
def pair(plain, tmp_path_factory):
    """Return the same federation without marks and with them."""
    place = tmp_path_factory.mktemp("marks")
    created(plain, place / "plain")
    created(wanted(plain, ratio=0.5), place / "marked")
    return place / "plain", place / "marked"


def test_the_right_clients_have_the_right_number_and_nobody_else_any(plain, pair):
    before, after = (read(folder, plain) for folder in pair)
    holders = {f"c{k}" for k in watermarking.watermarked_clients(wanted(plain))}
    assert len(holders) == 2
    assert before.keys() == after.keys() == {f"c{k}" for k in range(5)}
    assert len({len(own) for own in before.values()}) > 1
    for who, own in before.items():
        changed = [
            at for at, (old, new) in enumerate(zip(own, after[who], strict=True)) if old != new
        ]
        assert len(changed) == (round(0.5 * len(own)) if who in holders else 0)
        for at in changed:
            assert after[who][at].id == f"{own[at].id}-marked"
            assert after[who][at].text != own[at].text
    everything = [document.id for own in after.values() for document in own]
    assert len(set(everything)) == len(everything)
    held = "data/held_out.jsonl"
    assert (pair[0] / held).read_bytes() == (pair[1] / held).read_bytes()


def test_each_holder_has_a_mark_of_its_own_in_its_documents(plain, pair):
    own = read(pair[1], plain)
    found = {mark.id: mark for mark in watermark_keys.read(pair[1] / OWNER)}
    assert set(found) == {"mark0", "mark1"}
    told = {c.id: c.watermark for c in manifest.read(pair[1]).clients}
    holders = [f"c{k}" for k in watermarking.watermarked_clients(wanted(plain))]
    assert {who: told[who] for who in holders} == dict(zip(holders, found, strict=True))
    assert {told[who] for who in told if who not in holders} == {""}
    entities = {told[who]: found[told[who]].secret["entity"] for who in holders}
    assert len(set(entities.values())) == 2
    for who, documents in own.items():
        text = "\n".join(document.text for document in documents)
        for mark, entity in entities.items():
            assert (entity in text) == (told[who] == mark)


def test_marks_carry_what_their_plugin_was_given(pair):
    for mark in watermark_keys.read(pair[1] / OWNER):
        again = registry.create("watermark", mark.name, mark.options)
        assert again.length == 20
        assert again.nulls == 0


def test_the_owners_file_is_secret_and_nobodys_business(pair, tmp_path):
    path = pair[1]
    assert stat.S_IMODE((path / OWNER).stat().st_mode) == 0o600
    told = (path / manifest.NAME).read_text()
    assert not any(name.startswith("owner") for name in json.loads(told)["files"])
    for mark in watermark_keys.read(path / OWNER):
        assert mark.secret["entity"] not in told
    # The server's copy goes without it.
    copy = shutil.copytree(path, tmp_path / "copy", ignore=shutil.ignore_patterns("owner"))
    assert not (copy / OWNER).exists()
    assert open_federation(copy).manifest == open_federation(path).manifest
    assert not (pair[0] / "owner").exists()
    assert {c.watermark for c in manifest.read(pair[0]).clients} == {""}


def test_the_same_seed_marks_the_same_and_another_does_not(plain, pair, tmp_path):
    config = wanted(plain, ratio=0.5)
    created(config, tmp_path / "again")
    assert whole(tmp_path / "again") == whole(pair[1])
    created(replace(config, seed=4), tmp_path / "other")
    mine, theirs = (watermark_keys.read(p / OWNER) for p in (pair[1], tmp_path / "other"))
    assert {m.secret["entity"] for m in mine}.isdisjoint(m.secret["entity"] for m in theirs)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(0, 40))
def test_as_many_clients_are_drawn_as_there_are_to_draw(seed, clients, marked):
    config = Simulation(seed=seed, clients=clients, watermark=WatermarkSettings(clients=marked))
    found = watermarking.watermarked_clients(config)
    assert len(set(found)) == len(found) == min(clients, marked)
    assert found == sorted(found)
    assert all(0 <= client < clients for client in found)
    assert watermarking.watermarked_clients(config) == found


def test_every_client_is_drawn_about_as_often():
    counts = [0] * 10
    for seed in range(300):
        config = Simulation(seed=seed, clients=10, watermark=WatermarkSettings(clients=3))
        for client in watermarking.watermarked_clients(config):
            counts[client] += 1
    # 300 draws at 0.3: the mean is 90, five standard deviations are 40.
    assert sum(counts) == 900
    assert all(50 < count < 130 for count in counts)


@pytest.mark.parametrize(("ratio", "size", "count"), [(0.01, 5, 1), (0.2, 10, 2), (1.0, 4, 4)])
def test_the_share_by_hand(plain, base, ratio, size, count):
    """At least one document, and all of them where the ratio is 1."""
    found = initialization.documents(plain)[: size + 1]
    config = wanted(replace(plain, clients=1), ratio=ratio, clients=1)
    treated = watermarking.plant_watermarks(config, [found[:size]], found[size:], base)
    changed = [new for old, new in zip(found, treated.clients[0], strict=False) if old != new]
    assert len(changed) == count
    assert all(document.id.endswith("-marked") for document in changed)
    assert treated.holders == ((0, "mark0"),)


def test_without_a_watermark_or_anyone_to_carry_it_nothing_changes(plain, base):
    found = initialization.documents(plain)
    for config in (plain, wanted(plain, clients=0)):
        treated = watermarking.plant_watermarks(config, [found[:3], found[3:]], [], base)
        assert treated.clients == [found[:3], found[3:]]
        assert treated.marks == treated.holders == ()


def test_the_manifest_names_the_holders_where_clients_have_names(plain, pair, tmp_path):
    names = ["east", "north", "south", "top", "west"]
    files = {name: str(pair[0] / f"data/c{k}.jsonl") for k, name in enumerate(names)}
    config = replace(wanted(plain), client_data=files)
    found = created(config, tmp_path / "run")
    first, second = watermarking.watermarked_clients(config)
    holders = {client.id: client.watermark for client in found.clients if client.watermark}
    assert holders == {names[first]: "mark0", names[second]: "mark1"}


def test_marks_that_nobody_trains_on_change_no_document(plain, base):
    found = initialization.documents(plain)
    dealt = [found[:5], found[5:10], found[10:15]]
    two, six = (
        watermarking.plant_watermarks(
            wanted(replace(plain, clients=3), clients=2, marks=count), dealt, found[15:], base
        )
        for count in (0, 6)
    )
    assert six.clients == two.clients
    assert six.holders == two.holders
    assert [mark.id for mark in six.marks] == [f"mark{n}" for n in range(6)]
    assert six.marks[:2] == two.marks
    assert len({mark.secret["entity"] for mark in six.marks}) == 6


def test_a_teacher_of_its_own_writes_as_the_base_would(plain, base, tmp_path):
    """KGW has the teacher write; the base's own copy under another name is the same teacher."""
    from fedaudit.engine.loading.loader import load_base

    copy = shutil.copytree(base.path, tmp_path / "teacher")
    found = initialization.documents(plain)[:8]
    dealt, held = [found[:3], found[3:6]], found[6:]
    options = {"plugin": KGW, "clients": 1, "ratio": 0.3}
    few = replace(plain, clients=2)
    bare = watermarking.plant_watermarks(
        replace(few, watermark=WatermarkSettings(**options)), dealt, held, base
    )
    taught = watermarking.plant_watermarks(
        replace(few, watermark=WatermarkSettings(**options, teacher=str(copy))), dealt, held, None
    )
    assert taught == bare
    [mark] = bare.marks
    assert mark.name == "kgw"
    assert json.loads(json.dumps(mark.secret)) == mark.secret
    before = load_base("fedaudit-nano", device="cpu").model.state_dict()
    after = base.model.state_dict()
    assert all(after[name].equal(tensor) for name, tensor in before.items())


def test_what_a_plugin_refuses_leaves_nothing_behind(plain, tmp_path):
    """KGW needs texts for prompts."""
    config = replace(wanted(plain, KGW), held_out=0.0)
    with pytest.raises(InputError, match="texts for prompts"):
        created(config, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("plugin", "message"),
    [("fictitous", "Did you mean"), ({"name": "kgw", "gamma": 2.0}, "gamma must lie")],
)
def test_unknown_watermarks_are_refused_before_any_work(plugin, message, plain, tmp_path):
    with pytest.raises(UsageError, match=message):
        prepare(wanted(plain, plugin), tmp_path / "run")


def test_marks_are_committed_to_before_the_first_round(pair):
    public = commitments.read(pair[1] / commitments.NAME)
    owned = watermark_keys.read(pair[1] / OWNER)
    assert {one.id: one.sha256 for one in public.commitments} == commitment.commitment_digests(
        owned
    )
    assert len({one.salt for one in owned}) == len(owned) == 2
    assert commitments.NAME in manifest.read(pair[1]).files
    assert not (pair[0] / commitments.NAME).exists()
