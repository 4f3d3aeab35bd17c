"""What a defence goes on to after a client's training, with no word of it in the loop."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from fedaudit.api.defense import Defense
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Result
from fedaudit.api.records import GenerationRequest, Measurement, Target
from fedaudit.config import registry
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.runner import prepare, simulate

SETTINGS = {
    "clients": 2,
    "rounds": 2,
    "held_out": 0,
    "central": False,
    "workers": 1,
    "device": "cpu",
    "records": {"cases": 4, "documents_per_case": 2, "languages": ["en"], "tasks": ["summary"]},
    "partition": {"method": "iid"},
    "training": {
        "steps": 1,
        "rank": 2,
        "alpha": 4,
        "learning_rate": 1e-2,
        "decay": "none",
        "max_length": 32,
        "targets": ["q_proj"],
    },
}


@dataclass(frozen=True)
class Upper(Defense):
    """Trains on upper case beside, on nothing in a third adapter, and sends the sum of all."""

    name: ClassVar[str] = "upper"

    @property
    def auxiliary_adapters(self):
        return ("upper", "none")

    def check(self, template):
        if template.name == "chat":
            raise UsageError("No chats, please.")

    def auxiliary_data(self, turn):
        assert turn.template.name == "fed_pii"
        base, start, trained = (
            Target(name=name, adapter=folder and str(folder))
            for name, folder in (("base", None), ("start", turn.start), ("own", turn.trained))
        )
        [tokens] = turn.engine.tokenize([turn.documents[0].text])
        scores = [turn.engine.score(one, [tokens.ids])[0] for one in (base, start, trained)]
        assert (scores[0] == scores[1]) == (turn.round == 1), "the first one changes nothing"
        assert scores[2] != scores[1]
        turn.engine.generate(
            start,
            GenerationBatch(
                [GenerationRequest(prompt=tokens.ids[:4], samples=1, max_new_tokens=2)],
                seed=turn.seed,
            ),
        )
        turn.folder.mkdir(parents=True, exist_ok=True)
        (turn.folder / "note.txt").write_text(f"{turn.round} {turn.seed}")
        return {"upper": [replace(d, text=d.text.upper(), pii=()) for d in turn.documents]}

    def upload(self, start, trained, private: Mapping):
        return {n: t + private["upper"][n] + private["none"][n] for n, t in trained.items()}

    def deploy(self, finished):
        notes = [
            (folder / "note.txt").read_text()
            for party in finished.parties.values()
            for folder in party.turns.values()
        ]
        return Result(limits=tuple(notes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder and the result of a federation under Upper."""
    with pytest.MonkeyPatch.context() as patched:
        known(patched)
        folder = tmp_path_factory.mktemp("turns") / "run"
        yield folder, simulate(config(), folder, listener=lambda event: None)


def known(patched):
    """Let the registry know Upper."""
    create = registry.create

    def created(kind, name, options=None):
        return Upper() if name == "upper" else create(kind, name, options)

    patched.setattr(registry, "create", created)


def config(**changed):
    return build(Simulation, {**SETTINGS, "defenses": ["upper"], **changed}, "test")


def test_what_is_sent_is_made_of_all_adapters_of_the_round(finished):
    place, _ = finished
    for number in ("001", "002"):
        start = adapters.read(place / f"rounds/{int(number) - 1:03d}/global")
        own, upper, none = (
            adapters.read(place / f"private/c0/{name}/{number}")
            for name in ("own", "upper", "none")
        )
        sent = adapters.read(place / f"rounds/{number}/clients/c0")
        assert all(torch.equal(none[name], start[name]) for name in start)
        assert any(not torch.equal(own[name], upper[name]) for name in start)
        for name, tensor in sent.items():
            torch.testing.assert_close(tensor, own[name] + upper[name] + none[name])


def test_turns_are_kept_and_handed_to_the_deployment(finished):
    place, result = finished
    lines = (place / "private/c1/turn/002/upper.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert all(json.loads(line)["text"].isupper() for line in lines)
    assert (place / "private/c1/turn/002/none.jsonl").read_text() == ""
    limits = map(str.split, result.limits)
    notes = [words for words in limits if len(words) == 2 and words[0].isdigit()]
    assert sorted(number for number, _ in notes) == ["1", "1", "2", "2"]
    assert len({seed for _, seed in notes}) == 4
    assert "private/c1/turn/002/note.txt" in result.manifest.files


def test_further_trainings_cost_what_they_cost(finished):
    _, result = finished
    flops = {row.scope["stage"]: row.value for row in result.measurements if row.metric == "flops"}
    assert flops.keys() == {"federated", "private"}
    # Both are cut to as many tokens, and trained as many steps; "none" costs nothing.
    assert flops["private"] == flops["federated"] > 0
    [row] = [
        row
        for row in result.measurements
        if row.metric == "parameters" and row.scope.get("stage") == "private"
    ]
    assert isinstance(row, Measurement)
    assert (row.scope["adapters"], row.scope["clients"]) == (2, 2)


def test_a_template_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    known(monkeypatch)
    with pytest.raises(UsageError, match=r"No chats, please\."):
        prepare(config(template="chat"), tmp_path)


@pytest.mark.parametrize("rule", ["flora", "scaffold"])
def test_a_rule_with_a_training_of_its_own_is_refused(tmp_path, monkeypatch, rule):
    known(monkeypatch)
    with pytest.raises(UsageError, match=f"The (rule of )?aggregation {rule} |Under {rule}"):
        prepare(config(aggregation=rule), tmp_path)


def test_two_defences_that_go_on_are_refused(tmp_path, monkeypatch):
    known(monkeypatch)
    with pytest.raises(UsageError, match="upper and fed_mit both go on after training"):
        prepare(config(template="alpaca", defenses=["upper", "fed_mit"]), tmp_path)
