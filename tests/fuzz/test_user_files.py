"""Nothing of the user's is lost: hostile cases of each kind, on each command that it concerns."""

import os
import sys
import tempfile
from collections import Counter
from math import ceil
from pathlib import Path

import fake_audit
import handmade
import pytest
import user_files

from fedaudit.attribution.decision import calibration
from fedaudit.extraction import controls, learned, prefix_attack
from fedaudit.federation import watermark_keys
from fedaudit.joint import intersection

SEED = int(os.environ.get("FUZZ_SEED", "0"))
PAIRS = [(kind, command) for kind, (_, commands) in user_files.KINDS.items()
         for command in commands]  # fmt: skip
CASES = int(os.environ.get("FUZZ_CASES", "1"))
"""Of all kinds and commands together; one of each in `make test`."""
SLOW = (("objects", "audit"),)
"""Of these commands `make test` runs the other kinds."""
FEW = ((controls, "MAX_CONTROLS", 8), (prefix_attack, "CONTROLS", 100), (learned, "MAX_TARGETS", 4),
       (calibration, "FEDERATIONS", 4), (intersection, "LEAST", 4))  # fmt: skip
"""What a command does often, and where its files are does not depend on it."""
SHARES = {pair: user_files.SHARES.get(pair[1], 5) for pair in PAIRS}


@pytest.fixture(scope="module")
def place():
    """Return a folder with the inputs of all commands."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where removing is quick
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield from _filled(Path(folder))


def _filled(place):
    undo = pytest.MonkeyPatch()
    fake_audit.replace(undo.setattr, os.devnull, fake_audit.Chances("SIGKILL", sys.maxsize))
    for module, name, count in FEW:
        undo.setattr(module, name, count)
    user_files.install(place / "site")
    sys.path.insert(0, str(place / "site"))
    from fedaudit.config import registry

    registry.manager.cache_clear()
    registry.plugins.cache_clear()
    (place / "template").mkdir()
    arguments = sys.argv
    user_files.make_template(place / "template")
    handmade.reading(undo, watermark_keys.read(place / "template/marks.json")[0])
    sys.argv = arguments
    yield place
    undo.undo()
    sys.path.remove(str(place / "site"))
    registry.manager.cache_clear()
    registry.plugins.cache_clear()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        pytest.param(*pair, marks=[pytest.mark.oracle] * (CASES == 1 and pair in SLOW))
        for pair in PAIRS
    ],
    ids=["-".join(pair) for pair in PAIRS],
)
def test_a_kind_on_a_command(place, kind, command):
    ends = Counter()
    for number in range(ceil(CASES * SHARES[kind, command] / sum(SHARES.values()))):
        ends[
            user_files.run_case(
                place / "template", place / "case", kind, command, SEED * 10**9 + number
            )
        ] += 1
