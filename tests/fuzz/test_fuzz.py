"""Every file that others made ends a command in a result or in one line, whatever is in it.

`make test` runs few cases of each target; FUZZ_CASES (of all targets together) and FUZZ_SEED say
how many, and which. A case is its number: see `test_a_case` to run one again.
"""

import os
from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from sandbox import judged
from targets import OUT, TARGETS

CASES = int(os.environ.get("FUZZ_CASES", "300"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
NUMBERS = st.integers(0, 2**64 - 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folder of each target, made when it is first asked for."""
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            TARGETS[name].make(made[name])
        return made[name]

    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TARGETS)
def test_what_is_read(name, folders, capsys):
    target, folder, ends = TARGETS[name], folders(name), Counter()

    @seed(SEED)
    @settings(
        max_examples=max(1, int(CASES * target.share / 100)),
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(NUMBERS)
    def case(number):
        run, restore = target.case(folder, Random(number))
        try:
            ends[judged(run, folder / OUT)] += 1
        except BaseException as error:  # a hang is none that hypothesis would name the case of
            error.add_note(f"{name}, case {number}")
            raise
        finally:
            restore()

    (folder / OUT).mkdir(exist_ok=True)
    target.run(folder)  # valid as they are
    case()
    with capsys.disabled():
        told = ", ".join(f"{count} {end}" for end, count in ends.most_common())
        print(f"\n{name}: {ends.total()} cases, seed {SEED}: {told}", end="")
    # Neither was everything refused nor nothing; of few cases all may end alike.
    assert len(ends) > 1 or ends.total() < 100 or not target.mixed


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("manifests", 1927541),
        ("manifests", 37864335809),
        ("manifests", 56477863),
        ("ledger", 3143),
        ("estimates", 98087),
        ("estimates", 22763547),
        ("profiles", 2983),
        ("sums", 1927541),
        ("bundles", 453175596),
        ("estimates", 453175596),
        ("policies", 794),
        ("estimates", 38029),
        ("texts", 66579),
        ("reports", 260),
    ],
)
def test_a_case(name, number, folders):
    """Cases that once ended in a traceback or did not end.

    Weights 1e323 times others', a limit of -1e308, a round of nobody, a ledger's weight of 1e999,
    updates of 10^400 numbers, clients without number, a policy's limit of 10^400,
    scores of the 10^9th round, a thousand first names with hyphens, more hits than strings.
    """
    target, folder = TARGETS[name], folders(name)
    (folder / OUT).mkdir(exist_ok=True)
    run, restore = target.case(folder, Random(number))
    try:
        assert judged(run, folder / OUT) in ("InputError", "UsageError", "result")
    finally:
        restore()
