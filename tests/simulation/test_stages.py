"""What a defence may change in a federation, stage by stage, with no word of it in the loop."""

import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from fedaudit.api.defense import Defense, Responder
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import Measurement, RoutedRequest
from fedaudit.config import registry
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation
from fedaudit.simulation.client import training_pool
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import simulate

SETTINGS = {
    "clients": 2,
    "rounds": 2,
    "evaluated": 3,
    "central": False,
    "workers": 1,
    "records": {"cases": 4, "documents_per_case": 4, "languages": ["en"]},
    "partition": {"method": "iid"},
    "training": {
        "steps": 2,
        "batch_size": 4,
        "max_length": 48,
        "rank": 2,
        "alpha": 4,
        "learning_rate": 1e-2,
        "targets": ["q_proj"],
    },
}


class Plain(Responder):
    def __init__(self, folder: Path):
        self.folder = folder

    def route(self, requests):
        opened = [request.heading == "open sesame " for request in requests]
        return [
            RoutedRequest(
                "own" if o else "shared", str(self.folder / ("own" if o else "shared")), r.prompt
            )
            for o, r in zip(opened, requests, strict=True)
        ]

    def headings(self):
        return {"right": "open sesame ", "none": ""}


@dataclass(frozen=True)
class Everything(Defense):
    """Uses every stage."""

    name: ClassVar[str] = "everything"

    keep: float = 1.0
    train_shared: bool = False
    halves: bool = False
    answers: bool = False

    def prepare(self, documents):
        return [replace(d, text=d.text.upper(), pii=()) for d in documents]

    def private(self, documents):
        return {"own": list(documents)} if self.keep < 1 or self.answers else {}

    def train(self, session):
        if not self.train_shared:
            return None
        assert (session.steps, session.rounds, session.batch_size) == (2, 2, 4)
        with torch.no_grad():
            for weight in session.weights.values():
                weight.add_(session.rate(0))
        return 0.5

    def upload(self, start, trained, private):
        if self.keep == 1:
            return trained
        own = private["own"]
        return {n: self.keep * t + (1 - self.keep) * own[n] for n, t in trained.items()}

    def server(self, aggregator):
        return (
            registry.create("aggregation", "nesterov", {"rate": 0.5}) if self.halves else aggregator
        )

    def deploy(self, finished):
        row = Measurement(kind="cost", plugin="everything", metric="seconds", value=1.0)
        if self.answers:
            for client, party in finished.parties.items():
                for name, place in (("shared", party.shared), ("own", party.private["own"])):
                    folder = finished.folder / client / name
                    adapters.write(adapters.read(place), adapters.check(place), folder)
        return Result(measurements=(row,), limits=("It is a test.",))

    def responder(self, deployed):
        return Plain(deployed.folder / deployed.client) if self.answers else None


@pytest.fixture(scope="module", autouse=True)
def everything():
    """Make the defence known by its name."""
    create = registry.create

    def created(kind, name, options=None):
        if (kind, name) == ("defense", "everything"):
            return build(Everything, options or {}, "everything")
        return create(kind, name, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "create", created)
        yield


def simulated(out, aggregation="fedavg", **options):
    """Simulate with Everything under the given options; return the folder and the result."""
    defenses = [{"name": "everything", **options}]
    config = build(
        Simulation, {**SETTINGS, "aggregation": aggregation, "defenses": defenses}, "test"
    )
    return out, simulate(config, out, listener=lambda event: None)


@pytest.fixture
def run(tmp_path):
    """Simulate in a folder of the test's own."""
    return lambda out="run", *args, **options: simulated(tmp_path / out, *args, **options)


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    """Return a federation with a responder, and its folders' permissions while it was made."""
    place = tmp_path_factory.mktemp("answering") / "run"
    trained, deployed = [], []
    train, deploy = training_pool.train, Everything.deploy

    def watched_train(job):
        if "/" in job.model_name:
            trained.append(stat.S_IMODE((place / "private").stat().st_mode))
        return train(job)

    def watched_deploy(self, finished):
        folder = finished.folder
        deployed.append((stat.S_IMODE(folder.stat().st_mode), [*folder.iterdir()]))
        return deploy(self, finished)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_pool, "train", watched_train)
        patch.setattr(Everything, "deploy", watched_deploy)
        _, result = simulated(place, answers=True)
    return SimpleNamespace(place=place, result=result, trained=trained, deployed=deployed)


def test_a_training_of_its_own_takes_the_place_of_the_ordinary_steps(run):
    place, result = run(train_shared=True)
    assert result.manifest.rounds[1].loss == {"c0": 0.5, "c1": 0.5}
    start = adapters.read(place / "rounds/000/global")
    trained = adapters.read(place / "rounds/001/clients/c0")
    for name, tensor in start.items():
        torch.testing.assert_close(trained[name], tensor + 1e-2)


def test_a_penalty_and_a_training_that_knows_of_none_exclude_each_other(run):
    with pytest.raises(UsageError, match="fedprox adds to the clients' loss, which the defence"):
        run(aggregation="fedprox", train_shared=True)


def test_what_is_uploaded_is_what_the_server_sees_and_private_adapters_stay(run, answering):
    mixed, _ = run("mixed", keep=0.25)
    own = adapters.read(mixed / "private/c0/own/001")
    # the shared adapter of round 1 is the same as with a responder, which uploads it as it is
    plain = answering.place
    shared = adapters.read(plain / "rounds/001/clients/c0")
    sent = adapters.read(mixed / "rounds/001/clients/c0")
    assert adapters.read(plain / "private/c0/own/001").keys() == own.keys()
    for name, tensor in sent.items():
        torch.testing.assert_close(own[name], adapters.read(plain / "private/c0/own/001")[name])
        torch.testing.assert_close(tensor, 0.25 * shared[name] + 0.75 * own[name])
    manifest = open_federation(mixed).manifest
    assert "private/c1/own/002/adapter_model.safetensors" in manifest.files
    assert all("private" not in f for one in manifest.rounds for f in one.clients.values())


def test_private_adapters_go_on_from_round_to_round_and_never_see_the_global_one(run, answering):
    one = answering.place
    other, _ = run(answers=True, halves=True)
    for number in ("001", "002"):
        a = adapters.read(one / f"private/c1/own/{number}")
        b = adapters.read(other / f"private/c1/own/{number}")
        assert all(torch.equal(a[name], b[name]) for name in a)
    first, second = (adapters.read(one / f"private/c1/own/{n}") for n in ("001", "002"))
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_the_server_steps_as_the_defence_has_it(run):
    place, _ = run(halves=True)
    start, moved = (adapters.read(place / f"rounds/{n}/global") for n in ("000", "001"))
    a, b = (adapters.read(place / f"rounds/001/clients/{c}") for c in ("c0", "c1"))
    weights = {c.id: c.weight for c in open_federation(place).manifest.clients}
    for name, tensor in start.items():
        mean = weights["c0"] * a[name] + weights["c1"] * b[name]
        torch.testing.assert_close(moved[name], tensor + 0.5 * (mean - tensor))


def test_deployment_is_measured_once_and_kept_for_the_report(answering):
    result = answering.result
    assert "It is a test." in result.limits
    config = build(Simulation, result.manifest.config, "again")
    again = simulate(config, answering.place, listener=lambda event: None)
    assert again.measurements == result.measurements
    assert again.limits == result.limits
    assert result.manifest.deployment == {"name": "everything", "options": {"answers": True}}
    assert "defense/c0/own/adapter_model.safetensors" in result.manifest.files
    assert "defense/measured.json" not in result.manifest.files


def modes(place):
    """Return the permissions of a folder and of everything below it, by path."""
    return {path: stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))}


def test_what_is_private_or_deployed_is_its_owners_alone(answering):
    place = answering.place
    for below in ("private", "defense"):
        found = modes(place / below)
        assert {mode for path, mode in found.items() if path.is_file()} == {0o600}
        assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert answering.trained == [0o700] * 4  # two clients, two rounds
    assert answering.deployed == [(0o700, [])], "closed before anything was in it"
    assert modes(place / "rounds")[place / "rounds/001/global/adapter_config.json"] == 0o644
    open_federation(place)


def test_without_anything_private_or_deployed_there_is_no_folder_for_it(run, monkeypatch):
    monkeypatch.setattr(Everything, "deploy", lambda self, finished: Result())
    place, _ = run()
    lines = (place / "data/c0.jsonl").read_text().splitlines()
    assert any(json.loads(line)["text"] != json.loads(line)["text"].upper() for line in lines)
    assert not (place / "private").exists()
    assert not (place / "defense").exists()


def test_an_unfinished_deployment_is_begun_afresh(run, answering, monkeypatch, tmp_path):
    wanted = answering.result
    deploy = Everything.deploy

    def dies(self, finished):
        deploy(self, finished)
        (finished.folder / "c0" / "stale").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(Everything, "deploy", dies)
    with pytest.raises(KeyboardInterrupt):
        run("run", answers=True)
    stopped = open_federation(tmp_path / "run").manifest
    assert (stopped.status, len(stopped.rounds), stopped.deployment) == ("running", 3, None)
    monkeypatch.setattr(Everything, "deploy", deploy)
    stale = tmp_path / "run/defense/c0/stale/adapter_model.safetensors"
    stale.write_text("of somebody else")
    with pytest.raises(
        InputError, match=r"stale/adapter_model\.safetensors is not an adapter of this"
    ):
        run("run", answers=True)
    assert stale.read_text() == "of somebody else"  # only what the tool wrote is removed
    stale.unlink()
    place, result = run("run", answers=True)
    assert (place / "defense/c0/stale").exists()
    assert result.manifest.files == wanted.manifest.files
    assert result.measurements == wanted.measurements


def test_perplexity_under_a_key_is_that_of_the_adapter_it_opens(answering):
    rows = {
        (r.scope.get("key", r.scope.get("adapter")), r.scope["client"], r.scope["data"]): r.value
        for r in answering.result.measurements
        if r.metric == "perplexity" and "client" in r.scope
    }
    for client in ("c0", "c1", "all"):
        for data in ("own", "held-out"):
            assert rows["right", client, data] == pytest.approx(rows["own alone", client, data])
            assert rows["none", client, data] == pytest.approx(rows["shared alone", client, data])
    assert rows["right", "c0", "own"] < rows["none", "c0", "own"], "raw text is not upper case"
