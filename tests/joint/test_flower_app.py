"""A joint audit through Flower: by messages in this process, and by SuperLink and SuperNodes."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from flower_run import LORA, initial, needs_flower

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters
from fedaudit.flower import joint_audit, take_part

ROOT = Path(__file__).parents[2]
MODEL = ("--target", "fedaudit-nano", "--adapter", "lora", "--device", "cpu")
LESS = ("--set", "contextual.samples=2", "--budget", "20")
NAMES = ("a", "b", "c")


class App:
    """A ClientApp as far as `take_part` uses one."""

    def query(self, action):
        def register(function):
            self.action, self.step = action, function
            return function

        return register


class Grid:
    """Nodes in this process, each with its own configuration."""

    def __init__(self, *configurations):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.configurations = dict(enumerate(configurations, 1))
        self.asked = 0

    def get_node_ids(self):
        self.asked += 1
        return [*self.configurations][: self.asked]  # one after the other

    def send_and_receive(self, messages, timeout=None):
        app = App()
        take_part(app)
        replies = []
        for message in messages:
            assert message.metadata.message_type == f"query.{app.action}"
            node = message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = f"m{node}"
            replies.append(
                app.step(message, SimpleNamespace(node_config=self.configurations[node]))
            )
        return replies


@pytest.fixture(autouse=True)
def flower():
    needs_flower()


@pytest.fixture
def committed(files, members):
    group = members(*NAMES)
    group.commit(*MODEL, *LESS, **files)
    return group


def test_all_steps_are_taken_when_the_server_asks(committed, monkeypatch, run):
    monkeypatch.setattr("fedaudit.flower.joint._WAIT", 0.0)
    grid = Grid(*({"joint-folder": name, "joint-counts": True} for name in NAMES))
    combined = joint_audit(grid, "together", members=3)
    assert combined.statuses.keys() == {*NAMES}
    assert combined.report is not None
    shown = run("joint", "report", "together", "--json", "report.json")
    assert f"all members: {combined.status}" in shown.out
    rows = json.loads(Path("report.json").read_text())["measurements"]
    assert rows == combined.report.to_json()["measurements"]


def test_counts_are_told_only_where_the_node_allows_it(committed):
    grid = Grid(*({"joint-folder": name, "joint-counts": "false"} for name in NAMES))
    assert joint_audit(grid, "together", members=3).report is None


def test_why_a_member_refuses_stays_with_it(committed, caplog):
    caplog.set_level("INFO", "flwr")
    Path("b/private/member.json").unlink()
    grid = Grid(*({"joint-folder": name} for name in NAMES))
    with pytest.raises(InputError, match=r"^1 of 3 members did not take the step commit: This mem"):
        joint_audit(grid, "together", members=3)
    assert "b is not the folder of a member" in caplog.text
    with pytest.raises(InputError, match="did not take the step commit"):
        joint_audit(Grid({}, {}), "other", members=2)
    assert "as joint-folder in the node's configuration" in caplog.text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise TimeoutError(port)


@pytest.mark.oracle  # some minutes: eight processes import torch
def test_three_supernodes_audit_together(files, members, tmp_path):
    adapters.write(initial(), LORA, Path("untrained"))
    members(*NAMES).commit("--target", "fedaudit-nano", "--adapter", "untrained", *LESS, **files)
    scripts = Path(sys.executable).parent
    (tmp_path / "flower").mkdir()
    port = free_port()
    (tmp_path / "flower/config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\n'
        f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    env = {**os.environ, "FLWR_HOME": str(tmp_path / "flower"), "FLWR_TELEMETRY_ENABLED": "0"}
    env["PATH"] = os.pathsep.join([str(scripts), env["PATH"]])  # Flower starts programs of its own
    nodes = [
        ("flower-supernode", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port()),
         "--node-config", f'joint-folder="{Path(name).absolute()}" joint-counts=true')
        for name in NAMES
    ]  # fmt: skip
    with ExitStack() as stack:
        for program, *words in [("flower-superlink", "--port", str(port)), *nodes]:
            log = stack.enter_context(open(tmp_path / "processes.log", "a"))
            process = subprocess.Popen(
                [scripts / program, "--insecure", *words], env=env, stdout=log, stderr=log
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        wait_for(port)
        out = tmp_path / "together"
        run = [scripts / "flwr", "run", ROOT / "examples/joint_flower", "here", "--stream",
               "--run-config", f"out={str(out)!r} members=3"]  # fmt: skip
        subprocess.run(run, env=env, check=True, timeout=900)
    assert {path.name for path in out.glob("*.result.json")} == {f"{n}.result.json" for n in NAMES}
