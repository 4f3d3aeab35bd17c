"""FLoRA: what is merged is the weighted sum of the clients' products, in every form it takes."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config.registry import create
from fedaudit.federation import adapters

MODULES = {"q": (6, 5), "v": (4, 5)}
"""(out, in) of each; their products have rank 5 and 4 at most."""
EXACT = {"rtol": 1e-5, "atol": 1e-6}
FACTORED = {"rtol": 1e-4, "atol": 1e-4}
"""Singular values below a millionth of the largest are dropped."""


def flora():
    return create("aggregation", "flora")


def drawn(seed, rank=2, zero=False):
    """Return an adapter of random tensors; one that changes nothing has a B of zeros."""
    generator = torch.Generator().manual_seed(seed)
    result = {}
    for module, (out, width) in MODULES.items():
        result[f"{module}.lora_A.weight"] = torch.randn(rank, width, generator=generator)
        b = torch.randn(out, rank, generator=generator)
        result[f"{module}.lora_B.weight"] = b * 0 if zero else b
    return result


def products(update):
    """Return B A of each module by the definition, entry by entry, as float64."""
    found = {}
    for module, (out, width) in MODULES.items():
        a = update[f"{module}.lora_A.weight"].tolist()
        b = update[f"{module}.lora_B.weight"].tolist()
        rows = [
            [sum(b[i][r] * a[r][j] for r in range(len(a))) for j in range(width)]
            for i in range(out)
        ]
        found[module] = torch.tensor(rows, dtype=torch.float64)
    return found


def mean(updates, weights):
    """Return sum_k (n_k / n) B_k A_k of each module."""
    own = [products(update) for update in updates]
    return {
        m: sum(p[m] * (w / sum(weights)) for p, w in zip(own, weights, strict=True))
        for m in MODULES
    }


def close(update, wanted, **near):
    found = products(update)
    for module in MODULES:
        torch.testing.assert_close(found[module], wanted[module], **(near or EXACT))


def rank_of(update):
    ranks = {tensor.shape[0 if "lora_A" in name else 1] for name, tensor in update.items()}
    assert len(ranks) == 1  # one rank for the adapter's configuration
    return ranks.pop()


def test_two_clients_by_hand():
    start = {"m.lora_A.weight": torch.tensor([[9.0, 9.0]]), "m.lora_B.weight": torch.zeros(2, 1)}
    one = {"m.lora_A.weight": torch.tensor([[1.0, 2.0]]), "m.lora_B.weight": torch.eye(2)[:, :1]}
    two = {"m.lora_A.weight": torch.tensor([[4.0, 0.0]]), "m.lora_B.weight": torch.eye(2)[:, 1:]}
    made = flora().aggregate(start, [one, two], [3, 1])
    # Shares 3/4 and 1/4: A is stacked with the shares, B side by side without.
    assert made["m.lora_A.weight"].tolist() == [[0.75, 1.5], [1.0, 0.0]]
    assert made["m.lora_B.weight"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    # FedAvg of A and B apart would give (0.75, 0.25)^T (1.75, 1.5): cross terms.
    assert (made["m.lora_B.weight"] @ made["m.lora_A.weight"]).tolist() == [[0.75, 1.5], [1.0, 0.0]]


def test_the_first_round_is_stacked_and_the_initial_adapter_left_out():
    start, clients, sizes = drawn(0, rank=1, zero=True), [drawn(1, 1), drawn(2, 2)], [5, 3]
    made = flora().aggregate(start, clients, sizes)
    assert rank_of(made) == 3  # 1 + 2 rows, below min(out, in) of both
    close(made, mean(clients, sizes))
    first = made["q.lora_A.weight"][:1]
    torch.testing.assert_close(first, clients[0]["q.lora_A.weight"] * 5 / 8)


def test_rounds_add_up_whether_stacked_or_factored():
    merged, wanted, ranks = drawn(0, zero=True), dict.fromkeys(MODULES, 0.0), []
    for number in range(5):
        clients, sizes = [drawn(10 * number + k, 1) for k in range(2)], [1 + number, 4]
        merged, state = flora().step(merged, clients, sizes, {})
        added = mean(clients, sizes)
        wanted = {m: wanted[m] + added[m] for m in MODULES}
        close(merged, wanted, **FACTORED)
        assert state == {}
        ranks.append(rank_of(merged))
    assert ranks == [2, 4, 5, 5, 5]  # 2 rows a round, until the product's own rank is reached


def test_no_module_has_more_rows_than_its_product_needs():
    made = flora().aggregate(drawn(0, zero=True), [drawn(k, 3) for k in range(1, 5)], [1] * 4)
    assert rank_of(made) == 5
    # v's product is 4 x 5: its fifth row and column only fill up to q's rank.
    assert not made["v.lora_A.weight"][4:].any()
    assert not made["v.lora_B.weight"][:, 4:].any()
    close(made, mean([drawn(k, 3) for k in range(1, 5)], [1] * 4), **FACTORED)


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
    ranks=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    seed=st.integers(0, 10**6),
    factor=st.integers(2, 50),
    random=st.randoms(use_true_random=False),
)
def test_any_clients_in_any_order_give_the_sum_of_their_products(
    sizes, ranks, seed, factor, random
):
    clients = [drawn(seed + k, ranks[k]) for k in range(len(sizes))]
    start = drawn(seed + 99)
    wanted = mean(clients, sizes)
    wanted = {m: wanted[m] + own for m, own in products(start).items()}
    made = flora().aggregate(start, clients, sizes)
    close(made, wanted, **FACTORED)
    assert rank_of(made) <= 5
    order = random.sample(range(len(sizes)), len(sizes))
    again = flora().aggregate(
        start, [clients[k] for k in order], [sizes[k] * factor for k in order]
    )
    close(again, products(made), **FACTORED)


def test_what_goes_in_is_left_alone():
    start, clients = drawn(0), [drawn(1), drawn(2)]
    kept = [{n: t.clone() for n, t in own.items()} for own in (start, *clients)]
    flora().aggregate(start, clients, [1, 2])
    flora().moved(start, flora().difference(start, clients[0]))
    for own, before in zip((start, *clients), kept, strict=True):
        assert all(torch.equal(own[name], before[name]) for name in before)


def test_an_update_is_the_clients_product():
    start, trained = drawn(0, zero=True), drawn(1)
    found = flora().difference(start, trained)
    assert found.keys() == MODULES.keys()
    for module, wanted in products(trained).items():
        assert found[module].dtype == torch.float32
        torch.testing.assert_close(found[module].double(), wanted, **EXACT)
    assert not any(tensor.any() for tensor in flora().difference(start, start).values())


def test_updates_add_up_to_what_the_server_merges():
    """A sum of updates is the aggregate; a sum of tensors, A and B apart, is not."""
    initial, start = drawn(0, zero=True), drawn(50)
    clients, sizes = [drawn(k) for k in (1, 2, 3)], [2, 5, 1]
    updates = [flora().difference(initial, client) for client in clients]
    total = {m: sum(u[m] * (n / 8) for u, n in zip(updates, sizes, strict=True)) for m in MODULES}
    moved = flora().moved(start, total)
    close(moved, products(flora().aggregate(start, clients, sizes)), **FACTORED)
    assert rank_of(moved) <= 5
    apart = create("aggregation", "fedit").aggregate(initial, clients, sizes)
    assert (products(apart)["q"] - total["q"]).abs().max() > 0.1


@given(st.integers(0, 10**6), st.floats(-2, 2, width=16), st.integers(1, 4))
def test_moved_has_the_product_of_both(seed, scale, rank):
    start = drawn(seed, rank)
    update = {m: scale * tensor for m, tensor in flora().difference(start, drawn(seed + 1)).items()}
    wanted = {m: own + update[m].double() for m, own in products(start).items()}
    close(flora().moved(start, update), wanted, **FACTORED)


def test_moving_there_and_back_leaves_nothing():
    """A product of zeros still is an adapter: of rank 1, and it changes nothing."""
    start = drawn(3)
    back = {m: -product.float() for m, product in products(start).items()}
    close(flora().moved(start, back), {m: torch.zeros(s).double() for m, s in MODULES.items()})
    initial = drawn(0, zero=True)
    none = flora().difference(initial, initial)
    unmoved = flora().moved(initial, none)
    assert rank_of(unmoved) == 1
    assert not any(tensor.any() for tensor in unmoved.values())
    stayed = flora().aggregate(initial, [initial, initial], [1, 1])
    close(stayed, {m: torch.zeros(s).double() for m, s in MODULES.items()})


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize(("rank", "alpha"), [(4, 8), (3, 7), (16, 1), (1, 2.5)])
def test_a_wider_adapter_keeps_the_scaling(rank, alpha, rslora):
    config = {"r": rank, "lora_alpha": alpha, "use_rslora": rslora, "bias": "none"}
    before = {"x.lora_A.weight": torch.zeros(rank, 7), "x.lora_B.weight": torch.zeros(3, rank)}
    root = 0.5 if rslora else 1.0
    scaling = alpha / rank**root
    for wide in (1, 5, 12, 100):
        tensors = {"x.lora_A.weight": torch.zeros(wide, 7), "x.lora_B.weight": torch.zeros(3, wide)}
        found = adapters.resized_config(config, before, tensors)
        assert found["r"] == wide
        assert found["lora_alpha"] / wide**root == pytest.approx(scaling, rel=1e-12)
        assert found["bias"] == "none"
        config, before = found, tensors  # the next round begins with this round's configuration
    narrow = {name: torch.zeros(4, 4) for name in tensors}
    assert adapters.resized_config(
        {**config, "r": 4, "lora_alpha": 8, "use_rslora": False}, narrow, tensors
    )["lora_alpha"] == (200)


# In a federation


@pytest.fixture(scope="module")
def merged_federation(small, tmp_path_factory):
    from fedaudit.simulation.runner import simulate

    path = tmp_path_factory.mktemp("flora") / "run"
    training = replace(small.training, steps=2)
    wanted = replace(small, aggregation="flora", rounds=3, training=training, evaluated=0)
    simulate(wanted, path, listener=lambda event: None)
    return path


def by_hand(base, folders):
    """Add the weighted products of the clients in `folders` to a base's weights, one by one."""
    for folder, share in folders:
        tensors, config = adapters.read(folder), adapters.check(folder)
        scale = config["lora_alpha"] / config["r"]
        for name in (n for n in tensors if n.endswith(".lora_A.weight")):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            b = tensors[name.replace("lora_A", "lora_B")].double()
            weight = base.model.get_submodule(module).weight
            added = weight.data.double() + scale * share * (b @ tensors[name].double())
            weight.data = added.to(weight.dtype)
    return base


def shares(path, numbers):
    from fedaudit.federation import manifest

    found = manifest.read(path)
    examples = {client.id: client.examples for client in found.clients}
    for one in found.rounds:
        if one.round in numbers:
            total = sum(examples[who] for who in one.participants)
            for who in one.participants:
                yield path / one.clients[who], examples[who] / total


def test_the_global_adapter_answers_as_the_base_with_all_rounds_merged(
    merged_federation, fresh_base
):
    from fedaudit.engine.loading.loader import attach, load_base

    ids = torch.tensor([[1, *range(300, 330)]])
    path = merged_federation
    for last in (1, 3):
        beside = attach(
            load_base("fedaudit-nano", device="cpu").model, path / f"rounds/00{last}/global", "g"
        )
        wanted = by_hand(load_base("fedaudit-nano", device="cpu"), shares(path, range(1, last + 1)))
        with torch.inference_mode():
            found, expected = beside.eval()(input_ids=ids).logits, wanted.model(ids).logits
            bare = fresh_base.model(ids).logits
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
        assert (found - bare).abs().max() > 0.05


def test_a_round_is_trained_with_the_initial_adapter_on_the_merged_base(
    merged_federation, base, tmp_path
):
    """The same training again, on a base that was merged by hand and saved as a model."""
    from fedaudit.config.options import build
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.federation import manifest
    from fedaudit.simulation import rounds
    from fedaudit.simulation.client import trainer
    from fedaudit.simulation.config import Simulation
    from fedaudit.simulation.data import datasets

    path = merged_federation
    found = manifest.read(path)
    config = build(Simulation, found.config, "test")
    hand = by_hand(load_base("fedaudit-nano", device="cpu"), shares(path, (1,)))
    hand.model.save_pretrained(tmp_path / "base")
    hand.tokenizer.save_pretrained(tmp_path / "base")
    own = datasets.client_documents(config, path, found.clients, [])
    job = trainer.ClientTraining(
        model_name="c1",
        base=str(tmp_path / "base"),
        start=path / "rounds/000/global",
        out=tmp_path / "out",
        sequences=datasets.tokenize_clients(config, base, own).shared["c1"],
        training=config.training,
        round=2,
        rounds=3,
        seed=rounds.seed_of(config.seed, 2, "c1"),
        aggregator=flora(),
        device="cpu",
        dtype="auto",
        threads=1,
    )
    loss = trainer.train(job)
    assert loss == pytest.approx(found.rounds[2].loss["c1"], abs=1e-5)
    again, kept = adapters.read(job.out), adapters.read(path / "rounds/002/clients/c1")
    for name, tensor in kept.items():
        torch.testing.assert_close(again[name], tensor, rtol=1e-3, atol=1e-4)
    # On the bare base it would have come to something else.
    trainer.train(replace(job, base="fedaudit-nano", out=tmp_path / "bare"))
    other = adapters.read(tmp_path / "bare")
    assert any((other[name] - tensor).abs().max() > 1e-3 for name, tensor in kept.items())
    trainer.forget_model()
