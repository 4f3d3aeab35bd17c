"""The size of a base that is not on this machine, as its publisher states it."""

import pytest
from peft import LoraConfig

from fedaudit.engine.loading.base_size import base_size


@pytest.mark.parametrize(
    ("name", "parameters", "multiplied"),
    [
        ("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008, 134_515_008),  # one tied matrix
        ("Qwen/Qwen2.5-0.5B", 494_032_768, 494_032_768),
        ("google/gemma-2-2b", 2_614_341_888, 2_614_341_888),
        ("hfl/llama-3-chinese-8b", 8_030_261_248, 8_030_261_248 - 128_256 * 4096),
        ("meta-llama/Llama-2-7b-hf", 6_738_415_616, 6_738_415_616 - 32_000 * 4096),
    ],
)
def test_a_published_base_has_its_number_of_parameters(name, parameters, multiplied):
    size = base_size(name)
    assert (size.parameters, size.multiplied, size.folder) == (parameters, multiplied, None)


def test_the_built_in_base_is_sized_from_its_folder_with_an_adapter():
    size = base_size("fedaudit-nano", LoraConfig(r=3, target_modules=["down_proj"]))
    assert size.adapter == 4 * 3 * (432 + 160)
    assert (size.hidden, size.layers, size.vocabulary) == (160, 4, 4096)


def test_a_base_of_unknown_size():
    assert base_size("somebody/unheard-of-base") is None
