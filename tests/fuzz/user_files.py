"""Hostile cases through the command line, each in a folder of its own.

Where the machine fails or a plugin ends the process, that is a forked one.

A case runs a command beside files of the user's whose names resemble fedaudit's own, with outputs
that name existing files, with failing disks, with little memory, with inputs of millions of values,
with a plugin that ends the process, or it is stopped by a signal. Whatever happens, the user's
files stay, and the command ends with a result or in one line.
"""

import errno
import fcntl
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import auditor_files
import fake_audit
import handmade
import targets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from example_report import example

import fedaudit.__main__
from fedaudit import cli
from fedaudit.config import profile
from fedaudit.federation import manifest
from fedaudit.report import document
from fedaudit.system.staging import MARK, remove_stale_stages

RESULTS, REFUSED = {0, 1, 7}, {2, 3, 4, 5, 6}
SECONDS = 60
FILE, FOLDER = "{file}", "{folder}"
BRIEF = ("--json", FILE, "--out", FOLDER, "--device", "cpu", "--quiet")
JOINT = ("--target", "fedaudit-nano", "--adapter", "lora", "--device", "cpu", "--detector", "names",
         "--set", "contextual.samples=2")  # fmt: skip
LITTLE = (
    *("clients=2", "rounds=1", "central=false", "training.steps=1", "records.cases=2"),
    *("records.documents_per_case=3", "evaluated=1", "training.rank=2", "training.max_length=24"),
    *("training.batch_size=1", "partition.method=iid", "workers=1", "device=cpu"),
)
FORMS = ("json", "markdown", "sarif", "csv", "excel", "annex", "docx", "cyclonedx", "html")
COMMANDS: dict[str, tuple[str, ...]] = {
    **{f"report {form}": ("report", "example.json", "--format", form, "--out", FILE)
       for form in FORMS},
    "compare": ("compare", "example.json", "second.json", "--json", FILE),
    "scrub": ("scrub", "r.jsonl", "clean.jsonl", "--detector", "names", "--json", FILE, "--quiet"),
    "scrub out": ("scrub", "r.jsonl", FILE, "--detector", "names", "--quiet"),
    "scrub force": ("scrub", "r.jsonl", FILE, "--detector", "names", "--quiet", "--force"),
    "canary make": ("canary", "make", "--count", "3", "--out", FILE),
    "canary plant": ("canary", "plant", "c.json", "--records", "r.jsonl", "--client", "c1",
                     "--out", FILE),
    "dp make": ("dp", "make", "--corpus", "r.jsonl", "--client", "c0", "--count", "40",
                "--out", FILE),
    "attribute decide": ("attribute", "decide", "scores.json", "--out", FOLDER, "--json", FILE,
                         "--quiet"),
    "attribute estimate": ("attribute", "estimate", "--rounds", "fed", "--threshold", "2",
                           "--out", FOLDER, "--log", FILE, "--quiet"),
    "import": ("import", "src", FOLDER),
    "compare html": ("compare", "example.json", "second.json", "--html", FILE),
    "dp plant": ("dp", "plant", "coins.json", "--records", "r.jsonl", "--out", FILE),
    "attribute bundle": ("attribute", "bundle", "estimates", "--watermark", "marks.json",
                         "--scores", "scores.json", "--report", "report.json", "--commitments",
                         "commitments.json", "--out", FOLDER),
    "init": ("init",),
    "extract": ("extract", "fedaudit-nano", "--adapter", "lora", "--prefixes", "own.jsonl",
                "--victim", "victim.jsonl", "--detector", "names", "--reveal", *BRIEF,
                "--attack", "superset", "--set", "superset.samples=4"),
    "infer": ("infer", "fedaudit-nano", "--adapter", "lora", "--data", "own.jsonl",
              "--detector", "names", "--candidates", "5", *BRIEF),
    "memorize": ("memorize", "--target", "fed", "--clients", "own.jsonl",
                 "victim.jsonl", "--sample", "4", "--detector", "names", *BRIEF),
    "canary measure": ("canary", "measure", "c.json", "fedaudit-nano", "--adapter", "lora",
                       "--references", "2", "--space-limit", "2", *BRIEF),
    "dp audit": ("dp", "audit", "coins.json", "done", "--epsilon",
                 "1", *BRIEF),
    "audit": ("audit", "done", "--prefixes", "own.jsonl", "--victim",
              "victim.jsonl", "--detector", "names", "--policy", "p.toml", "--reveal", *BRIEF),
    "watch": ("watch", "fed", "--ours", "own.jsonl", "--held-out", "victim.jsonl", *BRIEF),
    "watch follow": ("watch", "done", "--follow", "--ours", "own.jsonl", "--held-out",
                     "victim.jsonl", *BRIEF),
    "forget verify": ("forget", "verify", "fed", "--before", "before", "--ours", "own.jsonl",
                      "--held-out", "victim.jsonl", *BRIEF),
    "joint commit": ("joint", "commit", FOLDER, "--as", "new", "--key", "a.pem", "--ours",
                     "own.jsonl", *JOINT),
    "joint ask": ("joint", "ask", "a", "--quiet"),
    "joint answer": ("joint", "answer", "a"),
    "joint count": ("joint", "count", "a", "--counts", "--reveal", "--quiet"),
    "joint report": ("joint", "report", "a", "--json", FILE),
    "merge": ("merge", "s1", "s2", "--reveal", *BRIEF),
    "attribute": ("attribute", "--rounds", "done", "--watermark", "marks.json", "--others", "2",
                  "--queries", "2", "--limit", "1", "--threshold", "2", "--workers", "1", *BRIEF),
    "attribute score": ("attribute", "score", "estimates", "--watermark", "marks.json", "--out",
                        FILE, "--workers", "1", "--device", "cpu", "--quiet"),
    "attribute verify": ("attribute", "verify", "bundle", "--workers", "1", "--quiet"),
    "watermark make": ("watermark", "make", "r.jsonl", FILE, "--watermark", "new.json",
                       "--plugin", "fictitious", "--quiet", "--device", "cpu",
                       *(f"--set={one}" for one in ("nulls=2", "null_names=1", "paraphrases=1"))),
    "watermark commitment": ("watermark", "commitment", "marks.json", "--out", FILE),
    "canary check": ("canary", "check", "c.json", "--records", "r.jsonl", "--client", "c1",
                     "--quiet"),
    "simulate": ("simulate", "--profile", "f.toml", "--out", FOLDER, "--json", FILE, "--quiet",
                 *(f"--set={one}" for one in LITTLE)),
}  # fmt: skip
RECORDS = ("own.jsonl", "victim.jsonl", *(f"fed/data/c{number}.jsonl" for number in range(4)))
"""Files of records, which --force may replace."""
REPORTS = ("second.json", "gated.json", "deployed.json")
"""Reports of the same command as example.json, whose place a further one takes."""
SHARES = {
    **dict.fromkeys(("report annex", "report docx", "report html", "dp make", "memorize"), 1),
    **dict.fromkeys(("extract", "canary measure", "attribute decide", "scrub", "simulate"), 1),
    **dict.fromkeys(("dp audit", "joint ask", "merge", "attribute verify"), 1),
    **dict.fromkeys(("audit", "attribute", "watermark make"), 0.2),
}
"""How many cases commands of over a tenth of a second have, of five of another one."""
WRITTEN = {
    "attribute estimate": ("fed/ledger.jsonl", "fed/federation.json"),
    "attribute": ("done/ledger.jsonl", "done/federation.json"),
    "watermark commitment": ("marks.json",),
    "joint ask": ("a/a.ask.zip",),
    "joint answer": ("a/a.answer-for-b.zip",),
    "joint count": ("a/a.result.json", "a/private/report.json", "a/private/revealed.jsonl"),
}
"""Files of the command's own that it writes anew."""
READ = {
    "import": ("src/lora-r4/round_1/global/adapter_config.json",),
    "audit": ("p.toml", "own.jsonl", "lora/adapter_model.safetensors"),
    "extract": ("own.jsonl", "lora/adapter_model.safetensors"),
    "watch": ("fed/federation.json", "fed/rounds/001/global/adapter_model.safetensors"),
    "watch follow": ("done/federation.json",),
    "forget verify": ("before/federation.json", "fed/federation.json"),
    "joint ask": ("a/b.commit.json", "a/private/member.json"),
    "joint answer": ("a/b.ask.zip", "a/b.commit.json"),
    "joint count": ("a/b.answer-for-a.zip", "a/b.ask.zip"),
    "joint report": ("a/b.result.json", "a/private/member.json"),
    "merge": ("s1/answers.sqlite",),
    "attribute": ("done/federation.json", "marks.json"),
    "attribute score": ("estimates/estimates.json", "marks.json"),
    "attribute verify": ("bundle/bundle.json", "bundle/scores.json"),
    "simulate": ("f.toml",),
}
"""What commands read besides the INPUTS among their words."""
INPUTS = (
    *("example.json", "second.json", "r.jsonl", "c.json", "scores.json", "fed/federation.json"),
    *("coins.json", "marks.json", "report.json", "own.jsonl", "victim.jsonl"),
    *("lora/adapter_config.json", "estimates/estimates.json", "p.toml", "a.pem", "a/a.commit.json"),
    *("a/b.ask.zip", "a/private/member.json", "s1/answers.sqlite", "bundle/bundle.json"),
)

HOSTILE = """
import os, sys
from dataclasses import dataclass
from typing import ClassVar
from fedaudit.api import *

HOW = "idle"


class Odd(BaseException):
    pass


def misbehave():
    how = HOW
    if how.startswith("exit"):
        os._exit(int(how[4:]))
    if how.startswith("leave"):
        sys.exit(int(how[5:]))
    if how == "exec":
        os.execv("/bin/true", ["true"])
    if how == "deep":
        return misbehave()
    raised = {"closes": GeneratorExit, "odd": Odd, "interrupt": KeyboardInterrupt,
              "error": ValueError, "stop": StopIteration, "exit": SystemExit}
    if how in raised:
        raise raised[how]("Zoe" + " Quist\\x1b[31m")
    return {"none": None, "text": "Zoe" + " Quist", "number": 5, "list": [1], "table": {},
            "spans": [((0, 1, "X"),)], "type": int, "yield": (one for one in "ab")}[how]


@dataclass(frozen=True, kw_only=True)
class Detector(PiiDetector):
    "Misbehave."
    name: ClassVar[str] = "hostile"
    def detect(self, texts):
        return misbehave()
    def describe(self):
        return "hostile"


@dataclass(frozen=True, kw_only=True)
class Layout(Importer):
    "Misbehave."
    name: ClassVar[str] = "hostile"
    def runs(self, folder):
        return misbehave() if HOW != "idle" else []
    def read(self, run):
        return misbehave()


@dataclass(frozen=True, kw_only=True)
class Asking(Attack):
    "Misbehave."
    name: ClassVar[str] = "hostile"
    paper: ClassVar[str] = ""
    samples: int = 1
    def run(self, context):
        return misbehave()


@hookimpl
def fedaudit_attacks():
    return [Asking]


@hookimpl
def fedaudit_detectors():
    return [Detector]


@hookimpl
def fedaudit_importers():
    return [Layout]
"""
HOWS = (
    *("exit0", "exit1", "exit3", "leave0", "leave7", "exec", "deep", "closes", "odd", "interrupt"),
    *("error", "stop", "exit", "none", "text", "number", "list", "table", "spans", "type", "yield"),
)


@dataclass
class Case:
    """What a case does to its folder, and in its process before the command runs."""

    words: tuple[str, ...]
    allowed: frozenset[str] = frozenset()
    """Files that the command may write anew: empty ones, and its own earlier outputs."""
    before: Callable[[], None] = lambda: None
    codes: frozenset[int] = frozenset(RESULTS | REFUSED)


def make_template(folder: Path) -> None:
    """Write the inputs of all commands, and an earlier output of each."""
    auditor_files._coins(folder)
    (folder / "c.json").rename(folder / "coins.json")
    for make in (
        targets._reports,
        auditor_files._canaries,
        auditor_files._policies,
        targets._bundle,
        targets._federation,
        fake_audit.written,
    ):
        make(folder)
    for name in ("own.jsonl", "victim.jsonl"):  # some have no PII, so that the detector is asked
        records = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        bare = [{**record, "pii": None} for record in records[:4]]
        lines = [json.dumps(record) for record in (*bare, *records[4:])]
        (folder / name).write_text("\n".join(lines) + "\n")
    targets.TARGETS["folders"].make(folder)
    (folder / "second.json").write_text(document.dumps(example().to_json()))
    records = (folder / "r.jsonl").read_text() + '{"text": "Dear Mrs Ann Lee of York."}\n'
    (folder / "r.jsonl").write_text(records)
    (folder / "earlier").mkdir()
    for name, seed in (("done", 0), ("before", 1)):
        made = handmade.write(folder / name, clients=4, rounds=1, seed=seed)
        table = json.loads((made.path / manifest.NAME).read_text())
        (made.path / manifest.NAME).write_text(json.dumps({**table, "status": "complete"}))
    text = files(profile.PACKAGE).joinpath("fed_pii.toml").read_text("utf-8")
    (folder / "f.toml").write_text(text)
    _run_in(folder, SHARD, "--shard", "1/2", "--out", "s1")
    _run_in(folder, SHARD, "--shard", "2/2", "--out", "s2")
    _joint(folder)


SHARD = ("extract", "fedaudit-nano", "--adapter", "lora", "--prefixes", "own.jsonl", "--victim",
         "victim.jsonl", "--detector", "names", "--attack", "superset", "--set",
         "superset.samples=2", "--device", "cpu", "--quiet")  # fmt: skip


def _joint(folder: Path) -> None:
    """Take two members to the end of a joint audit; the folder of b goes."""
    form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    for name, ours in (("a", "own.jsonl"), ("b", "victim.jsonl")):
        key = Ed25519PrivateKey.generate().private_bytes(*form)
        (folder / f"{name}.pem").write_bytes(key)
        words = ("--as", name, "--key", f"{name}.pem", "--ours", ours, "--budget", "20")
        _run_in(folder, ("joint", "commit", name, *words), *JOINT)
    for step in ("ask", "answer", "count", "report"):
        for name, other in ("ab", "ba"):
            for path in (folder / other).glob(f"{other}.*"):
                shutil.copy(path, folder / name)
            if step != "report":
                _run_in(folder, ("joint", step, name), *(["--counts"] if step == "count" else []))
    shutil.rmtree(folder / "b")


def _run_in(folder: Path, words: tuple[str, ...], *more: str) -> None:
    code, _, err = in_place(folder, Case((*words, *more)))
    assert code in RESULTS, (words, err)


IMPORTED: set[str] = set()
"""The commands that ended with a result in this process: its forks have what they import."""


def import_for(command: str, template: Path, folder: Path) -> None:
    """Run a command in this process unless a case did."""
    import torch

    torch.set_num_threads(1)  # the threads of others would not be in a fork
    if command not in IMPORTED:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        code, _, err = in_place(folder, Case(words_of(command, "made-o", "made-d")))
        assert code in RESULTS, (command, err)
        IMPORTED.add(command)


def install(site: Path) -> None:
    """Install a package with a plugin that misbehaves as its HOW says."""
    info = site / "hostile_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fedaudit]\nhostile = hostile_module\n")
    (site / "hostile_module.py").write_text(HOSTILE)


def words_of(command: str, file: str, folder: str) -> tuple[str, ...]:
    return tuple(word.format(file=file, folder=folder) for word in COMMANDS[command])


def scatter(folder: Path, rng: random.Random) -> None:
    """Put files of the user's anywhere, whose names resemble those that fedaudit uses."""
    places = [folder, folder / "made", folder / "fed", folder / "earlier", folder / "fed/rounds"]
    for _ in range(rng.randrange(4, 9)):
        place = rng.choice(places)
        pid = rng.choice((os.getpid(), 1, 999_999, 2**31 - 1, 4_194_304))
        token = f"{rng.getrandbits(64):016x}"
        stem = rng.choice(("r", "made", "f", "report.json", "env", "secrets", "answers.sqlite"))
        name = rng.choice((
            f".{stem}.original", f".{stem}.settings", f".{stem}.template", f".tmp{token[:6]}",
            f".fedaudit-{pid}-{token}", f".fedaudit-{token}", f".fedaudit-{pid}-{token}.bak",
            f"{stem}~", f".{stem}.lock", f".{stem}.swp", f"{stem}.tmp", ".stage",
            f".fedaudit-{pid}",
        ))  # fmt: skip
        path = place / name
        if path.exists():
            continue
        place.mkdir(exist_ok=True)
        if rng.random() < 0.4:
            path.mkdir()
            mark = rng.choice((f"{name}x", name[:-1], "", f"{name}\n"))
            (path / rng.choice((MARK, "thesis.txt", ".stage.bak"))).write_text(mark or "mine")
            (path / "mine").write_text("precious")
        else:
            path.write_bytes(rng.choice((b"precious", b"{}", b"\x00\xff", b"kind,plugin")))


def globs(command: str, folder: Path, rng: random.Random) -> Case:
    file, out = rng.choice(("made/o", "o", "earlier/o.jsonl", ".o")), rng.choice(("made/d", "d"))
    (folder / "made").mkdir(exist_ok=True)

    def clean() -> None:
        remove_stale_stages(folder, below=True)

    return Case(words_of(command, file, out), before=clean)


def outputs(command: str, folder: Path, rng: random.Random) -> Case:
    """Let outputs name inputs, files of the user's, empty files, folders, links."""
    (folder / "empty").write_bytes(b"")
    (folder / "notes.md").write_text("# Mine\n")
    (folder / "table.csv").write_text("kind;plugin\n1;2\n")
    (folder / "link").symlink_to(rng.choice(INPUTS))
    known = [p for p in folder.rglob("*") if p.is_file() or p.is_symlink()]
    file = rng.choice(
        [
            *INPUTS,
            "empty",
            "notes.md",
            "table.csv",
            "link",
            "fed",
            "src",
            ".",
            "",
            *(p.relative_to(folder).as_posix() for p in rng.sample(known, 8)),
        ]
    )
    out = rng.choice((*INPUTS, "fed", "src", "d", "earlier", "link", ".", "fed/rounds"))
    same = {
        "report json": REPORTS,
        "scrub force": RECORDS,
        "attribute decide": ("report.json",),  # an earlier report of its own
    }.get(command, ())
    return Case(words_of(command, file, out), frozenset({"empty", *same}))


def errors(command: str, folder: Path, rng: random.Random) -> Case:
    """Let the disk fail or the memory end somewhere within the command."""
    how = rng.choice(("size", "size", "call", "call", "call", "call", "memory"))
    number = rng.choice((errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ENOMEM))
    nth = rng.choice((1, 1, 2, 3, 5, 9))
    wrap = rng.random() < 0.4
    limit = rng.choice((0, 1, 100, 5_000))
    name = rng.choice(("replace", "fsync", "open", "mkdir", "rename", "link", "write"))

    def fail() -> None:
        if how == "size":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        elif how == "memory":
            used = _data_bytes()
            most = used + rng.choice((2**20, 2**22, 2**24))
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        else:
            _fail_call(name, nth, number, wrap)

    own = frozenset(WRITTEN.get(command, ()))
    return Case(words_of(command, "made-o", "made-d"), own, before=fail)


def _data_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmData")).split()[1]) * 1024


def _fail_call(name: str, nth: int, number: int, wrap: bool) -> None:
    """Let the nth call of a function of `os` fail with an error of the system, or a library's."""
    whole, calls, told = getattr(os, name), [0], sys.stderr.fileno()

    def failing(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        harmless = name == "open" and not arguments[1] & (os.O_WRONLY | os.O_RDWR)
        if harmless or (name == "write" and arguments[0] in (1, 2, told)) or calls[0] < nth:
            return whole(*arguments, **options)
        failed = OSError(number, os.strerror(number))
        if wrap:
            raise RuntimeError(f"I/O error: {os.strerror(number)} (os error {number})") from failed
        raise failed

    setattr(os, name, failing)


def objects(command: str, folder: Path, rng: random.Random) -> Case:
    """Put millions of values, or of characters without a line end, in place of an input."""
    count = rng.choice((2**22 + 9, 5_000_000))
    bomb = rng.choice((
        lambda: b"[" + b"[]," * count + b"[]]",
        lambda: b'{"text": "a", "pii": [' + b"{}," * count + b"{}]}",
        lambda: b'{"a":' * count,
        lambda: b'{"text": "' + b"x" * (2**26) + b'"}',
        lambda: b"[" * 10_000_000,
        lambda: b"," * 40_000_000,
        lambda: b'{"schema_version": "1.0", "measurements": [' + b"1," * count + b"1]}",
        lambda: b'{"a": 1' + b"0" * 5_000_000 + b"}",
    ))  # fmt: skip
    named = [word for word in COMMANDS[command] if word in INPUTS] or ["fed/federation.json"]
    named = list(READ.get(command, named))
    (folder / rng.choice(named)).write_bytes(bomb())
    return Case(words_of(command, "made-o", "made-d"))


def plugins(command: str, _folder: Path, rng: random.Random) -> Case:
    """Let a detector, an attack or an importer end the process, or return anything."""
    how = rng.choice(HOWS)

    def set_how() -> None:
        import hostile_module

        hostile_module.HOW = how

    words = words_of(command, "made-o", "made-d")
    if taken := [word for word in words if word in ("names", "superset")]:
        name = rng.choice(taken)
        words = tuple(word.replace(name, "hostile") for word in words)
    return Case(words, before=set_how, codes=frozenset({70}))


def signals(command: str, _folder: Path, rng: random.Random) -> Case:
    """Stop the command by Ctrl-C or SIGTERM at any moment of its first second."""
    number = rng.choice((signal.SIGINT, signal.SIGTERM))
    delay = rng.uniform(0.005, rng.choice((0.05, 0.3, 1)))

    def stop(_: int, frame: FrameType | None) -> None:
        if not began(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            return
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        os.kill(os.getpid(), number)

    def start() -> None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as `fedaudit.__main__` does
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, delay)

    words = words_of(command, "made-o", "made-d")
    return Case(words, frozenset(WRITTEN.get(command, ())), before=start)


def began(frame: FrameType | None) -> bool:
    """Tell whether a frame is within the command line, where an interruption is handled."""
    while frame is not None and frame.f_code is not cli.main.__code__:
        frame = frame.f_back
    return frame is not None


KINDS = {
    "globs": (globs, tuple(COMMANDS)),  # first, since these import what the others' forks need
    "signals": (signals, tuple(COMMANDS)),
    "outputs": (outputs, tuple(COMMANDS)),
    "errors": (errors, tuple(COMMANDS)),
    "objects": (objects, tuple(c for c in COMMANDS if c not in ("canary make",))),
    "plugins": (
        plugins,
        ("scrub", "scrub out", "extract", "infer", "import"),
    ),
}
FORKED = ("errors", "plugins", "signals")


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Return every file below a folder by its name, with its bytes or where it leads to."""
    found: dict[str, bytes | str] = {}
    for place, names, plain in os.walk(folder):
        for name in [*plain, *(n for n in names if os.path.islink(os.path.join(place, n)))]:
            path = os.path.join(place, name)
            relative = os.path.relpath(path, folder)
            if os.path.islink(path):
                found[relative] = os.readlink(path)
            else:
                with open(path, "rb") as file:
                    found[relative] = file.read()
    return found


def run_case(template: Path, folder: Path, kind: str, command: str, number: int) -> str:
    """Run a case; return how it ended. Raises AssertionError for what must not be."""
    rng = random.Random(f"{kind} {command} {number}")
    if kind in FORKED:
        import_for(command, template, folder)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    make, _ = KINDS[kind]
    if kind in ("globs", "errors", "outputs", "signals"):
        scatter(folder, rng)
    case = make(command, folder, rng)
    before = snapshot(folder)
    code, out, err = (in_fork if kind in FORKED else in_place)(folder, case)
    if kind == "globs" and code in RESULTS:
        IMPORTED.add(command)
    after = snapshot(folder)
    shown = f"{kind}, {command}, case {number}: {case.words}: exit code {code}: {err[-1500:]}"
    lost = [n for n in before if n not in case.allowed and after.get(n) != before[n]]
    own = WRITTEN.get(command, ())
    assert not [name for name in lost if name not in own or code not in RESULTS], (lost, shown)
    assert code in case.codes, shown
    if kind != "plugins" or "bug in the plugin 'hostile'" not in err:
        assert "Traceback" not in err, shown
        if code not in RESULTS:
            *notes, line = err.strip().splitlines()
            assert line.startswith("fedaudit: "), shown
            assert not notes or kind == "signals", shown  # which may follow a command's last note
    assert "\x1b" not in out + err, shown
    assert "Zoe Quist" not in out + err, shown
    if kind == "plugins":
        assert "hostile" in err, shown
    left = {n.split("/")[0] for n in after.keys() - before.keys() if "/.stage" in n}
    assert not left or code not in RESULTS | REFUSED, (left, shown)
    return str(code)


def in_place(folder: Path, case: Case) -> tuple[int, str, str]:
    """Run a command in this process, which takes a tenth of a fork's time."""
    here, arguments = Path.cwd(), sys.argv
    out, err = io.StringIO(), io.StringIO()
    os.chdir(folder)
    sys.argv = ["fedaudit", *case.words]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            case.before()
            cli.main()
        code: object = 0
    except SystemExit as left:
        code = left.code
    finally:
        os.chdir(here)
        sys.argv = arguments
    return code if isinstance(code, int) else 99, out.getvalue(), err.getvalue()


def in_fork(folder: Path, case: Case) -> tuple[int, str, str]:
    """Run a command in a child of this process; return its exit code and what it wrote."""
    # Pipes, since a limit on the size of files holds for files of output as well.
    pipes = [os.pipe() for _ in range(2)]
    for reader, _ in pipes:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 2**20)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        leave = os._exit
        try:
            for stream, (_, writer) in zip((1, 2), pipes, strict=True):
                os.dup2(writer, stream)
            sys.stdout, sys.stderr = (os.fdopen(s, "w", closefd=False) for s in (1, 2))
            os.chdir(folder)
            sys.argv = ["fedaudit", *case.words]
            signal.alarm(SECONDS)
            case.before()
            fedaudit.__main__.main()
            leave(0)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    code = code or 99
            leave(code)
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
            leave(98)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    shown = []
    for reader, writer in pipes:
        os.close(writer)
        with os.fdopen(reader, "rb") as end:
            shown.append(end.read().decode("utf-8", "replace"))
    return code, shown[0], shown[1]
