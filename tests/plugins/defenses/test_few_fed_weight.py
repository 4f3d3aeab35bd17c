"""FewFedWeight: answers of the global model, weighed by what the client's own makes of them."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fedaudit_plugins.defenses.few_fed_weight import FewFedWeight, pseudo_label_documents, weights
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.defense import TrainedClient
from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.federation import adapters
from fedaudit.simulation.data.settings import Records
from fedaudit.simulation.runner import simulate

FORM = template("alpaca")


def record(name, output="the truth", **fields):
    own = {"instruction": f"Say {name}.", **fields}
    return FORM.render(Document(id=name, text="", output=output, **own))


def turn(engine, documents, seed=1):
    return TrainedClient(
        engine=engine,
        template=FORM,
        documents=documents,
        start=Path("start"),
        trained=Path("trained"),
        folder=Path("none"),
        max_length=256,
        round=3,
        seed=seed,
    )


def asked_of(prompt):
    return prompt.split("Say ")[1][0]


def says(target, prompt, sample):
    """Return what the global model answers: its prompt's letter, or nothing to x."""
    assert target.adapter == "start"
    letter = asked_of(prompt)
    return "" if letter == "x" else f"global {letter}"


def finds(target, token, before):
    """Return how likely the client's own model finds an answer's words: its letter tells."""
    assert target.adapter == "trained"
    if "Say " not in before:
        return -9.0
    return {"a": -1.0, "b": -2.0, "c": -3.0}[asked_of(before)]


def test_weights_by_hand():
    """Energies 1, 2 and 3 at temperature 1: 1, 1/e and 1/e**2 as shares of their sum."""
    total = 1 + math.exp(-1) + math.exp(-2)
    assert weights([2.0, 1.0, 3.0], 1.0) == pytest.approx(
        [math.exp(-1) / total, 1 / total, math.exp(-2) / total]
    )
    # Twice the temperature, half the energy.
    assert weights([2.0, 4.0], 2.0) == pytest.approx(weights([1.0, 2.0], 1.0))
    assert weights([1000.0, 1000.0], 0.1) == [0.5, 0.5]


ENERGIES = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


@given(ENERGIES, st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_weights_are_shares_that_a_common_energy_does_not_change(energies, temperature, more):
    found = weights(energies, temperature)
    assert sum(found) == pytest.approx(1)
    assert all(0 <= one <= 1 for one in found)
    moved = weights([energy + more for energy in energies], temperature)
    assert moved == pytest.approx(found, abs=1e-6)
    order = sorted(range(len(found)), key=lambda i: energies[i])
    assert [found[i] for i in order] == sorted(found, reverse=True)


def test_the_global_model_answers_the_clients_own_prompts():
    engine = FakeEngine(says, likelihood=finds)
    own = [record("a"), record("b", input="It rains."), record("x")]
    found = pseudo_label_documents(turn(engine, own), 9)
    assert [(d.id, d.output) for d in found] == [("a", "global a"), ("b", "global b")]
    for made, given_ in zip(found, own, strict=False):
        assert made.text == FORM.prompt(given_.instruction, given_.input) + made.output
        assert "the truth" not in made.text
    assert all(request.max_new_tokens == 9 for _, request in engine.asked)


def test_equal_prompts_are_asked_once():
    engine = FakeEngine(says, likelihood=finds)
    own = [record("a"), record("a", output="another truth")]
    assert [d.output for d in pseudo_label_documents(turn(engine, own), 9)] == [
        "global a",
        "global a",
    ]
    assert len(engine.asked) == 1


def test_a_prompt_that_does_not_fit_is_left_out():
    engine = FakeEngine(says, likelihood=finds)
    own = [record("a"), record("b", input="rain " * 99)]
    engine.context_length = 120
    assert [d.id for d in pseudo_label_documents(turn(engine, own), 9)] == ["a"]


def test_what_is_trained_on_is_the_clients_own_and_as_many_answers():
    engine = FakeEngine(says, likelihood=finds)
    own = [record("a"), record("b"), record("c"), record("x")]
    found = FewFedWeight().auxiliary_data(turn(engine, own))["weighted"]
    assert found[:4] == own
    assert len(found) == 4 + 3
    assert {d.output for d in found[4:]} <= {"global a", "global b", "global c"}
    assert len({d.id for d in found}) == 7
    assert found == FewFedWeight().auxiliary_data(turn(engine, own))["weighted"]


def test_answers_are_drawn_as_often_as_they_weigh():
    engine = FakeEngine(says, likelihood=finds)
    own, counts = [record("a"), record("b"), record("c")], Counter()
    for seed in range(700):
        found = FewFedWeight().auxiliary_data(turn(engine, own, seed))["weighted"][3:]
        counts.update(d.output[-1] for d in found)
    wanted = weights([1.0, 2.0, 3.0], 1.0)
    for letter, weight in zip("abc", wanted, strict=True):
        assert counts[letter] / 2100 == pytest.approx(weight, abs=0.05)  # sd below 0.011


def test_a_low_temperature_takes_the_best_only():
    engine = FakeEngine(says, likelihood=finds)
    own = [record("a"), record("b"), record("c")]
    found = FewFedWeight(temperature=0.01).auxiliary_data(turn(engine, own))["weighted"][3:]
    assert {d.output for d in found} == {"global a"}


def test_without_an_answer_it_is_the_clients_own_data():
    engine = FakeEngine(says, likelihood=finds)
    assert FewFedWeight().auxiliary_data(turn(engine, [record("x")]))["weighted"] == [record("x")]


def test_records_without_a_prompt_stay_and_nothing_but_those_is_refused():
    plain = Document(id="p", text="A plain record.")
    engine = FakeEngine(says, likelihood=finds)
    found = FewFedWeight().auxiliary_data(turn(engine, [plain, record("a")]))["weighted"]
    assert found[:2] == [plain, record("a")]
    assert FewFedWeight().prepare([plain, record("a")]) == [plain, record("a")]
    with pytest.raises(InputError, match="no record has an instruction"):
        FewFedWeight().prepare([plain])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"answer_tokens": 0}, "answer_tokens must be at least 1"),
    ],
)
def test_options_that_cannot_be(wrong, says):
    with pytest.raises(UsageError, match=says):
        registry.create("defense", "few_fed_weight", wrong)


def test_a_federation_sends_what_was_trained_on_both(small, tmp_path):
    config = replace(
        small,
        rounds=1,
        evaluated=0,
        template="alpaca",
        records=Records(cases=4, documents_per_case=4, tasks=("summary",), languages=("en",)),
        training=replace(small.training, max_length=128, steps=2),
        defenses=({"name": "few_fed_weight", "answer_tokens": 16},),
    )
    plain = simulate(replace(config, defenses=()), tmp_path / "plain", listener=lambda event: None)
    found = simulate(config, tmp_path / "weighed", listener=lambda event: None)
    sent, other = (
        adapters.read(tmp_path / name / "rounds/001/clients/c0") for name in ("weighed", "plain")
    )
    assert any(not tensor.equal(other[name]) for name, tensor in sent.items())
    assert any("protects nothing" in limit for limit in found.limits)
    assert not any("few_fed_weight" in limit for limit in plain.limits)
