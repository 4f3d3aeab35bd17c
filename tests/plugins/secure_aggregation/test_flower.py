"""SecAgg+ by Flower: what surrounds the protocol, and where Flower is installed, the protocol."""

import json
import logging
import sys
import time

import numpy as np
import pytest
import torch
from fedaudit_plugins.secure_aggregation import flower, flower_protocol
from fedaudit_plugins.secure_aggregation.flower import flatten, layout_of, unflatten
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import InputError, TargetError, UsageError
from fedaudit.config import registry

UPDATES = {
    f"c{i}": {
        "l.lora_A.weight": torch.tensor([[0.5, -1.0, 0.25]]) * (i + 1),
        "l.lora_B.weight": torch.tensor([[1.0], [2.0]]) * 10**-i,
    }
    for i in range(4)
}


def secagg(**options):
    return registry.create("secure aggregation", "flower", {"threshold": 2, **options})


@pytest.fixture
def installed(monkeypatch):
    """Flower as good as installed, for what happens before it starts."""
    monkeypatch.setattr(flower, "find_spec", lambda name: object())
    monkeypatch.setattr(flower, "version", lambda name: "2.55.1")


@pytest.fixture
def simulated(installed, monkeypatch):
    """A simulation that adds up the files; gives the plans that it was handed."""
    plans = []

    def simulate(folder, limit):
        plans.append(json.loads((folder / "plan.json").read_text()) | {"limit": limit})
        for number, cohort in enumerate(plans[-1]["cohorts"]):
            parts = [flower_protocol.read(folder, who) for who in cohort]
            np.save(folder / f"sum-{number}.npy", sum(parts))

    monkeypatch.setattr(flower, "_simulate", simulate)
    return plans


@given(
    shapes=st.dictionaries(
        st.text("abc.", min_size=1, max_size=5),
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
        max_size=4,
    ),
    seed=st.integers(0, 2**31),
)
def test_a_vector_gives_its_update_back(shapes, seed):
    draw = torch.Generator().manual_seed(seed)
    update = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    back = unflatten(flatten(update, layout_of(update), "c0"), layout_of(update))
    assert list(back) == sorted(update)
    assert all(torch.equal(back[name], update[name]) for name in update)


def test_a_vector_is_in_alphabetical_order_by_hand():
    update = {"b": torch.tensor([[3.0, 4.0], [5.0, 6.0]]), "a": torch.tensor([1, 2])}
    assert layout_of(update) == {"a": (2,), "b": (2, 2)}
    assert flatten(update, layout_of(update), "c0").tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"w": torch.zeros(3)}, "The update of c7 has other tensors"),
        ({"v": torch.zeros(2)}, "The update of c7 has other tensors"),
        ({"w": torch.tensor([0.0, float("nan")])}, "c7 has a value that is not a finite number"),
        ({"w": torch.tensor([0.0, float("-inf")])}, "c7 has a value that is not a finite number"),
    ],
)
def test_updates_that_cannot_be_added(update, message):
    with pytest.raises(InputError, match=message):
        flatten(update, {"w": (2,)}, "c7")


def test_the_step_by_hand():
    # Between -0.5 and 0.5 there are 2^22 steps of one 4194304th.
    assert flower.step(0.5) == 1 / 4194304
    # 1023 clients on the highest level, 2^22, are just below 2^32; one more is 2^32 itself.
    assert flower.MAX_CLIENTS * 2**22 < 2**32 == (flower.MAX_CLIENTS + 1) * 2**22


def test_what_the_simulation_is_told(simulated):
    secagg(timeout=3, shares=1).add(UPDATES, [("c3", "c1"), ("c1", "c2", "c3")])
    (plan,) = simulated
    # c0 is in no set and so in no simulation; the others are 0, 1 and 2.
    assert (plan["clients"], plan["cohorts"]) == (3, [[0, 2], [0, 1, 2]])
    assert plan["clipping"] == 4.0  # c3: -1.0 * 4
    assert (plan["levels"], plan["shares"], plan["reconstruction"]) == (2**22, 1.0, 0.5)
    assert plan["limit"] == 120 + 3 * 9


def test_sums_come_back_by_name_in_the_order_of_the_sets(simulated):
    sets = [("c0", "c1"), ("c1", "c2", "c3"), ("c0", "c1")]
    expected = registry.create("secure aggregation", "ideal", {"threshold": 2}).sums(UPDATES, sets)
    for found, total in zip(secagg().sums(UPDATES, sets), expected, strict=True):
        for name in total:
            torch.testing.assert_close(found[name], total[name])
            assert found[name].dtype == torch.float32


def test_clipping_is_the_option_or_one_where_all_is_zero(simulated):
    secagg(clipping=0.25).add(UPDATES, [("c0", "c1")])
    secagg().add({who: {"w": torch.zeros(2)} for who in "ab"}, [("a", "b")])
    assert [plan["clipping"] for plan in simulated] == [0.25, 1.0]


def test_no_sets_start_nothing(simulated):
    assert secagg().add(UPDATES, []) == []
    assert simulated == []


@pytest.mark.parametrize("absent", ["flwr", "ray"])
def test_flower_that_is_not_installed_is_named(absent, monkeypatch):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(UsageError) as error:
        secagg().sums(UPDATES, [("c0", "c1")])
    assert str(error.value) == (
        "The secure aggregation flower needs Flower: pip install 'fedaudit[flower]'."
    )


@pytest.mark.parametrize(
    ("found", "refused"), [("2.51.1", True), ("2.52.0", False), ("3.0", False)]
)
def test_a_ray_that_lets_strangers_in_is_refused(simulated, monkeypatch, found, refused):
    monkeypatch.setattr(flower, "version", lambda name: found)
    if refused:
        with pytest.raises(UsageError, match="runs what anybody on the network sends"):
            secagg().sums(UPDATES, [("c0", "c1")])
    else:
        assert len(secagg().sums(UPDATES, [("c0", "c1")])) == 1
    assert len(simulated) == (not refused)


def test_more_clients_than_fit_are_refused(installed):
    many = {f"c{i}": {"w": torch.zeros(1)} for i in range(1024)}
    with pytest.raises(UsageError, match="at most 1023 clients, not 1024"):
        secagg().sums(many, [tuple(many)])


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 1},
        {"shares": 0.0},
        {"shares": 1.5},
        {"reconstruction": 0.0},
        {"reconstruction": 2.0},
        {"clipping": -1.0},
        {"clipping": float("nan")},
        {"clipping": float("inf")},
        {"timeout": 0.0},
        {"timeout": float("inf")},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        secagg(**options)


@pytest.mark.parametrize(
    ("written", "message"),
    [("its round gave no sum", "its round gave no sum"), (None, "Flower gave no reason")],
)
def test_a_round_without_a_sum_is_an_error(installed, monkeypatch, written, message):
    def halted(folder, limit):
        np.save(folder / "sum-0.npy", np.zeros(5))
        if written:
            (folder / "problem").write_text(written)

    monkeypatch.setattr(flower, "_simulate", halted)
    with pytest.raises(TargetError) as error:
        secagg().sums(UPDATES, [("c0", "c1"), ("c1", "c2", "c3")])
    assert str(error.value) == f"Secure aggregation halted at a sum over 3 clients: {message}."


def test_a_simulation_that_does_not_end_is_ended(tmp_path, monkeypatch):
    endless = "import sys, time; open(sys.argv[1] + '/began', 'w').close(); time.sleep(600)"
    monkeypatch.setattr(flower, "CHILD", endless)
    with pytest.raises(TargetError, match="Flower did not end within 2 seconds"):
        flower._simulate(tmp_path, limit=2)
    assert (tmp_path / "began").exists()


def test_the_whole_group_of_processes_is_ended(tmp_path, monkeypatch):
    # A grandchild that outlives its parent, as Ray's processes may: it would write again and again.
    inner = "import sys, time\nwhile True: open(sys.argv[1], 'a').write('.'); time.sleep(0.01)"
    outer = (
        "import os, subprocess, sys, time; path = sys.argv[1] + '/beats'; "
        f"subprocess.Popen([sys.executable, '-c', {inner!r}, path])\n"
        "while not os.path.exists(path): time.sleep(0.01)"
    )
    monkeypatch.setattr(flower, "CHILD", outer)
    flower._simulate(tmp_path, limit=30)
    (tmp_path / "beats").unlink()
    time.sleep(0.2)
    assert not (tmp_path / "beats").exists()


def test_nothing_is_reported_home_and_ray_asks_for_a_token(tmp_path):
    first, second = (flower._environment(tmp_path) for _ in range(2))
    assert first["FLWR_TELEMETRY_ENABLED"] == first["RAY_USAGE_STATS_ENABLED"] == "0"
    assert first["FLWR_HOME"].startswith(str(tmp_path))
    assert first["RAY_AUTH_MODE"] == "token"
    assert first["RAY_AUTH_TOKEN"] != second["RAY_AUTH_TOKEN"]


def test_a_reason_is_one_printable_line():
    problems = flower_protocol.ErrorCollector()
    log = logging.Logger("flwr")
    log.addHandler(problems)
    log.info("[ROUND 1]")
    log.error("Insufficient available nodes.")
    log.error("Traceback\n  line")
    assert problems.lines == ["Insufficient available nodes."]
    found = flower_protocol.reason(ValueError("no\x1b[1m sum.\nmore"), problems.lines)
    assert found == "no[1m sum; Insufficient available nodes"
    assert flower_protocol.reason(KeyError(), []) == "KeyError"


def protocol():
    """Skip where Flower is not; return a form whose rounding is coarse enough to see."""
    pytest.importorskip("flwr")
    pytest.importorskip("ray")
    return secagg(clipping=256.0)


def test_the_protocol_itself():
    secure = protocol()
    draw = torch.Generator().manual_seed(5)
    updates = {f"c{i}": {"w": torch.randn(40, 5, generator=draw) / 8} for i in range(5)}
    sets = [tuple(updates), ("c0", "c3"), ("c4", "c3", "c1"), ("c0", "c3")]
    found = secure.sums(updates, sets)
    assert len(found) == len(sets)
    step = 2 * 256.0 / 2**22
    rounded = []
    for members, total in zip(sets, found, strict=True):
        exact = sum(updates[who]["w"].double() for who in members)
        # float32 holds these sums to far less than a step
        off = (total["w"].double() - exact).abs().max().item() / step
        assert off <= len(members) + 0.01
        rounded.append(off)
    assert max(rounded) > 0.1  # it was quantised: this is the protocol, not a sum in the clear
    assert torch.equal(found[1]["w"], found[3]["w"])  # no matter what the masks were
    # Values are cut where they leave the range: two clients at 3 and -0.5, cut at 1.
    cut = secagg(clipping=1.0).sums(
        {"a": {"w": torch.tensor([3.0])}, "b": {"w": torch.tensor([-0.5])}}, [("a", "b")]
    )
    assert cut[0]["w"].item() == pytest.approx(0.5, abs=2 * 2 / 2**22)


def test_a_client_that_drops_out_is_an_error_and_no_smaller_sum(monkeypatch):
    secure = protocol()
    save = np.save

    def broken(path, vector, **options):
        if path.name == "client-1.npy":
            path.write_text("not an array")
        else:
            save(path, vector, **options)

    monkeypatch.setattr(np, "save", broken)
    with pytest.raises(TargetError, match="at a sum over 4 clients: only 3 of its 4 clients"):
        secure.sums(UPDATES, [("c0", "c2", "c3"), tuple(UPDATES)])
