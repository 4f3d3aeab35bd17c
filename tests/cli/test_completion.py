"""Shells complete commands and options: what they are told to ask is answered."""

import shutil
import subprocess
import sys

import pytest

TYPER = "_TYPER_COMPLETE_ARGS"


@pytest.mark.parametrize(
    ("shell", "line", "answer"),
    [
        ("bash", {"COMP_WORDS": "fedaudit at", "COMP_CWORD": "1"}, "attribute\n"),
        ("bash", {"COMP_WORDS": "fedaudit extract --pref", "COMP_CWORD": "2"}, "--prefixes\n"),
        ("zsh", {TYPER: "fedaudit sim"}, '"simulate":'),
        ("fish", {TYPER: "fedaudit sim", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}, "simulate\t"),
    ],
)
def test_shells_are_answered(run, monkeypatch, shell, line, answer):
    for name, value in {**line, "_FEDAUDIT_COMPLETE": f"complete_{shell}"}.items():
        monkeypatch.setenv(name, value)
    done = run()
    assert (done.code, done.err) == (0, "")
    assert answer in done.out
    assert shell != "bash" or done.out.rstrip("\n") == answer.rstrip("\n")


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_completes_with_the_script_that_is_shown(tmp_path):
    (tmp_path / "fedaudit").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedaudit "$@"\n')
    (tmp_path / "fedaudit").chmod(0o755)
    script = f"""
        export PATH="{tmp_path}:$PATH"
        eval "$(fedaudit --show-completion)" || exit 3
        COMP_WORDS=(fedaudit memo) COMP_CWORD=1
        _fedaudit_completion fedaudit
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "memorize", "")
