"""A stacked adapter is the weighted sum of the others' products, however they were scaled."""

import json
import random
from contextlib import contextmanager

import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from transformers import LlamaForCausalLM

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.local import LocalEngine
from fedaudit.engine.lora import composition
from fedaudit.federation import adapters

BASE = Target(name="base")
NEAR = {"rel": 1e-4, "abs": 1e-4}
"""Float32 sums in another order."""
PROJECTIONS = ("q_proj", "v_proj")
KINDS = {
    "plain": {"r": 3, "lora_alpha": 6, "target_modules": PROJECTIONS},
    "other scaling": {"r": 2, "lora_alpha": 1, "target_modules": PROJECTIONS},
    "rslora": {"r": 4, "lora_alpha": 3, "use_rslora": True, "target_modules": PROJECTIONS},
    "patterns": {
        "r": 2,
        "lora_alpha": 3,
        "rank_pattern": {"q_proj": 4, "layers.1.self_attn.v_proj": 1},
        "alpha_pattern": {"v_proj": 5},
        "target_modules": PROJECTIONS,
    },
    "elsewhere": {"r": 2, "lora_alpha": 2, "target_modules": ("q_proj", "down_proj")},
    "one layer": {
        "r": 2,
        "lora_alpha": 4,
        "target_modules": PROJECTIONS,
        "layers_to_transform": [1],
        "layers_pattern": "layers",
    },
}


def scaling(kind, module):
    """Return by hand what the adapter of a kind multiplies B A by."""
    if kind == "patterns":
        if module.endswith("q_proj"):
            return 3 / 4
        return 5.0 if "layers.1." in module else 5 / 2
    return {"other scaling": 1 / 2, "rslora": 3 / 2, "elsewhere": 1.0}.get(kind, 2.0)


@pytest.fixture(scope="module")
def tiny(base):
    """Return a function that makes the same tiny Llama anew."""
    return lambda: tiny_models.llama(base.tokenizer)


@pytest.fixture(scope="module")
def folders(tiny, tmp_path_factory):
    """Return one adapter's folder of each kind."""
    place = tmp_path_factory.mktemp("adapters")
    return {
        kind: tiny_models.write(tiny(), place / kind, seed=seed, **options)
        for seed, (kind, options) in enumerate(KINDS.items())
    }


@pytest.fixture(scope="module")
def sequences():
    rng = random.Random(2)
    return [[rng.randrange(3, 290) for _ in range(n)] for n in (5, 1, 0, 17, 2, 8, 40, 16)]


def tuned(folder):
    return Target(name="tuned", adapter=str(folder))


def written(folders, weights, place):
    adapters.write(*composition.weighted_sum(folders, weights), place)
    return place


def close(found, wanted):
    for row, other in zip(found, wanted, strict=True):
        assert row == pytest.approx(other, **NEAR)


def merged(base, parts, weights):
    """Return a base whose weights have the products added by hand: the slow obvious way."""
    modules = dict(base.model.named_modules())
    for (kind, folder), weight in zip(parts, weights, strict=True):
        tensors = adapters.read(folder)
        for name in filter(lambda n: "lora_A" in n, tensors):
            module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
            product = tensors[name.replace("lora_A", "lora_B")] @ tensors[name]
            modules[module].weight.data += weight * scaling(kind, module) * product
    return base


@pytest.mark.parametrize(
    ("kinds", "weights"),
    [
        (("plain",), (0.7,)),
        (("plain", "plain"), (0.7, -1.2)),
        (("plain", "other scaling"), (0.4, 1.5)),
        (("rslora", "plain"), (-0.5, 0.9)),
        (("plain", "rslora"), (-0.5, 0.9)),
        (("patterns", "rslora"), (0.8, 0.6)),
        (("other scaling", "patterns"), (0.8, 0.6)),
        (("plain", "elsewhere"), (1.0, 0.5)),
        (("one layer", "plain"), (1.1, 0.5)),
        (("elsewhere", "patterns", "rslora", "one layer"), (0.9, -0.3, 0.6, 0.5)),
    ],
    ids=str,
)
def test_a_stack_is_whatmerging_by_hand_gives(kinds, weights, tiny, folders, sequences, tmp_path):
    chosen = [folders[kind] for kind in kinds]
    by_hand = merged(tiny(), list(zip(kinds, chosen, strict=True)), weights)
    wanted = LocalEngine(by_hand).score(BASE, sequences)
    engine = LocalEngine(tiny())
    close(engine.score(tuned(written(chosen, weights, tmp_path / "sum")), sequences), wanted)
    with composition.attached_composition(engine, chosen) as both:
        close(both.scores(weights, sequences), wanted)
    assert wanted[-1] != pytest.approx(engine.score(BASE, sequences)[-1], abs=0.01)


def test_weights_of_one_and_nothing_give_each_adapter_alone(
    fresh_base, adapter, write_adapter, tmp_path
):
    other = write_adapter(fresh_base, tmp_path / "other", rank=3, seed=5)
    engine, rows = LocalEngine(fresh_base), [[1, *range(300, 340)], [1, 7, 8, 9]]
    for number, weights in enumerate(((1.0, 0.0), (0.0, 1.0))):
        wanted = engine.score(tuned((adapter, other)[number]), rows)
        place = written((adapter, other), weights, tmp_path / str(number))
        close(engine.score(tuned(place), rows), wanted)
        with composition.attached_composition(engine, (adapter, other)) as both:
            close(both.scores(weights, rows), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_every_scaling_is_the_one_that_peft_applies(kind, tiny, folders, sequences, tmp_path):
    engine = LocalEngine(tiny())
    wanted = engine.score(tuned(folders[kind]), sequences)
    for others in ((), ("plain",), ("elsewhere",)):
        chosen = [*(folders[other] for other in others), folders[kind]]
        weights = [0.0] * len(others) + [1.0]
        place = written(chosen, weights, tmp_path / "-".join(("sum", *others)))
        close(engine.score(tuned(place), sequences), wanted)


def hand_made(folder, a, b, **options):
    config = {"peft_type": "LORA", "r": len(a), "lora_alpha": len(a), "target_modules": ["q_proj"]}
    name = "base_model.model.layers.0.q_proj.lora_{}.weight"
    tensors = {name.format("A"): torch.tensor(a), name.format("B"): torch.tensor(b)}
    adapters.write(tensors, config | options, folder)
    return folder


def product(tensors, config):
    a, b = (next(t for n, t in tensors.items() if f"lora_{x}" in n) for x in "AB")
    return config["lora_alpha"] / config["r"] * b.double() @ a.double()


def test_a_sum_by_hand(tmp_path):
    first = hand_made(tmp_path / "1", [[1.0, 2.0]], [[3.0], [4.0]], lora_alpha=5)
    second = hand_made(tmp_path / "2", [[0.0, 1.0]], [[2.0], [0.0]], lora_alpha=10)
    tensors, config = composition.weighted_sum((first, second), (2.0, -1.0))
    # Rank 1 + 1 and alpha 5 + 5, so that alpha over r stays 5; the second's 10 doubles its B.
    assert (config["r"], config["lora_alpha"]) == (2, 10)
    assert {n.split("lora_")[1]: t.tolist() for n, t in tensors.items()} == {
        "A.weight": [[1.0, 2.0], [0.0, 1.0]],
        "B.weight": [[6.0, -4.0], [8.0, 0.0]],
    }
    # 2 * 5 * [[3, 6], [4, 8]] - 1 * 10 * [[0, 2], [0, 0]]
    wanted = [[30.0, 40.0], [40.0, 80.0]]
    assert product(tensors, config).tolist() == wanted
    # Adding A and B apart is something else: (2 B1 - B2)(2 A1 - A2) with the scaling of the first.
    a, b = torch.tensor([[2.0, 3.0]]), torch.tensor([[4.0], [8.0]])
    assert (5 * b @ a).tolist() != wanted


def test_the_configuration_stays_but_for_rank_and_alpha(folders):
    before = json.loads((folders["plain"] / adapters.CONFIG).read_text())
    _, after = composition.weighted_sum([folders["plain"], folders["plain"]], (1.0, 1.0))
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"r", "lora_alpha"}
    assert (after["r"], after["lora_alpha"]) == (6, 12)


finite = st.floats(-3, 3, width=32)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Return four adapters by hand, of ranks 1 to 4 and different scalings."""
    place, generator = tmp_path_factory.mktemp("four"), torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator).tolist()

    return [
        hand_made(place / str(r), drawn(r, 6), drawn(5, r), lora_alpha=r * r, use_rslora=r == 2)
        for r in (1, 2, 3, 4)
    ]


@given(weights=st.lists(finite, min_size=1, max_size=4), factor=finite, data=st.data())
def test_the_product_is_linear_and_order_does_not_matter(weights, factor, data, four):
    order = data.draw(st.permutations(range(len(weights))))
    some = four[: len(weights)]
    whole = product(*composition.weighted_sum(some, weights))
    parts = [
        w * product(*composition.weighted_sum([one], [1.0]))
        for w, one in zip(weights, some, strict=True)
    ]
    torch.testing.assert_close(whole, sum(parts), rtol=1e-5, atol=1e-5)
    shuffled = composition.weighted_sum([some[i] for i in order], [weights[i] for i in order])
    torch.testing.assert_close(product(*shuffled), whole, rtol=1e-5, atol=1e-5)
    scaled = product(*composition.weighted_sum(some, [factor * w for w in weights]))
    torch.testing.assert_close(scaled, factor * whole, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pair", [("plain", "rslora"), ("patterns", "elsewhere")], ids=str)
def test_weights_set_in_place_are_those_written_to_disk(
    pair, dtype, tiny, folders, sequences, tmp_path
):
    loaded, chosen = tiny(), [folders[kind] for kind in pair]
    loaded.model.to(dtype)
    engine = LocalEngine(loaded)
    engine.merging.possible = False  # an adapter is put beside the weights, as a blend is
    tried = [(1.0, 0.0), (0.3, -1.4), (0.0, 0.0), (0.3, -1.4), (1.5, 0.7)]
    with composition.attached_composition(engine, chosen) as both:
        found = [both.scores(weights, sequences) for weights in tried]
    assert found[1] == found[3] != found[4]
    for number, weights in enumerate(tried):
        place = written(chosen, weights, tmp_path / str(number))
        assert engine.score(tuned(place), sequences) == found[number]


def test_adapters_in_half_precision_are_summed_in_float32(folders, tmp_path):
    whole, half = folders["rslora"], tmp_path / "half"
    rounded = {name: tensor.bfloat16() for name, tensor in adapters.read(whole).items()}
    adapters.write(rounded, adapters.check(whole), half)
    tensors, _ = composition.weighted_sum([folders["plain"], half], (1.0, 0.3))
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
    # Its scaling is 3 / 2 where the stack's is 2; three quarters of a bfloat16 need more bits.
    wanted = adapters.read(half)[name].float() * 0.75 * torch.tensor(0.3)
    assert torch.equal(tensors[name][:, 3:], wanted)


def test_the_loss_is_the_mean_over_tokens():
    # Two tokens and one: (1 + 2 + 6) / 3. Not (1.5 + 6) / 2, nor a sum over two examples.
    assert composition.mean_loss([[-1.0, -2.0], [], [-6.0]]) == 3.0
    assert composition.mean_loss([[float("-inf")], [-1.0]]) == float("inf")
    for none in ([], [[], []]):
        with pytest.raises(InputError, match="no text has two tokens"):
            composition.mean_loss(none)


def test_the_loss_is_the_models_own_and_no_batch_or_order_changes_it(tiny, folders, sequences):
    chosen, weights = [folders["plain"], folders["patterns"]], (0.6, 0.4)
    kinds = [("plain", chosen[0]), ("patterns", chosen[1])]
    model, losses, tokens = merged(tiny(), kinds, weights).model, 0.0, 0
    for sequence in (s for s in sequences if len(s) > 1):
        ids = torch.tensor([sequence])
        with torch.inference_mode():
            losses += float(model(ids, labels=ids).loss) * (len(sequence) - 1)
        tokens += len(sequence) - 1
    for bound in (1, 20, 0):
        with composition.attached_composition(LocalEngine(tiny(), tokens=bound), chosen) as both:
            for rows in (sequences, sequences[::-1]):
                assert both.loss(weights, rows) == pytest.approx(losses / tokens, rel=1e-5)


def state(engine):
    """Return all there is to see of an engine's model, and what it answers."""
    model = engine.base.model
    return {
        "kind": type(engine.model),
        "adapters": list(getattr(engine.model, "peft_config", ())),
        "active": getattr(engine.model, "active_adapter", None),
        "modules": [(name, type(m), m.training) for name, m in model.named_modules()],
        "weights": [(n, p.requires_grad, p.sum().item()) for n, p in model.named_parameters()],
    }


@contextmanager
def unchanged(engine, targets, rows):
    answers = [engine.score(target, rows) for target in targets]
    before = state(engine)
    yield
    assert state(engine) == before
    assert [engine.score(target, rows) for target in targets] == answers


def broken(engine, chosen):
    with composition.attached_composition(engine, chosen) as both:
        both.loss((1.0, 2.0), [[5] * 81])


@pytest.mark.parametrize("second", ["other scaling", "elsewhere"])
@pytest.mark.parametrize("known", [(), ("plain",), ("rslora", "plain")], ids=str)
def test_the_engine_is_afterwards_as_it_was(known, second, tiny, folders, sequences):
    engine, chosen = LocalEngine(tiny()), [folders["plain"], folders[second]]
    targets = [*(tuned(folders[kind]) for kind in known), BASE]
    with (
        unchanged(engine, targets, sequences),
        composition.attached_composition(engine, chosen) as both,
    ):
        wanted = both.scores((0.5, 0.5), sequences)
        for target in targets:  # in between, other questions may be asked
            engine.score(target, sequences)
        assert both.scores((0.5, 0.5), sequences) == wanted
    with unchanged(engine, targets, sequences), pytest.raises(InputError, match="80 tokens"):
        broken(engine, chosen)


def test_what_was_trainable_or_in_training_stays_so(tiny, folders, sequences):
    engine = LocalEngine(tiny())
    engine.base.model.lm_head.weight.requires_grad_(True)
    engine.base.model.model.norm.train()
    before = state(engine)
    with composition.attached_composition(engine, [folders["plain"]]) as both:
        both.loss((1.0,), sequences)
    assert state(engine) == before


def test_batches_keep_to_the_engines_bounds(tiny, folders, sequences, monkeypatch):
    engine, seen = LocalEngine(tiny(), tokens=16), []
    forward = LlamaForCausalLM.forward

    def spy(self, input_ids, **options):
        seen.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **options)

    monkeypatch.setattr(LlamaForCausalLM, "forward", spy)
    with composition.attached_composition(engine, [folders["plain"]]) as both:
        both.loss((1.0,), sequences)
    # Sequences of up to 8 tokens (five, one of them empty) two at a time, longer ones alone.
    assert sorted(seen) == [(1, 8), (1, 16), (1, 24), (1, 40), (2, 8), (2, 8)]


def test_an_adapter_that_came_in_between_stays(tiny, folders, sequences):
    engine, alone = LocalEngine(tiny()), LocalEngine(tiny())
    engine.merging.possible = alone.merging.possible = False
    wanted = alone.score(tuned(folders["rslora"]), sequences)
    with composition.attached_composition(engine, [folders["plain"]]) as both:
        both.loss((1.0,), sequences)
        assert engine.score(tuned(folders["rslora"]), sequences) == wanted
    assert isinstance(engine.model, PeftModel)
    assert list(engine.model.peft_config) == ["adapter0"]
    assert engine.score(tuned(folders["rslora"]), sequences) == wanted
    assert engine.score(BASE, sequences) == LocalEngine(tiny()).score(BASE, sequences)


def test_a_blend_may_be_attached_within_another(tiny, folders, sequences):
    engine, chosen = LocalEngine(tiny()), [folders["plain"], folders["rslora"]]
    with composition.attached_composition(engine, chosen) as outer:
        wanted = outer.scores((0.2, 0.9), sequences)
        with composition.attached_composition(engine, chosen[::-1]) as inner:
            close(inner.scores((0.9, 0.2), sequences), wanted)
            assert outer.scores((0.2, 0.9), sequences) == wanted
        assert outer.scores((0.2, 0.9), sequences) == wanted
    assert engine.model is engine.base.model


@pytest.fixture
def damaged(folders, tmp_path):
    """Return a function that writes the plain adapter with changes."""

    def rewrite(tensors=lambda given: given, **config):
        before = json.loads((folders["plain"] / adapters.CONFIG).read_text())
        adapters.write(tensors(adapters.read(folders["plain"])), before | config, tmp_path / "bad")
        return tmp_path / "bad"

    return rewrite


def without_b(given):
    return {name: t for name, t in given.items() if "layers.0.self_attn.q_proj.lora_B" not in name}


def with_magnitude(given):
    return given | {"base_model.model.q_proj.lora_magnitude_vector": torch.ones(3)}


def narrower(given):
    return {name: t[:, :-1] if "lora_A" in name else t for name, t in given.items()}


REFUSED = {
    "dora": ({"use_dora": True}, "its use_dora is set"),
    "bias": ({"bias": "lora_only"}, "its bias is set"),
    "lora_bias": ({"lora_bias": True}, "its lora_bias is set"),
    "modules": ({"modules_to_save": ["lm_head"]}, "its modules_to_save is set"),
    "a changed base": ({"init_lora_weights": "pissa"}, "its init_lora_weights is set"),
    "alpha in words": ({"lora_alpha": "six"}, "lora_alpha is 'six'"),
    "another rank": ({"r": 5}, "is 3, not 5 as adapter_config.json says"),
    "half a pair": ({"tensors": without_b}, "make no product"),
    "more": ({"tensors": with_magnitude}, "lora_magnitude_vector is not of plain LoRA"),
    "another base": (
        {"tensors": narrower},
        "different bases: .* is 32 x 32 in the one and 32 x 31",
    ),
}


@pytest.mark.parametrize("damage", REFUSED)
def test_what_cannot_be_summed_is_refused_in_one_line(damage, damaged, folders, tiny):
    changes, message = REFUSED[damage]
    engine, chosen = LocalEngine(tiny()), [folders["plain"], damaged(**changes)]
    for ask in (
        lambda: composition.weighted_sum(chosen, (1.0, 1.0)),
        composition.attached_composition(engine, chosen).__enter__,
    ):
        with pytest.raises(InputError, match=message) as error:
            ask()
        assert "\n" not in str(error.value)
    assert engine.model is engine.base.model


def test_adapters_of_another_base_leave_the_engine_alone(fresh_base, folders, base):
    engine, rows = LocalEngine(fresh_base), [[1, *range(300, 320)]]
    with (
        pytest.raises(InputError, match="another base"),
        composition.attached_composition(engine, [folders["plain"]]),
    ):
        pass
    assert engine.model is engine.base.model
    assert engine.score(BASE, rows) == LocalEngine(base).score(BASE, rows)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0), (1.0, float("nan"))], ids=str)
def test_each_adapter_needs_one_finite_weight(weights, folders):
    with pytest.raises(ValueError, match="2 adapters are blended by as many finite weights"):
        composition.weighted_sum([folders["plain"], folders["rslora"]], weights)


def test_nothing_cannot_be_blended():
    with pytest.raises(ValueError, match="no adapter to blend"):
        composition.weighted_sum([], [])
