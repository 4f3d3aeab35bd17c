"""What many tests share: the built-in base, an adapter on it, and one small federation.

All of it is made once: copy before you change anything, and take a base of your own (`fresh_base`)
before you attach an adapter, because that changes the model in place.
"""

import gc
import os
import signal
import sys
import tempfile
from copy import deepcopy
from functools import cache
from itertools import zip_longest
from operator import eq
from pathlib import Path
from types import SimpleNamespace

import one_core
import pytest
from command import Command
from hypothesis import HealthCheck, settings

from fedaudit.simulation.config import Simulation, Training
from fedaudit.simulation.data.settings import Partition, Records

# Until all tests are collected: whatever is made until then stays.
gc.disable()

# A shell's background jobs ignore Ctrl-C, and so would every process that the tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported: on a busy machine, two threads of so small a model mostly wait for each
# other. Processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

one_core.count_on_one()

# The user's own configuration stays as it is; all processes of the tests share one.
CONFIGURATION = tempfile.TemporaryDirectory()
os.environ["FEDAUDIT_CONFIG"] = CONFIGURATION.name

# No test fails because the machine has other work, or because a run drew other examples: the same
# change is red or green every time. `make oracles` takes the second profile, whose examples differ.
for profile, examples in (("quick", 20), ("thorough", 500)):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        derandomize=profile == "quick",
        suppress_health_check=(HealthCheck.too_slow,),
    )
settings.load_profile("quick")

# No test outlives the machine, and a disk takes longer than what most of them try.
os.fsync = lambda number: None

TARGETS = ("q_proj", "v_proj")
GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


def pytest_collection_modifyitems(items):
    """Refuse a test named by a set, whose order is another in each of pytest-xdist's processes."""
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(isinstance(value, (set, frozenset)) and str(value) in item.name for value in values):
            raise pytest.UsageError(f"{item.nodeid}: give its sets a name of their own, with ids=")


def pytest_collection_finish():
    """Take the tests themselves out of garbage collection: going through them takes seconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # hypothesis has a callback at each collection
    gc.enable()


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Work in an empty folder, and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfd):
    """Return a function that runs fedaudit in this process, as the console script would."""
    return Command(monkeypatch, capfd)


@pytest.fixture
def here(empty_folder, monkeypatch):
    """Return a folder with documents and an adapter, whose model costs nothing to ask."""
    import fake_audit

    fake_audit.written(empty_folder)
    fake_audit.replace(monkeypatch.setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    return empty_folder


@pytest.fixture
def golden(request):
    """Return a function that asserts that `text` is what a file below tests/golden/ holds.

    With `same` two lines may differ as far as that allows. With `--update-golden` the file is
    written in place of that: look at its diff before you commit.
    """

    def check(name, text, same=eq):
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        kept, lines = path.read_text("utf-8").splitlines(), text.splitlines()
        pairs = zip_longest(lines, kept)
        agreed = [old if old is not None and new and same(new, old) else new for new, old in pairs]
        assert agreed[: max(len(lines), len(kept))] == kept

    return check


@pytest.fixture
def few_federations(monkeypatch):
    """Have an attribution's report simulate few federations where it is not said how many."""
    from fedaudit.attribution.decision import calibration

    monkeypatch.setattr(calibration, "FEDERATIONS", 4)


@pytest.fixture
def few_controls(monkeypatch):
    """Score few of the control strings, of the victim's and of those that any model knows.

    They take most of a small audit's time.
    """
    from fedaudit.extraction import learned, positive_controls, prefix_attack

    monkeypatch.setattr(prefix_attack, "CONTROLS", 100)
    monkeypatch.setattr(prefix_attack, "EXACT_CONTROLS", 100)
    monkeypatch.setattr(learned, "MAX_TARGETS", 8)
    monkeypatch.setattr(positive_controls, "MAX_KNOWN", 8)


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch):
    """Fork fedaudit's worker processes, which otherwise import torch anew; no test needs that."""
    import fork

    from fedaudit.system import processes

    monkeypatch.setattr(
        processes, "multiprocessing", SimpleNamespace(get_context=lambda kind: fork.context())
    )


@pytest.fixture(scope="session", autouse=True)
def loaded_once():
    """Load the built-in base once, and give copies of it."""
    from fedaudit import nano
    from fedaudit.engine.loading import loader

    load = loader.load_base

    @cache
    def loaded(_folder, **options):
        return load("fedaudit-nano", **options)

    def load_base(name, **options):
        if name != "fedaudit-nano":
            return load(name, **options)
        return deepcopy(loaded(nano.folder(), **options))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "load_base", load_base)
        yield


@pytest.fixture(scope="session")
def base():
    from fedaudit.engine.loading.loader import load_base

    return load_base("fedaudit-nano", device="cpu")


@pytest.fixture
def fresh_base(base):
    return deepcopy(base)


@pytest.fixture(scope="session")
def write_adapter():
    """Return a function that writes a seeded adapter, far from zero, for any loaded base."""

    def write(base, folder, *, rank=4, targets=TARGETS, seed=0):
        import torch
        from peft import LoraConfig

        from fedaudit.engine.loading.loader import tensors_of, with_adapter
        from fedaudit.federation import adapters
        from fedaudit.simulation.initialization import plain_config

        torch.manual_seed(seed)
        config = LoraConfig(
            r=rank, lora_alpha=8 * rank, target_modules=list(targets), task_type="CAUSAL_LM"
        )
        peft = with_adapter(base.model, config, "made", trainable=True)
        tensors = {name: torch.randn(t.shape) / 10 for name, t in tensors_of(peft, "made").items()}
        peft.unload()
        adapters.write(tensors, plain_config({**config.to_dict(), "inference_mode": True}), folder)
        return folder

    return write


@pytest.fixture(scope="session")
def adapter(write_adapter, tmp_path_factory):
    """Return the folder of an adapter on fedaudit-nano that changes its answers."""
    from fedaudit.engine.loading.loader import load_base

    folder = tmp_path_factory.mktemp("adapter") / "lora"
    return write_adapter(load_base("fedaudit-nano", device="cpu"), folder)


@pytest.fixture(scope="session")
def small():
    """Return the settings of a federation that trains in about a second."""
    return Simulation(
        clients=2,
        rounds=2,
        held_out=0.1,
        evaluated=3,
        central=False,
        records=Records(cases=4, documents_per_case=5, tasks=("record", "classification")),
        partition=Partition(method="iid"),
        training=Training(
            steps=6, batch_size=2, learning_rate=5e-3, max_length=48, rank=4, targets=TARGETS
        ),
        device="cpu",
        workers=1,
    )


@pytest.fixture(scope="session")
def federation(small, tmp_path_factory):
    """Return a finished federation: its folder, its settings, and what `simulate` returned."""
    from fedaudit.simulation.runner import simulate

    path = tmp_path_factory.mktemp("runs") / "small"
    result = simulate(small, path, listener=lambda event: None)
    return SimpleNamespace(path=path, config=small, result=result)
