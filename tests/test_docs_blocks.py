"""The blocks of the pages in Start and How-to run, page by page and in their order.

Each page runs in a folder that has what it takes for granted: a small federation in `runs/fed_pii`,
copies of it and its files by the names that the page gives them. `make oracles` asks the built-in
model on all pages; `make test`, on a few, one that costs nothing to ask. A block that cannot run
says why in a comment before it, `<!-- not run: ... -->`; its commands are parsed all the same.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import fake_audit
import foreign_layouts
import fork
import pytest
import typer
from chat_server import Server, chat, scored
from completion_server import HonestServer
from hash_model import HashModel
from markdown_it import MarkdownIt

from fedaudit.cli import app

ROOT = Path(__file__).parents[1]
PROGRAM = typer.main.get_command(app)
GROUPS = re.search(
    r"(?s)\n  - Start:(.*?)\n  - Reference:", (ROOT / "mkdocs.yml").read_text("utf-8")
)[1]
PAGES = re.findall(r"(?m)^      - ([\w-]+\.md)$", GROUPS)
NOT_RUN = re.compile(r"<!-- not run: (\w.+) -->")
FIRST = re.compile(
    r"(?m)^(?:\w+=\S+ )?"
    r"(?:(?:fedaudit|jq|openssl|pip|docker|flwr|flower-supernode|python) |examples/)"
    r"|# now train the fed"
)
"""How a console block begins, or a line of it."""
VERDICTS = (0, 1, 7)
JUDGED = re.compile(
    r"fedaudit (attribute|audit|canary|dp|extract|forget|infer|joint|memorize|merge|report|watch)\b"
    r"|^examples/"
)
"""Commands whose exit code may be a verdict's."""
QUICK = ("verbatim.md", "exact.md", "discoverable.md", "resume.md")
KILLED = re.compile("# killed")
"""Behind a command that is killed, which only a model that costs nothing can be in time."""


@dataclass(frozen=True)
class Block:
    """A block of a page, and why it does not run if it does not."""

    code: str
    reason: str = ""

    @property
    def is_python(self):
        return re.match(r"(from|import) ", self.code) is not None

    @property
    def commands(self):
        """The commands; what is indented goes on with the line before."""
        lines = re.sub(r"\\?\n +", " ", self.code).splitlines()
        return [line.strip() for line in lines if FIRST.match(line)]


def blocks(page):
    """Return the console and Python blocks of a page; what is fenced is a file of other tests."""
    tokens = MarkdownIt().parse((ROOT / "docs" / page).read_text("utf-8"))
    found = []
    for before, token in zip([tokens[0], *tokens], tokens, strict=False):
        if token.type == "code_block":
            marked = before.type == "html_block" and NOT_RUN.fullmatch(before.content.strip())
            block = Block(token.content, marked[1] if marked else "")
            if block.is_python or FIRST.search(block.code):
                found.append(block)
    return found


BLOCKS = {page: found for page in PAGES if (found := blocks(page))}
COMMANDS = [
    (page, shlex.split(line, comments=True))
    for page, found in BLOCKS.items()
    for block in found
    for line in block.commands
    if "fedaudit" in line.split()[:2]
]
RUN = [page for page, found in BLOCKS.items() if not all(block.reason for block in found)]
REAL = [page for page in RUN if not KILLED.search(str(BLOCKS[page]))]

SMALL = """central=false rounds=3 evaluated=2 held_out=0.3 records.cases=6
records.documents_per_case=6 partition.method=iid training.steps=2
training.batch_size=2 training.max_length=48 training.rank=2 workers=1"""
"""Settings that a simulation gets in addition: it trains within seconds."""
WORDS = dict.fromkeys(("BASE", "MODEL"), "fedaudit-nano")
"""Models that the reader names."""
HUB, RECEIVED = "owner/model", "received.json"
ENDPOINT = "http://127.0.0.1:8000/v1"
RECORDS = {
    "c0": "ours own a c0 bank hospital",
    "c1": "theirs b c1 clinic court left all found",
    "c2": "c",
    "held_out": "set_aside never_trained new",
}
REPORTS = ("FOLDER", "before", "after", "last-release", "this-release")
TRAINER = """
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
sizes = dict(vocab_size=8, hidden_size=4, intermediate_size=4, num_hidden_layers=1)
model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=1))
trainer = Trainer(model=model, args=TrainingArguments("trained", report_to=[], use_cpu=True))
"""


def small(command):
    """Return a command; one that simulates with the settings of a small federation."""
    if command[0] != "simulate":
        return command
    named = {word.removeprefix("--set=").partition("=")[0] for word in command}
    if "few_fed_pit" in command:  # whose prompts are longer
        named.add("training.max_length")
    more = [setting for setting in SMALL.split() if setting.partition("=")[0] not in named]
    return [*command, *(f"--set={setting}" for setting in more)]


def simulated(folder, *words):
    """Simulate a small federation in a folder."""
    done = fork.fedaudit(
        *small(["simulate", "--profile", "fed_pii", "--quiet", *words]), cwd=folder
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def federation_folder(tmp_path_factory):
    """Return a folder with a federation in runs/fed_pii, made once."""
    folder = tmp_path_factory.mktemp("reader")
    simulated(folder)
    return folder


@pytest.fixture(scope="session")
def report_folder(federation_folder):
    """Return the folder of an audit's report, made once."""
    words = ("audit", "runs/fed_pii", "--quick", "--out", "kept")
    done = fork.run(*words, cwd=federation_folder)
    assert done.returncode in VERDICTS, done.stderr
    return (federation_folder / "kept").rename(federation_folder.parent / "kept")


def make_runs(here, text):
    """Make the federations and canaries that a page names beside runs/fed_pii."""
    for name in ("RUN", "RUN0", "BEFORE"):
        if re.search(rf"\b{name}\b", text):
            shutil.copytree(here / "runs/fed_pii", here / name)
    if "attribute --rounds RUN" in text:  # which needs several clients, and of equal sizes
        shutil.rmtree(here / "RUN")
        sizes = ("clients=9", "records.cases=18", "held_out=0")
        simulated(here, "--out", "RUN", *(f"--set={one}" for one in sizes))
    if "watch RUN" in text:
        made = ("canary", "make", "--out", "canaries.json", "--client", "c0")
        assert fork.run(*made, "--corpus", "c0.jsonl", cwd=here).returncode == 0
    for seed, name in enumerate(("AFTER", "R1", "R2")):
        if re.search(rf"\b{name}\b", text):
            simulated(here, "--out", name, "--set", 'without=["c1"]', "--set", f"seed={seed}")


@pytest.fixture
def reader(federation_folder, report_folder, tmp_path):
    """Return a function that gives a page the folder of its reader."""

    def write(text):
        here = tmp_path / "reader"
        shutil.copytree(federation_folder, here)
        run = here / "runs/fed_pii"
        for source, names in RECORDS.items():
            for name in names.split():
                shutil.copyfile(run / f"data/{source}.jsonl", here / f"{name}.jsonl")
        shutil.copytree(run / "rounds/003/global", here / "ADAPTER")
        make_runs(here, text)
        for name in REPORTS:
            if re.search(rf"(?<=[ /]){name}\b", text):
                shutil.copytree(report_folder, here / name)
        if "examples/ci_gate" in text:
            shutil.copyfile(here / "this-release/report.json", here / "baseline.json")
        if "results" in text:
            foreign_layouts.flowertune(foreign_layouts.make_run(), here / "results")
        for name in ("examples", "constraints.txt"):
            (here / name).symlink_to(ROOT / name)
        return here

    return write


@pytest.fixture(scope="module")
def hashed():
    return HashModel()


@pytest.fixture
def url(hashed, monkeypatch):
    """Return the address of a server that continues, scores and judges; its key is set."""
    monkeypatch.setenv("JUDGE_KEY", "of-a-judge")
    honest = HonestServer(hashed, {"tuned": "lora", "plain": None})

    def reply(request):
        chatting = request["path"].endswith("/chat/completions")
        return (200, {}, chat(scored(7, 8))) if chatting else honest.reply(request)

    with Server(reply).running() as running:
        yield running.url


def ran(line, here, url, real, commitment):
    """Run a command of a page in its folder; return what it printed."""
    started = ["-m", "fedaudit"] if real else [fake_audit.__file__, "SIGKILL", "0", "log"]
    program = here / "bin/fedaudit"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *started])} "$@"\n')
    program.chmod(0o755)
    names = {
        ENDPOINT: url,
        "SHA256": commitment,
        HUB: "fedaudit-nano",
        RECEIVED: "commitments.json",
    }
    for written, given in names.items():
        line = line.replace(written, given)
    if line.startswith("# now train the federation"):
        records = 'client_data={c0="c0-planted.jsonl", c1="c1.jsonl"}'
        for name in ("RUN", "RUN0"):
            shutil.rmtree(here / name, ignore_errors=True)
            simulated(here, "--out", name, "--set", "clients=2", "--set", records)
        return ""
    words = [WORDS.get(word, word) for word in shlex.split(line, comments=True)]
    if KILLED.search(line):
        done = fork.run(*words[1:], point=5, cwd=here)
        assert done.returncode == -signal.SIGKILL, done.stderr
        return ""
    if words[0] == "fedaudit":
        done = (fork.fedaudit if real else fork.run)(*small(words[1:]), cwd=here)
    else:
        done = subprocess.run(
            ["bash", "-c", shlex.join(words) if "&&" not in line else line],
            cwd=here, env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    allowed = VERDICTS if JUDGED.search(line) else (0,)
    assert done.returncode in allowed, f"{line}\n{done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "real"),
    [
        *((page, False) for page in QUICK),
        *(pytest.param(page, True, marks=pytest.mark.oracle) for page in REAL),
    ],
)
def test_the_blocks_of_a_page_run(page, real, reader, url):
    here = reader("\n".join(block.code for block in BLOCKS[page]))
    commitment, program = "", TRAINER if "trainer." in str(BLOCKS[page]) else ""
    for block in BLOCKS[page]:
        if block.reason:
            continue
        if block.is_python:
            program += block.code.replace(ENDPOINT, url)
            done = fork.program(program, real=real, cwd=here)
            assert done.returncode == 0, f"{block.code}\n{done.stderr}"
        for line in block.commands:
            shown = ran(line, here, url, real, commitment)
            said = re.search(r"ommitment is ([0-9a-f]{64})", shown)
            commitment = commitment or (said[1] if said else "")


def test_pages_have_blocks():
    assert len(COMMANDS) > 100
    assert len(RUN) > 20


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)[:50]}" for page, words in COMMANDS]
)
def test_a_command_has_the_options_of_today(page, words):
    command = PROGRAM
    context = command.make_context("fedaudit", words[words.index("fedaudit") + 1 :])
    while hasattr(command, "resolve_command") and context._protected_args:
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        context = command.make_context(name, rest, parent=context)
