"""Shells complete commands and options: what they are told to ask is answered."""

import os
import shutil
import subprocess
import sys

import pytest


def asked(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fedaudit", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("line", "position", "answers"),
    [("fedaudit at", "1", "attribute"), ("fedaudit extract --pref", "2", "--prefixes")],
)
def test_bash_is_answered(line, position, answers):
    done = asked(COMP_WORDS=line, COMP_CWORD=position, _FEDAUDIT_COMPLETE="complete_bash")
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [answers], "")


def test_zsh_and_fish_are_answered():
    line = {"_TYPER_COMPLETE_ARGS": "fedaudit sim"}
    zsh = asked(**line, _FEDAUDIT_COMPLETE="complete_zsh")
    assert (zsh.returncode, '"simulate":' in zsh.stdout) == (0, True)
    fish = asked(**line, _FEDAUDIT_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert (fish.returncode, fish.stdout.startswith("simulate\t")) == (0, True)


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
