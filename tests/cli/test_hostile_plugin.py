"""Packages that a user may have installed: no ESC, no traceback, and the package is named."""

import fork
import pytest

HEAD = """
from dataclasses import dataclass, field
from typing import ClassVar
from fedaudit.api import *

ESC = "\\x1b[31m\\x1b]0;owned\\x07\\u202e"
"""
ATTACK = """
@dataclass(frozen=True, kw_only=True)
class Odd(Attack):
    __doc__ = "Look harmless" + ESC + "."
    name: ClassVar[str] = "odd"
    paper: ClassVar[str] = "doi:10.1/x" + ESC
    word: str = ESC
    things: tuple[str, ...] = field(default_factory=lambda: (ESC,))
    def run(self, context):
        return None

@hookimpl
def fedaudit_attacks():
    return [Odd]
"""
DETECTOR = """
@dataclass(frozen=True, kw_only=True)
class Odd(PiiDetector):
    "Find nothing."
    name: ClassVar[str] = "odd"
    how: str = "none"
    def detect(self, texts):
        if self.how == "closes":
            raise GeneratorExit
        return {"none": None, "text": ESC, "few": [], "beyond": [(PiiSpan(0, 10**6, "PERSON"),)],
                "tuple": [((0, 1, "PERSON"),)]}[self.how]
    def describe(self):
        return "odd"

@hookimpl
def fedaudit_detectors():
    return [Odd]
"""
HARMLESS = (
    ("escapes", ATTACK, 0, "odd"),
    ("no docstring", ATTACK.replace('    __doc__ = "Look harmless" + ESC + "."\n', ""), 0, "odd"),
)
BROKEN = (
    ("name is a number", ATTACK.replace('= "odd"', "= 5"), "has a name that is not letters"),
    ("name has ESC", ATTACK.replace('= "odd"', "= ESC"), "has a name that is not letters"),
    ("paper is a number", ATTACK.replace('"doi:10.1/x" + ESC', "5"), "its paper is not text"),
    ("another class", ATTACK.replace("(Attack)", ""), "Plugin of fedaudit.api"),
    ("raises ESC", "raise ValueError(ESC)", "does not load"),
    ("error that raises", "class E(Exception):\n    def __str__(self): raise E\nraise E()",
     "does not load"),
    ("hook returns None", "@hookimpl\ndef fedaudit_attacks():\n    return None", "does not load"),
    ("hook raises", "@hookimpl\ndef fedaudit_attacks():\n    raise RuntimeError(ESC)",
     "does not load"),
    ("hook leaves", "@hookimpl\ndef fedaudit_attacks():\n    raise GeneratorExit",
     "does not load"),
)  # fmt: skip
WORDS = (("plugins",), ("plugins", "fed_attr"), ("simulate", "--profile", "p.toml"))


@pytest.fixture
def run(tmp_path):
    """Return what installs a package of one module and runs fedaudit with it."""
    site = tmp_path / "site"
    info = site / "odd_package-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-package\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[fedaudit]\nodd = odd_module\n")
    (tmp_path / "p.toml").write_text('title = "x\\u001b[31m"\nname = "p"\nlike = "\\u001b"\n')
    (tmp_path / "r.jsonl").write_text('{"text": "Ann Lee of York."}\n')

    def call(source, *words):
        (site / "odd_module.py").write_text(HEAD + source)
        done = fork.run(*words, cwd=tmp_path, site=site)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\u202e" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return call


@pytest.mark.parametrize(("source", "code", "says"), [h[1:] for h in HARMLESS])
@pytest.mark.parametrize("words", [("plugins",), ("plugins", "odd")])
def test_what_is_shown_of_a_package_cannot_steer_the_terminal(run, source, code, says, words):
    done = run(source, *words)
    assert (done.returncode, done.stderr) == (code, "")
    assert says in done.stdout


@pytest.mark.parametrize(("source", "says"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_a_package_that_does_not_load_is_named_in_a_line(run, source, says):
    done = run(source, "plugins")
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert "odd-package" in line
    assert says in line


@pytest.mark.parametrize("words", WORDS[:2])
def test_an_interrupt_that_a_package_raises_while_it_loads_is_its_own(run, words):
    done = run("raise KeyboardInterrupt", *words)
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (70, "")
    assert "odd-package" in line


@pytest.mark.parametrize("words", [("profiles", "p.toml"), WORDS[2]])
def test_a_profile_with_escapes_is_refused_in_a_line(run, words):
    done = run(ATTACK, *words)
    assert len(done.stderr.splitlines()) == 1
    assert (done.returncode, done.stdout) in ((2, ""), (3, ""))


@pytest.mark.parametrize("how", ["none", "text", "few", "beyond", "tuple", "closes"])
def test_what_a_detector_should_not_return_is_its_fault(run, tmp_path, how):
    done = run(
        DETECTOR, "scrub", "r.jsonl", "clean.jsonl", "--detector", "odd", "--set", f"odd.how={how}"
    )
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (70, "")
    assert "'odd' of odd-package 2.5" in line
    assert not (tmp_path / "clean.jsonl").exists()
