"""reproduce: a small study from a profile of one's own."""

import json
from pathlib import Path

import pytest
from example_report import example

from fedaudit.report.document import dumps

pytestmark = pytest.mark.usefixtures("few_controls")

PROFILE = """
name = "small"
title = "A small study"
paper = "none"
[scale.nano]
clients = 2
rounds = 1
central = true
workers = 1
records = { cases = 3, documents_per_case = 4, tasks = ["record"] }
training = { steps = 2, learning_rate = 5e-3 }
[[study]]
name = "fedavg"
attacks = ["contextual"]
options = { contextual = { samples = 2, new_tokens = 3 } }
quick = true
[[study]]
name = "again"
attacks = ["contextual"]
options = { contextual = { samples = 2, new_tokens = 3 } }
attacker = "c1"
victim = "c0"
[[study]]
name = "pairs"
attacks = ["contextual"]
options = { contextual = { samples = 2, new_tokens = 3 } }
matrix = true
[[study]]
name = "central"
attacks = ["verbatim"]
model = "central"
[[study]]
name = "fedprox"
simulate = { aggregation = "fedprox" }
attacks = ["contextual"]
options = { contextual = { samples = 2, new_tokens = 3 } }
[[study]]
name = "masked"
simulate = { defenses = [{ name = "scrub", style = "asterisks" }] }
attacks = ["contextual"]
options = { contextual = { samples = 2, new_tokens = 3 } }
[[claims]]
id = "sure"
source = "nowhere"
statement = "FedAvg loses something."
left = { variant = "fedavg", metric = "loss", scope = { source = "tuned" } }
compare = ">"
right = 0.0
[[claims]]
id = "prox"
source = "nowhere"
statement = "FedProx loses more than everything."
left = { variant = "fedprox", metric = "loss", scope = { source = "tuned" } }
compare = ">"
right = 1e6
[[figures]]
source = "table 1"
what = "coverage"
metric = "coverage"
value = 0.25
variant = "fedavg"
scope = { source = "tuned", set = "all" }
"""


@pytest.fixture
def run(run, here):
    """Return what runs fedaudit beside the profile; a model that is attacked costs nothing."""
    Path("small.toml").write_text(PROFILE)
    return run


def claims(path):
    return {c["id"]: c["holds"] for c in json.loads(Path(path).read_text())["claims"]}


def test_quick_runs_what_it_must_and_the_rest_joins_later(run):
    words = ("reproduce", "small.toml", "--jobs", 1, "--quiet", "--json")
    quick = run(*words, "quick.json", "--quick")
    assert quick.code == 0, quick.err
    assert claims("quick.json") == {"sure": True, "prox": None}
    assert "Published and ours" in quick.out
    federations = list(Path("runs/reproduce/small/federations").iterdir())
    assert len(federations) == 1
    trained = (federations[0] / "federation.json").stat().st_mtime_ns

    assert run(*words, "whole.json").code == 1, "a claim that does not hold"
    assert claims("whole.json") == {"sure": True, "prox": False}
    # "again", "pairs" and "central" attack the federation of "fedavg", which is not trained anew.
    assert len(list(Path("runs/reproduce/small/federations").iterdir())) == 3
    assert (federations[0] / "federation.json").stat().st_mtime_ns == trained
    report = json.loads(Path("whole.json").read_text())
    rows = report["measurements"]
    names = {"fedavg", "again", "pairs", "central", "fedprox", "masked"}
    assert {r["scope"]["variant"] for r in rows} == names
    assert report["run"]["config"]["figures"][0]["paper"] == 0.25

    def of(variant, metric):
        return [r for r in rows if r["scope"].get("variant") == variant and r["metric"] == metric]

    pairs = {(r["scope"]["attacker"], r["scope"]["victim"]) for r in of("pairs", "coverage")}
    assert pairs == {("c0", "c1"), ("c1", "c0")}
    assert {r["scope"]["source"] for r in of("central", "edit_distance")} >= {"tuned", "base"}
    assert len(of("masked", "document_frequency")) == len(of("masked", "unseen")) == 1
    assert not of("pairs", "document_frequency")


def test_a_profile_without_a_study_is_refused(run):
    Path("bare.toml").write_text('name = "bare"\n[scale.nano]\nclients = 2\n')
    run.refused(2, "reproduce", "bare.toml", says="no study")
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("federation.json", "{}", "out is a federation's folder"),
        ("report.json", "audit", "out holds another run's report"),
        ("report.json", "[]", "Not a valid report"),
    ],
)
def test_a_folder_of_something_else_is_refused_before_training(name, content, says, run):
    Path("out").mkdir()
    text = dumps(example().to_json()) if content == "audit" else content
    (Path("out") / name).write_text(text)
    run.refused(3, "reproduce", "small.toml", "--out", "out", says=says)
    assert [path.name for path in Path("out").iterdir()] == [name]
    assert (Path("out") / name).read_text() == text
