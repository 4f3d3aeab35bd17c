"""Leakage round by round, of all clients' answers, and of every client's own model."""

import json
from dataclasses import replace
from math import hypot
from types import SimpleNamespace

import pytest
from study_report import study_report

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Measurement
from fedaudit.config.profile import Variant, parse
from fedaudit.reproduction.audits import audit_variant, traced_rounds
from fedaudit.reproduction.claims import find_row
from fedaudit.reproduction.pooling import average_ratios, average_rouge_over_clients
from fedaudit.simulation.config import Simulation


class Requests(list):
    """What is asked of `extract`, which is answered by one row that tells the adapter."""

    def __call__(self, request):
        self.append(request)
        number = -1.0 if request.round is None else float(request.round)
        where = {"source": "tuned", "adapter": str(request.adapter)}
        row = Measurement(
            kind="extraction", plugin="discoverable", metric="rouge_l", value=number, scope=where
        )
        return SimpleNamespace(report=study_report(row), revealed=())


@pytest.fixture
def requests():
    return Requests()


def rows(variant, place, config, run):
    found = audit_variant(variant, place, config, run)
    return [row for report in found for row in report.measurements]


def test_rounds_are_spread_evenly_up_to_the_last():
    wanted = Variant(name="v", trace=4)
    assert traced_rounds(wanted, Simulation(rounds=12)) == [
        (3, 0.25),
        (6, 0.5),
        (9, 0.75),
        (12, 1.0),
    ]
    assert traced_rounds(wanted, Simulation(rounds=30)) == [
        (8, 0.25),
        (15, 0.5),
        (23, 0.75),
        (30, 1.0),
    ]
    assert traced_rounds(replace(wanted, trace=1), Simulation(rounds=5)) == [(5, 1.0)]
    # Where there are fewer rounds than steps, each is attacked once, and the last has passed 1.
    assert traced_rounds(wanted, Simulation(rounds=2)) == [(1, 0.5), (2, 1.0)]


def test_one_federation_is_attacked_at_several_rounds(place, small, requests):
    variant = Variant(name="v", attacks=("discoverable",), victim="c1", trace=2)
    found = rows(variant, place, small, requests)
    assert [request.round for request in requests] == [1, 2]
    assert {request.target for request in requests} == {str(place)}
    assert {request.victim_path for request in requests} == {place / "data/c1.jsonl"}
    assert [(r.value, r.scope["round"], r.scope["passed"]) for r in found] == [
        (1.0, 1, 0.5),
        (2.0, 2, 1.0),
    ]
    assert find_row(found, "rouge_l", {"source": "tuned", "passed": 1.0}).value == 2.0
    assert not any("model" in row.scope for row in found)


def test_the_victims_are_all_clients(place, small, requests):
    rows(Variant(name="v", attacks=("discoverable",), victim="*"), place, small, requests)
    [request] = requests
    assert request.victim_path == place.parents[1] / "records/abc/everybody.jsonl"
    lines = request.victim_path.read_text("utf-8").splitlines()
    own = [
        line
        for client in ("c0", "c1")
        for line in (place / f"data/{client}.jsonl").read_text("utf-8").splitlines()
    ]
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(
        json.loads(line)["id"] for line in own
    )


@pytest.mark.parametrize(("trace", "last"), [(0, ["002"]), (2, ["001", "002"])])
def test_every_clients_own_model_is_asked_about_its_own(place, small, requests, trace, last):
    variant = Variant(
        name="v", attacks=("discoverable",), clients=("*",), model="local", trace=trace
    )
    found = rows(variant, place, small, requests)
    wanted = [(place / f"local/{who}/{number}", who) for number in last for who in ("c0", "c1")]
    assert [(request.adapter, request.input_path.stem) for request in requests] == [
        (str(adapter), who) for adapter, who in wanted
    ]
    assert all(request.round is None and request.victim_path is None for request in requests)
    assert [row.scope["client"] for row in found] == [who for _, who in wanted]


def test_the_central_models_rounds(place, small, requests):
    variant = Variant(name="v", attacks=("discoverable",), model="central", trace=2)
    found = rows(variant, place, small, requests)
    assert {row.scope["model"] for row in found} == {"central"}
    assert [request.adapter for request in requests] == [
        str(place / f"central/{number}") for number in ("001", "002")
    ]
    assert {request.round for request in requests} == {None}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"trace": -1}, "trace must be at least 0"),
        ({"trace": 2, "round": 3}, "goes without round"),
        ({"model": "local"}, "needs clients"),
    ],
)
def test_variants_that_cannot_be(wrong, says):
    with pytest.raises(UsageError, match=says):
        parse({"name": "x", "scale": {}, "study": [{"name": "v", **wrong}]})


def row(client, value, low, high, n, **scope):
    where = {"source": "tuned-not-base", "client": client, **scope}
    return Measurement(kind="extraction", plugin="d", metric="rouge_l", value=value, low=low,
                       high=high, n=n, scope=where)  # fmt: skip


def test_the_mean_over_clients_by_hand():
    """30 answers at 0.5 and 10 at 0.1: (15 + 1) / 40; each end is off by a weighted hypotenuse."""
    [found] = average_rouge_over_clients(
        [row("c0", 0.5, 0.3, 0.6, 30), row("c1", 0.1, -0.3, 0.5, 10)]
    )
    assert found.value == pytest.approx(0.4)
    assert found.n == 40
    assert found.low == pytest.approx(0.4 - hypot(0.75 * 0.2, 0.25 * 0.4))
    assert found.high == pytest.approx(0.4 + hypot(0.75 * 0.1, 0.25 * 0.4))
    assert found.scope == {"source": "tuned-not-base", "client": "all"}


def test_a_difference_may_be_below_nothing_and_a_score_may_not():
    [found] = average_rouge_over_clients([row("c0", -0.9, -1.0, -0.8, 1)])
    assert found.low == pytest.approx(-1.0)
    [found] = average_rouge_over_clients([row("c0", 0.01, -0.2, 0.2, 1, source="tuned")])
    assert found.low == 0.0


def test_tasks_and_rounds_stay_apart_and_nobodys_rows_stay_out():
    rows = [row("c0", 0.5, 0.4, 0.6, 5, task="exam"), row("c1", 0.3, 0.2, 0.4, 5, round=2)]
    assert len(average_rouge_over_clients(rows)) == 2
    nobody = replace(rows[0], scope={"source": "tuned-not-base"})
    assert average_rouge_over_clients([nobody]) == []
    assert average_ratios([rows[0]], "client", "all") == []
