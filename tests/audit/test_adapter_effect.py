import shutil

import pytest

from fedaudit.api.errors import NoEffectError
from fedaudit.api.records import Document, Target
from fedaudit.api.templates import template
from fedaudit.audit.preflight import EFFECT_TEXTS, MIN_CHANGE_NATS, measure_effect
from fedaudit.data import corpus
from fedaudit.engine.fake import FakeEngine
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

TUNED, BASE = Target(name="tuned", adapter="x"), Target(name="base")
DOCUMENTS = [Document(id=str(i), text=f"The claimant {i} sued.") for i in range(3)]


def engine(change):
    return FakeEngine(
        lambda target, prompt, sample: "",
        likelihood=lambda target, token, before: -2.0 + (change(token) if target == TUNED else 0.0),
    )


def test_the_effect_by_hand():
    # The first of four tokens has no score; " sued" gains 1, " ." loses 0.5.
    found = measure_effect(
        engine(lambda token: {" sued": 1.0, ".": -0.5}.get(token, 0.0)), TUNED, BASE, DOCUMENTS
    )
    gain = pytest.approx((1 - 0.5) / 4)  # of: claimant, i, sued, full stop
    assert found == {"texts": 3, "mean_gain": gain, "largest_change": 1.0}


@pytest.mark.parametrize("change", [0.0, MIN_CHANGE_NATS / 2, -MIN_CHANGE_NATS / 2])
def test_an_adapter_that_changes_nothing_is_an_error_of_its_own(change):
    with pytest.raises(NoEffectError, match="The adapter x has no effect") as error:
        measure_effect(engine(lambda token: change), TUNED, BASE, DOCUMENTS)
    assert error.value.exit_code == 5
    assert "\n" not in str(error.value)


def test_one_token_is_enough():
    found = measure_effect(
        engine(lambda token: -0.01 if token == " 2" else 0.0), TUNED, BASE, DOCUMENTS
    )
    assert found["largest_change"] == pytest.approx(0.01)


def test_texts_are_limited_and_distinct():
    many = [Document(id=str(i), text=f"a {i % 50}") for i in range(500)]
    assert measure_effect(engine(lambda token: 1.0), TUNED, BASE, many)["texts"] == EFFECT_TEXTS
    same = [Document(id=str(i), text="a b") for i in range(9)]
    assert measure_effect(engine(lambda token: 1.0), TUNED, BASE, same)["texts"] == 1


def test_without_texts_no_effect_can_be_seen():
    with pytest.raises(NoEffectError):
        measure_effect(engine(lambda token: 1.0), TUNED, BASE, [])


def test_real_adapters(federation, adapter, fresh_base, tmp_path):
    local = LocalEngine(fresh_base)

    form = template(federation.config.template)
    documents = list(corpus.read(federation.path / "data/c0.jsonl", form))

    def effect(folder):
        return measure_effect(local, Target(name="tuned", adapter=str(folder)), BASE, documents)

    assert effect(adapter)["largest_change"] > 0.1
    trained = effect(federation.path / "rounds/002/global")
    assert trained["mean_gain"] > 0  # on what it was trained on
    with pytest.raises(NoEffectError, match="Is it the initial adapter"):
        effect(federation.path / "rounds/000/global")
    dead = shutil.copytree(adapter, tmp_path / "dead")
    zeros = {name: tensor * (".lora_A." in name) for name, tensor in adapters.read(adapter).items()}
    adapters.write(zeros, adapters.check(adapter), dead)
    with pytest.raises(NoEffectError):
        effect(dead)
