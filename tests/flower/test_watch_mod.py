"""The mod by which a member tests what it is sent, before it trains on it."""

import json
import random
from types import SimpleNamespace

import pytest
from flower_run import LORA, arrays, initial, needs_flower

from fedaudit.api.errors import InputError, UsageError
from fedaudit.flower import watch_mod
from fedaudit.report.document import read
from fedaudit.watch.rounds import RoundScorer, RoundScores

WORDS = ["court", "bank", "claim", "house", "letter", "judge", "paid", "lost", "year", "side"]


@pytest.fixture
def paths(tmp_path):
    rng = random.Random(2)
    for name in ("c3", "c3-aside"):
        texts = (" ".join(rng.choices(WORDS, k=12)) for _ in range(30))
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    return {
        "ours": tmp_path / "{client}.jsonl",
        "held_out": tmp_path / "{client}-aside.jsonl",
        "out": tmp_path / "watch/{client}",
        "lora": LORA,
    }


def asked(mod, *, kind="train", content=None, seed=1, node=None):
    """Return what the mod answers; the app answers "trained"."""
    records = {"arrays": arrays(initial(seed)) if content is None else content}
    message = SimpleNamespace(
        metadata=SimpleNamespace(message_type=kind), content=SimpleNamespace(array_records=records)
    )
    context = SimpleNamespace(node_config={"partition-id": 3} if node is None else node)
    return mod(message, context, lambda *_: "trained")


def numbers_in(tmp_path):
    report = read(tmp_path / "watch/c3/report.json")
    return {row["scope"]["test"] for row in report["measurements"]}


def test_each_model_is_tested_once_before_the_app_trains(paths, tmp_path):
    assert asked(watch_mod(**paths)) == "trained"
    assert numbers_in(tmp_path) == {1}
    # A later round, in another process.
    assert asked(watch_mod(**paths), seed=2) == "trained"
    assert numbers_in(tmp_path) == {1, 2}
    assert asked(watch_mod(**paths), kind="evaluate") == "trained"
    assert numbers_in(tmp_path) == {1, 2}


def test_nodes_share_no_folder(paths):
    with pytest.raises(UsageError, match="This node has no name"):
        asked(watch_mod(**paths), node={})
    with pytest.raises(InputError, match="cannot name a file"):
        asked(watch_mod(**paths), node={"client-name": "../c3"})


def test_what_is_no_adapter_of_the_configuration_is_one_line(paths):
    with pytest.raises(InputError, match="The global adapter holds no arrays"):
        asked(watch_mod(**paths), content={})
    with pytest.raises(UsageError, match="names no base model"):
        watch_mod(**{**paths, "lora": {**LORA, "base_model_name_or_path": ""}})


def test_a_member_whose_limit_is_passed_sends_an_error_and_no_update(paths, monkeypatch):
    needs_flower()
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    scores = RoundScores(range(40, 80), range(40))
    monkeypatch.setattr(RoundScorer, "score", lambda *_: scores)
    content = RecordDict({"arrays": ArrayRecord(initial(1))})
    message = Message(content, dst_node_id=1003, message_type="train")
    message.metadata.__dict__["_message_id"] = "m"
    called = []
    reply = watch_mod(**paths)(
        message,
        SimpleNamespace(node_config={"partition-id": 3}),
        lambda *given: called.append(given),
    )
    assert not called
    assert reply.has_error()
    assert reply.error.reason == "This client's own limit of what may be learnt of it is passed."
