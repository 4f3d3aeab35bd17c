"""Every kind of adapter that PEFT saves is answered with as PEFT does, or refused in a line.

PEFT itself makes, draws, asks and saves each adapter here; fedaudit only reads the folder.
"""

import pytest
from adapter_kinds import ANSWERED, IDS, REFUSED, log_probabilities, made, save

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.loading import loader
from fedaudit.engine.local import LocalEngine


@pytest.mark.parametrize("kind", ANSWERED)
def test_it_is_answered_with_as_peft_does(kind, base, tmp_path):
    of, options = ANSWERED[kind]
    wanted = save(made(of, base), tmp_path / "lora", options)
    loaded = made(of, base)
    bare = log_probabilities(loaded.model)
    engine = LocalEngine(loaded)
    target = Target(name="tuned", adapter=str(tmp_path / "lora"))
    assert engine.score(target, [IDS])[0] == pytest.approx(wanted, rel=1e-5, abs=2e-5)
    assert wanted != pytest.approx(bare, abs=1e-2)
    assert engine.score(Target(name="base", adapter=None), [IDS])[0] == pytest.approx(
        bare, abs=2e-5
    )


@pytest.mark.parametrize("kind", ["rank pattern", "lower ranks for all", "a rank for no target"])
def test_attached_beside_the_base_it_answers_as_peft_does(kind, base, tmp_path):
    of, options = ANSWERED[kind]
    wanted = save(made(of, base), tmp_path / "lora", options)
    model = loader.attach(made(of, base).model, tmp_path / "lora", "tuned")
    assert log_probabilities(model) == pytest.approx(wanted, rel=1e-5, abs=2e-5)


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_by_the_option(kind, base, tmp_path):
    of, options = REFUSED[kind]
    save(made(of, base), tmp_path / "lora", options)
    engine = LocalEngine(made(of, base))
    with pytest.raises(InputError, match=rf"it is not plain LoRA, its {kind} is set") as refused:
        engine.score(Target(name="tuned", adapter=str(tmp_path / "lora")), [IDS])
    assert refused.value.exit_code == 3
    assert "\n" not in str(refused.value)
