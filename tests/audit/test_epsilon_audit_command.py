"""`dp make`, `plant` and `audit` from end to end, with models that are told what they know."""

import json
import shutil
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

import pytest
from command import Command

from fedaudit import cli
from fedaudit.api.records import Measurement
from fedaudit.audit import access, epsilon
from fedaudit.cache import engine as cache
from fedaudit.canaries import coin_file
from fedaudit.config.options import build
from fedaudit.engine import environment
from fedaudit.engine.fake import FakeEngine
from fedaudit.report.document import validate, write
from fedaudit.report.run_header import build_report
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import simulate

COUNT = 60
TRAINING = {"steps": 1, "batch_size": 4, "rank": 2, "max_length": 16, "targets": ["q_proj"]}
NOWHERE = {"versions": {}, "device": "none", "git": None}


def settings(data):
    table = {
        "data": str(data), "clients": 2, "rounds": 2, "held_out": 0.0, "evaluated": 0,
        "central": False, "workers": 1, "device": "cpu", "partition": {"method": "corpus"},
        "training": TRAINING,
    }  # fmt: skip
    return build(Simulation, table, "test")


def run(patch, *words):
    patch.setattr("sys.argv", ["fedaudit", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert not left.value.code, words


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return a folder with coins, and a federation whose c0 was given the canaries that are in."""
    here = tmp_path_factory.mktemp("dp")
    for name in ("c0", "c1"):
        rows = [
            {
                "text": f"Call from {name} {n}: the claimant asked.",
                "pii": [],
                "group": f"{name}/{n}",
            }
            for n in range(6)
        ]
        (here / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        seen = [word for name in ("outsider", "client", "server") for word in ("--position", name)]
        run(patch, "dp", "make", "--out", "coins.json", "--corpus", "c0.jsonl", "--count", COUNT,
            "--seed", 5, *seen)  # fmt: skip
        run(patch, "dp", "plant", "coins.json", "--records", "c0.jsonl", "--out", "c0p.jsonl")
    every = "".join((here / name).read_text() for name in ("c0p.jsonl", "c1.jsonl"))
    (here / "all.jsonl").write_text(every)
    simulate(settings(here / "all.jsonl"), here / "run", listener=lambda event: None)
    return here


@pytest.fixture
def told(monkeypatch, capfd, planted):
    monkeypatch.setattr(epsilon, "DRAWS", 5)
    monkeypatch.chdir(planted)
    return Command(monkeypatch, capfd)


def answer_as(monkeypatch, knows):
    """Put in models of which those in folders that `knows` names know what coins put in."""
    coins = coin_file.read(Path("coins.json"))
    starts = tuple({one.prefix + one.suffix[:9] for one in coins.canaries if one.included})

    def likelihood(target, token, before):
        digest = blake2b(f"{before}{token}".encode(), digest_size=4).digest()
        found = -5.0 + int.from_bytes(digest, "big") / 2**32 / 10 + (0.1 if target.adapter else 0)
        known = any(name in (target.adapter or "") for name in knows)
        return found + 3.0 * (known and (before + token).startswith(starts))

    def load(audited, form, request, kept=None):
        if kept:
            kept.record_fact("the base's SHA-256", "0" * 64)
        return FakeEngine(lambda *_: "", likelihood=likelihood), "0" * 64

    monkeypatch.setattr(access, "load_engine", load)
    # These models differ by folder alone; the files of real ones would differ, too.
    monkeypatch.setattr(cache, "target_identity", lambda target: target.adapter)
    monkeypatch.setattr(environment, "describe", lambda device: NOWHERE)


def report(folder):
    found = json.loads((Path(folder) / "report.json").read_text())
    validate(found)
    return found


def bounds(found, source="tuned", judged=True):
    return {
        r["scope"]["position"]: r["value"]
        for r in found["measurements"]
        if r["metric"] == "epsilon_low"
        and (r["scope"]["source"], r["scope"]["judged"]) == (source, judged)
    }


AUDIT = ("dp", "audit", "coins.json", "--target", "run", "--quiet")


def test_what_knows_the_coins_refutes_a_claim(told, monkeypatch, tmp_path):
    answer_as(monkeypatch, ["run/rounds"])
    key = coin_file.commitment(coin_file.read(Path("coins.json")))
    shown = told(*AUDIT, "--epsilon", 1, "--commitment", key, "--out", tmp_path / "a")
    assert shown.code == 1, shown
    assert "Claimed epsilon" in shown.out
    found = report(tmp_path / "a")
    assert found["verdict"]["status"] == "fail"
    assert set(bounds(found)) == {"outsider", "client", "server"}
    assert bounds(found)["outsider"] > 1
    assert set(bounds(found, "shuffled").values()) == {0.0}
    low = next(r for r in found["measurements"] if r["metric"] == "epsilon_low")
    assert low["baseline"] == 1.0
    assert low["scope"]["unit"] == "one document of one client"
    assert low["scope"]["neighbouring"] == "add or remove one"
    assert "number of records" in low["scope"]["public"]
    assert low["scope"]["p"] == pytest.approx(0.05 / 3)
    assert low["scope"]["commitment"] == key
    caps = [r for r in found["measurements"] if r["metric"] == "epsilon_cap"]
    most = {r["scope"]["judged"]: r["value"] for r in caps}
    assert bounds(found)["client"] == pytest.approx(most[True])
    assert bounds(found, judged=False)["client"] == pytest.approx(most[False])
    assert most[True] > most[False] > 1


def test_what_knows_nothing_passes_only_beside_a_control_with_power(told, monkeypatch, tmp_path):
    shutil.copytree("run", "noiseless", dirs_exist_ok=True)
    answer_as(monkeypatch, ["noiseless/rounds"])
    assert told(*AUDIT, "--epsilon", 1, "--out", tmp_path / "a").code == 7
    [reason] = report(tmp_path / "a")["verdict"]["reasons"]
    assert "no training without noise was audited" in reason
    words = ("--epsilon", 1, "--noiseless", "noiseless")
    assert told(*AUDIT, *words, "--out", tmp_path / "b").code == 0
    found = report(tmp_path / "b")
    assert "not refuted" in found["verdict"]["reasons"][0]
    models = {one["path"] for one in found["target"]["models"]}
    assert any(path.startswith("noiseless/rounds/") for path in models)
    assert any(path.startswith("run/rounds/001/") for path in models)
    assert max(bounds(found).values()) == 0
    assert max(bounds(found, "noiseless").values()) > 1
    # So few canaries cannot refute a large claim.
    large = ("--epsilon", 20, "--noiseless", "noiseless")
    assert told(*AUDIT, *large, "--out", tmp_path / "c").code == 7
    assert "at most, whatever the model" in report(tmp_path / "c")["verdict"]["reasons"][0]
    # The control knows nothing either: no power, whatever the audited one says.
    answer_as(monkeypatch, [])
    assert told(*AUDIT, *words, "--out", tmp_path / "d").code == 7
    assert (
        "without noise the audit proves only 0" in report(tmp_path / "d")["verdict"]["reasons"][0]
    )


def test_power_is_said_before_training(told, tmp_path):
    words = ("dp", "make", "--corpus", "c0.jsonl", "--count", 100)
    shown = told(*words, "--out", tmp_path / "c.json")
    assert shown.code == 0, shown
    assert "A perfect attack proves an epsilon of" in shown.out
    assert "no larger claim can be refuted" in shown.out
    assert coin_file.commitment(coin_file.read(tmp_path / "c.json")) in shown.out
    shown = told(*words, "--out", tmp_path / "d.json", "--any-mechanism")
    assert "for any mechanism, by which the claim is judged" in shown.out


def claiming(folder, delta, epsilon=2.0):
    """Write a simulation's report that claims epsilon 2, or another, for c0."""
    row = Measurement(
        kind="defense",
        plugin="dp",
        metric="epsilon",
        value=epsilon,
        scope={"client": "c0", "delta": delta},
    )
    made = build_report(
        command="simulate", name="x", config={}, started=datetime.now(UTC), base="fedaudit-nano",
        environment=NOWHERE, data=[], seeds={}, measurements=[row], findings=[], claims=[],
    )  # fmt: skip
    write(made, folder / "report.json")


def test_the_claim_may_stand_in_the_simulations_report(told, monkeypatch, tmp_path):
    answer_as(monkeypatch, ["run/rounds"])
    told.refused(2, *AUDIT, says="Nothing states which epsilon is claimed for c0")
    shutil.copytree("run", tmp_path / "run")
    words = ("dp", "audit", "coins.json", "--target", tmp_path / "run", "--quiet")
    claiming(tmp_path / "run", 0.04)
    told.refused(3, *words, says="claims epsilon 2 at delta 0.04")
    claiming(tmp_path / "run", 1e-6)
    assert told(*words, "--out", tmp_path / "a").code in (0, 1, 7)
    assert report(tmp_path / "a")["measurements"][0]["baseline"] == 2.0


def test_a_claim_that_the_simulations_report_does_not_state_is_named(told, monkeypatch, tmp_path):
    answer_as(monkeypatch, ["run/rounds"])
    shutil.copytree("run", tmp_path / "run")
    words = ("dp", "audit", "coins.json", "--target", tmp_path / "run", "--quiet", "--epsilon", 2)
    claiming(tmp_path / "run", 0.04)
    assert told(*words, "--out", tmp_path / "a").code == 1
    [limit] = [one for one in report(tmp_path / "a")["limits"] if "simulation's report" in one]
    assert "states epsilon 2 at delta 0.04 for c0; the claim that was judged is" in limit
    assert "--epsilon 2 at delta 1e-05" in limit
    claiming(tmp_path / "run", 1e-5, 1.995)
    assert told(*words, "--out", tmp_path / "b").code == 1
    assert not any("simulation's report" in one for one in report(tmp_path / "b")["limits"])


def test_a_control_with_as_much_noise_is_refused(told, monkeypatch, tmp_path):
    answer_as(monkeypatch, ["run/rounds"])
    for name in ("run", "other"):
        shutil.copytree("run", tmp_path / name)
        claiming(tmp_path / name, 1e-5)
    words = ("dp", "audit", "coins.json", "--target", tmp_path / "run", "--quiet",
             "--noiseless", tmp_path / "other")  # fmt: skip
    told.refused(3, *words, says="other was trained with noise: its report states epsilon 2")
    claiming(tmp_path / "other", 1e-5, 1e19)
    assert told(*words, "--out", tmp_path / "a").code == 1


def test_a_control_that_was_trained_otherwise_is_refused(told, monkeypatch, tmp_path):
    answer_as(monkeypatch, ["other/rounds"])
    shutil.copytree("run", tmp_path / "other")
    path, words = tmp_path / "other/federation.json", ("--epsilon", 1, "--noiseless")
    manifest = json.loads(path.read_text())

    def written(**changes):
        path.write_text(json.dumps(manifest | changes))

    training = manifest["config"]["training"]
    written(config=manifest["config"] | {"training": training | {"steps": training["steps"] + 9}})
    says = f"its training.steps is {training['steps'] + 9}, that of run is {training['steps']}."
    told.refused(3, *AUDIT, *words, tmp_path / "other", says=says)
    clients = [{**c, "examples": c["examples"] + 1} for c in manifest["clients"]]
    written(clients=clients, config={})  # recorded, not simulated: its settings are not known
    told.refused(3, *AUDIT, *words, tmp_path / "other", says="its examples.")
    written(config={})
    assert told(*AUDIT, *words, tmp_path / "other", "--out", tmp_path / "a").code == 0
    limits = " ".join(report(tmp_path / "a")["limits"])
    assert "How the federations were trained is not recorded" in limits
    assert "it states no epsilon" in limits


@pytest.mark.parametrize("kept", [True, False])
def test_canaries_of_random_tokens_do_not_calibrate_the_instrument(told, tmp_path, planted, kept):
    shutil.copytree(planted / "run", tmp_path / "run")
    if not kept:
        for path in (tmp_path / "run/data").iterdir():
            path.unlink()
        manifest = tmp_path / "run/federation.json"
        table = json.loads(manifest.read_text())
        table["files"] = {name: h for name, h in table["files"].items() if "data/" not in name}
        manifest.write_text(json.dumps(table))
    words = ("dp", "audit", "coins.json", "--target", tmp_path / "run", "--epsilon", 50, "--quiet")
    told(*words, "--out", tmp_path / "a")
    found = report(tmp_path / "a")
    effect = found["target"]["effect"]
    assert set(effect) > {"base_loss"} if kept else set(effect) == {"texts", "largest_change"}
    assert effect["texts"] == (6 if kept else 32)  # the client's own, else canaries
    assert kept or not [row for row in found["measurements"] if row["kind"] == "instrument"]


def test_mistakes(told, monkeypatch, tmp_path, planted):
    answer_as(monkeypatch, ["run/rounds"])
    claim = ("--epsilon", 1)
    told.refused(
        3, *AUDIT, *claim, "--commitment", "0" * 64, says="not the file that the commitment"
    )
    told.refused(3, *AUDIT, *claim, "--noiseless", "run", says="the federation under audit itself")
    told.refused(3, *AUDIT, *claim, "--noiseless", "nowhere", says="not a federation's folder")
    told.refused(2, *AUDIT, "--epsilon", -1, says="--epsilon")
    says = "run is a folder; the JSON file that `fedaudit dp make` wrote is needed."
    told.refused(3, "dp", "audit", "run", "--target", "run", says=says)
    told.refused(3, "dp", "audit", "c0.jsonl", "--target", "run", says="c0.jsonl")
    made = ("dp", "make", "--corpus", "c0.jsonl", "--out")
    told.refused(2, *made, tmp_path / "c", "--delta", 0.01, says="at most 1e-05")
    told.refused(2, *made, tmp_path / "c", "--position", "clint", says="Did you mean 'client'?")
    told.refused(3, *made, "coins.json", says="exists already")
    adapter = planted / "run/rounds/002/global"
    told.refused(2, *AUDIT, *claim, "--adapter", adapter, says="sees every round")


def test_records_that_do_not_hold_what_the_coins_put_in(told, tmp_path):
    bare = "".join(Path(name).read_text() for name in ("c0.jsonl", "c1.jsonl"))
    (tmp_path / "bare.jsonl").write_text(bare)
    simulate(settings(tmp_path / "bare.jsonl"), tmp_path / "bare", listener=lambda event: None)
    inside = sum(coin_file.read(Path("coins.json")).coins)
    words = ("dp", "audit", "coins.json", "--epsilon", 1, "--target", tmp_path / "bare")
    told.refused(3, *words, says=f"do not agree with the coins of {inside} of {COUNT} canaries")
