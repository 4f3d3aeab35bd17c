"""NVFLARE's filter tests what a site is sent: by itself, and in a job of the simulator."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from flower_run import LORA, initial

from fedaudit.federation import adapters
from fedaudit.report.document import read
from fedaudit.watch.member import LimitPassed
from fedaudit.watch.rounds import RoundScorer, RoundScores

WORDS = ["court", "bank", "claim", "house", "letter", "judge", "paid", "lost", "year", "side"]
CLIENT = """
import nvflare.client as flare

flare.init()
while flare.is_running():
    model = flare.receive()
    model.params = {name: weights + 0.01 for name, weights in model.params.items()}
    flare.send(model)
"""
JOB = """
import json, sys
from nvflare import FilterType
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner
from fedaudit.nvflare import WatchFilter

options, model = json.loads(sys.stdin.read())
job = FedJob(name="watched", min_clients=2)
job.set_app_packages(["fedaudit"])
job.to_server(FedAvg(num_clients=2, num_rounds=2, model=model))
for site in ("site-1", "site-2"):
    job.to(ScriptRunner(script="client.py"), site)
job.to(WatchFilter(**options), "site-1", filter_type=FilterType.TASK_DATA, tasks=["train"])
job.simulator_run("workspace")
"""


@pytest.fixture
def options(tmp_path):
    pytest.importorskip("nvflare")
    rng = random.Random(2)
    for name in ("site-1", "site-1-aside"):
        texts = (" ".join(rng.choices(WORDS, k=12)) for _ in range(30))
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    adapters.write({}, LORA, tmp_path / "lora")
    return {
        "ours": str(tmp_path / "{client}.jsonl"),
        "held_out": str(tmp_path / "{client}-aside.jsonl"),
        "out": str(tmp_path / "watch/{client}"),
        "lora": str(tmp_path / "lora"),
    }


def numbers_in(tmp_path):
    report = read(tmp_path / "watch/site-1/report.json")
    return {row["scope"]["test"] for row in report["measurements"]}


def task(seed):
    from nvflare.apis.dxo import DXO, DataKind

    # llm_hf names a model's parameters so, and sends them in the model's own type.
    tensors = {f"model.{name}": tensor.bfloat16() for name, tensor in initial(seed).items()}
    return DXO(DataKind.WEIGHTS, data=tensors).to_shareable()


def context(name):
    from nvflare.apis.fl_constant import FLContextKey, ReservedKey
    from nvflare.apis.fl_context import FLContext

    made = FLContext()
    made.set_prop(FLContextKey.TASK_NAME, name)
    made.set_prop(ReservedKey.IDENTITY_NAME, "site-1")
    return made


def test_each_model_is_tested_and_goes_on_as_it_came(options, tmp_path):
    from nvflare.apis.dxo import from_shareable

    from fedaudit.nvflare import WatchFilter

    watched = WatchFilter(**options)
    for seed, name in enumerate(("train", "validate", "train")):
        went_on = from_shareable(watched.process(task(seed), context(name))).data
        sent = from_shareable(task(seed)).data
        assert went_on.keys() == sent.keys()
        assert all(went_on[key].equal(sent[key]) for key in sent)
    assert numbers_in(tmp_path) == {1, 2}


def test_a_site_whose_limit_is_passed_trains_no_more(options, monkeypatch):
    from fedaudit.nvflare import WatchFilter

    monkeypatch.setattr(RoundScorer, "score", lambda *_: RoundScores(range(40, 70), range(30)))
    with pytest.raises(LimitPassed, match="after round 1"):
        WatchFilter(**options).process(task(1), context("train"))


@pytest.mark.oracle
def test_a_job_of_two_rounds_is_watched_by_one_of_two_sites(options, tmp_path):
    (tmp_path / "client.py").write_text(CLIENT)
    model = {name: tensor.tolist() for name, tensor in initial(1).items()}
    made = subprocess.run(
        [sys.executable, "-c", JOB], cwd=tmp_path, text=True, check=False, capture_output=True,
        input=json.dumps([options, model]), timeout=500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    assert numbers_in(tmp_path) == {1, 2}
    assert Path(tmp_path, "workspace/server/simulate_job/FL_global_model.pt").is_file()
