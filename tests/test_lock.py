"""requirements.lock has hashes for exactly what constraints.txt pins, but for torch."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pins(text):
    found = re.findall(r"^([\w.-]+)==([\w.+!]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_every_pin_but_torch_has_hashes():
    wanted = pins((ROOT / "constraints.txt").read_text())
    wanted.pop("torch")
    text = (ROOT / "requirements.lock").read_text()
    assert pins(text) == wanted, "constraints.txt has changed: run `make lock`"
    for entry in re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]:
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})(?: \\)?$", entry, re.MULTILINE)
        assert hashes, entry
        assert len(hashes) == len(set(hashes)) == len(entry.splitlines()) - 1


def test_pip_reads_it():
    allowed = re.compile(r"#.*|[\w.-]+==\S+( ; .+)? \\|    --hash=sha256:\w{64}( \\)?")
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert allowed.fullmatch(line), line


def test_make_extras_resolves_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [listed] = re.findall(
        r"^\tfor extra in (.+); do", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert listed.split() == sorted(extras["optional-dependencies"])
