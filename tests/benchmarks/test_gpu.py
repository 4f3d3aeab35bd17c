"""The GPU benchmark runs at tiny sizes on a CPU, with the packages of a bare CUDA machine only."""

import json
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/gpu.py"
BARE = ("torch", "transformers", "peft", "safetensors", "numpy", "typer", "rich", "pluggy")
OURS = {"fedaudit", "fedaudit_plugins", "fedaudit_profiles"}
HIDING = """
import runpy, sys
for name in sys.argv.pop(1).split(","):
    sys.modules[name] = None
sys.path.insert(0, {folder!r})
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def steps():
    """Make the benchmark's own modules importable, as Python does for its script."""
    sys.path.insert(0, str(SCRIPT.parent))
    yield
    sys.path.remove(str(SCRIPT.parent))


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def with_dependencies(names):
    """Return distributions and all that they require here, extras aside."""
    found, waiting = set(), list(names)
    while waiting:
        name = plain(waiting.pop())
        if name in found:
            continue
        try:
            needed = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [re.match(r"[\w.-]+", one)[0] for one in needed if "extra ==" not in one]
    return found


def foreign():
    """Return the packages that are installed here and would not be on a bare CUDA machine."""
    allowed = with_dependencies(BARE)
    return sorted(
        name
        for name, owners in metadata.packages_distributions().items()
        if name not in OURS and not {plain(owner) for owner in owners} & allowed
    )


def call(out):
    hidden = foreign()
    code = HIDING.format(folder=str(SCRIPT.parent))
    given = [SCRIPT, "--tiny", "--device", "cpu", "--out", out]
    return subprocess.run(
        [sys.executable, "-c", code, ",".join(hidden), *map(str, given)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Run it to its end, once for all tests: about half a minute, which tests at night have."""
    out = tmp_path_factory.mktemp("gpu")
    return call(out), out


def test_what_a_bare_machine_lacks_is_hidden():
    hidden = foreign()
    assert {"presidio_analyzer", "opacus", "scipy", "sklearn", "faker", "cryptography"} <= {*hidden}
    assert not {"torch", "numpy", "tokenizers", "pluggy", "regex", "fedaudit"} & {*hidden}


@pytest.mark.oracle
def test_every_step_runs_with_the_packages_of_a_bare_machine(done):
    ran, out = done
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads((out / "gpu.json").read_text())["steps"]
    assert len(found) == 3 + 3 * 12
    assert not [one for one in found.values() if "failed" in one or "skipped" in one]
    for name in ("correct.float32", "correct.bfloat16"):
        assert found[name]["correct"] is True
        assert len(found[name]["off"]) == 10
    assert found["1B.probing"]["samples"] == 4 * 3
    assert found["8B.exact"]["rows"] > 4  # it walks behind the prompts
    assert found["135M.training"]["steps"] == 1


@pytest.mark.oracle
def test_the_tables_have_a_number_for_every_step(done):
    _, out = done
    text = (out / "gpu.md").read_text()
    speeds = [line for line in text.splitlines() if "samples/s" in line or "tokens/s" in line]
    assert len(speeds) == 7
    assert not [line for line in speeds if "| - |" in line]
    assert "probing / one prefix at a time | at least 10" in text


def in_process(out, monkeypatch, *options):
    import gpu

    given = ["gpu.py", "--tiny", "--device", "cpu", "--out", str(out), *options]
    monkeypatch.setattr(sys, "argv", given)
    return gpu.main()


@pytest.mark.oracle
def test_a_further_call_does_only_what_is_missing(steps, done, tmp_path, monkeypatch, capsys):
    _, out = done
    kept = json.loads((out / "gpu.json").read_text())
    before = kept["steps"].pop("card")
    (tmp_path / "gpu.json").write_text(json.dumps(kept))
    assert in_process(tmp_path, monkeypatch, "--minutes", "0") == 6
    assert json.loads((tmp_path / "gpu.json").read_text()) == kept
    kept["steps"]["1B.probing"] = {"failed": "RuntimeError: once"}
    (tmp_path / "gpu.json").write_text(json.dumps(kept))
    assert in_process(tmp_path, monkeypatch, "--minutes", "0") == 1
    said = capsys.readouterr().out
    assert said.count("card: no time left; call again") == 2
    assert said.count("1B.probing: no time left; call again") == 1
    assert in_process(tmp_path, monkeypatch) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["card", "1B.probing"]
    after = json.loads((tmp_path / "gpu.json").read_text())["steps"]
    assert after["card"].keys() == before.keys()
    assert after["8B.exact"] == kept["steps"]["8B.exact"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": "fedaudit gpu ben', "is torn or no JSON"),
        ("[1, 2]", "is no file of this benchmark"),
        ('{"format": "fedaudit gpu benchmark 1", "about": {}}', "is no file of this benchmark"),
        (
            '{"format": "fedaudit gpu benchmark 1", "about": {"device": "H100"}, "steps": {}}',
            "holds results of another device and torch",
        ),
    ],
    ids=["torn", "other", "no steps", "other device"],
)
def test_a_torn_or_foreign_file_is_refused_in_one_line(steps, tmp_path, text, said):
    from gpu_steps.state import Results

    from fedaudit.api.errors import InputError

    (tmp_path / "gpu.json").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        Results(tmp_path, {"device": "cpu", "torch": "2"})
    assert "\n" not in str(caught.value)
    assert (tmp_path / "gpu.json").read_text() == text


def test_a_user_reads_one_line(steps, tmp_path, monkeypatch, capsys):
    (tmp_path / "gpu.json").write_text("{")
    assert in_process(tmp_path, monkeypatch) == 3
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "file").write_text("")
    assert in_process(tmp_path / "file", monkeypatch) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert in_process(tmp_path, monkeypatch, "--device", "cuda:99") == 4
    assert capsys.readouterr().err == "The device 'cuda:99' is not usable here.\n"


def test_a_number_that_is_none_counts_as_failed(steps, tmp_path):
    from gpu_steps.state import Results

    kept = Results(tmp_path, {})
    kept.keep("a", {"seconds": [float("nan")]})
    kept.keep("b", {"seconds": [1.0]})
    again = Results(tmp_path, {})
    assert not again.done("a")
    assert again.done("b")
    assert "NaN" not in (tmp_path / "gpu.json").read_text()


def bench(folder):
    from gpu_steps.models import Workbench
    from gpu_steps.work import TINY

    return Workbench(torch.device("cpu"), TINY, folder)


def test_what_is_under_way_when_the_time_is_over_begins_anew(steps, tmp_path):
    from gpu_steps.runner import SPARE, Step, run
    from gpu_steps.state import Results

    def forever(_bench):
        while True:
            time.sleep(0.01)

    kept, said, began = Results(tmp_path, {}), [], time.monotonic()
    todo = [
        Step("first", lambda _bench: {"seconds": 1.0}, 0),
        Step("long", lambda _bench: {}, 60),
        Step("forever", forever, 0),
        Step("last", lambda _bench: {}, 0),
    ]
    run(todo, bench(tmp_path), kept, began + SPARE + 0.2, said.append)
    assert time.monotonic() - began < SPARE
    assert [*kept.steps] == ["first"]
    assert "no time left" in said[1]
    assert "not done when the time was over" in said[2]


def test_steps_that_fail_or_do_not_fit_say_why(steps, tmp_path):
    from gpu_steps.models import NoRoomError
    from gpu_steps.runner import Step, attempt

    def raising(error):
        def work(_bench):
            raise error

        return attempt(Step("x", work, 0), bench(tmp_path))

    assert raising(NoRoomError("needs 25 GB of memory, 12 free")) == {
        "skipped": "needs 25 GB of memory, 12 free"
    }
    assert raising(torch.OutOfMemoryError("CUDA\nmore"))["skipped"] == "OutOfMemoryError: CUDA"
    assert raising(ValueError("odd"))["failed"] == "ValueError: odd"


def test_a_wrong_score_is_seen(steps, tmp_path, monkeypatch):
    from gpu_steps.correctness import correctness

    from fedaudit.engine.local import LocalEngine

    right = LocalEngine.score

    def wrong(self, target, sequences, **options):
        return [[one + 0.3 for one in row] for row in right(self, target, sequences, **options)]

    monkeypatch.setattr(LocalEngine, "score", wrong)
    found = correctness(bench(tmp_path), "float32")
    assert found["off"]["scores"] == pytest.approx(0.3, abs=1e-4)
    assert found["correct"] is False


def test_a_models_operations_are_counted_by_hand(steps):
    from gpu_steps.work import SIZES, Size

    size = Size(name="x", hidden=4, inner=6, layers=2, heads=2, shared=1, vocabulary=10)
    # A layer: q and o 4x4, k and v 4x2, three of 4x6 = 32 + 16 + 72 = 120.
    assert size.linear == 240
    assert size.parameters == 240 + 40
    assert size.flops(3, 1, 6) == 2 * 240 * 3 + 2 * 40 + 4 * 2 * 4 * 6
    assert [round(one.parameters / 1e6) for one in SIZES] == [134, 1236, 8030]
