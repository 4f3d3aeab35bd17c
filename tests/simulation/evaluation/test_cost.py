import json
import random
from collections import Counter
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config import registry
from fedaudit.engine.flops import FlopsFormula, training_flops
from fedaudit.federation import adapters
from fedaudit.report.document import schema
from fedaudit.simulation.client import trainer
from fedaudit.simulation.config import Training
from fedaudit.simulation.evaluation import cost
from fedaudit.simulation.evaluation.cost import TrainingCost, costs

SETTINGS = Training(steps=3, batch_size=3, accumulation=2, rank=4, targets=("q_proj", "v_proj"))
FORM = FlopsFormula(Fraction(10), Fraction(1), Fraction(0), Fraction(2))
"""A model made up: 10 a token, 1 a pair of tokens and 2 for the logits of a learned token."""


def documents(lengths, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(3, 4000) for _ in range(length)] for length in lengths]


def job(who="c0", number=1, *, lengths=(4, 9, 30, 17, 50), **changes):
    made = TrainingCost(
        stage="federated",
        client=who,
        round=number,
        sequences=documents(lengths),
        training=SETTINGS,
        seed=7 * number,
    )
    return replace(made, **changes)


def private(who="c0", adapter="reveal", number=1, **changes):
    return job(who, number, stage="private", adapter=adapter, **changes)


def by_scope(rows, metric, *keys):
    return {tuple(r.scope.get(k) for k in keys): r.value for r in rows if r.metric == metric}


@pytest.fixture(scope="module")
def made(federation):
    """Return a function that gives the rows of trainings in the small federation."""
    folder = federation.path / "rounds/000/global"
    return lambda spent: costs(
        spent, base="fedaudit-nano", device="cpu", dtype="auto", adapter=folder
    )


@pytest.fixture
def model(federation):
    folder = federation.path / "rounds/000/global"
    lora = json.dumps(adapters.check(folder), sort_keys=True)
    yield trainer.cached_model("fedaudit-nano", "cpu", "auto", lora, False)
    trainer.forget_model()


# operations


def test_operations_are_exactly_those_of_every_batch_counted(model):
    """The counts are integers: no tolerance."""
    spent = job(lengths=(1, 2, 30, 17, 50, 44, 3))
    batches = islice(trainer.draw_batches(spent.sequences, 3, spent.seed), 6)
    slow = [training_flops(model, trainer.pad_batch(batch, "cpu")) for batch in batches]
    found = cost.operations(spent, cost.form(model, max(map(len, spent.sequences)) // 4))
    assert found == sum(slow)
    assert len(set(slow)) > 2  # batches of several shapes


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 1},
        {"steps": 1, "checkpointing": True},
        {"steps": 0, "epochs": 2, "accumulation": 1},
        {"batch_size": 7, "accumulation": 1, "steps": 2},
    ],
    ids=str,
)
def test_operations_are_exactly_those_of_training_on_padded_batches(
    federation, made, tmp_path, changes, monkeypatch
):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode, addmm_flop

    from fedaudit.engine.lora import linear
    from fedaudit.engine.training import loss

    # Both save operations, which are not what a training costs elsewhere.
    monkeypatch.setattr(loss, "supports_prefix_trees", lambda model: False)
    monkeypatch.setattr(linear, "_merges", lambda *_: False)
    spent = job(training=replace(SETTINGS, **changes))
    real = trainer.ClientTraining(
        model_name=spent.client,
        base="fedaudit-nano",
        start=federation.path / "rounds/000/global",
        out=tmp_path / "out",
        sequences=spent.sequences,
        training=spent.training,
        round=spent.round,
        rounds=1,
        seed=spent.seed,
        aggregator=registry.create("aggregation", "fedavg"),
        device="cpu",
        dtype="auto",
        threads=1,
    )

    def in_place(out, left, right, **_):
        return addmm_flop(out, left, right)

    # Without this, torch counts addmm only where its result is new.
    mapping = {torch.ops.aten.addmm_: in_place}
    counting = FlopCounterMode(display=False, custom_mapping=mapping)
    # A model is tried when it is loaded: that is not a training.
    lora = json.dumps(adapters.check(real.start), sort_keys=True)
    trainer.cached_model(real.base, "cpu", "auto", lora, real.training.checkpointing)
    with sdpa_kernel(SDPBackend.MATH), counting as counter:
        trainer.train(real)
    trainer.forget_model()
    assert by_scope(made([spent]), "flops", "stage") == {("federated",): counter.get_total_flops()}


def test_operations_by_hand():
    """Three sequences in batches of three: 3 rows of 5 tokens, 3 * (50 + 25) + 2 * (1 + 4 + 2)."""
    spent = job(lengths=(2, 5, 3), training=replace(SETTINGS, steps=4))
    assert cost.operations(spent, FORM) == 4 * 2 * (225 + 14)


def test_tokens_by_hand():
    """Three sequences in batches of three: 10 tokens a batch, two batches a step."""
    spent = job(lengths=(2, 5, 3), training=replace(SETTINGS, steps=4))
    assert cost.tokens(spent) == 4 * 2 * 10
    assert cost.tokens(job(lengths=())) == 0


@pytest.mark.parametrize("lengths", [(), (1,), (3, 2)])
def test_short_and_absent_documents_have_a_cost_too(made, lengths):
    found = by_scope(made([job(lengths=lengths)]), "flops", "stage")
    assert (found["federated",] > 0) == bool(lengths)


def test_stages_are_counted_apart(made):
    one, both = made([job()]), made([job(), private(), private(adapter="other", seed=7)])
    assert set(by_scope(one, "flops", "stage")) == {("federated",)}
    [federated] = by_scope(one, "flops", "stage").values()
    found = by_scope(both, "flops", "stage")
    assert found == {("federated",): federated, ("private",): 2 * federated}


@pytest.mark.usefixtures("uncounted")
def test_what_does_not_follow_from_the_shape_is_not_reported(made, monkeypatch):
    monkeypatch.setattr("fedaudit.engine.flops.flops_formula", lambda count, width: None)
    [row] = [row for row in made([job(lengths=(60,))]) if row.metric == "flops"]
    assert row.value is None
    assert "shape" in row.reason


LENGTHS = st.lists(st.integers(1, 30), min_size=1, max_size=8)


@given(st.lists(LENGTHS, min_size=1, max_size=4), st.randoms())
def test_flops_add_up_in_any_order(clients, rng):
    spent = [job(f"c{i}", seed=i, lengths=lengths) for i, lengths in enumerate(clients)]
    [whole] = cost.flops(spent, {False: FORM})
    rng.shuffle(spent)
    apart = [cost.flops([one], {False: FORM})[0].value for one in spent]
    assert whole.value == sum(apart) == cost.flops(spent, {False: FORM})[0].value
    longest = max(max(lengths) for lengths in clients)
    each = 3 * 2 * 3  # steps, accumulation, rows
    assert each * 11 * len(spent) <= whole.value <= each * len(spent) * (12 + longest) * longest


# parameters and bytes


def test_parameters_by_hand(made, base):
    """Four layers, two matrices of 160 x 160 in each, rank 4: 4 * 2 * 4 * (160 + 160)."""
    rows = made([job(), private(), private(adapter="other"), private("c1")])
    found = by_scope(rows, "parameters", "which", "stage", "adapters", "clients")
    assert found == {
        ("frozen", None, None, None): base.model.num_parameters(),
        ("trainable", "federated", None, None): 10240,
        ("trainable", "private", 1, 1): 10240,
        ("trainable", "private", 2, 1): 20480,
    }


def test_private_adapters_are_counted_once_however_many_rounds(made):
    rows = made([private(who, number=n) for who in ("c0", "c1") for n in (1, 2, 3)])
    found = by_scope(rows, "parameters", "which", "stage", "adapters", "clients")
    assert found["trainable", "private", 1, 2] == 10240
    assert ("trainable", "federated", None, None) not in found


def test_bytes_are_those_of_the_tensors_that_participants_send(made, federation):
    path = federation.path / "rounds/001/clients/c0" / adapters.WEIGHTS
    header = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    size = path.stat().st_size - header
    finished = federation.result.manifest.rounds[1:]
    spent = [job(who, one.round) for one in finished for who in one.participants]
    assert len(spent) == 4
    for row in (row for row in made([*spent, private()]) if row.metric == "bytes_sent"):
        assert row.value == 4 * size
        assert (row.scope["per_client_round"], row.scope["transfers"]) == (size, 4)
    found = by_scope(made(spent), "bytes_sent", "direction")
    assert found == {("up",): 4 * size, ("down",): 4 * size}


def test_a_rule_with_a_memory_sends_twice_as_much(made):
    spent = [replace(job("c0", number), messages=2) for number in (1, 2)]
    once = by_scope(made([job("c0", 1), job("c0", 2)]), "bytes_sent", "direction", "transfers")
    twice = by_scope(made(spent), "bytes_sent", "direction", "transfers")
    assert twice == {key: 2 * value for key, value in once.items()}


def test_private_trainings_send_nothing(made):
    assert set(by_scope(made([private()]), "bytes_sent", "direction").values()) == {0}


# rows


@pytest.mark.usefixtures("uncounted")
def test_rows_are_costs_that_the_report_accepts(made, monkeypatch):
    from jsonschema import Draft202012Validator

    rows = made([job(), private()])
    monkeypatch.setattr("fedaudit.engine.flops.flops_formula", lambda count, width: None)
    rows += made([job()])
    whole = schema()
    check = Draft202012Validator({"$ref": "#/$defs/measurement", "$defs": whole["$defs"]})
    for row in rows:
        check.validate(json.loads(json.dumps(asdict(row))))
        assert (row.kind, row.plugin) == ("cost", "simulation")
    counted = Counter(row.metric for row in made([job(), private()]))
    assert counted == {"parameters": 3, "bytes_sent": 2, "flops": 2}


def test_the_same_trainings_cost_the_same_in_any_order(made):
    spent = [job("c0"), job("c1", 2), private(), private("c1", "other", 2)]
    assert made(spent) == made(spent[::-1])


@pytest.fixture
def uncounted():
    """Forget what was counted before, and then what is counted here."""
    cost._form_and_frozen.cache_clear()
    yield
    cost._form_and_frozen.cache_clear()


@pytest.mark.usefixtures("uncounted")
def test_operations_are_counted_once_for_a_base_and_a_width(made, monkeypatch):
    counted = []

    def count(model, width):
        counted.append(width)
        return FORM

    monkeypatch.setattr(cost, "form", count)
    fresh = made([job(lengths=(61, 3))])
    assert made([job(lengths=(61, 3))]) == fresh
    assert made([job(lengths=(62, 3))]) != fresh
    assert counted == [8]
    made([job(lengths=(64, 3))])
    assert counted == [8, 16]


def test_nothing_spent_has_no_rows(made):
    assert made([]) == []


@pytest.mark.usefixtures("uncounted")
def test_the_model_is_let_go_of(made, monkeypatch):
    made([job()])
    assert trainer.cached_model.cache_info().currsize == 0

    def fail(*args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(cost, "form", fail)
    with pytest.raises(RuntimeError, match="memory"):
        made([job(lengths=(9,))])
    assert trainer.cached_model.cache_info().currsize == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_counts_as_the_cpu_does(made, federation):
    folder = federation.path / "rounds/000/global"
    found = costs([job()], base="fedaudit-nano", device="cuda", dtype="bfloat16", adapter=folder)
    assert found == made([job()])
