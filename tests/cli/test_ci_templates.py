"""The Action and GitLab's template: their scripts run as they stand, on a fake model."""

import json
import os
import re
import subprocess
from pathlib import Path
from threading import Thread

import fake_audit
import fork
import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
GITHUB = yaml.safe_load((ROOT / "docs/ci/github-actions.yml").read_text())
GITLAB = yaml.safe_load((ROOT / "docs/ci/gitlab-ci.yml").read_text())
SMALL = "--quick --set contextual.context=4 --set ranking.candidates=[3]"
KEY = "ab" * 32
COMMAND = f"""#!/bin/bash
# What is asked is kept small; the template's own words come first.
if [ "$1" = audit ]; then set -- "$@" {SMALL}; fi
at=$(mktemp -d "${{0%/*}}/asked.XXXXXX")
printf '%s\\0' "$@" > "$at/words"; env -0 > "$at/env"; pwd > "$at/here"; mkfifo "$at/code"
echo "$at" > "${{0%/*}}/queue"
code=$(cat "$at/code"); cat "$at/out"; cat "$at/err" >&2; exit "$code"
"""
"""A `fedaudit` that asks `serve` for a fork, where a new interpreter would import torch."""


STEPS = {step.get("name"): step for step in ACTION["runs"]["steps"]}
INPUTS = {"base": "fedaudit-nano", "adapter": "lora", "prefixes": "own.jsonl",
          "victim": "victim.jsonl", "baseline": "baseline.json", "redaction-key": KEY,
          "options": "--release weights --declared-by workflow"}  # fmt: skip


def evaluate(text, inputs):
    """Return a text with its expressions replaced, as a runner does."""
    defaults = {name: one.get("default") for name, one in ACTION["inputs"].items()}
    values = {f"inputs.{name}": value for name, value in {**defaults, **inputs}.items()}
    values["github.action_path"] = str(ROOT)
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)


def step(here, title, **inputs):
    """Run the shell of a step of the Action, with what it is given and what a runner sets."""
    env = {k: evaluate(v, {**INPUTS, **inputs}) for k, v in STEPS[title]["env"].items()}
    files = {name: here / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    assert STEPS[title]["shell"] == "bash"
    return bash(here, STEPS[title]["run"], **files, **env)


JOB = GITLAB["privacy audit"]
# All but the installation of fedaudit.
GITLAB_SCRIPT = "\n".join([*JOB["before_script"][1:], *JOB["script"]])


def serve(folder):
    """Run what COMMAND in a folder is given, until it is told to end."""
    while (line := (folder / "queue").read_text().strip()) != "end":
        at = Path(line)
        words = (at / "words").read_text().split("\0")[:-1]
        env = dict(one.split("=", 1) for one in (at / "env").read_text().split("\0")[:-1])
        here, code = (at / "here").read_text().strip(), 70
        try:
            with (at / "out").open("w") as out, (at / "err").open("w") as err:
                code = fork.run(*words, cwd=here, env=env, out=out, err=err).returncode
        finally:
            (at / "code").write_text(str(code))


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Return a folder with records, an adapter, a baseline, and a `fedaudit` that asks no model."""
    tmp_path = tmp_path_factory.mktemp("ci")
    fake_audit.written(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "fedaudit").write_text(COMMAND)
    (folder / "fedaudit").chmod(0o755)
    os.mkfifo(folder / "queue")
    serving = Thread(target=serve, args=(folder,), daemon=True)
    serving.start()
    make_baseline(tmp_path)
    yield tmp_path
    (folder / "queue").write_text("end")
    serving.join()


def bash(here, script, **more):
    set_ = {"BASE": "fedaudit-nano", "ADAPTER": "lora", "PREFIXES": "own.jsonl",
            "VICTIM": "victim.jsonl", "BASELINE": "baseline.json", "OUT": "audit"}  # fmt: skip
    runner = {"RUNNER_TEMP": here, "CI_BUILDS_DIR": here, "GITHUB_ENV": here / "env",
              "REDACTION_KEY": KEY, "FEDAUDIT_REDACTION_KEY": KEY,
              "FEDAUDIT_CONFIG": here / "fedaudit"}  # fmt: skip
    path = f"{here / 'bin'}:{os.environ['PATH']}"
    env = {**os.environ, **set_, **runner, "PATH": path, **more}
    env = {name: str(value) for name, value in env.items()}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=here, text=True,
                          check=False, env=env, capture_output=True)  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def make_baseline(here):
    """Make the report of the release before, under the key that the templates get."""
    (here / "own").mkdir(mode=0o700)
    (here / "own/redaction-key").write_text(KEY + "\n")
    (here / "own/redaction-key").chmod(0o600)
    words = "fedaudit-nano --adapter lora --prefixes own.jsonl --victim victim.jsonl"
    done = bash(here, f"fedaudit audit {words} --out before --quiet", FEDAUDIT_CONFIG=here / "own")
    assert done.returncode in (0, 1, 7), done.stderr
    (here / "before/report.json").rename(here / "baseline.json")


def test_the_action_passes_a_model_that_is_as_it_was(here):
    done = [step(here, title) for title in ("Key of the masks", "Audit against the baseline")]
    assert [one.returncode for one in done] == [0, 0], done[-1].stderr
    assert "Against the baseline: pass" in done[-1].stdout
    gate = json.loads((here / "audit/baseline.json").read_text())
    assert gate["status"] == "pass"
    assert sum(one["stayed"] for one in gate["leaks"]) > 0
    assert json.loads((here / "audit/audit.sarif").read_text())["version"] == "2.1.0"
    assert "<h1>Annex" in (here / "audit/annex.html").read_text()
    assert "Against the baseline: pass" in (here / "GITHUB_STEP_SUMMARY").read_text()
    assert (here / "GITHUB_OUTPUT").read_text() == "exit-code=0\nreport=audit/report.json\n"
    assert (here / "fedaudit/redaction-key").stat().st_mode & 0o777 == 0o600
    assert (here / "GITHUB_ENV").read_text() == f"FEDAUDIT_CONFIG={here}/fedaudit\n"


@pytest.mark.oracle  # tests/test_examples.py has the codes of the gate, without a model
def test_without_a_baseline_the_action_fails_as_the_audit_does(here):
    done = step(here, "Audit against the baseline", baseline="none.json", out="first")
    verdict = json.loads((here / "first/report.json").read_text())["verdict"]["status"]
    assert done.returncode == {"fail": 1, "inconclusive": 7}[verdict]
    assert f"exit-code={done.returncode}\n" in (here / "GITHUB_OUTPUT").read_text()
    assert "There is no none.json" in done.stderr
    assert (here / "first/audit.sarif").exists()


def test_the_template_gives_the_action_what_it_takes():
    [given] = [s["with"] for s in GITHUB["jobs"]["audit"]["steps"] if s["uses"] == "./fedaudit"]
    required = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert required <= given.keys() <= ACTION["inputs"].keys()
    assert all(one.get("shell") == "bash" for one in ACTION["runs"]["steps"] if "run" in one)


def test_on_gitlab_one_leak_more_stops_the_release(here):
    found = json.loads((here / "baseline.json").read_text())
    leaks = [one for one in found["findings"] if one["measurement"] == "contextual coverage"]
    mask = leaks[0]["evidence"]["hmac"]
    leaks[0]["evidence"]["hmac"] = mask[::-1]  # another string came out before
    (here / "other.json").write_text(json.dumps(found))
    done = bash(here, GITLAB_SCRIPT, OUT="again", BASELINE="other.json")
    assert done.returncode == 1, done.stderr
    assert "New and verified: 1 leak" in done.stdout
    assert (here / "again/annex.html").exists()


def test_the_release_waits_for_the_audit():
    assert GITHUB["jobs"]["release"]["needs"] == "audit"
    assert GITLAB["release model"]["needs"] == ["privacy audit"]
    # YAML 1.1 reads the key `on` as true
    assert GITHUB[True]["push"]["tags"] == ["model-*"]


def test_all_that_the_scripts_use_is_set_in_the_template():
    runner = {"RUNNER_TEMP", "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}
    for one in ACTION["runs"]["steps"]:
        assert set(re.findall(r"\$([A-Z_]+)", one.get("run", ""))) <= {*one.get("env", ()), *runner}
    script = "\n".join([*JOB["before_script"], *JOB["script"]])
    given = {*GITLAB["variables"], "FEDAUDIT_CONFIG", "FEDAUDIT_REDACTION_KEY", "CI_BUILDS_DIR"}
    assert set(re.findall(r"\$([A-Z_]+)", script)) <= given
