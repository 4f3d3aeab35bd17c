"""A module's rank is what its configuration gives this module, as PEFT reads it, and no other's."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig

from fedaudit.api.errors import InputError
from fedaudit.engine.loading.ranks import RankMismatch, may_be_target, rank_mismatches
from fedaudit.engine.loading.size_bounds import adapter_size

Q, V, MOE = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj", "model.experts"


def found(rows, **options):
    """Return what is wrong with an adapter whose modules have so many rows."""
    tensors = {
        f"base_model.model.{name}.lora_{'embedding_A' if 'embed' in name else 'A.weight'}":
            torch.zeros(count, 2)
        for name, count in rows.items()
    }  # fmt: skip
    return list(rank_mismatches(LoraConfig(**options), tensors))


QV = ["q_proj", "v_proj"]
RIGHT = {
    "one rank": ({Q: 4, V: 4}, {"r": 4, "target_modules": QV}),
    "lower ones for all": (
        {Q: 4, V: 8},
        {"r": 16, "target_modules": QV, "rank_pattern": {"q_proj": 4, "v_proj": 8}},
    ),
    "of no target": ({Q: 8}, {"r": 8, "target_modules": QV, "rank_pattern": {"down_proj": 32}}),
    "of one layer": (
        {Q: 8, V: 3},
        {"r": 8, "target_modules": QV, "rank_pattern": {"1.*v_proj": 3}},
    ),
    "embeddings": (
        {Q: 4, "model.embed_tokens": 16},
        {"r": 4, "target_modules": ["q_proj", "embed_tokens"],
         "rank_pattern": {"embed_tokens": 16}},
    ),
    "8 experts": (
        {Q: 4, MOE: 32, f"{MOE}.base_layer": 64},
        {
            "r": 4,
            "target_modules": QV,
            "target_parameters": ["experts.down_proj", "experts.gate_up_proj"],
            "rank_pattern": {r".*\.gate_up_proj": 8},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", RIGHT)
def test_ranks_that_peft_would_make_are_right(kind):
    rows, options = RIGHT[kind]
    assert found(rows, **options) == []


EXPERTS = {"r": 4, "target_modules": QV, "target_parameters": ["experts.down_proj", "down_proj"]}


@pytest.mark.parametrize(
    ("rows", "options", "other"),
    [
        ({Q: 12}, {"r": 4, "target_modules": QV}, RankMismatch(Q, 12, 4)),  # of three clients
        ({Q: 4, V: 8}, {"r": 8, "target_modules": QV}, RankMismatch(Q, 4, 8)),
        ({Q: 8, V: 4}, {"r": 4, "target_modules": QV, "rank_pattern": {"v_proj": 8}},
         RankMismatch(Q, 8, 4)),
        ({"embed_tokens": 4}, {"r": 8, "target_modules": ["embed_tokens"]},
         RankMismatch("embed_tokens", 4, 8)),
        ({MOE: 33}, EXPERTS, RankMismatch(MOE, 33, 4)),
        ({MOE: 0}, EXPERTS, RankMismatch(MOE, 0, 4)),
        ({Q: 12, MOE: 32}, EXPERTS, RankMismatch(Q, 12, 4)),  # a target has no experts
    ],
)  # fmt: skip
def test_another_rank_is_told_with_its_module(rows, options, other):
    assert other in found(rows, **options)


def test_a_pattern_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"adapter_config.json .*'\(.*not a regular expression"):
        found({Q: 4}, r=4, target_modules=QV, rank_pattern={"(": 2})


def test_it_is_refused_where_only_a_module_without_tensors_meets_it():
    """The pattern of a module that has tensors stands before the one that is none."""
    patterns = {"q_proj": 4, "(": 2}
    targets = ["q_proj", "embed_tokens"]
    assert found({Q: 4}, r=8, target_modules=targets, rank_pattern=patterns) == []
    model = torch.nn.ModuleDict({"embed_tokens": torch.nn.Embedding(3, 2)})
    config = LoraConfig(target_modules=targets, rank_pattern=patterns)
    with pytest.raises(InputError, match="not a regular expression"):
        adapter_size(model, config, {}, Path("lora"))


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (["q_proj"], True),
        ([Q], True),
        (["proj"], False),
        (r".*\.q_proj", True),
        (r"q_proj", False),
        ("all-linear", True),
        (None, True),
    ],
)
def test_targets_are_read_as_peft_reads_them(targets, expected):
    assert may_be_target(LoraConfig(target_modules=targets), Q) is expected
