"""Which configurations of adapters are read, and what is said of the others."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig
from safetensors.torch import save_file

from fedaudit.api.errors import InputError
from fedaudit.federation import adapter_options, adapters

NAME = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

ORDINARY = {
    "plain": {},
    "rslora": {"use_rslora": True},
    "dora": {"use_dora": True},
    "ranks": {"rank_pattern": {"q_proj": 4, "^model.layers.1.mlp.up_proj": 2}},
    "alphas": {"alpha_pattern": {"layers.0.self_attn.v_proj": 0.5}},
    "layers": {"layers_to_transform": [0, 2], "layers_pattern": "layers"},
    "one layer": {"layers_to_transform": 1},
    "all linear": {"target_modules": "all-linear"},
    "a pattern": {"target_modules": r".*\.(q|v)_proj"},
    "embeddings": {"target_modules": ["embed_tokens", "lm_head"]},
    "excluded": {"exclude_modules": ["lm_head"]},
    "biases of B": {"lora_bias": True},
    "gaussian": {"init_lora_weights": "gaussian"},
    "no start": {"init_lora_weights": False},
    "dropout": {"lora_dropout": 0.05},
    "an option of tomorrow": {"option_of_tomorrow": {"x": 1}},
}

ODD = {
    "bias": ["all", "lora_only", "junk", 1],
    "init_lora_weights": ["pissa", "pissa_niter_4", "olora", "corda", "loftq", 3, [1], {}],
    "r": [0, -1, 2**40, "4", None, True, 4.0],
    "lora_alpha": [float("nan"), float("inf"), -1, 1e308, 10**400, "8", None, True, [8]],
    "lora_dropout": [7, -0.1, 1, float("nan"), "x"],
    "rank_pattern": [{"a": 0}, {"a": 2**40}, {"a": None}, [1], "x", {"a" * 20_000: 1}],
    "alpha_pattern": [{"a": float("nan")}, {"a": -1}, {"a": "x"}, [1], "x"],
    "target_modules": [7, [7], ["a" * 20_000], {"a": 1}, [["a"]] * 2, ["a"] * 20_000],
    "layers_to_transform": [[-1], "x", [0.5], 2**40],
    "use_dora": ["yes", 1],
    **{name: [[1], {"a": 1}, True] for name in adapter_options.UNUSED},
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_what_peft_writes_for_trained_adapters_is_read(kind):
    adapter_options.check(
        {"r": 8, "lora_alpha": 16, "bias": "none", **ORDINARY[kind]}, Path("x.json")
    )


def test_pefts_own_defaults_are_read():
    plain = json.loads(json.dumps(LoraConfig().to_dict(), default=str))
    adapter_options.check(plain, Path("x.json"))
    assert set(adapter_options.UNUSED) <= {field.name for field in dataclasses.fields(LoraConfig)}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in ODD.items() for value in values],
    ids=lambda value: repr(value)[:30],
)
def test_what_would_change_the_base_or_overflow_is_refused_by_name(name, value):
    with pytest.raises(InputError) as error:
        adapter_options.check({"r": 8, "lora_alpha": 16, name: value}, Path("x.json"))
    said = str(error.value)
    assert said.startswith("x.json ")
    assert name in said
    assert "\n" not in said
    assert len(said) < 250


def test_options_that_the_installed_peft_lacks_are_named_where_they_are_set():
    plain = json.loads(json.dumps(LoraConfig().to_dict(), default=str))
    tomorrow = {"use_tomorrow": False, "tomorrow_config": {}, "tomorrow": None}
    assert adapter_options.unknown_option_caveats(plain | tomorrow) == []
    [said] = adapter_options.unknown_option_caveats(plain | {"use_tomorrow": True, "s" * 99: 2})
    assert "sets 'ssss" in said
    assert "'use_tomorrow', which peft " in said
    assert len(said) < 250


def test_a_strength_that_nobody_says_is_not_made_up():
    with pytest.raises(InputError, match="does not say its lora_alpha") as error:
        adapter_options.check({"peft_type": "LORA", "r": 8}, Path("x.json"))
    assert "\n" not in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=4), below),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(LoraConfig)]), JSON))
def test_whatever_it_says_it_is_read_or_refused(config):
    try:
        adapter_options.check(config, Path("x.json"))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert 0 <= config.get("lora_alpha", 8) <= adapter_options.ALPHA
        assert 1 <= config.get("r", 8) <= adapter_options.RANK
        assert not config.get("modules_to_save")


def written(folder, tensor):
    save_file({NAME: tensor}, folder / adapters.WEIGHTS)
    (folder / adapters.CONFIG).write_text('{"peft_type": "LORA", "lora_alpha": 16}')
    return folder


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (torch.full((2, 3), 1e18), "weights above 1e\\+06"),
        (torch.full((2, 3), -1e18, dtype=torch.bfloat16), "weights above"),
        (torch.full((2, 3), torch.nan), "NaN"),
        (torch.full((2, 3), -torch.inf, dtype=torch.float16), "NaN or infinite"),
        (torch.tensor(1.0), "no shape and float32"),
        (torch.ones(2, 3).to(torch.float8_e4m3fn), "2x3 and float8_e4m3fn"),
        (torch.ones(2, 3, dtype=torch.int64), "2x3 and int64"),
    ],
    ids=["huge", "huge bfloat16", "nan", "infinite", "0-d", "float8", "whole numbers"],
)
def test_tensors_that_are_no_weights_are_refused_by_name(tensor, says, tmp_path):
    with pytest.raises(InputError, match=says) as error:
        adapters.read(written(tmp_path, tensor))
    assert NAME in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_weights_of_any_usual_dtype_are_read(dtype, tmp_path):
    found = adapters.read(written(tmp_path, torch.full((2, 3), 100.0, dtype=dtype)))
    assert found[NAME].dtype == dtype


def test_a_configuration_of_a_megabyte_is_refused(tmp_path):
    written(tmp_path, torch.ones(2, 3))
    (tmp_path / adapters.CONFIG).write_text('{"peft_type": "LORA"}' + " " * adapters.LONGEST)
    with pytest.raises(InputError, match="too large"):
        adapters.check(tmp_path)
