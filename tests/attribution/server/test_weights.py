"""Unequal clients: what estimates hold of others, on known updates, and what is refused."""

import json

import handmade
import numpy as np
import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution import estimates as estimates_folder
from fedaudit.attribution.server import dry_run, estimation, masks, sum_plan
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation

SIZES = [12.0, 20.0, 31.0, 48.0, 65.0, 90.0, 121.0, 160.0]
ABSENT = {1: ("c1", "c6"), 2: ("c0", "c4")}
THIRD = {"others": 3, "threshold": 3}
FLOOR = 0.24
"""2 * 3 * (5 - 3) / (5 * 5) / 2, for six clients, m = 3 and K = 5."""


def plan(place, **protocol_config):
    return sum_plan.draw_sum_plan(
        open_federation(place), sum_plan.ProtocolConfig(**protocol_config)
    )


def estimated(made, out, **protocol_config):
    found = plan(made.path, **protocol_config)
    estimation.estimate(found, out, out.with_name("log.json"))
    return found


def flat(update):
    return np.concatenate([update[name].double().numpy().ravel() for name in sorted(update)])


def coefficients(made, out, number, own):
    """Return what an estimate holds of every other update, by least squares on what is in it."""
    rest = {who: flat(update) for who, update in made.updates[number].items()}
    moved, start = adapters.read(out / own.adapter), adapters.read(out / f"{number:03d}/global")
    estimate = flat({name: moved[name] - start[name] for name in moved})
    masks_of_it = estimate - rest.pop(own.client)
    c, left, rank, _ = np.linalg.lstsq(np.array(list(rest.values())).T, masks_of_it, rcond=None)
    assert rank == len(rest)
    assert left[0] < 1e-6  # nothing else is in it
    return dict(zip(rest, c, strict=True))


@pytest.mark.parametrize("seed", [0, 1])
def test_limit_and_floor_hold_on_what_estimates_of_unequal_clients_hold(tmp_path, seed):
    made = handmade.write(tmp_path / "fed", clients=8, weights=SIZES, absent=ABSENT, size=20)
    out = tmp_path / "est"
    found = estimated(made, out, seed=seed, **THIRD)
    assert found.weighting == estimates_folder.read(out).weights == "equal"
    worst = {}
    for one in estimates_folder.read(out).rounds:
        assert len(one.estimates) == 6
        for own in one.estimates:
            c = coefficients(made, out, one.round, own)
            assert max(map(abs, c.values())) <= 0.4 + 1e-4
            assert sum(x**2 for x in c.values()) >= FLOOR - 1e-4
            assert own.strength == round(sum(x**2 for x in c.values()), 2)
            worst |= {(one.round, own.client, who): abs(x) for who, x in c.items()}
    share = masks.largest_foreign_share(found.designs, found.weights)
    assert share.value == pytest.approx(max(worst.values()), abs=1e-4)
    assert worst[share.round, share.target, share.of] == pytest.approx(share.value, abs=1e-4)


@pytest.mark.parametrize("seed", [0, 1])
def test_they_hold_with_sums_by_size_where_designs_can_keep_them(tmp_path, seed):
    sizes = [120.0, 132.0, 125.0, 140.0, 128.0, 135.0, 122.0, 160.0]
    made = handmade.write(tmp_path / "fed", clients=8, weights=sizes, absent=ABSENT, size=20)
    out = tmp_path / "est"
    found = estimated(made, out, seed=seed, weights="size", limit=0.6, **THIRD)
    assert found.weighting == estimates_folder.read(out).weights == "size"
    unequal = 0
    for one in estimates_folder.read(out).rounds:
        for own in one.estimates:
            c = np.array(list(coefficients(made, out, one.round, own).values()))
            assert abs(c).max() <= 0.6 + 1e-4
            assert (c**2).sum() >= FLOOR - 1e-4
            unequal += abs(c * 5 - np.rint(c * 5)).max() > 1e-2
    assert unequal  # they are not multiples of 1/5


def test_sums_by_size_that_cannot_keep_them_are_refused_in_one_line(tmp_path):
    made = handmade.write(tmp_path / "fed", clients=8, weights=SIZES, absent=ABSENT)
    with pytest.raises(UsageError, match=r"Round 1: None of .* strength at 0.24.*--weights equal"):
        plan(made.path, weights="size", **THIRD)


def test_stored_sums_below_the_floor_are_refused_with_the_number(tmp_path):
    secure = {**THIRD, "pairs": 5, "seed": 1}
    made = handmade.write(
        tmp_path / "fed", clients=8, weights=SIZES, absent=ABSENT, secure=secure, rounds=1
    )
    says = r"Round 1: .* of (c\d) has masks of strength (0\.\d\d); the floor is 0\.24\. .*equal"
    with pytest.raises(InputError, match=says) as error:
        plan(made.path)
    assert "\n" not in str(error.value)
    equal = {**secure, "weights": "equal"}
    made = handmade.write(
        tmp_path / "equal", clients=8, weights=SIZES, absent=ABSENT, secure=equal, rounds=1
    )
    assert plan(made.path).weighting == "equal"
    with pytest.raises(UsageError, match="stored while it ran, with weights 'equal'"):
        plan(made.path, weights="size")


def test_what_a_stored_estimate_holds_beyond_the_limit_is_said(tmp_path):
    secure = {"others": 3, "threshold": 3, "pairs": 5, "seed": 0, "limit": 0.6}
    sizes = [10.0, 10.0, 10.0, 10.0, 10.0, 11.0]
    made = handmade.write(tmp_path / "fed", weights=sizes, secure=secure, rounds=1)
    found = plan(made.path)
    share = masks.largest_foreign_share(found.designs, found.weights)
    assert share.value == pytest.approx(0.66)  # 3/5 of c5's update, which weighs 1.1
    assert share.of == "c5"
    told = " ".join(dry_run.describe_plan(found, [], None))
    assert (
        f"holds at most 0.66 times another client's update (c5 in that of {share.target}, round 1)"
        ", more than the limit of 0.6." in told
    )
    assert "Sums are weighted by the clients' sizes." in told


def test_the_log_and_the_estimates_name_the_weights(tmp_path):
    made, out = handmade.write(tmp_path / "fed", clients=8), tmp_path / "est"
    estimated(made, out, rounds=(1,))
    [entry] = json.loads((tmp_path / "log.json").read_text())["rounds"]
    table = json.loads((out / estimates_folder.NAME).read_text())
    assert entry["weights"] == table["weights"] == "equal"
    table["weights"] = "size"
    (out / estimates_folder.NAME).write_text(json.dumps(table))
    with pytest.raises(InputError, match="sums of weights 'size': give --weights size"):
        estimated(made, out)


@pytest.mark.parametrize(
    ("clients", "protocol_config", "settled", "told"),
    [
        (10, {}, (5, 5, 0.4, 5), []),
        (4, {}, (2, 5, 0.4, 2), ["m) in place of 5: a round has 4", "2 clients in place of 5"]),
        (6, {}, (4, 5, 0.4, 4), ["m) in place of 5: a round has 6", "4 clients in place of 5"]),
        (10, {"threshold": 6}, (6, 5, 0.4, 6), ["6 others in a set (m) in place of 5"]),
        (10, {"pairs": 2}, (5, 2, 0.5, 5), ["0.5 on another client's share in place of 0.4"]),
        (10, {"pairs": 1}, (5, 1, 1.0, 5), ["1 on another client's share in place of 0.4"]),
        (3, {"others": 1, "threshold": 1}, (1, 5, 0.4, 1), []),
        (10, {"limit": 1.0}, (5, 5, 1.0, 5), []),
    ],
)
def test_defaults_that_cannot_be_give_way(tmp_path, clients, protocol_config, settled, told):
    made = handmade.write(tmp_path / "fed", clients=clients, rounds=1)
    found = plan(made.path, **protocol_config)
    assert (found.others, found.pairs, found.limit, found.secure.threshold) == settled
    assert len(found.notes) == len(told)
    assert all(part in line for part, line in zip(told, found.notes, strict=True))
    told_lines = dry_run.describe_plan(found, [], None)
    assert all(any(line[1:] in shown for shown in told_lines) for line in found.notes)


@pytest.mark.parametrize(
    ("clients", "protocol_config", "says"),
    [
        (4, {"others": 2}, "2 others in a set are below the threshold of secure aggregation, 5"),
        (4, {"threshold": 3}, "a set at most 2 others (m), below the threshold"),
        (10, {"pairs": 2, "limit": 0.4}, "keeps every other client's share within 0.4"),
        (3, {}, "--others 1 --threshold 1"),
        (2, {}, "2 clients in a round are too few"),
        (8, {"weights": "siz"}, "Did you mean 'size'"),
    ],
)
def test_what_is_named_and_cannot_be_is_refused(tmp_path, clients, protocol_config, says):
    made = handmade.write(tmp_path / "fed", clients=clients, rounds=1)
    with pytest.raises(UsageError) as error:
        plan(made.path, **protocol_config)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_rounds_whose_updates_hold_the_others_gradients_are_refused(tmp_path):
    made = handmade.write(tmp_path / "fed", rule="scaffold")
    with pytest.raises(UsageError, match=r"Under scaffold .* only round 1 can be attributed"):
        plan(made.path)
    assert [*plan(made.path, rounds=[1]).designs] == [1]
    assert [*plan(handmade.write(tmp_path / "other").path).designs] == [1, 2]


def test_the_federations_own_threshold_is_never_lowered(tmp_path):
    made = handmade.write(tmp_path / "fed", clients=4, rounds=1)
    changed(made.path, lambda table: table.update(secure_aggregation={"name": "ideal"}))
    with pytest.raises(UsageError, match="below the threshold of secure aggregation, 5"):
        plan(made.path)


@pytest.mark.parametrize(
    ("said", "limit"), [({}, 0.4), ({"limit": 1.0}, 0.4), ({"limit": 0.6}, 0.6)]
)
def test_the_limit_is_the_studys_where_the_federation_has_none(tmp_path, said, limit):
    made = handmade.write(tmp_path / "fed", clients=8, rounds=1, config={"queries": said})
    assert plan(made.path).limit == limit


@pytest.mark.parametrize("weighting", ["equal", "size"])
@pytest.mark.parametrize("weight", [0.0, -1.0, None, "much", float("nan"), float("inf"), 1e-320])
def test_a_weight_that_is_none_is_one_line(tmp_path, weight, weighting):
    made = handmade.write(tmp_path / "fed", clients=8, rounds=1, weights=[1e10] * 8)

    def with_weight(table):
        table["clients"][3]["weight"] = weight
        if weight is None:
            del table["clients"][3]["weight"]

    changed(made.path, with_weight)
    with pytest.raises(InputError, match="weight") as error:
        plan(made.path, weights=weighting)
    assert "\n" not in str(error.value)


def changed(place, change):
    table = json.loads((place / manifest.NAME).read_text())
    change(table)
    (place / manifest.NAME).write_text(json.dumps(table))


def test_the_rounds_own_sum_counts_with_its_weights(tmp_path):
    made = handmade.write(tmp_path / "fed", weights=SIZES[:6], rounds=1)
    one = plan(made.path, seed=1)
    found = one.exposures()[1]
    assert found.sets == len(one.sets(1))
    assert found.rank == 6
    made = handmade.write(tmp_path / "alike", weights=[7.0] * 6, rounds=1)
    assert plan(made.path, seed=1).exposures()[1].differences > 0
