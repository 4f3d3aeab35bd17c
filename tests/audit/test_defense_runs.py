"""Federations that are trained again under defences: really, tiny, and from where one stopped."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fedaudit.api.errors import InputError, Interrupted, UsageError
from fedaudit.api.records import Measurement
from fedaudit.audit.defenses import study, training
from fedaudit.audit.defenses.plan import client_files, defense_candidates, retraining_settings
from fedaudit.audit.defenses.training import (
    DefenseWatch,
    deployed_loss,
    leak_requests,
    leak_row,
    worst_pair,
)
from fedaudit.audit.prepare import prepare
from fedaudit.federation import manifest
from fedaudit.report.document import validate
from fedaudit.report.redaction import Redactor
from fedaudit.simulation import runner
from fedaudit.simulation.config import Simulation

FEW = {
    "contextual": {"samples": 2, "new_tokens": 4, "sweeps": False},
    "verbatim": {"documents": 2},
    "ranking": {"sentences": 2, "candidates": [3]},
}
SET = ("--set", "contextual.samples=2", "--set", "contextual.new_tokens=4",
       "--set", "contextual.sweeps=false",
       "--set", "verbatim.documents=2", "--set", "ranking.sentences=2",
       "--set", "ranking.candidates=[3]")  # fmt: skip
KEY = Redactor(b"0" * 32)


@pytest.fixture(scope="module")
def prepared(federation):
    chosen = {"options": FEW, "quick": True, "device": "cpu"}
    return prepare(federation.path, defenses=["scrub"], defense_seeds=1, **chosen)


@pytest.fixture(scope="module")
def finished(prepared, tmp_path_factory):
    """Return a folder in which everything is trained, its section, and what was said meanwhile."""
    folder, said = tmp_path_factory.mktemp("defenses"), []
    found = study.run_defenses(prepared.defenses, [], folder, KEY, DefenseWatch(note=said.append))
    return folder, found, said


def test_the_section_is_of_federations_that_were_trained(prepared, finished):
    folder, found, said = finished
    assert said == ["Training 1 of 2: none, seed 1", "Training 2 of 2: scrub, seed 1"]
    assert (found["seeds"], found["attacker"], found["victim"]) == ([1], "c0", "c1")
    none, scrub = found["tried"]
    assert (none["defense"], scrub["defense"], none["reason"], scrub["reason"]) == (
        "none", "scrub", "", ""
    )  # fmt: skip
    assert [leak["attack"] for leak in scrub["leaks"]] == ["contextual", "verbatim"]
    for one, other in zip(none["leaks"], scrub["leaks"], strict=True):
        assert one["n"] == other["n"] > 0  # the same targets
        assert one["difference"] is None
        gap = other["difference"]
        assert gap["value"] == pytest.approx(other["mean"]["value"] - one["mean"]["value"])
        assert gap["low"] <= gap["value"] <= gap["high"]
    rise = scrub["loss"]["mean"]["value"] - none["loss"]["mean"]["value"]
    assert scrub["loss"]["difference"]["value"] == pytest.approx(rise)
    assert rise != 0  # what is learnt under scrub is another text
    assert min(none["seconds"], scrub["seconds"], none["tokens"], none["bytes"]) > 0
    # Two clients, two rounds, each way.
    adapter = next((folder / "defenses").glob("none-*/rounds/002/clients/c0"))
    size = sum(t.numel() * t.element_size() for t in _tensors(adapter))
    assert none["bytes"] == 2 * 2 * 2 * size
    assert found["recommendations"]


def _tensors(folder):
    from fedaudit.federation import adapters

    return adapters.read(folder).values()


def test_it_is_trained_on_the_same_records_with_another_seed(federation, prepared, finished):
    [place] = (finished[0] / "defenses").glob("scrub-*/federation.json")
    made, was = manifest.read(place.parent), manifest.read(federation.path)
    assert (made.seeds, was.seeds) == ({"simulation": 1}, {"simulation": 0})
    for client in was.clients:
        lines = [sorted(p.read_text().splitlines()) for p in
                 (federation.path / client.data, place.parent / client.data)]  # fmt: skip
        assert lines[0] == lines[1]
    assert made.config["defenses"] == [{"name": "scrub"}]
    assert not made.config["central"]


def test_without_a_seed_nothing_is_planned(federation):
    with pytest.raises(UsageError, match="defense_seeds is 0"):
        prepare(federation.path, defenses=["scrub"], defense_seeds=0, device="cpu")


def test_the_client_that_lost_most_is_attacked(federation):
    plan = prepare(federation.path, defenses=["scrub"], options=FEW, device="cpu").defenses
    assert [(pair.attacker, pair.victim) for pair in plan.pairs] == [("c0", "c1"), ("c1", "c0")]

    def row(victim, value, attack="contextual", **scope):
        return Measurement(
            kind="extraction", plugin=attack, metric="coverage", value=value, low=value, high=value,
            scope={"victim": victim, "source": "tuned-not-base", **scope},
        )  # fmt: skip

    def attacked(*rows):
        return worst_pair(plan.pairs, rows).victim

    assert attacked() == attacked(row("c1", 0.2), row("c0", 0.2)) == "c1"
    assert attacked(row("c1", 0.2), row("c0", 0.3)) == "c0"
    # Parts of a victim's targets and what the base says as well are not its loss.
    assert attacked(row("c1", 0.2), row("c0", 0.3, label="PERSON")) == "c1"
    # Without the first attack the second one counts.
    assert attacked(row("c1", 0.2, "verbatim"), row("c0", 0.3, "verbatim")) == "c0"
    # Rows of an audit with one victim name no victim.
    quick = prepare(federation.path, defenses=["scrub"], options=FEW, device="cpu", quick=True)
    assert [pair.victim for pair in quick.defenses.pairs] == ["c1"]


def test_what_is_kept_is_not_trained_again(prepared, finished, monkeypatch):
    folder, found, _ = finished

    def refuse(*args, **kwargs):
        raise AssertionError("it is trained again")

    monkeypatch.setattr(runner, "simulate", refuse)
    again = study.run_defenses(prepared.defenses, [], folder, KEY, DefenseWatch())
    assert again == found


def test_what_was_stopped_goes_on(prepared, finished, monkeypatch, tmp_path):
    """Stopped in the second training: the first is kept, and the end is as if nobody stopped it."""
    trained, real = [], training.run_defense
    shutil.copytree(finished[0] / "defenses", tmp_path / "defenses",
                    ignore=shutil.ignore_patterns("scrub-*"))  # fmt: skip

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run_defense", stop)
    with pytest.raises(Interrupted, match=r"training 2 of 2; 1 are kept in .*--resume"):
        study.run_defenses(prepared.defenses, [], tmp_path, KEY, DefenseWatch())

    def go_on(config, folder, *rest):
        trained.append(folder.name)
        return real(config, folder, *rest)

    monkeypatch.setattr(study, "run_defense", go_on)
    found = study.run_defenses(prepared.defenses, [], tmp_path, KEY, DefenseWatch())
    assert len(trained) == 1
    assert trained[0].startswith("scrub-")
    whole = json.loads(json.dumps(finished[1]))
    for section in (found, whole):
        for one in section["tried"]:
            del one["seconds"]
    assert found == whole


def test_the_same_seed_begins_with_the_same_adapter_whatever_the_order_of_clients(
    federation, prepared, tmp_path
):
    config = replace(prepared.defenses.config, rounds=1, evaluated=0,
                     training=replace(federation.config.training, steps=1))  # fmt: skip
    mixed = replace(config, client_data=dict(sorted(config.client_data.items(), reverse=True)))
    assert mixed.sha256() == config.sha256()
    assert mixed.client_names == ["c0", "c1"]
    runner.simulate(mixed, tmp_path / "again", listener=training.no_event)
    initial = "rounds/000/global/adapter_model.safetensors"
    made, was = tmp_path / "again", federation.path
    assert (made / initial).read_bytes() == (was / initial).read_bytes()
    assert manifest.read(made).clients == manifest.read(was).clients


def test_a_refusal_is_the_reason_and_ends_nothing(prepared, monkeypatch, tmp_path):
    def refuse(config, place, **watching):
        raise InputError(f"{'scrub' if config.defenses else 'nothing'} is refused")

    monkeypatch.setattr(runner, "simulate", refuse)
    said = []
    two = replace(prepared.defenses, seeds=[1, 2])
    found = study.run_defenses(two, [], tmp_path, KEY, DefenseWatch(note=said.append))
    assert len(said) == 1  # without anything to compare with, nothing else is trained
    assert found["tried"][0]["reason"] == "seed 1: nothing is refused"
    assert found["recommendations"][0].endswith("seed 1: nothing is refused.")
    assert all(one["reason"] and not one["leaks"] for one in found["tried"])


def test_the_command_adds_it_and_leaves_the_verdict(
    federation, finished, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    audit = ("audit", str(federation.path), "--quick", "--device", "cpu", *SET, "--out", "out")
    plain = run(*audit)
    before = json.loads(Path("out/report.json").read_text())
    tried = ("--defense", "scrub", "--defense-seeds", "1")
    shutil.copytree(finished[0] / "defenses", "out/defenses")  # the same, so not trained again
    done = run(*audit, *tried, "--resume")
    report = json.loads(Path("out/report.json").read_text())
    validate(report)
    assert done.code == plain.code
    assert {**report, "defenses": None} == {**before, "defenses": None}
    assert report["defenses"]["tried"][1]["defense"] == "scrub"
    for text in ("What each defence would have bought", "Training 2 of 2: scrub, seed 1"):
        assert text in done.out + done.err
    assert max(map(len, done.out.splitlines())) <= 80
    page = Path("out/report.html").read_text()
    assert "What defences would have bought and cost" in page
    for form in ("markdown", "annex"):
        run("report", "out", "--format", form, "--out", "told")
        told = Path("told").read_text()
        assert "What each defence would have cost" in told
        assert report["defenses"]["recommendations"][0].split(":")[0] in told
        Path("told").unlink()
    assert run("report", "out", "--verify").code == 0


def test_a_dry_run_says_how_many_trainings_and_how_long(federation, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    audit = ("audit", str(federation.path), "--quick", "--device", "cpu", *SET)
    done = run(*audit, "--defense", "scrub", "--defense-seeds", "2", "--dry-run")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "4 trainings of 2 rounds with 2 clients: none, scrub; each with the seeds 1, 2" in text
    assert "is not known: the federation's folder has no report" in text
    assert "c0 attacks c1 each time: contextual, verbatim" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--defense", "scrubb"), "No defense named 'scrubb'. Did you mean 'scrub'?"),
        (("--set", "scrub.style=asterisks"), "Options of defences go with --defenses."),
        (("--defense", "scrub", "--set", "scrub.style=no"), "scrub.style"),
        (("--defense", "scrub", "--set", "dp.epsilon=3"), "dp: that defence is not among"),
        (("--defenses", "--defense-data", "c0"), "--defense-data c0: it takes NAME=FILE"),
        (("--defenses", "--defense-data", "c0=nix"), "nix"),
        (("--defenses", "--defense-profile", "nix"), "No profile named 'nix'"),
    ],
    ids=["unknown", "alone", "value", "not tried", "no file", "missing file", "profile"],
)
def test_a_mistake_is_one_line(federation, run, given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("audit", str(federation.path), "--quick", *given)
    assert done.code not in (0, 1, 7)
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_what_is_missing_is_named(federation, prepared, tmp_path):
    material = prepared.material
    table = material.audited.federation.manifest
    bare = replace(material.audited.federation, manifest=replace(table, config={}))
    foreign = replace(material, audited=replace(material.audited, federation=bare))
    with pytest.raises(UsageError, match=r"not made by fedaudit simulate.*--defense-profile"):
        retraining_settings(foreign, {"a": Path("x")}, detector="names")
    with pytest.raises(UsageError, match=r"keeps no records of c1.*--defense-data"):
        client_files(replace(material, clients=material.clients[:1]))
    with pytest.raises(UsageError, match="keeps no records of any client"):
        client_files(replace(material, clients=()))
    with pytest.raises(UsageError, match="twice"):
        client_files(material, [f"a={federation.path / 'data/c0.jsonl'}"] * 2)
    given = client_files(foreign, [f"site-1={federation.path / 'data/c0.jsonl'}"])
    config = retraining_settings(foreign, given, profile="fed_pii:nano", detector="names")
    assert (config.rounds, config.client_names, config.defenses) == (10, ["site-1"], ())
    # Records are trained on as they are: nobody plants in them, or marks them, again.
    planted = retraining_settings(foreign, given, profile="cross:nano", detector="names")
    assert (planted.canaries.count, planted.watermark.plugin) == (0, "")
    with pytest.raises(UsageError, match="needs the records of an attacker and of a victim"):
        leak_requests(replace(prepared.plan, steps={}))


def test_what_cannot_be_tried_says_why_and_a_deployed_one_has_its_own_loss(prepared):
    config = replace(prepared.defenses.config, aggregation="fedprox")
    found = {one.name: one for one in defense_candidates(config)}
    assert found["secure_gate"].reason
    assert not found["scrub"].reason
    with pytest.raises(UsageError, match="The defence secure_gate cannot be tried here: "):
        defense_candidates(config, ["secure_gate"])
    kept = defense_candidates(config, ["scrub"], trained=[{"name": "scrub", "style": "asterisks"}])
    assert kept[0].options == {"style": "asterisks"}

    def perplexity(value, key, **scope):
        scope = {"source": "tuned", "client": "all", "data": "held-out", "key": key, **scope}
        return Measurement(kind="utility", plugin="utility", metric="perplexity", value=value,
                           low=value, high=value, scope=scope)  # fmt: skip

    rows = [perplexity(1.0, "right", adapter="a"), perplexity(2.718281828, "right", adapter="b"),
            perplexity(9.0, "none"), perplexity(9.0, "right", client="c0")]  # fmt: skip
    assert deployed_loss(rows).value == pytest.approx(0.5)
    assert deployed_loss([]) is None


def test_the_leak_is_the_judged_row_under_the_worst_wrong_key():
    def row(value, **scope):
        scope = {"source": "tuned-not-base", "set": "exclusive", **scope}
        return Measurement(kind="extraction", plugin="contextual", metric="coverage", value=value,
                           low=0.0, high=1.0, hits=1, n=2, scope=scope)  # fmt: skip

    rows = [row(0.9, source="tuned"), row(0.8, set="all"), row(0.7, label="PERSON"),
            row(0.6, key="right"), row(0.1, key="none"), row(0.2, key="wrong")]  # fmt: skip
    assert leak_row(rows, "contextual").value == 0.2
    assert leak_row(rows, "verbatim") is None


def test_a_client_has_a_file_of_its_own_or_there_is_an_error(federation, tmp_path):
    data = {"a": str(federation.path / "data/c0.jsonl")}
    with pytest.raises(ValueError, match="client_data names a file for each"):
        Simulation(client_data=data, clients=2)
    assert "client_data" not in Simulation().table()
    shutil.copy(data["a"], tmp_path / "copy.jsonl")
    one = Simulation(client_data=data, clients=1)
    assert one.sha256() == replace(one, client_data={"a": str(tmp_path / "copy.jsonl")}).sha256()
    assert one.sha256() != Simulation(clients=1).sha256()
