"""A federation under secure aggregation against a twin, of the same seed, that kept everything."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config import registry
from fedaudit.federation import adapters, manifest, secure_sums
from fedaudit.federation.folder import open_federation
from fedaudit.metrics.attribution import shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.simulation.config import SumQuerySettings
from fedaudit.simulation.runner import simulate
from fedaudit.simulation.server import secure_aggregation as secured

IDEAL = {"name": "ideal", "threshold": 2}
RULES = ("fedit", "flora")
NEAR = {"rtol": 1e-4, "atol": 1e-6}
"""Float32 sums in another order."""


def silent(event):
    pass


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def plain(small):
    """Return settings of a federation in which four of five clients train, a step a round."""
    return replace(
        small,
        clients=5,
        participation=0.8,
        evaluated=0,
        records=replace(small.records, cases=9, documents_per_case=3),
        queries=SumQuerySettings(others=2, pairs=2),
        training=replace(small.training, steps=1),
    )


@pytest.fixture(scope="module")
def twins(plain, tmp_path_factory):
    """Return for each rule the same federation twice: with all updates, and with sums only."""
    place, found = tmp_path_factory.mktemp("twins"), {}
    for rule in RULES:
        open_, hidden = place / f"{rule}-plain", place / f"{rule}-secure"
        simulate(replace(plain, aggregation=rule), open_, listener=silent)
        simulate(wanted(plain, rule), hidden, listener=silent)
        found[rule] = open_, hidden
    return found


def wanted(plain, rule="fedit", **changes):
    return replace(plain, **{"aggregation": rule, "secure_aggregation": IDEAL} | changes)


def examples(found):
    return {client.id: client.examples for client in found.clients}


def slow(path, one, rule, members):
    """Return the sum over `members` from a round's own adapters, the long way, in float64.

    The round's own sum is of updates times the clients' sizes, the others are of updates alone.
    """
    found = manifest.read(path)
    own = examples(found)
    own = own if len(members) == len(one.participants) else dict.fromkeys(own, 1)
    mean = sum(own.values()) / len(own)
    start = adapters.read(path / f"rounds/{one.round - 1:03d}/global")
    total = {}
    for who in members:
        trained = adapters.read(path / f"rounds/{one.round:03d}/clients/{who}")
        for name, tensor in trained.items():
            if rule == "fedit":
                update = tensor.double() - start[name].double()
            elif name.endswith(".lora_A.weight"):
                name = name.removesuffix(".lora_A.weight")  # noqa: PLW2901
                update = trained[f"{name}.lora_B.weight"].double() @ tensor.double()
            else:
                continue
            total[name] = total.get(name, 0) + update * (own[who] / mean)
    return total


@pytest.mark.parametrize("rule", RULES)
def test_the_clients_are_gone_and_the_global_adapters_are_the_twins(rule, twins):
    with_updates, hidden = twins[rule]
    found, whole = open_federation(hidden).manifest, manifest.read(with_updates)
    assert len(set(examples(found).values())) > 1  # weights differ
    assert not list(hidden.glob("rounds/*/clients*"))
    assert all(one.clients == {} for one in found.rounds)
    assert not any("client" in name for name in found.files)
    assert [(r.round, r.participants) for r in found.rounds] == [
        (r.round, r.participants) for r in whole.rounds
    ]
    assert all(r.loss for r in whole.rounds[1:])
    assert not any(r.loss for r in found.rounds)  # a server would not know it
    assert all(len(one.participants) == 4 for one in found.rounds[1:])
    one, other = files(with_updates), files(hidden)
    same = [name for name in one if name.startswith("data/") or "/global/" in name]
    assert len(same) >= 3 * 2 + 6
    if rule == "fedit":
        assert all(one[name] == other[name] for name in same)
        return
    assert all(one[name] == other[name] for name in same if name.startswith("data/"))
    for number in range(1, len(found.rounds)):
        mine, theirs = (
            dict(products(adapters.read(path / f"rounds/{number:03d}/global")))
            for path in twins[rule]
        )
        for module, product in mine.items():
            torch.testing.assert_close(theirs[module], product, rtol=1e-3, atol=1e-5)


def products(tensors):
    for name, tensor in tensors.items():
        if name.endswith(".lora_A.weight"):
            module = name.removesuffix(".lora_A.weight")
            yield module, tensors[f"{module}.lora_B.weight"].double() @ tensor.double()


def test_what_flora_makes_of_sums_holds_no_clients_own_product(twins):
    with_updates, hidden = twins["flora"]
    whole = manifest.read(with_updates)
    made = adapters.read(hidden / "rounds/001/global")
    clients = [
        dict(products(adapters.read(with_updates / place)))
        for place in whole.rounds[1].clients.values()
    ]
    for module in clients[0]:
        a, b = made[f"{module}.lora_A.weight"].double(), made[f"{module}.lora_B.weight"].double()
        for own in clients:
            rank = int(torch.linalg.matrix_rank(own[module]))
            for first in range(a.shape[0] - rank + 1):
                block = (b[:, first : first + rank] @ a[first : first + rank]).flatten()
                alike = torch.nn.functional.cosine_similarity(block, own[module].flatten(), dim=0)
                assert alike < 0.99


@pytest.mark.parametrize("rule", RULES)
def test_there_is_a_sum_for_every_set_of_every_design_and_no_other(rule, twins):
    path = twins[rule][1]
    found = manifest.read(path)
    assert found.secure_aggregation == {
        "name": "ideal",
        "options": {"threshold": 2},
        "queries": {
            "protocol": "pairs",
            "others": 2,
            "pairs": 2,
            "sets": 0,
            "limit": 1.0,
            "weights": "equal",
            "seed": 0,
        },
    }
    for one in found.rounds[1:]:
        sets = {tuple(sorted(one.participants))}
        for who in one.participants:
            drawn = subset_design.draw(
                one.participants,
                who,
                mask_size=2,
                queries=2,
                threshold=2,
                seed=0,
                number=one.round,
            )
            sets |= {*drawn.include, *drawn.exclude}
            assert all(len(members) == 3 and who in members for members in drawn.include)
        assert sorted(one.sums.values()) == sorted(sets)
        on_disk = {
            p.relative_to(path).as_posix() for p in path.glob(f"rounds/{one.round:03d}/sums/*")
        }
        assert on_disk == set(one.sums) == {n for n in found.files if n in on_disk}
    assert found.rounds[0].sums == {}


@pytest.mark.parametrize("rule", RULES)
def test_every_sum_is_that_of_the_twins_updates(rule, twins):
    with_updates, hidden = twins[rule]
    for one in manifest.read(hidden).rounds[1:]:
        for name, members in one.sums.items():
            total = secure_sums.read(hidden / name, members, one.round)
            expected = slow(with_updates, one, rule, members)
            assert total.keys() == expected.keys()
            for key, tensor in expected.items():
                assert total[key].dtype == torch.float32
                torch.testing.assert_close(total[key].double(), tensor, **NEAR)
            assert max(float(t.abs().max()) for t in total.values()) > 1e-5


@pytest.mark.parametrize("rule", RULES)
def test_the_sum_over_everybody_moves_the_server_where_it_went(rule, twins):
    path = twins[rule][1]
    found, aggregator = manifest.read(path), registry.create("aggregation", rule)
    share = secured.update_weights(examples(found))
    for one in found.rounds[1:]:
        total = secure_sums.StoredSums(path, one)(one.participants)
        weight = sum(share[who] for who in one.participants)
        start = adapters.read(path / found.rounds[one.round - 1].adapter)
        moved = aggregator.moved(start, {name: t / weight for name, t in total.items()})
        reached = adapters.read(path / one.adapter)
        for name in (n for n in reached if n.endswith(".lora_A.weight")):
            b = name.replace("lora_A", "lora_B")
            torch.testing.assert_close(
                moved[b] @ moved[name], reached[b] @ reached[name], rtol=1e-3, atol=1e-5
            )


def test_an_estimate_under_flora_is_of_no_higher_rank_than_those_in_it(twins):
    """Rounding in the dense sums must not make an adapter of full rank of it."""
    path, rule = twins["flora"][1], registry.create("aggregation", "flora")
    found = manifest.read(path)
    for one in found.rounds[1:]:
        stored, start = (
            secure_sums.StoredSums(path, one),
            adapters.read(path / found.rounds[one.round - 1].adapter),
        )
        who = one.participants
        drawn = subset_design.draw(
            who, who[0], mask_size=2, queries=2, threshold=2, seed=0, number=one.round
        )
        update = {}
        for members, sign in drawn.combination.coefficients.items():
            for name, tensor in stored(members).items():
                update[name] = update.get(name, 0) + sign * tensor
        rows = next(iter(rule.moved(start, update).values())).shape[0]
        assert rows <= 4 * len(who) * one.round  # rank 4 of each client, in each round so far


def test_sums_by_size_are_of_weighted_updates(plain, tmp_path):
    updates = {f"c{n}": {"a": torch.full((2,), 10.0**n)} for n in range(4)}
    weights = {"c0": 1.0, "c1": 2.0, "c2": 3.0, "c3": 4.0}
    for weighting in ("equal", "size"):
        config = replace(plain, queries=SumQuerySettings(others=2, pairs=2, weights=weighting))
        place = tmp_path / weighting
        (place / "clients").mkdir(parents=True)
        ideal = registry.create("secure aggregation", "ideal", {"threshold": 2})
        files = secured.store_sums(ideal, updates, weights, config, 1, place)
        for name, members in files.items():
            total = secure_sums.read(place / name.removeprefix("rounds/001/"), members, 1)["a"][0]
            by_size = weighting == "size" or len(members) == 4
            wanted = sum(10 ** int(w[1:]) * (weights[w] if by_size else 1) for w in members)
            assert float(total) == wanted
        assert len(set(files.values())) == len(files)


def test_weights_by_hand():
    assert secured.update_weights({"a": 2.0, "b": 6.0, "c": 4.0}) == {"a": 0.5, "b": 1.5, "c": 1.0}
    assert secured.update_weights({"a": 3.0, "b": 3.0}) == {"a": 1.0, "b": 1.0}


def test_the_order_of_participants_changes_no_set(plain):
    who = [f"c{i}" for i in range(5)]
    one = secured.requested_sets(dict.fromkeys(who), plain, 2, 1)
    assert secured.requested_sets(dict.fromkeys(reversed(who)), plain, 2, 1) == one
    assert secured.requested_sets(dict.fromkeys(who), plain, 2, 2) != one
    assert secured.requested_sets(dict.fromkeys(who), replace(plain, seed=1), 2, 1) != one
    assert len(set(one)) == len(one)
    assert one == sorted(one)  # a set's place does not tell whose design it is of


class Stop(Exception):
    pass


def test_stopped_anywhere_it_goes_on_to_the_same_end(plain, twins, tmp_path, monkeypatch):
    """In the middle of the sums, after the updates are gone, and in the next round's training."""
    out, config, path = tmp_path / "run", wanted(plain), twins["fedit"][1]
    write, count = secure_sums.write, []

    def half(*args):
        count.append(1)
        if len(count) == 4:
            raise Stop
        return write(*args)

    def gone(*args):
        raise Stop

    def second(event):
        if event.round == 2:
            raise Stop

    for patch in (
        ("fedaudit.federation.secure_sums.write", half),
        ("fedaudit.simulation.rounds.file_hashes", gone),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(*patch)
            with pytest.raises(Stop):
                simulate(config, out, listener=silent)
        assert len(manifest.read(out).rounds) == 1
    assert list((out / "rounds/001/sums").iterdir())
    with pytest.raises(Stop):
        simulate(config, out, listener=second)
    assert len(manifest.read(out).rounds) == 2
    result = simulate(config, out, listener=silent)
    assert result.resumed_from == 1
    assert files(out) == files(path)


def test_a_changed_or_missing_sum_is_noticed(twins, tmp_path):
    out = shutil.copytree(twins["fedit"][1], tmp_path / "run")
    name = next(iter(manifest.read(out).rounds[1].sums))
    content = (out / name).read_bytes()
    (out / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="is not the file that"):
        open_federation(out)
    (out / name).unlink()
    with pytest.raises(InputError, match=f"misses {name}"):
        open_federation(out)


def test_sums_swapped_with_their_hashes_are_still_told_apart(twins, tmp_path):
    """Whoever writes the manifest anew cannot make one sum pass for another."""
    out = shutil.copytree(twins["fedit"][1], tmp_path / "run")
    table = json.loads((out / manifest.NAME).read_text())
    own = table["rounds"][1]["sums"]
    (one, whose), (other, whose_other) = list(own.items())[:2]
    own[one], own[other] = whose_other, whose
    (out / manifest.NAME).write_text(json.dumps(table))
    found = open_federation(out).manifest
    with pytest.raises(InputError, match="is not the sum that the manifest says"):
        secure_sums.StoredSums(out, found.rounds[1])(tuple(whose))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secure_aggregation": {"name": "ideal", "threshold": 3}}, "below the threshold"),
        ({"secure_aggregation": "ideal"}, "below the threshold of secure aggregation, 5"),
        ({"secure_aggregation": {"name": "ideal", "threshold": 0}}, "threshold"),
        ({"secure_aggregation": {"name": "ideal", "treshold": 2}}, "Did you mean"),
        ({"secure_aggregation": "idea"}, "Did you mean"),
        ({"queries": SumQuerySettings(others=3, pairs=2)}, "all that take part"),
        ({"queries": SumQuerySettings(others=9, pairs=2)}, "too many: 3 take part"),
        ({"participation": 0.4}, "2 clients in a round are too few"),
        ({"defenses": ("secure_gate",), "aggregation": "fedavg"}, "secure_gate deploys from"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_written(changes, message, plain, tmp_path):
    with pytest.raises(UsageError, match=message) as error:
        simulate(wanted(plain, **changes), tmp_path / "run", listener=silent)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_protocol_that_is_not_there_is_refused_before_any_training(plain, tmp_path, monkeypatch):
    def missing(self):
        raise UsageError("The protocol is not installed.")

    monkeypatch.setattr(type(registry.create("secure aggregation", "ideal")), "check", missing)
    with pytest.raises(UsageError, match="is not installed"):
        simulate(wanted(plain), tmp_path / "run", listener=silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unequal", [False, True])
def test_shared_sets_are_stored_as_they_are_drawn(plain, tmp_path, unequal):
    names = [f"c{n}" for n in range(6)]
    updates = {who: {"a": torch.full((2,), 10.0**n)} for n, who in enumerate(names)}
    weights = {who: 0.5 + n / 5 if unequal else 1.0 for n, who in enumerate(names)}
    config = replace(plain, queries=SumQuerySettings(protocol="shared", limit=0.9))
    place = tmp_path / "round"
    (place / "clients").mkdir(parents=True)
    secure = registry.create("secure aggregation", "ideal", {"threshold": 3})
    files = secured.store_sums(secure, updates, weights, config, 1, place)
    rule = SharedSetsRule(
        participants=6,
        queries=2 if unequal else 3,
        threshold=3,
        limit=0.9,
        whole=not unequal,
    )
    drawn = shared_sets.draw(rule, names, seed=config.seed, number=1).sets
    assert set(files.values()) == {*drawn, tuple(names)}
    assert len(files) == (3 + 1 if unequal else 4)  # the round's own is one of them, or beside them
    for name, members in files.items():
        by = weights if members == tuple(names) else dict.fromkeys(names, 1.0)
        total = secure_sums.read(place / "sums" / name.rpartition("/")[2], members, 1)
        expected = sum(by[who] * float(updates[who]["a"][0]) for who in members)
        assert float(total["a"][0]) == pytest.approx(expected, rel=1e-6)
