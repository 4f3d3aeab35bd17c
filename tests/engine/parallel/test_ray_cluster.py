"""A cluster's other end: what is asked of Ray, here with a stand-in for it."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from processes import is_running, wait_until

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError
from fedaudit.engine.parallel import ray_cluster
from fedaudit.engine.parallel.ray_cluster import ClusterCapacity, RayCluster, ResourceShare
from fedaudit.engine.parallel.worker_pool import WorkerDied

FAKE = str(Path(__file__).parent / "fake_ray")


@pytest.fixture
def fake(monkeypatch):
    """Let the child take the stand-in for Ray."""
    monkeypatch.setenv("PYTHONPATH", FAKE)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return monkeypatch


@pytest.fixture
def cluster(fake):
    made = RayCluster(3)
    yield made
    made.close()


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ray_cluster, "version", missing)
    with pytest.raises(UsageError) as error:
        ray_cluster.check()
    assert str(error.value) == "--engine ray needs Ray: pip install 'fedaudit[ray]'."


@pytest.mark.parametrize(("found", "old"), [("2.51.9", True), ("2.52.0", False), ("3.0", False)])
def test_a_ray_that_lets_strangers_in_is_refused(monkeypatch, found, old):
    monkeypatch.setattr(ray_cluster, "version", lambda name: found)
    assert ray_cluster.too_old(found) is old
    if old:
        with pytest.raises(UsageError, match="runs what anybody on the network sends"):
            ray_cluster.check()
    else:
        ray_cluster.check()


def test_which_gpu_is_not_ours_to_say(monkeypatch):
    monkeypatch.setattr(ray_cluster, "version", lambda name: "2.60.0")
    ray_cluster.check("cuda")
    with pytest.raises(UsageError, match="not cuda:1"):
        ray_cluster.check("cuda:1")


def test_room_by_hand():
    # One engine a CPU slot; three engines in 8 slots take two each.
    assert ClusterCapacity(8, 0).shared(0, "auto") == (8, ResourceShare(1))
    assert ClusterCapacity(8, 0).shared(3, "auto") == (3, ResourceShare(2))
    # One a GPU, wherever there are any and the CPU is not asked for.
    assert ClusterCapacity(64, 4).shared(0, "auto") == (4, ResourceShare(1, 1))
    assert ClusterCapacity(64, 4).shared(2, "cuda") == (2, ResourceShare(1, 1))
    assert ClusterCapacity(64, 4).shared(0, "cpu") == (64, ResourceShare(1))
    with pytest.raises(UsageError, match="has 4 GPUs: no room for 5 engines"):
        ClusterCapacity(64, 4).shared(5, "auto")
    with pytest.raises(TargetError, match="no GPU"):
        ClusterCapacity(64, 0).shared(0, "cuda")


def test_a_ray_of_our_own_tells_nobody_and_asks_for_a_token(tmp_path):
    short, long = Path("/tmp/x"), Path("/" + "x" * ray_cluster.RAY_PATH)
    first, second = (ray_cluster.environment(short) for _ in range(2))
    assert first["RAY_USAGE_STATS_ENABLED"] == "0"
    assert first["RAY_AUTH_MODE"] == "token"
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]
    assert first["RAY_TMPDIR"] == "/tmp/x"
    assert "RAY_TMPDIR" not in ray_cluster.environment(long)


def test_a_process_that_stays_and_one_that_does_not(cluster, tmp_path, monkeypatch, capfd):
    assert cluster.room.cpus >= 3
    process, there = cluster.start()
    assert there.result() is None
    pid = cluster.ask(process, (os.getpid,)).result()
    assert pid == cluster.ask(process, (os.getpid,)).result() != os.getpid()
    assert cluster.submit(os.getpid).result() != pid
    # Both work where this process does, when it asks.
    monkeypatch.chdir(tmp_path)
    assert cluster.ask(process, (os.getcwd,)).result() == str(tmp_path)
    assert cluster.submit(os.getcwd).result() == str(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_errors_are_answers(cluster, monkeypatch):
    process, _ = cluster.start()
    with pytest.raises(ValueError, match="invalid literal") as error:
        cluster.ask(process, (int, "x")).result()
    assert "On the Ray cluster:" in error.value.__notes__[0]
    with pytest.raises(TargetError, match="cannot work: ray::run failed: SystemExit"):
        cluster.ask(process, (sys.exit, "bye")).result()
    monkeypatch.setattr(ray_cluster, "__version__", "0.0.1")
    with pytest.raises(InputError, match=r"has fedaudit .*, not 0\.0\.1 as this one"):
        cluster.ask(process, (abs, -1)).result()


def test_a_folder_that_only_we_have(cluster, monkeypatch, tmp_path):
    process, _ = cluster.start()
    gone = tmp_path / "gone"
    monkeypatch.setattr(ray_cluster.Path, "cwd", lambda: gone)
    with pytest.raises(InputError, match=r"has no folder .*gone: all need the same files"):
        cluster.ask(process, (abs, -1)).result()


def test_a_dead_process_is_lost_and_a_dead_training_done_again(cluster, tmp_path):
    process, _ = cluster.start()
    with pytest.raises(WorkerDied, match="ActorDiedError"):
        cluster.ask(process, (os._exit, 3)).result()
    cluster.stop(process)
    # A training that dies twice and then does not: mkdir fails where the folder is.
    script = (
        "import os, sys; from pathlib import Path; here = Path(sys.argv[1])\n"
        "(here / str(len(list(here.iterdir())))).touch(); len(list(here.iterdir())) < 3 and os.kill"
        "(os.getppid(), 9)"
    )
    done = cluster.submit(subprocess.call, [sys.executable, "-c", script, str(tmp_path)])
    assert done.result() == 0
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(WorkerDied, match="WorkerCrashedError"):
        cluster.submit(os._exit, 3).result()


def test_a_training_that_always_dies_is_an_interruption(fake):
    with (
        pytest.raises(Interrupted, match="--engine ray:1") as error,
        ray_cluster.training_pool(2, "cpu") as pool,
    ):
        pool.submit(os._exit, pool.submit(abs, -3).result()).result()
    assert error.value.exit_code == 6


def test_nothing_is_left_when_it_is_closed(fake):
    cluster = RayCluster(2)
    folder, child = cluster._folder, cluster._child
    assert folder.stat().st_mode & 0o777 == 0o700
    asleep = cluster.submit(time.sleep, 600)
    cluster.close()
    assert not folder.exists()
    assert child.returncode == -signal.SIGKILL
    with pytest.raises(Interrupted, match="Ray ended unexpectedly"):
        asleep.result()
    with pytest.raises(Interrupted, match="Ray ended unexpectedly"):
        cluster.start()


def test_its_end_without_us_is_an_interruption(cluster):
    asleep = cluster.submit(time.sleep, 600)
    cluster._child.kill()
    with pytest.raises(Interrupted, match="Ray ended unexpectedly"):
        asleep.result(60)


def test_its_end_is_noticed_while_a_worker_holds_its_connection(cluster, tmp_path):
    begun = tmp_path / "begun"
    asleep = cluster.submit(os.system, f"touch {begun}; sleep 600")
    while not begun.exists():
        assert not asleep.done()
        time.sleep(0.02)
    cluster._child.kill()
    with pytest.raises(Interrupted, match="Ray ended unexpectedly"):
        asleep.result(60)


KILLED = """
import os, sys
from fedaudit.engine.parallel.ray_cluster import RayCluster
cluster = RayCluster(1)
print(cluster._folder, cluster._child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_parent_leaves_nothing_either(fake):
    done = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True)
    folder, pid = done.stdout.decode().split()
    wait_until(lambda: not Path(folder).exists() and not is_running(int(pid)))


@pytest.mark.parametrize(
    ("wrong", "joined", "message"),
    [
        ("unreachable", False, "Ray cannot be started: no cluster answers."),
        ("unreachable", True, "Ray cannot be reached: no cluster answers."),
        ("ends", False, "Ray cannot be started: its process ended."),
    ],
)
def test_a_ray_that_does_not_come(fake, wrong, joined, message):
    fake.setenv("FAKE_RAY", wrong)
    if joined:
        fake.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(TargetError) as error:
        RayCluster()
    assert str(error.value) == message


def test_a_ray_that_starts_late(fake):
    fake.setenv("FAKE_RAY", "late")
    cluster = RayCluster(2)
    assert cluster.submit(abs, -3).result() == 3
    cluster.close()


def test_a_running_cluster_is_joined_as_it_is(fake):
    fake.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    fake.setenv("RAY_AUTH_TOKEN", "theirs")
    cluster = RayCluster(2)
    try:
        assert cluster.room.cpus == 64  # what there is, not what we would have set up
        assert cluster.submit(os.getenv, "RAY_AUTH_TOKEN").result() == "theirs"
        assert cluster.submit(os.getenv, "RAY_TMPDIR").result() == os.getenv("RAY_TMPDIR")
    finally:
        cluster.close()
    assert not cluster._folder.exists()
