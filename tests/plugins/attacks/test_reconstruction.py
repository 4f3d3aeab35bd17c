"""Reconstruction: a step of plain SGD, taken here with torch alone, gives its record away."""

from dataclasses import replace

import pytest
import torch
from fedaudit_plugins.attacks.reconstruction import attack as reconstruction
from fedaudit_plugins.attacks.reconstruction.span import update_span
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig

from fedaudit.api.plugin import AttackContext, RoundUpdate
from fedaudit.api.policy import Policy
from fedaudit.api.records import Document, Target
from fedaudit.config import registry
from fedaudit.engine.loading.loader import load_base, tensors_of, with_adapter
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters
from fedaudit.report.verdict.policy import judge
from fedaudit.simulation.initialization import plain_config

EARLIER = ("The court heard Mary Jones of Leeds.", "Payment was due on 3 May to John Smith.")
RECORD = "Telephone 041 7700 0132 of Ann Brown, 12 High Street, York, was confirmed."
UNTOUCHED = ("The bank called Tom White about account 77120.", "Nobody knows Eve Stone at all.")


@pytest.fixture
def trainer(fresh_base, tmp_path):
    """Return a function that trains on texts, from where an adapter of other texts began."""
    engine = LocalEngine(fresh_base)
    torch.manual_seed(3)
    targets = ["q_proj", "k_proj", "v_proj", "down_proj"]
    config = LoraConfig(r=32, lora_alpha=64, target_modules=targets, task_type="CAUSAL_LM")
    model = with_adapter(fresh_base.model, config, "made", trainable=True)
    options = plain_config({**config.to_dict(), "inference_mode": True})
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def steps(optimizer, texts, count):
        for _ in range(count):
            rows = [torch.tensor([tokens.ids]) for tokens in engine.tokenize(texts)]
            optimizer.zero_grad()
            sum(model(input_ids=row, labels=row).loss for row in rows).backward()
            optimizer.step()

    steps(torch.optim.AdamW(weights, lr=5e-3), EARLIER, 10)
    adapters.write(tensors_of(model, "made"), options, tmp_path / "start")
    begun = [weight.detach().clone() for weight in weights]

    def train(name, optimizer, texts, count=1):
        for weight, value in zip(weights, begun, strict=True):
            weight.data.copy_(value)
        steps(optimizer(weights), texts, count)
        adapters.write(tensors_of(model, "made"), options, tmp_path / name)
        return RoundUpdate(
            view="client",
            round=2,
            members=(name,),
            read=lambda: adapters.read(tmp_path / name),
            documents=documents(*texts, *UNTOUCHED),
        )

    return train, tmp_path / "start"


def documents(*texts):
    return [Document(id=text, text=text) for text in texts]


def together(view, start, clients):
    """Return what secure aggregation (a sum) or the next global adapter (a mean) shows of them."""

    def read():
        begun, changed = adapters.read(start), [client.read() for client in clients]
        total = {name: sum(one[name] - begun[name] for one in changed) for name in begun}
        if view == "sum":
            return total
        return {name: begun[name] + total[name] / len(clients) for name in begun}

    return RoundUpdate(
        view=view,
        round=2,
        members=tuple(name for client in clients for name in client.members),
        read=read,
        documents=[document for client in clients for document in client.documents],
    )


def sgd(weights):
    return torch.optim.SGD(weights, lr=1.0)


def adam(weights):
    return torch.optim.AdamW(weights, lr=5e-3)


def inverted(start, *updates, **more):
    before = Target(name="round 1", adapter=str(start) if start else None)
    context = AttackContext(
        engine=LocalEngine(load_base("fedaudit-nano", device="cpu")),
        tuned=before,
        base=None,
        attacker=[],
        victim=None,
        updates=updates,
        rounds={1: before},
        **more,
    )
    return registry.create("attack", "reconstruction", {}).run(context)


def test_one_record_of_one_step_comes_out_and_adam_tells_nothing(trainer):
    train, start = trainer
    result = inverted(start, train("a", sgd, [RECORD]), train("b", adam, [EARLIER[0]]))
    rows = {(r.scope["client"], r.scope["source"], r.metric): r for r in result.measurements}
    rate = rows["a", "tuned", "reconstruction_rate"]
    assert (rate.hits, rate.n) == (1, 3)
    assert [f.evidence["text"] for f in result.findings] == [RECORD]
    control = rows["a", "control", "reconstruction_rate"]
    assert (control.hits, control.n) == (0, 1)  # of b's records, those that a does not have
    assert rows["a", "tuned", "p_value"].value < 1e-20
    hidden = rows["b", "tuned", "reconstruction_rate"]
    assert hidden.value is None
    assert "full rank, 96 of 96 rows" in hidden.reason
    judged = judge(result.measurements, result.findings, Policy()).judgements
    assert [j.status for j in judged if j.rule == "reconstruction"] == ["fail"]


SHORT = (*EARLIER, *UNTOUCHED, "Ann Brown of York paid.")


@pytest.mark.parametrize("view", ["sum", "global"])
def test_a_sum_gives_five_short_records_away_and_hides_five_long_ones(trainer, view):
    train, start = trainer
    short = [train(name, sgd, [text]) for name, text in zip("abcde", SHORT, strict=True)]
    unseen = documents("A judge of Leeds heard nothing of all that.")
    result = inverted(start, together(view, start, short), control=unseen)
    rows = {(r.scope["source"], r.metric): r for r in result.measurements}
    assert (rows["tuned", "reconstruction_rate"].hits, len(result.findings)) == (5, 5)
    assert {f.evidence["text"] for f in result.findings} == set(SHORT)
    assert rows["tuned", "p_value"].value < 1e-6
    assert rows["control", "reconstruction_rate"].hits == 0
    assert {r.scope["client"] for r in result.measurements} == {"a+b+c+d+e"}
    words = RECORD.split()  # in five orders, so that all beginnings differ
    texts = [" ".join(words[n:] + words[:n]) for n in range(5)]
    long = [train(name, sgd, [text]) for name, text in zip("abcde", texts, strict=True)]
    all_five = together(view, start, long)
    [hidden] = inverted(start, all_five).measurements
    assert hidden.value is None
    assert "full rank" in hidden.reason
    many = inverted(start, all_five, replace(all_five, members=("f", "g")))
    names = {row.scope["client"] for row in many.measurements}
    assert names == ({"2 sums of clients"} if view == "sum" else {"a+b+c+d+e", "f+g"})


def test_what_was_not_trained_on_stays_out(trainer):
    train, start = trainer
    wrong = replace(train("a", sgd, [RECORD]), documents=documents(*UNTOUCHED))
    result = inverted(start, wrong, replace(wrong, members=("b",)))
    rates = [r for r in result.measurements if r.metric == "reconstruction_rate"]
    assert {r.hits for r in rates} == {0}
    judged = judge(result.measurements, (), Policy()).judgements
    assert {j.status for j in judged if j.rule == "reconstruction"} == {"inconclusive"}


def test_an_update_that_is_none_of_this_adapter_is_said_to_be_that(trainer):
    train, start = trainer
    good = train("a", sgd, [RECORD])
    tensors = good.read()
    broken = {
        "are not those of the global adapter": dict(list(tensors.items())[:2]),
        "NaN or infinite": {name: tensor * float("nan") for name, tensor in tensors.items()},
    }
    for reason, made in broken.items():
        update = replace(good, read=lambda made=made: made)
        [row] = inverted(start, update).measurements
        assert row.value is None
        assert reason in row.reason


def test_a_module_that_did_not_change_makes_no_room():
    before, after, _ = moved(0, 30, 24, 64, 1.0)
    change = after.double() - before.double()
    assert update_span([before, before], [change, torch.zeros_like(change)]).is_full


def test_without_the_rounds_start_nothing_is_said(trainer):
    train, _ = trainer
    [row] = inverted(None, train("a", sgd, [RECORD])).measurements
    assert row.value is None
    assert "only rounds after the first" in row.reason


def test_an_earlier_round_than_the_one_before_is_not_where_it_began(trainer):
    train, start = trainer
    [row] = inverted(start, replace(train("a", sgd, [RECORD]), round=3)).measurements
    assert row.value is None
    assert "only rounds after the first" in row.reason


@pytest.mark.parametrize(("name", "reason"), [("TRIED", "would have to be tried"), ("BEAM", "fit")])
def test_a_search_that_was_given_up_is_no_absence_of_a_leak(trainer, monkeypatch, name, reason):
    train, start = trainer
    update = train("a", sgd, [RECORD])
    monkeypatch.setattr(f"{reconstruction.__name__}.{name}", 0)
    result = inverted(start, update)
    [row] = result.measurements
    assert row.value is None
    assert reason in row.reason
    assert reason in result.limits[0]


def moved(seed, inputs, rows, width, size):
    """Return A, A after a step, and the inputs of which the step is a combination, float32."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(inputs, width, generator=generator)
    before = torch.randn(rows, width, generator=generator) / width**0.5
    weights = torch.randn(rows, inputs, generator=generator) * size
    return before, before + weights @ x, x


@given(st.integers(0, 10_000), st.integers(1, 20), st.sampled_from([1e-3, 1e-1, 1.0]))
def test_the_inputs_of_a_step_are_inside_and_others_outside(seed, inputs, size):
    before, after, x = moved(seed, inputs, 24, 64, size)
    change = after.double() - before.double()
    span = update_span([before[:12], before[12:]], [change[:12], change[12:]])
    assert (span.rank, span.is_full) == (inputs, False)
    assert bool(span.contains(x).all())
    others = torch.randn(200, 64, generator=torch.Generator().manual_seed(seed + 1))
    assert not bool(span.contains(others).any())


def test_more_inputs_than_rows_fill_the_space():
    before, after, _ = moved(0, 30, 24, 64, 1.0)
    assert update_span([before], [after.double() - before.double()]).is_full


def test_what_rounding_alone_changes_has_no_direction():
    before = torch.randn(24, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert update_span([before.float()], [before.float().double() - before]).rank == 0
