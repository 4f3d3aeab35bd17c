"""Patterns of modules are matched before PEFT does it, for so long and no longer."""

import time

import pytest
from peft import LoraConfig

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import module_patterns

NAMES = [f"model.layers.{n}.self_attn.{m}_proj" for n in range(40) for m in "qkvo"]
HANGS = r"(([a-z_.0-9]+)+)+!"
OF_TRAINERS = (
    r".*\.layers\.(0|1|2)\.self_attn\.(q|v)_proj",
    r"^(?!.*(?:visual|audio)).*(?:q_proj|k_proj|v_proj).*",
    r"(?:.*?(?:language|text).*?(?:self_attn|attn|mlp|ffn).*?(?:q_proj|k_proj|v_proj).*?)"
    r"|(?:\bmodel\.layers\.[\d]{1,}\.(?:self_attn|attn|mlp)\.(?:(?:q_proj|k_proj|v_proj)))",
)


@pytest.mark.parametrize("pattern", OF_TRAINERS, ids=range(len(OF_TRAINERS)))
def test_patterns_that_trainers_write_pass(pattern):
    module_patterns.check(LoraConfig(target_modules=pattern), NAMES)
    module_patterns.check(LoraConfig(target_modules=["x"], rank_pattern={pattern: 2}), NAMES)


def test_plain_names_need_no_process(monkeypatch):
    monkeypatch.setattr(
        module_patterns.sandbox, "attempt", lambda *_, **__: pytest.fail("a process")
    )
    module_patterns.check(
        LoraConfig(target_modules=["q_proj"], rank_pattern={"^a.b_c-1.d$": 2}), NAMES
    )
    module_patterns.check(LoraConfig(target_modules="all-linear"), NAMES)


@pytest.mark.parametrize("place", ["target", "exclude", "rank", "alpha", "layers", "before"])
def test_one_that_never_ends_is_refused_in_time(place, monkeypatch):
    monkeypatch.setattr(module_patterns, "SECONDS", 0.5)
    options = {
        "target": {"target_modules": HANGS},
        "exclude": {"exclude_modules": HANGS},
        "rank": {"rank_pattern": {"q_proj": 2, HANGS: 2}},
        "alpha": {"alpha_pattern": {HANGS: 2}},
        "before": {"alpha_pattern": {f"*{HANGS}": 2}},  # a pattern to PEFT before 0.15 alone
        "layers": {"layers_pattern": ["h", HANGS], "layers_to_transform": [0]},
    }[place]
    began = time.monotonic()
    with pytest.raises(InputError) as error:
        module_patterns.check(LoraConfig(**{"target_modules": ["q_proj"], **options}), NAMES)
    assert time.monotonic() - began < 30
    assert HANGS in str(error.value)
    assert "\n" not in str(error.value)


def test_one_that_is_none_is_left_to_peft():
    module_patterns.check(LoraConfig(target_modules="*"), NAMES)
