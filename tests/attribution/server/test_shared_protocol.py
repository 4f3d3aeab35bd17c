"""Sets that a round's estimates share, from the plan to the decision, on known updates."""

import json
from functools import partial

import handmade
import numpy as np
import pytest
import torch
from few_systems import few_systems
from single_round import single_round
from test_weights import ABSENT, SIZES, coefficients

from fedaudit.api.errors import InputError, UsageError
from fedaudit.attribution import estimates as estimates_folder
from fedaudit.attribution import measurements
from fedaudit.attribution import scores as scores_of
from fedaudit.attribution.decision import calibration
from fedaudit.attribution.decision.contamination import coefficient_distribution
from fedaudit.attribution.decision.decision import decide
from fedaudit.attribution.server import dry_run, estimation, ledger, masks, sum_plan, sums_log
from fedaudit.attribution.server.round_designs import settings_of
from fedaudit.federation import adapters
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.attribution import shared_sets
from fedaudit.metrics.attribution.sum_leakage import sum_leakage

SHARED = {"protocol": "shared", "limit": 0.8}
write = partial(handmade.write, size=100)  # so many random numbers are nearly unlike each other


def plan(place, **protocol_config):
    return sum_plan.draw_sum_plan(
        open_federation(place),
        sum_plan.ProtocolConfig(**{**SHARED, "seed": 4, **protocol_config}),
    )


def asked(place, out, **protocol_config):
    return estimation.estimate(plan(place, **protocol_config), out, out.with_name("log.json"))[0]


def product(table, config):
    return (config["lora_alpha"] / config["r"]) * table[handmade.B] @ table[handmade.A]


@pytest.mark.parametrize("rule", ["fedit", "flora"])
def test_estimates_are_the_algebra_of_the_raw_updates(tmp_path, rule):
    made = write(tmp_path / "fed", rule=rule, clients=8, rounds=2)
    out = tmp_path / "est"
    found = asked(made.path, out)
    drawn = plan(made.path)
    for one in found.rounds:
        design, updates = drawn.designs[one.round], made.updates[one.round]
        assert (one.protocol, one.sets, design.sum_count) == ("shared", 5, 5)
        by = shared_sets.estimate_shares(design.shared_sets.rows)
        before = adapters.read(out / one.start)
        for own in one.estimates:
            row = by[design.shared_sets.participants.index(own.client)]
            moved = adapters.read(out / own.adapter)
            wanted = {
                name: sum(
                    float(c) * updates[who][name].double()
                    for c, who in zip(row, design.shared_sets.participants, strict=True)
                )
                for name in updates[own.client]
            }
            if rule == "fedit":
                for name, tensor in wanted.items():
                    difference = moved[name].double() - before[name].double()
                    torch.testing.assert_close(difference, tensor, atol=1e-5, rtol=0)
            else:
                [update] = wanted.values()
                start = product(before, adapters.check(out / one.start)).double()
                expected = start + 2 * update  # alpha / r
                reached = product(moved, adapters.check(out / own.adapter)).double()
                torch.testing.assert_close(reached, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("seed", [1, 9])
def test_limit_and_floor_hold_on_what_unequal_clients_estimates_hold(tmp_path, seed):
    made = handmade.write(tmp_path / "fed", clients=8, weights=SIZES, absent=ABSENT, size=20)
    out = tmp_path / "est"
    # The round's own sum nearly is the update of the largest client: at most 5 % of it stay hidden.
    with pytest.raises(UsageError, match="of the variance of the update of c7 hidden, less than"):
        plan(made.path, seed=seed)
    found = plan(made.path, seed=seed, hidden=0.0)
    estimation.estimate(found, out, tmp_path / "log.json")
    # Weights differ, so everybody's sum is not the round's own: three sets of three, Q = 2.
    assert {one.settings.sets for one in found.designs.values()} == {3}
    assert not any(one.settings.whole for one in found.designs.values())
    floor = shared_sets.floor(6, 2)
    for one in estimates_folder.read(out).rounds:
        assert len(one.estimates) == 6
        for own in one.estimates:
            c = list(coefficients(made, out, one.round, own).values())
            assert sum(c) == pytest.approx(0, abs=1e-3)
            assert max(map(abs, c)) <= 0.8 + 1e-4
            assert sum(x**2 for x in c) >= floor - 1e-4
            assert own.strength == pytest.approx(sum(x**2 for x in c), abs=0.0051)
    for one in found.exposures().values():
        assert one.determined == {}
        assert one.rank == 4  # with the round's own sum, whose weights are others


def test_the_same_holds_with_sums_by_size(tmp_path):
    sizes = [120.0, 132.0, 125.0, 140.0, 128.0, 135.0, 122.0, 130.0]
    made = handmade.write(tmp_path / "fed", clients=8, weights=sizes, absent=ABSENT, size=20)
    out = tmp_path / "est"
    found = asked(made.path, out, weights="size", limit=1.0)
    for one in found.rounds:
        assert one.whole  # everybody's sum is the round's own
        present = [
            s for s, who in zip(sizes, made.names, strict=True) if who not in ABSENT[one.round]
        ]
        assert one.ratio == pytest.approx(max(present) / min(present), abs=1e-4)
        for own in one.estimates:
            c = np.array(list(coefficients(made, out, one.round, own).values()))
            assert abs(c).max() <= 1 + 1e-4
            assert (c**2).sum() >= shared_sets.floor(6, one.sets - 1) - 1e-4


def test_sums_by_size_of_clients_too_unlike_are_refused_in_one_line(tmp_path):
    made = write(tmp_path / "fed", clients=8, weights=SIZES, absent=ABSENT)
    with pytest.raises(UsageError, match=r"Round 1: None of .*differ up to .*--weights equal") as e:
        plan(made.path, weights="size")
    assert "\n" not in str(e.value)


def test_settings_that_cannot_be_give_way_and_are_said(tmp_path):
    made = write(tmp_path / "fed", clients=6, rounds=1)
    found = plan(made.path, limit=None)
    assert (found.secure.threshold, found.limit, found.others, found.pairs) == (3, 0.7, 0, 0)
    threshold, limit = found.notes
    assert threshold.startswith("a threshold of 3 clients in place of 5: half of 6 clients are 3")
    assert limit.startswith("a limit of 0.7 on another client's share in place of 0.4")
    assert masks.largest_foreign_share(found.designs, found.weights).value <= 0.7


def test_the_forecast_and_the_rows_say_what_is_asked_and_that_nobody_is_determined(tmp_path):
    made = write(tmp_path / "fed", clients=6, rounds=1)
    found = plan(made.path)
    told = dry_run.describe_plan(found, [], None)
    assert told[0].startswith(
        "4 sums in rounds 1: 3 sets of 3 clients and all of them, shared by all, by ideal"
    )
    assert "All estimates of a round are made of the same sums, over sets that they share." in told
    # 4 sums of 400 numbers of 4 bytes.
    assert f"The sums have {4 * 400 * 4 / 2**20:,.1f} MiB in all." in told
    assert "No client's update follows exactly from them; given all sums" in told[-1]
    rho = shared_sets.masking_strengths(found.designs[1].shared_sets.rows)
    measured = {row.metric: row.value for row in measurements.query_rows(found)}
    assert measured["queries"] == 4
    assert measured["sets"] == 4
    assert measured["determined"] == 0
    assert measured["estimator_variance"] == pytest.approx(rho.mean() * 5 / 4)


@pytest.mark.parametrize("weights", [None, SIZES])
def test_stored_sums_give_what_plaintext_gives(tmp_path, weights):
    secure = {"protocol": "shared", "sets": 3, "threshold": 3, "seed": 4, "limit": 0.9,
              "weights": "equal", "whole": weights is None}  # fmt: skip
    plain = write(tmp_path / "plain", clients=8, weights=weights)
    hidden = write(tmp_path / "hidden", clients=8, weights=weights, secure=secure)
    one = asked(plain.path, tmp_path / "one/est", sets=3, threshold=3, limit=0.9, hidden=0.0)
    protocol_config = sum_plan.ProtocolConfig()  # the manifest says it all
    two, _ = estimation.estimate(
        sum_plan.draw_sum_plan(open_federation(hidden.path), protocol_config),
        tmp_path / "two",
        tmp_path / "two.json",
    )
    for left, right in zip(one.rounds, two.rounds, strict=True):
        assert left == right
        for own in left.estimates:
            a = adapters.read(tmp_path / "one/est" / own.adapter)
            b = adapters.read(tmp_path / "two" / own.adapter)
            for name, tensor in a.items():
                torch.testing.assert_close(b[name], tensor, atol=1e-4, rtol=0)
    with pytest.raises(UsageError, match="stored while it ran, with protocol 'shared'"):
        sum_plan.draw_sum_plan(
            open_federation(hidden.path), sum_plan.ProtocolConfig(protocol="pairs")
        )
    (hidden.path / ledger.NAME).unlink()  # which would refuse it, too
    with pytest.raises(InputError, match=r"has no sum over .*--sets"):
        asked(hidden.path, tmp_path / "three", sets=4, limit=0.9)


@pytest.mark.parametrize(
    ("protocol_config", "says"),
    [
        ({"protocol": "share"}, "Did you mean 'shared'"),
        ({"others": 3}, "--others and --queries are for pairs of sets"),
        ({"pairs": 3}, "--others and --queries are for pairs of sets"),
        ({"protocol": "pairs", "sets": 3}, "--sets is for shared sets: it needs --protocol shared"),
        ({"sets": 9}, "9 shared sets of 6 clients would give every update away"),
        ({"threshold": 4}, "Half of 6 clients are 3, below the threshold"),
        ({"limit": 0.2}, "within 0.2"),
        ({"limit": 2.0}, "A limit of 2 is not a share"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_line(tmp_path, protocol_config, says):
    made = write(tmp_path / "fed", rounds=1)
    with pytest.raises(UsageError) as error:
        plan(made.path, **protocol_config)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_begun_by_the_other_protocol_and_a_round_asked_for_by_it_are_refused(tmp_path):
    made, out = write(tmp_path / "fed"), tmp_path / "est"
    asked(made.path, out, rounds=(1,))
    other = {"protocol": "pairs", "limit": None, "others": 3, "threshold": 3}
    with pytest.raises(InputError, match="by protocol 'shared': give --protocol shared, or choose"):
        asked(made.path, out, **other)
    with pytest.raises(InputError, match="Round 1 was already asked for with other sets"):
        asked(made.path, tmp_path / "new", **other)
    with pytest.raises(InputError, match="Round 1 was already asked for with other sets"):
        asked(made.path, tmp_path / "new", seed=5)


def test_a_round_is_entered_once_and_goes_on_from_the_log(tmp_path, monkeypatch):
    made, out = write(tmp_path / "fed"), tmp_path / "est"

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(estimation, "_estimate_round", killed)
        with pytest.raises(KeyboardInterrupt):
            asked(made.path, out)
    logs = sums_log.read(tmp_path / "log.json", estimation.identity(open_federation(made.path)))
    other = plan(made.path, seed=77)
    resumed = ledger.resume_plan(other, logs)
    assert resumed.designs[1] == plan(made.path).designs[1] != other.designs[1]
    assert resumed.designs[1].combinations == plan(made.path).designs[1].combinations
    assert resumed.designs[2] == other.designs[2]
    fewer = plan(made.path, seed=77, sets=3, limit=0.9)
    assert ledger.resume_plan(fewer, logs).designs == fewer.designs
    estimation.estimate(resumed, out, tmp_path / "log.json")
    one, two = ledger.read(made.path)
    assert (one.protocol, one.sums, one.exposure["determined"]) == ("shared", 4, 0)
    assert one.hash == two.previous


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"protocol": "both"}, "unknown protocol, 'both'"),
        ({"sets": 90}, "no such shared sets"),
        ({"sets": -1}, "no such shared sets"),
        ({"limit": -1.0}, "no such shared sets"),
        ({"ratio": 0.5}, "no such ratio"),
    ],
)
def test_settings_that_no_round_has_are_refused(tmp_path, change, says):
    made, out = write(tmp_path / "fed", rounds=1), tmp_path / "est"
    asked(made.path, out)
    path = out / estimates_folder.NAME
    table = json.loads(path.read_text())
    table["rounds"][0].update(change)
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match=says):
        estimates_folder.read(out)


@pytest.fixture(scope="module", autouse=True)
def laws():
    """Take laws from few systems of sets, all of which have the same shares here."""
    with few_systems(5):
        yield


TEN = tuple(f"c{at}" for at in range(10))
BY = {"protocol": "shared", "sets": 6, "limit": 0.4, "threshold": 5}


def scores(z, **settings):
    """Return one round's scores by client, of ten clients with rho 0.72."""
    shows = dict.fromkeys(TEN, 0.0) | z
    return single_round(shows, strength=0.72, effective=3.0, **settings)


def test_a_decision_draws_from_the_law_of_its_protocol():
    """c0 shows 20; c1 shows 8, which 0.4 of it explains under shared sets, as three in nine do."""
    found = scores({"c0": 20.0, "c1": 8.0}, **BY)
    names = [who for who in TEN if who != "c1"]
    draws = coefficient_distribution(found.rounds[0], "c1", names, {}).draws()
    assert set(np.round(np.unique(draws), 6)) == {-0.2, 0.4}
    tests = decide(found).tests
    by = {one.client: one for one in tests}
    # c0 holds 0.4 of c1's 8 or less: nothing explains its 20. A third of the draws explain c1's 8.
    assert by["c0"].flagged
    assert not by["c1"].flagged
    assert 0.1 < by["c1"].p_value < 0.4
    assert {one.client for one in tests if one.flagged} == {"c0"}


def test_calibration_draws_whole_rounds_by_the_protocol():
    rng = np.random.default_rng(0)
    [one] = scores({}, **BY).rounds
    made, held = calibration._redraw_sets(one, {}, rng)
    assert set(made.strength.values()) == {0.72}
    for who, row in held.items():
        assert row[who] == 0
        others = sorted(round(share, 6) for name, share in row.items() if name != who)
        assert others == [-0.2] * 6 + [0.4] * 3
    # One system: of every client, three others hold 0.4 and six -0.2.
    for name in TEN:
        assert sum(held[who][name] for who in TEN if who != name) == pytest.approx(0, abs=1e-6)
    made, held = calibration._redraw_sets(scores({}, others=3, pairs=5).rounds[0], {}, rng)
    assert held is None
    lines = calibration.calibrate(scores({}, **BY), federations=5).points
    assert lines[-1].caught.value == 1


def test_scores_keep_the_protocol(tmp_path):
    found = scores({}, **BY)
    scores_of.write(found, tmp_path / "s.json")
    again = scores_of.read(tmp_path / "s.json")
    assert settings_of(again.rounds[0])["protocol"] == "shared"
    assert again == found


def test_a_draw_that_the_rounds_own_sum_breaks_is_refused(tmp_path, monkeypatch):
    made = write(tmp_path / "fed", clients=8, weights=SIZES, rounds=1)
    from fedaudit.attribution.server import set_selection

    def broken(sets, threshold, weights, products):
        return sum_leakage([*sets, ("c3",)], threshold, weights, products=products)

    monkeypatch.setattr(set_selection, "sum_leakage", broken)
    monkeypatch.setattr(shared_sets, "STARTS", 2)
    with pytest.raises(UsageError, match=r"Round 1: With the round's own sum.* of c3 hidden, .*"):
        plan(made.path)


@pytest.mark.parametrize(
    ("count", "sizes", "given", "alike"),
    [
        (5, (430.0, 430.0), {"threshold": 2, "limit": 1.0}, 0.5),
        (7, (428.0, 437.0), {"weights": "size", "limit": 1.0}, 0.0),
        (7, (428.0, 437.0), {"weights": "size", "limit": 1.0}, 0.5),
        (10, (428.0, 437.0), {}, 0.0),
        (10, (12.0, 400.0), {"sets": 2, "limit": 1.0, "hidden": 0.0}, 0.5),
    ],
)
def test_no_linear_reconstruction_is_better_than_said(tmp_path, count, sizes, given, alike):
    """The server solves for updates with all sums and the published global adapters.

    Updates have something in common and are of unlike length, as those of trained clients are.
    """
    spread = np.linspace(*sizes, count).tolist()
    made = handmade.write(tmp_path / "fed", clients=count, weights=spread, rounds=1, size=500)
    have_in_common(made, alike, [(one / spread[-1]) ** 0.7 for one in spread])
    found = plan(made.path, **{"limit": None, "hidden": 0.1, **given})
    exposure = found.exposures()[1]
    weights = np.array(spread) / np.mean(spread)
    rows = [
        [found.weights[n] * (n in members) for n in made.names] for members in found.designs[1].sets
    ]
    rows = np.array([*rows, weights])
    true = np.array([read_update(made.path, name) for name in made.names])
    sums = rows @ true
    products = true @ true.T
    best = np.linalg.lstsq(rows @ products @ rows.T, rows @ products, rcond=1e-12)[0].T
    for guess in (np.linalg.lstsq(rows, sums, rcond=1e-9)[0], best @ sums):
        for name, one, other in zip(made.names, true, guess, strict=True):
            error = np.square(one - other).sum() / np.square(one).sum()
            assert error >= exposure.hidden[name] - 1e-6
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert cosine <= (1 - exposure.hidden[name]) ** 0.5 + 1e-6
    # It is the best of them that is said.
    worst = min(exposure.hidden, key=exposure.hidden.get)
    one, other = (table[made.names.index(worst)] for table in (true, best @ sums))
    error = np.square(one - other).sum() / np.square(one).sum()
    assert error == pytest.approx(exposure.hidden[worst], abs=1e-4)
    assert "as measured on the updates stored here" in sum_plan.describe_hidden(exposure)


def have_in_common(made, alike, lengths):
    """Change the stored updates: a share of the variance is everybody's, and lengths differ."""
    start = adapters.read(made.path / "rounds/000/global")
    common = made.updates[1][made.names[0]]
    for name, length in zip(made.names, lengths, strict=True):
        own = made.updates[1][name]
        adapters.write(
            {
                key: start[key]
                + length * ((1 - alike) ** 0.5 * own[key] + alike**0.5 * common[key].flip(0))
                for key in own
            },
            handmade.CONFIG,
            made.path / f"rounds/001/clients/{name}",
        )
    handmade.named(made.path)


def read_update(place, name):
    start, trained = (
        adapters.read(place / f"rounds/{folder}")
        for folder in ("000/global", f"001/clients/{name}")
    )
    return np.concatenate([(trained[key] - start[key]).numpy().ravel() for key in sorted(start)])


@pytest.mark.parametrize(
    ("count", "sizes"),
    [pytest.param(5, (428.0, 437.0), marks=pytest.mark.oracle), (6, (12.0, 400.0))],
)
def test_what_hides_too_little_is_refused_and_a_setting_that_would_do_works(tmp_path, count, sizes):
    spread = np.linspace(*sizes, count).tolist()
    made = handmade.write(tmp_path / "fed", clients=count, weights=spread, rounds=1, size=500)
    with pytest.raises(UsageError, match=r"hidden, less than 20%.* --hidden [\d.]+ would do") as e:
        plan(made.path, limit=None)
    words = str(e.value).rpartition("; ")[2].removesuffix(" would do.").split()
    named = dict(zip(words[::2], words[1::2], strict=True))
    given = {"hidden": float(named.pop("--hidden"))}
    given |= {"sets": int(named["--sets"])} if "--sets" in named else {}
    given |= {"weights": named["--weights"]} if "--weights" in named else {}
    found = plan(made.path, limit=None, **given)
    assert min(found.exposures()[1].hidden.values()) >= given["hidden"]
