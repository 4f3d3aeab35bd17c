"""The exit code is that of the result: no plugin's end and no lost output reads as another one."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_audit
import fork
import pytest

from fedaudit import cli
from fedaudit.cli import exit_handling
from fedaudit.cli.streams import Streams

AUDIT = (
    *("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--quiet"),
    *("--target", "fedaudit-nano", "--adapter", "lora", "--out", "out"),
)

PLUGIN = """
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.api.hooks import hookimpl
from fedaudit.api.plugin import Attack, Result


class PanicException(BaseException):
    "What Rust's panics are in Python."


@dataclass(frozen=True, kw_only=True)
class Leaver(Attack):
    "End in place of attacking."

    name: ClassVar[str] = "leaver"
    how: str = ""

    def run(self, case):
        if self.how == "fatal":
            sys.exit("fatal: Zoe Quist")
        if self.how == "nothing":
            sys.exit(0)
        if self.how == "panic":
            raise PanicException("Zoe Quist")
        if self.how == "wait":
            import time

            print("waiting", file=sys.stderr, flush=True)
            time.sleep(60)
        if self.how == "error":
            raise RuntimeError("broken: " + "Zo" "e Quist \x1b[31m")
        if self.how == "exits":
            import os

            os._exit(0)
        if self.how == "closes":
            raise GeneratorExit
        if self.how == "full":
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise ValueError("a library's own") from error
        raise KeyboardInterrupt


@hookimpl
def fedaudit_attacks():
    return [Leaver]
"""


@pytest.fixture
def here(tmp_path):
    fake_audit.written(tmp_path)
    for name in ("own", "victim"):  # half of the records show the same
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:12]))
    return tmp_path


@pytest.fixture
def site(here):
    """Return a folder with an installed package of one plugin."""
    info = here / "site/leaver-1.0.dist-info"
    info.mkdir(parents=True)
    (here / "site/leaver.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: leaver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fedaudit]\nleaving = leaver\n")
    return here / "site"


def run(here, *words, **options):
    """Run fedaudit in a process of its own; a verdict before its words is the report's."""
    verdict = words[0] if words[0] in ("pass", "fail") else ""
    return fork.run(*words[bool(verdict) :], cwd=here, verdict=verdict, **options)


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("fatal", "SystemExit"),
        ("nothing", "SystemExit"),
        ("panic", "PanicException"),
        ("interrupt", "KeyboardInterrupt"),
        ("closes", "GeneratorExit"),
    ],
)
def test_a_plugin_that_ends_the_process_is_a_bug_of_the_plugin(here, site, how, kind):
    words = (*AUDIT, "--attack", "leaver", "--set", f"leaver.how={how}")
    done = run(here, *words, site=site)
    assert done.returncode == 70, done
    [line] = done.stderr.splitlines()
    assert f"The plugin 'leaving' of leaver 1.0 ended with {kind} (leaver.py, line" in line
    assert "Zoe" not in done.stdout + done.stderr
    assert not (here / "out/report.json").exists()


def test_an_error_of_a_plugin_is_said_to_be_the_plugins(here, site):
    words = (*AUDIT, "--attack", "leaver", "--set", "leaver.how=error")
    done = run(here, *words, site=site)
    assert done.returncode == 70
    assert "This is a bug in the plugin 'leaving' of leaver 1.0" in done.stderr.splitlines()[-1]
    assert "Zoe" not in done.stderr
    shown = run(here, *words, site=site, env={"FEDAUDIT_TRACEBACK": "1"}).stderr
    assert "RuntimeError: broken: Zoe Quist" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("loading", [False, True])
def test_a_plugin_that_leaves_by_os_exit_is_no_verdict(here, site, loading):
    if loading:
        (site / "leaver.py").write_text("import os\n\nos._exit(0)\n")
    words = (*AUDIT, "--attack", "leaver", "--set", "leaver.how=exits")
    done = run(here, *words, site=site)
    assert done.returncode == 70, done
    [line] = done.stderr.splitlines()
    assert "The plugin 'leaving' of leaver" in line
    assert "ended the process with os._exit" in line


def test_a_signature_that_no_call_fits_is_the_plugins(here, site):
    (site / "leaver.py").write_text(PLUGIN.replace("def run(self, case)", "def run(self)"))
    done = run(here, *AUDIT, "--attack", "leaver", site=site)
    assert done.returncode == 70, done
    assert "This is a bug in the plugin 'leaving' of leaver 1.0" in done.stderr.splitlines()[-1]


def test_a_full_disk_in_a_librarys_error_is_an_interruption(here, site):
    words = (*AUDIT, "--attack", "leaver", "--set", "leaver.how=full")
    done = run(here, *words, site=site)
    assert done.returncode == 6, done
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_the_middle_of_a_plugin_is_an_interruption(here, site, number):
    words = (*AUDIT, "--attack", "leaver", "--set", "leaver.how=wait")
    read, write = map(os.fdopen, os.pipe(), "rw")
    with read, write:
        child = fork.start(
            fork.fake, ["SIGKILL", "0", "log", *words], cwd=here, site=site, err=write
        )
        write.close()
        assert read.readline() == "waiting\n"
        time.sleep(0.2)
        os.kill(child.pid, number)
        child.join(30)
        assert child.exitcode == 6
        assert "plugin" not in read.read()


def test_a_plugin_that_leaves_while_it_loads_is_named(here, site):
    (site / "leaver.py").write_text("import sys\n\nsys.exit(0)\n")
    done = run(here, "plugins", site=site)
    assert done.returncode == 2
    assert "Plugin 'leaving' of leaver does not load: it calls sys.exit" in done.stderr


def test_a_plugin_without_a_method_of_its_kind_is_named(here, site):
    (site / "leaver.py").write_text(PLUGIN.replace("def run(self, case)", "def runs(self, case)"))
    done = run(here, *AUDIT, "--attack", "leaver", site=site)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "Plugin 'leaving' of leaver 1.0 does not load: Leaver does not define run." in line


@pytest.fixture(params=["fail", "pass", "bad input"])
def known(request, here):
    """Return a command and the exit code that it has where everything is shown."""
    if request.param == "bad input":
        return ("extract", "--prefixes", "none.jsonl", "--target", "fedaudit-nano"), 3
    words = (request.param, *AUDIT, "--set", "contextual.sweeps=false")
    return words, {"fail": 1, "pass": 0}[request.param]


def closed_pipe():
    """Return the end of a pipe from which nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "wb")


def test_a_closed_pipe_keeps_the_code(here, known):
    words, code = known
    with closed_pipe() as pipe:
        done = run(here, *words, out=pipe)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == (code == 3)
    with closed_pipe() as pipe:  # what goes wrong has nowhere to be said, and still its code
        assert run(here, *words, out=pipe, err=pipe).returncode == code


def test_output_that_is_closed_keeps_the_code_and_the_report(here, known):
    words, code = known
    done = run(here, *words, out=fork.CLOSED)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith(
        "fedaudit: The results could not be written to standard output: it is closed."
    )
    assert "Traceback" not in done.stderr
    if code != 3:
        json.loads((here / "out/report.json").read_text("utf-8"))


def test_the_shell_closes_the_output(here):
    words = ["bash", "-c", '"$@" >&-', "bash", sys.executable, "-m", "fedaudit", "report", "none"]
    done = subprocess.run(words, cwd=here, check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "standard output: it is closed." in done.stderr.splitlines()[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_under_the_output_is_no_success(here, known):
    words, code = known
    with open("/dev/full", "w") as full:
        done = run(here, *words, out=full)
    if code == 3:  # nothing was to be shown
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
        return
    assert done.returncode == (code or 6)
    [line] = done.stderr.splitlines()
    assert "standard output: No space left on device" in line
    json.loads((here / "out/report.json").read_text("utf-8"))


@pytest.mark.parametrize(("when", "code"), [("before", 6), ("after", 1)])
def test_ctrl_c_before_or_after_a_command_changes_no_result(when, code, monkeypatch, capsys):
    """A verdict that stands keeps its code; where there is none yet, the command was stopped."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", lambda: 1)
    if when == "before":
        monkeypatch.setattr(cli, "_printable", interrupted)
    else:
        monkeypatch.setattr(Streams, "code", interrupted)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code
    assert capsys.readouterr().err.count("\n") == (when == "before")


def test_ctrl_c_while_the_commands_are_imported_is_one_line(tmp_path):
    """Whatever is imported first is interrupted, as by Ctrl-C in the first half second."""
    (tmp_path / "typer.py").write_text("exec('raise KeyboardInterrupt')")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "fedaudit", "doctor"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    says = "fedaudit: Interrupted. Give the same command to begin again.\n"
    assert (done.returncode, done.stderr) == (6, says)


def test_ctrl_c_at_the_edge_of_the_command_line_is_one_line():
    """It may come between the calls that handle it."""
    program = (
        "import fedaudit.__main__ as entry, fedaudit.cli as cli, signal\n"
        "cli.main = lambda: signal.raise_signal(signal.SIGTERM)\n"
        "entry.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)  # fmt: skip
    says = "fedaudit: Interrupted. Give the same command to begin again.\n"
    assert (done.returncode, done.stderr) == (6, says)


def test_ctrl_c_while_a_command_imports_keeps_the_exit_code(here):
    """Imported modules run texts, as for dataclasses; Python itself would end by SIGINT then."""
    (here / "fake").mkdir()
    (here / "fake/torch.py").write_text("exec('import signal; signal.raise_signal(2)')")
    path = os.pathsep.join([str(here / "fake"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "fedaudit", *AUDIT], cwd=here,
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    says = "fedaudit: Interrupted. No answer was kept: give the same command to begin again.\n"
    assert (done.returncode, done.stderr) == (6, says)


def test_a_second_ctrl_c_does_not_wait_for_what_still_runs(here):
    """A thread outlives the command, as workers do, and interrupts Python's wait for it."""
    (here / "fake").mkdir()
    (here / "fake/torch.py").write_text(
        "import os, signal, threading, time\n"
        "def work():\n"
        "    while threading.main_thread().is_alive():\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(600)\n"
        "threading.Thread(target=work).start()\n"
        "signal.raise_signal(signal.SIGINT)\n"
    )
    path = os.pathsep.join([str(here / "fake"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "fedaudit", *AUDIT], cwd=here, timeout=300,
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    says = "fedaudit: Interrupted. No answer was kept: give the same command to begin again.\n"
    assert (done.returncode, done.stderr) == (6, says)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("simulate --out x", "to go on after the last finished round"),
        ("reproduce fed_pii", "to go on with what it has finished"),
        ("attribute score est", "to go on after the last finished round"),
        ("attribute estimate fed", "to go on with the sets in its log"),
        ("attribute decide scores.json", "Give the same command to begin again."),
        ("watermark make", "Give the same command to begin again."),
        ("extract --prefixes a", "No answer was kept: give the same command to begin again."),
        ("audit", "No answer was kept: give the same command to begin again."),
        ("audit --resume", "are kept: give the same command to go on with them."),
        ("", "Give the same command to begin again."),
    ],
)
def test_ctrl_c_says_what_is_true_of_the_command(words, hint, monkeypatch, capsys):
    def interrupted(_command, _words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "invoke_command", interrupted)
    monkeypatch.setattr(sys, "argv", ["fedaudit", *words.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 6
    said = capsys.readouterr().err
    assert said.endswith(f"{hint}\n" if hint.endswith(".") else f"{hint}.\n")
    assert said.count("\n") == 1


class Finalized:
    def __init__(self, number):
        self.number = number

    def __del__(self):
        os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_in_a_finalizer_is_not_lost(number, capsys):
    """Python prints what is raised there, and goes on."""

    def command():
        Finalized(number)
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt), exit_handling.note_interrupts():
        command()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("came", "code"), [(True, 6), (False, 70)])
def test_an_error_that_ctrl_c_made_of_native_code_is_no_bug(came, code, monkeypatch, capsys):
    """safetensors, interrupted while it reads, says that it knows no shape."""

    def interrupted(_command, _words):
        if came:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        raise ValueError("could not determine the shape")

    monkeypatch.setattr(cli, "invoke_command", interrupted)
    monkeypatch.setattr(sys, "argv", ["fedaudit", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    said = capsys.readouterr().err
    assert ("Interrupted." in said, "This is a bug" in said) == (came, not came)
