"""Reconstruction: a step of plain SGD, taken here with torch alone, gives its record away."""

import itertools
import math
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
import torch
from fedaudit_plugins.attacks.reconstruction import attack as reconstruction
from fedaudit_plugins.attacks.reconstruction.span import recover_inputs, update_span
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
from fedaudit.nano.generator import corpus
from fedaudit.report.verdict.policy import judge
from fedaudit.simulation.initialization import plain_config

EARLIER = ("The court heard Mary Jones of Leeds.", "Payment was due on 3 May to John Smith.")
RECORD = "Telephone 041 7700 0132 of Ann Brown, 12 High Street, York, was confirmed."
UNTOUCHED = ("The bank called Tom White about account 77120.", "Nobody knows Eve Stone at all.")


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """Return a function that trains on texts, from where an adapter of other texts began."""
    place, base = tmp_path_factory.mktemp("reconstruction"), deepcopy(loaded())
    engine = LocalEngine(base)
    torch.manual_seed(3)
    targets = ["q_proj", "k_proj", "v_proj", "down_proj"]
    config = LoraConfig(r=32, lora_alpha=64, target_modules=targets, task_type="CAUSAL_LM")
    model = with_adapter(base.model, config, "made", trainable=True)
    options = plain_config({**config.to_dict(), "inference_mode": True})
    weights = [weight for weight in model.parameters() if weight.requires_grad]

    def steps(optimizer, texts, count):
        for _ in range(count):
            rows = [torch.tensor([tokens.ids]) for tokens in engine.tokenize(texts)]
            optimizer.zero_grad()
            sum(model(input_ids=row, labels=row).loss for row in rows).backward()
            optimizer.step()

    steps(torch.optim.AdamW(weights, lr=5e-3), EARLIER, 10)
    adapters.write(tensors_of(model, "made"), options, place / "start")
    begun = [weight.detach().clone() for weight in weights]

    @cache
    def trained(optimizer, batches, count):
        for weight, value in zip(weights, begun, strict=True):
            weight.data.copy_(value)
        for batch in batches:
            steps(optimizer(weights), batch, count)
        return tensors_of(model, "made")

    def train(name, optimizer, texts, count=1, together=True):
        batches = (tuple(texts),) if together else tuple((text,) for text in texts)
        tensors = trained(optimizer, batches, count)
        return RoundUpdate(
            view="client",
            round=2,
            members=(name,),
            read=lambda: dict(tensors),
            documents=documents(*texts, *UNTOUCHED),
        )

    return train, place / "start"


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


@cache
def loaded():
    return load_base("fedaudit-nano", device="cpu")


def inverted(start, *updates, **more):
    before = Target(name="round 1", adapter=str(start) if start else None)
    context = AttackContext(
        engine=LocalEngine(deepcopy(loaded())),
        tuned=before,
        base=None,
        attacker=[],
        victim=None,
        updates=updates,
        rounds={1: before},
        **more,
    )
    return registry.create("attack", "reconstruction", {}).run(context)


def by_name(result):
    """Return measurements by client, source and metric."""
    return {(r.scope["client"], r.scope["source"], r.metric): r for r in result.measurements}


def test_one_record_of_one_step_comes_out_and_adam_tells_nothing(trainer):
    train, start = trainer
    result = inverted(start, train("a", sgd, [RECORD]), train("b", adam, [EARLIER[0]]))
    rows = by_name(result)
    rate = rows["a", "tuned", "reconstruction_rate"]
    assert (rate.hits, rate.n) == (1, 3)
    assert [f.evidence["text"] for f in result.findings] == [RECORD]
    control = rows["a", "control", "reconstruction_rate"]
    assert (control.hits, control.n) == (0, 1)  # of b's records, those that a does not have
    assert rows["a", "tuned", "p_value"].value < 1e-20
    hidden = rows["b", "tuned", "reconstruction_rate"]
    assert hidden.value is None
    assert "full rank, 96 of 96 rows, and takes more than 127 tokens to make up" in hidden.reason
    judged = judge(result.measurements, result.findings, Policy()).judgements
    assert [j.status for j in judged if j.rule == "reconstruction"] == ["fail"]
    [judgement] = judge([hidden], (), Policy()).judgements
    assert judgement.status == "inconclusive"
    assert hidden.reason in judgement.reason


def test_a_record_comes_out_as_far_as_training_read_it(trainer):
    train, start = trainer
    [tokens] = LocalEngine(deepcopy(loaded())).tokenize([RECORD])
    read = RECORD[: tokens.offsets[9][1]]
    longer = documents(RECORD, f"{RECORD} More.", *UNTOUCHED)
    update = replace(train("a", sgd, [read]), documents=longer)
    whole = inverted(start, update)
    assert by_name(whole)["a", "tuned", "reconstruction_rate"].hits == 0
    assert "a record training read is not stated" in whole.limits[-1]
    result = inverted(start, update, trained_tokens=10)
    rate = by_name(result)["a", "tuned", "reconstruction_rate"]
    assert (rate.hits, rate.n) == (2, 2 + len(UNTOUCHED))
    assert {f.evidence["text"] for f in result.findings} == {read}
    assert "training read the first 10 tokens of a record" in result.limits[-1]


UNSEEN = documents("A judge of Leeds heard nothing of all that.")
SHORT = (*EARLIER, *UNTOUCHED, "Ann Brown of York paid.")


@pytest.mark.parametrize("view", ["sum", "global"])
def test_a_sum_gives_five_short_records_away(trainer, view):
    train, start = trainer
    short = [train(name, sgd, [text]) for name, text in zip("abcde", SHORT, strict=True)]
    result = inverted(start, together(view, start, short), control=UNSEEN)
    rows = {(r.scope["source"], r.metric): r for r in result.measurements}
    assert (rows["tuned", "reconstruction_rate"].hits, len(result.findings)) == (5, 5)
    assert {f.evidence["text"] for f in result.findings} == set(SHORT)
    assert rows["tuned", "p_value"].value < 1e-6
    assert rows["control", "reconstruction_rate"].hits == 0
    assert {r.scope["client"] for r in result.measurements} == {"a+b+c+d+e"}


def test_a_sum_hides_five_long_records(trainer):
    train, start = trainer
    words = RECORD.split()  # in five orders, so that all beginnings differ
    texts = [" ".join(words[n:] + words[:n]) for n in range(5)]
    long = [train(name, sgd, [text]) for name, text in zip("abcde", texts, strict=True)]
    rows = by_name(inverted(start, together("global", start, long), control=UNSEEN))
    hidden = rows["a+b+c+d+e", "tuned", "reconstruction_rate"]
    assert hidden.value is None
    assert "layer 2 has full rank, 96 of 96 rows: tokens are told, but not their order" in (
        hidden.reason
    )
    tokens = rows["a+b+c+d+e", "tuned", "token_rate"]
    assert (tokens.hits, tokens.n) == (5, 7)  # UNTOUCHED was not trained on
    assert rows["a+b+c+d+e", "control", "token_rate"].hits == 0


@pytest.mark.parametrize("view", ["sum", "global"])
def test_updates_of_which_nothing_can_be_told_are_named(trainer, monkeypatch, view):
    train, start = trainer
    monkeypatch.setattr(f"{reconstruction.__name__}.PRODUCTS", 1000)  # a search takes seconds
    both = together(view, start, [train("a", adam, [RECORD]), train("b", adam, [EARLIER[0]])])
    rows = inverted(start, both, replace(both, members=("f", "g"))).measurements
    assert {(row.metric, row.value) for row in rows} == {("reconstruction_rate", None)}
    names = {row.scope["client"] for row in rows}
    assert names == ({"2 sums of clients"} if view == "sum" else {"a+b", "f+g"})


def test_several_steps_give_the_tokens_away_without_their_order(trainer):
    train, start = trainer
    others = documents(*(f"Case {n}: {who} of Hull won." for n, who in enumerate("ABCDEFGH" * 3)))
    result = inverted(start, train("a", sgd, [RECORD, *EARLIER], count=4), control=others)
    rows = by_name(result)
    tokens, control = (rows["a", source, "token_rate"] for source in ("tuned", "control"))
    assert (tokens.hits, tokens.n) == (3, 5)  # UNTOUCHED is in no step
    assert (control.hits, control.n) == (0, 24)
    assert rows["a", "tuned", "reconstruction_rate"].value is None
    assert {f.evidence["text"] for f in result.findings} == {RECORD, *EARLIER}
    assert {f.severity for f in result.findings} == {"medium"}
    [judgement] = [
        one
        for one in judge(result.measurements, result.findings, Policy()).judgements
        if one.rule == "reconstruction"
    ]
    assert judgement.status == "fail"
    # Three of the five are in; of all choices of five of 29, C(26, 2) of C(29, 5) have all three.
    assert "3 of 5 records' tokens of a can be read out of its update, without their order" in (
        judgement.reason
    )
    assert f"p = {math.comb(26, 2) / math.comb(29, 5):.2g}" in judgement.reason


def test_where_no_text_comes_out_though_nothing_is_full_tokens_are_told(trainer):
    """More inputs reach the second layer than A has rows, but some of them move it too little."""
    train, start = trainer
    result = inverted(start, train("a", sgd, [RECORD], count=5), control=documents(EARLIER[0]))
    rows = by_name(result)
    assert rows["a", "tuned", "reconstruction_rate"].hits == 0
    assert rows["a", "tuned", "token_rate"].hits == 1
    assert rows["a", "control", "token_rate"].hits == 0
    assert [f.evidence["text"] for f in result.findings] == [RECORD]


def test_tokens_are_told_of_a_change_some_of_whose_directions_rounding_hides(trainer):
    """A step on each of several records: more tokens are behind the change than lie inside it."""
    train, start = trainer
    made = corpus(seed=1, cases=6, documents_per_case=4)
    records = sorted({document.text for document in made})[::3]
    trained, others = records[:4], documents(*records[4:8])
    update = train("a", lambda weights: torch.optim.SGD(weights, lr=0.02), trained, together=False)
    before = {name: one for name, one in adapters.read(start).items() if "lora_A" in name}
    after = update.read()
    first = [name for name in sorted(before) if ".layers.0.self_attn." in name]
    span = update_span([before[n] for n in first], [after[n] - before[n] for n in first])
    engine = LocalEngine(load_base("fedaudit-nano", device="cpu"))
    read = {token for tokens in engine.tokenize(trained) for token in tokens.ids[:-1]}
    assert span.rank < len(read)
    assert not span.is_full
    rows = by_name(inverted(start, update, control=others))
    assert (rows["a", "tuned", "token_rate"].hits, rows["a", "tuned", "token_rate"].n) == (4, 6)
    assert rows["a", "control", "token_rate"].hits == 0


def test_a_search_for_tokens_that_takes_too_long_is_not_begun(trainer, monkeypatch):
    train, start = trainer
    monkeypatch.setattr(f"{reconstruction.__name__}.PRODUCTS", 1000)
    [row] = inverted(start, train("a", adam, [RECORD])).measurements
    assert row.value is None
    assert "more than 1,000 products" in row.reason


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
    train, start = trainer
    update = train("a", sgd, [RECORD])
    # None at all, and that of an earlier round than the one before.
    for before, one in ((None, update), (start, replace(update, round=3))):
        [row] = inverted(before, one).measurements
        assert row.value is None
        assert "only rounds after the first" in row.reason


@pytest.mark.parametrize(("name", "reason"), [("TRIED", "would have to be tried"), ("BEAM", "fit")])
def test_a_search_that_was_given_up_is_no_absence_of_a_leak(trainer, monkeypatch, name, reason):
    train, start = trainer
    update = train("a", sgd, [RECORD])
    monkeypatch.setattr(f"{reconstruction.__name__}.{name}", 0)
    result = inverted(start, update)
    rows = by_name(result)
    assert rows["a", "tuned", "reconstruction_rate"].value is None
    assert reason in rows["a", "tuned", "reconstruction_rate"].reason
    assert reason in result.limits[0]
    assert rows["a", "tuned", "token_rate"].hits == 1  # the tokens had come out already


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


@given(st.integers(0, 10_000), st.integers(1, 13), st.sampled_from([1e-2, 1.0]))
def test_a_change_is_explained_by_its_own_inputs_or_by_none(seed, inputs, size):
    before, after, x = moved(seed, inputs, 8, 20, size)  # at most (20 + 8 - 1) // 2 are told apart
    others = torch.randn(40, 20, generator=torch.Generator().manual_seed(seed + 1))
    span = update_span([before], [after.double() - before.double()])
    assert span.max_inputs == (20 + min(inputs, 8) - 1) // 2
    found = recover_inputs(span, torch.cat([others, x]))
    own = list(range(40, 40 + inputs))
    assert found is None or sorted(found) == own
    if inputs <= 8:
        assert found is not None


def test_a_search_through_all_sets_of_inputs_finds_the_same():
    explained = 0
    for seed in range(10):
        before, after, x = moved(seed, 5, 4, 8, 1.0)
        others = torch.randn(7, 8, generator=torch.Generator().manual_seed(100 + seed))
        inputs = torch.cat([others, x])
        change = after.double() - before.double()
        found = recover_inputs(update_span([before], [change]), inputs)
        sets = [
            chosen
            for chosen in itertools.combinations(range(12), 5)
            if unexplained(change, inputs[list(chosen)].double()) < 1e-5
        ]
        assert sets == [(7, 8, 9, 10, 11)]
        assert found is None or sorted(found) == [*sets[0]]
        explained += found is not None
    assert explained >= 5  # five of twelve by four rows: more than the rows tell by themselves


def unexplained(change, inputs):
    """Return the share of a change that these inputs leave unexplained, by least squares."""
    weights = torch.linalg.lstsq(inputs.T, change.T).solution
    return float((change.T - inputs.T @ weights).norm() / change.norm())


def test_noise_is_a_combination_of_no_few_inputs():
    generator = torch.Generator().manual_seed(0)
    before, noise, inputs = (torch.randn(n, 20, generator=generator) for n in (8, 8, 500))
    assert recover_inputs(update_span([before], [noise.double()]), inputs) is None


def test_what_rounding_alone_changes_has_no_direction():
    before = torch.randn(24, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert update_span([before.float()], [before.float().double() - before]).rank == 0
