"""The examples run as they stand."""

import gzip
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import fake_audit
import fork
import handmade
import pytest
import torch

from fedaudit.api import AttackContext, Cost, Counts, Document, Measurement, Policy, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.testing import check_plugin

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES / "plugins"))

from custom_attack import Order, Pairs  # noqa: E402
from custom_defense import TopShare  # noqa: E402


@pytest.fixture
def started(tmp_path):
    """Return a function that starts an example in an empty folder, with a model that costs nothing.

    The folder has records, an adapter, and a `fedaudit` on the path.
    """
    fake_audit.written(tmp_path)
    helper = shlex.join([sys.executable, fake_audit.__file__, "SIGKILL", "0", "log"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fedaudit").write_text(f'#!/bin/sh\nexec {helper} "$@"\n')
    (tmp_path / "bin/fedaudit").chmod(0o755)
    helpers = str(Path(fake_audit.__file__).parent)
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": helpers}

    def start(name, *words):
        command = [str(EXAMPLES / name), *words]
        if name.endswith(".py"):
            program = f"import runpy, sys; sys.argv = {command}; "
            program += "runpy.run_path(sys.argv[0], run_name='__main__')"
            return fork.program(program, real=False, cwd=tmp_path)
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return start


def test_a_federation_is_audited(started, tmp_path):
    made = handmade.write(tmp_path / "run", clients=3, rounds=1)
    fake_audit.keep_documents(made.path)
    done = started("audit_federation.py", "run", "out")
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "out/report.json").read_text())
    lines = done.stdout.splitlines()
    assert lines[0] == f"verdict: {document['verdict']['status']}" == "verdict: fail"
    leaked = [int(line.split()[1]) for line in lines if line.startswith("leaked: ")]
    assert sum(leaked) == len(document["findings"]) > 0
    assert "not tried: membership_inference: there are no held-out records" in done.stdout


def test_an_adapter_is_audited_and_the_exit_code_is_the_verdicts(started, tmp_path):
    done = started("audit_adapter.py", "fedaudit-nano", "lora", "own.jsonl", "victim.jsonl")
    document = json.loads((tmp_path / "adapter-audit/report.json").read_text())
    *rows, verdict = done.stdout.splitlines()
    assert (done.returncode, verdict) == (1, "verdict: fail"), done.stderr
    wanted = next(
        row
        for row in document["measurements"]
        if row["metric"] == "coverage"
        and row["scope"] == {"source": "tuned-not-base", "set": "exclusive"}
    )
    [row] = [one for one in rows if one.startswith("tuned-not-base, exclusive: ")]
    assert f": {wanted['hits']} of {wanted['n']} (" in row
    assert sum("letters" in one for one in rows) == len(document["findings"])


@pytest.mark.parametrize(
    ("audited", "reported", "shown"),
    [(0, 0, True), (1, 0, True), (7, 5, True), (2, 0, False), (6, 0, False)],
)
def test_the_gate_ends_as_the_audit_and_shows_no_earlier_report(tmp_path, audited, reported, shown):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fedaudit").write_text(
        f"#!/bin/sh\necho $1 >> log\n[ $1 = audit ] && exit {audited}\nexit {reported}\n"
    )
    (tmp_path / "bin/fedaudit").chmod(0o755)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.json").write_text("of an earlier run")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    words = ("base", "adapter", "own.jsonl", "victim.jsonl", "baseline.json", "out")
    done = subprocess.run(
        [str(EXAMPLES / "ci_gate.sh"), *words],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == audited
    called = (tmp_path / "log").read_text().split()
    assert ("report" in called) == shown
    assert ("The verdict stands" in done.stderr) == bool(shown and reported)


def test_a_joint_audit_takes_the_steps_of_its_page():
    script = (EXAMPLES / "joint_audit.sh").read_text("utf-8")
    page = (ROOT / "docs/joint.md").read_text("utf-8")
    steps = re.findall(r"(?m)^    fedaudit joint (\w+) FOLDER", page)
    taken = re.findall(r"^ *(?:each|fedaudit joint) (\w+)", script, re.M)
    assert taken == steps == ["commit", "ask", "answer", "count", "report"]


@pytest.mark.oracle  # about a minute: each of nine commands is a process
def test_two_members_audit_together(started, tmp_path):
    pytest.importorskip("private_set_intersection")
    for name, people in (("bank", fake_audit.NAMES[:7]), ("court", fake_audit.NAMES[5:])):
        lines = [
            json.dumps(fake_audit.document(n, people[n % 7], fake_audit.PLACES[n % 2]))
            for n in range(6)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    more = ("--adapter", "lora", "--device", "cpu", "--set", "contextual.samples=1")
    done = started("joint_audit.sh", "fedaudit-nano", "bank.jsonl", "court.jsonl", *more)
    assert done.returncode in (1, 7), done.stderr
    assert done.stdout.count("'s strings: ") >= 2
    assert (tmp_path / "court/private/report.json").exists()


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # of PEFT
def test_a_client_of_the_flower_app_trains_on_its_records(tmp_path, monkeypatch):
    """All of the app but its messages, which need Flower."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "flower"))
    runpy.run_path(str(EXAMPLES / "flower/make_records.py"))["main"](tmp_path)
    from bank_app import task

    peft, documents = task.model(), task.texts(tmp_path / "c2.jsonl")
    losses = [task.train(peft, documents, steps=2, seed=1, rate=task.RATE) for _ in range(2)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize("plugin", [Pairs, TopShare])
def test_a_custom_plugin_keeps_the_contract(plugin):
    check_plugin(plugin)


def test_a_report_is_read_in_pandas(tmp_path):
    pytest.importorskip("pandas")
    content = gzip.decompress((ROOT / "tests/golden/demo_report.json.gz").read_bytes())
    (tmp_path / "report.json").write_bytes(content)
    words = [sys.executable, str(EXAMPLES / "read_report.py"), "report.json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    document = json.loads(content)
    verdict, head, *lines = done.stdout.splitlines()
    assert verdict == f"verdict: {document['verdict']['status']}"
    assert head.split() == ["plugin", "scope.label", "hits", "n", "value", "low", "high"]
    wanted = {
        (row["plugin"], row["scope"]["label"], str(row["hits"]), str(row["n"]))
        for row in document["measurements"]
        if row["metric"] == "coverage"
        and row["scope"].get("set") == "exclusive"
        and row["scope"].get("source") == "tuned-not-base"
        and row["scope"].get("label") is not None
        and row["scope"].get("budget") is None
    }
    assert wanted
    assert {tuple(line.split()[:4]) for line in lines} == wanted


def test_pairs_counts_those_that_are_likelier_in_the_order_of_their_file():
    texts = ["One a.", "Two b.", "Three c.", "Four d.", "Five e."]  # the last has no neighbour

    def likelihood(target: Target, token: str, before: str) -> float:
        """The tuned model knows that Two follows One; all else is as likely in any order."""
        return -0.5 if target.name == "tuned" and "Two" in token and "One" in before else -1.0

    tuned, base = Target(name="tuned", adapter="lora"), Target(name="base")
    documents = [Document(id=text, text=text) for text in texts]
    context = AttackContext(
        engine=FakeEngine(lambda *_: "", likelihood=likelihood),
        tuned=tuned,
        base=base,
        attacker=[],
        victim=documents,
    )
    rows = Pairs().run(context).measurements
    assert [(row.scope["source"], row.hits, row.n) for row in rows] == [
        ("tuned", 1, 2),
        ("base", 0, 2),
    ]
    five = Counts(spans=lambda: (0, False), tried=5, held_out=0, has_victim=True)
    assert Pairs().cost(five) == Cost(scored=4)


@pytest.mark.parametrize(
    ("hits", "n", "p", "status"),
    [
        (10, 10, 1 / 1024, "fail"),
        (6, 10, 386 / 1024, "inconclusive"),  # (210 + 120 + 45 + 10 + 1) of 1,024; up to 83 %
        (100, 200, None, "pass"),
    ],
)
def test_the_order_is_judged_by_a_fair_coin(hits, n, p, status):
    row = Measurement.rate(
        hits, n, kind="order", plugin="pairs", metric="order_rate", scope={"source": "tuned"}
    )
    [(_, test)] = Order().tests([row], Policy())
    assert test is not None
    assert p is None or test.p == pytest.approx(p)
    assert Order().judge_test(row, test, test.p, Policy()).status == status


def test_the_largest_changes_are_sent():
    start = {"A": torch.zeros(5)}
    trained = {"A": torch.tensor([0.1, -3.0, 0.2, 2.0, -0.4])}
    assert TopShare(share=0.4).upload(start, trained, {})["A"].tolist() == [0, -3, 0, 2, 0]


@pytest.mark.parametrize(
    "path",
    sorted(path for path in EXAMPLES.rglob("*.*") if path.suffix in (".py", ".sh")),
    ids=lambda path: path.name,
)
def test_an_example_has_fewer_than_sixty_lines(path):
    assert len(path.read_text("utf-8").splitlines()) < 60
