"""Settings of a simulation: what is refused, and what a federation's fingerprint depends on."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config.options import build
from fedaudit.simulation.config import Simulation

IDEAL = {"secure_aggregation": "ideal"}
KGW = {"watermark": {"plugin": "kgw"}}
JUDGE = {"url": "http://127.0.0.1:9/v1", "model": "wise"}


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("clients", 0, "clients"),
        ("rounds", 0, "rounds"),
        ("participation", 0, "participation"),
        ("participation", 1.5, "participation"),
        ("held_out", 1, "held_out"),
        ("threads", 0, "threads"),
        ("workers", -1, "workers"),
        ("evaluated", -1, "evaluated"),
        ("partition", {"alpha": 0}, "alpha"),
        ("partition", {"clusters": 0}, "clusters"),
        ("partition", {"method": "random"}, "method"),
        ("few_shot", {"each": -1}, "each must be at least 0 and clusters at least 1"),
        ("few_shot", {"clusters": 0}, "each must be at least 0 and clusters at least 1"),
        ("records", {"limit": -1}, "at least 0"),
        ("records", {"copies": [1, 0]}, "copies must be at least 1"),
        ("watermark", {"clients": -1}, "clients"),
        ("watermark", {"marks": -1}, "marks"),
        ("watermark", {"ratio": 0.0}, "ratio"),
        ("watermark", {"ratio": 1.5}, "ratio"),
        ("watermark", {"share": 0.2}, "share"),
        ("watermark", {"clients": "all"}, "clients"),
        ("canaries", {"times": []}, "times takes"),
        ("canaries", {"times": [1, 1]}, "times takes"),
        ("canaries", {"times": [0]}, "times takes"),
        ("canaries", {"kind": "name"}, "fedaudit canary"),
        ("canaries", {"controls": -1}, "at least 0"),
        ("queries", {"others": 0}, "at least 1"),
        ("queries", {"pairs": 0}, "at least 1"),
        ("queries", {"protocol": "both"}, "protocol"),
        ("queries", {"sets": -1}, "sets"),
        ("queries", {"protocol": "shared", "limit": 1.5}, "limit"),
        ("judge", {"url": "ftp://x", "model": "m"}, "http"),
        ("judge", {"url": "http://x"}, "model must name"),
        ("judge", {"base": "fedaudit-nano", **JUDGE}, "base and url exclude each other"),
        ("training", {"batch_size": 0}, "batch_size"),
        ("training", {"accumulation": 0}, "accumulation"),
        ("training", {"rank": 0}, "rank"),
        ("training", {"steps": -1}, "steps"),
        ("training", {"steps": 0, "epochs": 0}, "steps"),
        ("training", {"max_length": 1}, "max_length"),
        ("training", {"learning_rate": 0.0}, "learning_rate"),
        ("training", {"clip": 0.0}, "clip"),
        ("training", {"dropout": 1.0}, "dropout"),
        ("training", {"dropout": -0.1}, "dropout"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(setting, value, says):
    with pytest.raises(UsageError, match=says) as error:
        build(Simulation, {setting: value}, "simulate")
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {"workers": 9}, True),
        ({}, {"judge": JUDGE}, True),
        ({}, {"few_shot": {"clusters": 7}}, True),
        ({}, {"queries": {"weights": "size"}}, True),
        ({}, {"queries": {"protocol": "shared"}}, True),
        (IDEAL, IDEAL | {"queries": {"sets": 3}}, True),  # pairs have none
        ({}, {"threads": 2}, False),
        ({}, {"records": {"limit": 2}}, False),
        ({}, {"records": {"copies": [1, 2]}}, False),
        ({}, {"partition": {"whole_groups": False}}, False),
        ({}, {"few_shot": {"each": 7}}, False),
        ({"few_shot": {"each": 7}}, {"few_shot": {"each": 7, "clusters": 7}}, False),
        ({}, {"canaries": {"count": 6}}, False),
        ({}, {"queries": {"others": 1}}, False),
        ({}, IDEAL, False),
        (IDEAL, IDEAL | {"queries": {"weights": "size"}}, False),
        (IDEAL, IDEAL | {"queries": {"protocol": "shared"}}, False),
        ({}, KGW, False),
        (KGW, {"watermark": {"plugin": "kgw", "ratio": 0.3}}, False),
    ],
    ids=str,
)
def test_what_a_fingerprint_depends_on(one, other, same):
    first, second = (build(Simulation, settings, "simulate") for settings in (one, other))
    assert (first.sha256() == second.sha256()) is same
    assert build(Simulation, second.table(), "simulate") == second


def test_a_setting_that_is_not_used_is_not_in_the_table():
    """So that the fingerprints of federations from before it are as they were."""
    table = Simulation().table()
    assert not {"without", "client_data", "canaries"} & table.keys()
    assert not {"limit", "copies"} & table["records"].keys()
    assert "whole_groups" not in table["partition"]
