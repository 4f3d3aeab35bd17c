"""The same cases through the command line: a documented exit code, and one line for what is odd."""

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from sandbox import judged
from targets import OUT, TARGETS

from fedaudit import cli

CASES = max(1, int(os.environ.get("FUZZ_CASES", "1000")) // 200)
SEED = int(os.environ.get("FUZZ_SEED", "0"))
NUMBERS = st.integers(0, 2**64 - 1)
RESULTS, REFUSED = {0, 1, 7}, {2, 3, 4, 5, 6}

MANIFEST = "fed/federation.json"
COMMANDS = {
    "manifests": (
        MANIFEST,
        *("attribute", "estimate", "--rounds", "fed", "--threshold", "2"),
        *("--out", f"{OUT}/estimates", "--log", f"{OUT}/log.json", "--quiet"),
    ),
    "deployment": (MANIFEST, "gate", "ask", "fed", "a", "--client", "c0", "--device", "cpu"),
    "records": ("r.jsonl", "scrub", "r.jsonl", f"{OUT}/clean.jsonl", "--quiet"),
    "shards": ("1/answers.sqlite", "merge", "1", "2", "--out", OUT),
    "estimates": (
        *("scores.json", "attribute", "decide", "scores.json"),
        *("--out", f"{OUT}/decided", "--quiet"),
    ),
    "reports": ("example.json", "report", "example.json", "--format", "markdown"),
}
"""The file that is changed, and the command."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name, tmp_path, monkeypatch, capfd):
    file, *words = COMMANDS[name]
    target, ends = TARGETS[name], Counter()
    target = replace(target, files={file: target.files[file]})
    target.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["fedaudit", *words])

    @seed(SEED)
    @settings(
        max_examples=CASES,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(NUMBERS)
    def case(number):
        run, restore = target.case(tmp_path, Random(number), lambda _: left(cli.main))
        try:
            capfd.readouterr()
            codes = []
            judged(lambda: codes.append(run()), tmp_path / OUT)
        finally:
            restore()
        said = capfd.readouterr()
        assert codes[0] in RESULTS | REFUSED, said.err
        assert "Traceback" not in said.err
        if codes[0] in REFUSED:
            assert said.out == ""
            assert len(said.err.splitlines()) == 1, said.err
        ends[codes[0]] += 1

    (tmp_path / OUT).mkdir()
    left(cli.main)  # imports what it needs, which is no part of a case's time and memory
    case()
    with capfd.disabled():
        print(f"\n{name} as a command: {ends.total()} cases, seed {SEED}: {dict(ends)}", end="")


def left(main):
    """Return the code that a command leaves with."""
    with pytest.raises(SystemExit) as raised:
        main()
    return raised.value.code
