"""The server's step: estimates equal sums by loops over plaintext, and tell nothing else."""

import json
import math
import shutil
import stat

import handmade
import numpy as np
import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution import estimates as estimates_folder
from fedaudit.attribution.server import dry_run, estimation, sum_plan
from fedaudit.federation import adapters, manifest
from fedaudit.federation.folder import open_federation

SMALL = {"others": 3, "pairs": 2, "threshold": 3}
WEIGHTS = [1.0, 2.0, 0.5, 3.0, 1.5, 4.0]
ALIKE = [1.0, 1.2, 0.9, 1.1, 1.3, 1.0]
"""So little apart that masks of weighted sums keep the floor."""
ABSENT = {2: ("c4",)}


def asked(place, out, *, secret=False, **protocol_config):
    """Take the step with a small design; returns the estimates."""
    plan = sum_plan.draw_sum_plan(
        open_federation(place),
        sum_plan.ProtocolConfig(**{**SMALL, **protocol_config}),
        secret=secret,
    )
    return estimation.estimate(plan, out, log_path(out))[0]


def log_path(out):
    return out.with_name(f"{out.name}.log.json")


def logged(out):
    return json.loads(log_path(out).read_text())


def by_loops(design, updates, shares):
    """Return a design's estimate: sums set by set, name by name, number by number."""
    found = {}
    for name in updates[design["target"]]:
        total = np.zeros(updates[design["target"]][name].shape)
        for members in design["include"]:
            for who in members:
                total += shares[who] * updates[who][name].double().numpy()
        for members in design["exclude"]:
            for who in members:
                total -= shares[who] * updates[who][name].double().numpy()
        found[name] = total / len(design["include"]) / shares[design["target"]]
    return found


def product(tensors, config):
    """Return what an adapter adds to its module's weights."""
    own = tensors[handmade.B].double() @ tensors[handmade.A].double()
    return config["lora_alpha"] / config["r"] * own.numpy()


@pytest.mark.parametrize("weights", ["equal", "size"])
@pytest.mark.parametrize("rule", ["fedit", "flora"])
def test_an_estimate_is_the_combination_of_sums(tmp_path, rule, weights):
    made = handmade.write(tmp_path / "fed", rule=rule, weights=ALIKE, absent=ABSENT)
    found = asked(made.path, tmp_path / "est", seed=4, weights=weights, limit=1.0)
    assert found.weights == weights
    assert [len(one.estimates) for one in found.rounds] == [6, 5]
    mean = sum(ALIKE) / 6
    shares = {who: weight / mean for who, weight in zip(made.names, ALIKE, strict=True)}
    shares = dict.fromkeys(shares, 1.0) if weights == "equal" else shares
    for entry, one in zip(logged(tmp_path / "est")["rounds"], found.rounds, strict=True):
        before = made.path / f"rounds/{one.round - 1:03d}/global"
        start = adapters.read(before)
        assert adapters.read(tmp_path / "est" / one.start).keys() == start.keys()
        for design, own in zip(entry["designs"], one.estimates, strict=True):
            assert design["target"] == own.client
            wanted = by_loops(design, made.updates[one.round], shares)
            folder = tmp_path / "est" / own.adapter
            moved, config = adapters.read(folder), adapters.check(folder)
            if rule == "fedit":
                for name, tensor in moved.items():
                    difference = tensor.double().numpy() - start[name].double().numpy()
                    np.testing.assert_allclose(difference, wanted[name], atol=1e-5)
            else:
                [update] = wanted.values()
                scaling = handmade.CONFIG["lora_alpha"] / handmade.CONFIG["r"]
                expected = product(start, adapters.check(before)) + scaling * update
                np.testing.assert_allclose(product(moved, config), expected, atol=1e-4)


def test_rho_and_n_eff_are_of_the_weighted_masks(tmp_path):
    made = handmade.write(tmp_path / "fed", weights=ALIKE, rounds=1)
    [one] = asked(made.path, tmp_path / "est", seed=4, weights="size", limit=1.0).rounds
    for design, own in zip(
        logged(tmp_path / "est")["rounds"][0]["designs"], one.estimates, strict=True
    ):
        c = []
        for who, weight in zip(made.names, ALIKE, strict=True):
            if who != own.client:
                count = sum(who in s for s in design["include"])
                count -= sum(who in s for s in design["exclude"])
                c.append(count / 2 * weight / ALIKE[made.names.index(own.client)])
        rho = sum(x**2 for x in c)
        # No more digits: they would tell the coefficients to whoever knows the weights.
        assert own.strength == round(rho, 2)
        assert own.effective == round(rho**2 / sum(x**4 for x in c), 2)


def test_the_forecast_tells_the_masks_of_the_estimates(tmp_path):
    made = handmade.write(tmp_path / "fed", weights=WEIGHTS, rounds=1)
    protocol_config = sum_plan.ProtocolConfig(**SMALL, seed=4)
    told = dry_run.describe_plan(
        sum_plan.draw_sum_plan(open_federation(made.path), protocol_config), [], None
    )
    [one] = asked(made.path, tmp_path / "est", seed=4).rounds
    weakest = min(one.estimates, key=lambda own: own.strength)
    # E[rho] = 2 * 3 * (5 - 3) / (2 * 5) = 1.2; an update has 2 * 4 + 4 * 2 numbers.
    bits = 16 / 2 * math.log2(1 + 1 / weakest.strength)
    assert any(
        f"strength at least {weakest.strength:.3f} (expected 1.200), n_eff {weakest.effective:.1f}"
        in line
        and f"at most {bits:,.0f} bits of its update of 16 numbers" in line
        for line in told
    )
    assert told[0].startswith("24 sums in rounds 1: 2 pairs for each client, 3 others")


@pytest.mark.parametrize("rule", ["fedit", "flora"])
def test_stored_sums_give_what_plaintext_gives(tmp_path, rule):
    secure = {**SMALL, "seed": 11, "weights": "equal"}
    plain = handmade.write(tmp_path / "plain", rule=rule, weights=WEIGHTS, absent=ABSENT)
    hidden = handmade.write(
        tmp_path / "hidden", rule=rule, weights=WEIGHTS, absent=ABSENT, secure=secure
    )
    assert not list(hidden.path.rglob("clients"))
    one = asked(plain.path, tmp_path / "one", seed=11, limit=1.0)
    two = asked(hidden.path, tmp_path / "two", others=None, pairs=None, threshold=None)
    # An entry of the ledger says when it was made, and so does its hash.
    left_log, right_log = (
        [{**entry, "ledger": ""} for entry in logged(tmp_path / at)["rounds"]]
        for at in ("one", "two")
    )
    assert left_log == right_log
    for left, right in zip(one.rounds, two.rounds, strict=True):
        assert left == right
        for own in left.estimates:
            a, b = (adapters.read(tmp_path / at / own.adapter) for at in ("one", "two"))
            np.testing.assert_allclose(
                b[handmade.B] @ b[handmade.A], a[handmade.B] @ a[handmade.A], atol=1e-4
            )


@pytest.mark.parametrize("protocol_config", [{"others": 4}, {"pairs": 3}, {"seed": 12}])
def test_sums_of_another_design_are_one_line(tmp_path, protocol_config):
    made = handmade.write(tmp_path / "fed", clients=7, secure={**SMALL, "seed": 11})
    wanted = {"seed": 11, **protocol_config}
    with pytest.raises(InputError, match=r"round 1 has no sum over .* give the same") as error:
        asked(made.path, tmp_path / "est", **wanted)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "est").exists()


def test_a_sum_over_others_than_the_manifest_says_is_refused(tmp_path):
    made = handmade.write(tmp_path / "fed", secure={**SMALL, "seed": 11})
    first, second = sorted((made.path / "rounds/001/sums").iterdir())[:2]
    swapped = first.read_bytes(), second.read_bytes()
    second.write_bytes(swapped[0])
    first.write_bytes(swapped[1])
    handmade.named(made.path)  # with hashes that fit
    with pytest.raises(InputError, match="is not the sum that the manifest says"):
        asked(made.path, tmp_path / "est", seed=11)


def test_a_sum_over_somebody_who_was_absent_is_refused(tmp_path):
    made = handmade.write(tmp_path / "fed", absent={1: ("c5",)}, secure={**SMALL, "seed": 11})
    table = json.loads((made.path / manifest.NAME).read_text())
    name = next(iter(table["rounds"][1]["sums"]))
    table["rounds"][1]["sums"][name][0] = "c5"
    (made.path / manifest.NAME).write_text(json.dumps(table))
    with pytest.raises(InputError, match="'c5', who took no part in round 1"):
        open_federation(made.path)


def test_neither_updates_nor_sums_is_one_line(tmp_path):
    made = handmade.write(tmp_path / "fed", rounds=1)
    table = json.loads((made.path / manifest.NAME).read_text())
    table["rounds"][1]["clients"] = {}
    (made.path / manifest.NAME).write_text(json.dumps(table))
    with pytest.raises(InputError, match="neither the update of c0 in round 1 nor sums"):
        asked(made.path, tmp_path / "est")


def test_live_draws_are_random_and_seeded_ones_are_not(tmp_path):
    for name in ("a", "b"):  # of one federation they would be a second design
        made = handmade.write(tmp_path / f"fed {name}", rounds=1)
        asked(made.path, tmp_path / name, secret=True)
    made = handmade.write(tmp_path / "fed", rounds=1)
    for name in ("c", "d"):
        asked(made.path, tmp_path / name, seed=3, secret=True)
    a, b, c, d = (logged(tmp_path / name)["rounds"][0] for name in "abcd")
    assert a["designs"] != b["designs"]
    assert min(a["seed"], b["seed"]) > 2**32  # 63 bits: smaller by a chance of one in 10^9
    assert c == d  # its entry in the ledger included
    assert c["seed"] == 3


def test_rounds_are_added_and_never_asked_for_twice(tmp_path):
    made, out = handmade.write(tmp_path / "fed", rounds=1), tmp_path / "est"
    first = asked(made.path, out, secret=True)
    [before], kept = logged(out)["rounds"], {p: p.read_bytes() for p in (out / "001").rglob("*.*")}
    shutil.rmtree(made.path / "rounds")
    longer = handmade.write(made.path, rounds=2)  # the same first round
    second = asked(longer.path, out, secret=True)
    assert first.run == second.run
    assert [one.round for one in second.rounds] == [1, 2]
    assert second.rounds[0] == first.rounds[0]
    assert {p: p.read_bytes() for p in kept} == kept
    one, two = logged(out)["rounds"]
    assert one == before
    assert (two["round"], two["queries"]) == (2, 24)
    assert logged(out)["queries"] == 48
    third = sum_plan.draw_sum_plan(
        open_federation(longer.path), sum_plan.ProtocolConfig(**SMALL), secret=True
    )
    assert estimation.remaining_plan(third, out).queries == 0
    estimation.estimate(third, out, log_path(out))
    assert logged(out)["rounds"] == [one, two]


def test_rounds_may_come_in_any_order(tmp_path):
    made, out = handmade.write(tmp_path / "fed"), tmp_path / "est"
    asked(made.path, out, rounds=(2,), seed=5)
    found = asked(made.path, out, seed=5)
    assert [one.round for one in found.rounds] == [1, 2]
    assert found.rounds == asked(made.path, tmp_path / "at once", seed=5).rounds


@pytest.mark.parametrize("changes", [{"seed": 1}, {"guilty": ("c1",)}, {"clients": 7}])
def test_estimates_and_log_of_another_run_are_refused(tmp_path, changes):
    # With a guilty client only the first round's result differs: the runs began alike.
    made = handmade.write(tmp_path / "fed", rounds=1)
    asked(made.path, tmp_path / "est")
    other = handmade.write(tmp_path / "other", rounds=1, **changes)
    with pytest.raises(InputError, match="estimates of another run"):
        asked(other.path, tmp_path / "est")
    log_path(tmp_path / "new").write_text(log_path(tmp_path / "est").read_text())
    with pytest.raises(InputError, match="log of another run"):
        asked(other.path, tmp_path / "new")


def test_what_ended_within_the_first_round_goes_on(tmp_path, monkeypatch):
    made, out = handmade.write(tmp_path / "fed", rounds=1), tmp_path / "est"
    write, clients = estimation.adapters.write, [f"c{i}" for i in range(6)]

    def second_client_interrupts(tensors, config, folder):
        if folder.name == clients[1]:
            raise KeyboardInterrupt
        write(tensors, config, folder)

    with monkeypatch.context() as patch:
        patch.setattr(estimation.adapters, "write", second_client_interrupts)
        with pytest.raises(KeyboardInterrupt):
            asked(made.path, out)
    assert {folder.name for folder in (out / "001").iterdir()} == {"global", clients[0]}
    found = asked(made.path, out)
    assert [e.client for e in found.rounds[0].estimates] == clients
    assert estimates_folder.read(out) == found


def test_a_folder_or_log_of_something_else_is_left_alone(tmp_path):
    made, out = handmade.write(tmp_path / "fed", rounds=1), tmp_path / "est"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no estimates"):
        asked(made.path, out)
    log_path(tmp_path / "new").write_text("{}")
    with pytest.raises(InputError, match="not a log of sums"):
        asked(made.path, tmp_path / "new")
    assert (out / "thesis.txt").read_text() == "mine"


def test_the_log_is_the_servers_alone(tmp_path):
    made = handmade.write(tmp_path / "fed", rounds=1)
    asked(made.path, tmp_path / "est")
    assert stat.S_IMODE(log_path(tmp_path / "est").stat().st_mode) == 0o600
    exposure = logged(tmp_path / "est")["rounds"][0]["exposure"]
    assert exposure["smallest"] == 3
    assert len(exposure["determined"]) > 0  # admissible sums, and yet


def test_estimates_tell_neither_seed_nor_sets_nor_key(tmp_path):
    seed = 918273645546372819
    made = handmade.write(tmp_path / "fed", guilty=("c1",))
    [mark] = handmade.marks(made.path / "owner/watermark.json")
    shutil.rmtree(made.path / "owner")
    assert not [file for file in made.path.rglob("*") if "watermark" in file.name]
    found = asked(made.path, tmp_path / "est", seed=seed)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["est", "est.log.json", "fed"]
    told = b"".join(p.read_bytes() for p in (tmp_path / "est").rglob("*") if p.is_file())
    secrets = [mark.secret["entity"], *(row["value"] for row in mark.secret["attributes"])]
    assert str(seed) in log_path(tmp_path / "est").read_text()
    for secret in (str(seed), *secrets, '"m0"', "include", "exclude", "members", "seed", "design"):
        assert secret.encode() not in told, secret
    table = json.loads((tmp_path / "est" / estimates_folder.NAME).read_text())
    assert table.pop("clients") == made.names
    assert lists_of_names(table, made.names) == []
    assert found == estimates_folder.read(tmp_path / "est")


def lists_of_names(table, names):
    """Return every list below `table` that holds two clients or more."""
    inside = list(table.values()) if isinstance(table, dict) else table
    if not isinstance(inside, list):
        return []
    own = [inside] if sum(one in names for one in map(str, inside)) > 1 else []
    return [*own, *(found for one in inside for found in lists_of_names(one, names))]


def test_the_search_for_lists_would_notice():
    assert lists_of_names({"a": [{"b": ["c0", "c1"]}]}, ["c0", "c1"]) == [["c0", "c1"]]


@pytest.mark.parametrize(
    ("changes", "protocol_config", "says"),
    [
        ({"clients": 1}, {}, "Round 1: 1 clients in a round are too few"),
        ({"clients": 2}, {}, "Round 1: 2 clients in a round are too few"),
        ({}, {"others": 0, "threshold": 1}, "would ask for the target's own update"),
        ({}, {"others": 5}, "the difference would be the target's own update"),
        ({}, {"others": 6}, "too many"),
        ({}, {"pairs": 0}, "0 pairs of sums estimate nothing"),
        ({}, {"threshold": 4}, "below the threshold of secure aggregation, 4"),
        ({"absent": {2: ("c0", "c1", "c2")}}, {}, "Round 2: 3 others"),
        ({}, {"rounds": (9,)}, "rounds 1 to 2, no round 9"),
        ({}, {"rounds": (0,)}, "no round 0"),
        ({}, {"rounds": (2, 2)}, "Round 2 is named twice"),
    ],
    ids=str,
)
def test_designs_that_cannot_be(tmp_path, changes, protocol_config, says):
    made = handmade.write(tmp_path / "fed", **changes)
    with pytest.raises(UsageError) as error:
        asked(made.path, tmp_path / "est", **protocol_config)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "est").exists()
    assert not log_path(tmp_path / "est").exists()


def test_a_federation_without_a_round_and_a_client_without_weight(tmp_path):
    made = handmade.write(tmp_path / "none", rounds=0)
    with pytest.raises(InputError, match="no finished round"):
        asked(made.path, tmp_path / "est")
    light = handmade.write(tmp_path / "light", rounds=1)
    table = json.loads((light.path / manifest.NAME).read_text())
    table["clients"][3]["weight"] = 0.0
    (light.path / manifest.NAME).write_text(json.dumps(table))
    with pytest.raises(InputError, match="c3 has no positive weight"):
        asked(light.path, tmp_path / "est")


def test_a_lower_threshold_than_the_federations_is_refused(tmp_path):
    made = handmade.write(tmp_path / "fed", secure={**SMALL, "seed": 11})
    with pytest.raises(UsageError, match="no sum over fewer than 3 clients"):
        asked(made.path, tmp_path / "est", threshold=2)


def broken(out, how):
    path = out / estimates_folder.NAME
    table = json.loads(path.read_text())
    if how == "twice":
        table["rounds"].append(table["rounds"][0])
    elif how == "stranger":
        table["rounds"][0]["estimates"][0]["client"] = "c99"
    elif how == "double":
        table["rounds"][0]["estimates"][0]["client"] = "c1"
    elif how == "outside":
        table["rounds"][0]["start"] = "../fed/rounds/000/global"
    elif how == "keyless":
        del table["rounds"][0]["estimates"]
    elif how == "list":
        table["rounds"] = [3]
    elif how == "version":
        table["schema_version"] = "2.0"
    path.write_text(json.dumps(table))
    if how == "tampered":
        weights = out / "001/c2" / adapters.WEIGHTS
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    elif how == "missing":
        shutil.rmtree(out / "001/c2")
    elif how == "no json":
        path.write_text("{")
    elif how == "none":
        path.unlink()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("twice", "has round 1 twice"),
        ("stranger", "'c99', no client"),
        ("double", "names a client twice"),
        ("outside", "points outside its folder"),
        ("keyless", "is missing"),
        ("list", "takes RoundEstimates, not 3"),
        ("version", "schema version 2.0"),
        ("tampered", "is not the file that estimates.json names (SHA-256)"),
        ("missing", "misses 001/c2/adapter_config.json"),
        ("no json", "is not JSON"),
        ("none", "holds no estimates; `fedaudit attribute estimate` writes them"),
    ],
)
def test_broken_estimates(tmp_path, how, says):
    made, out = handmade.write(tmp_path / "fed", rounds=1), tmp_path / "est"
    asked(made.path, out)
    broken(out, how)
    with pytest.raises(InputError) as error:
        estimates_folder.read(out)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
