"""What A and B mean depends on the PEFT and the transformers that wrote them.

The right answer is the base's own, once the change that the writing version meant is added to its
weights by hand.
"""

import json

import pytest
import tiny_models
import torch
from adapter_kinds import (
    EXPERTS,
    IDS,
    TEXT,
    gpt_oss,
    log_probabilities,
    mixtral,
    qwen,
    ready,
)
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

RANK, ALPHA = 2, 6


def gemma():
    text = {**TEXT, "hidden_size": 32, "intermediate_size": 48}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14}  # fmt: skip
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    return Gemma3ForConditionalGeneration(config)


def drawn(*shape):
    return torch.randn(shape) / 3


def fused(model, parameter, *, columns_in):
    """Return drawn tensors for each layer's fused experts, and add what they mean to the model.

    `columns_in` says whether A's inputs are the parameter's columns.
    """
    tensors = {}
    for i, layer in enumerate(model.model.layers):
        weight = getattr(layer.mlp.experts, parameter)
        rows, columns = weight.shape[1:]
        width, out = (columns, rows) if columns_in else (rows, columns)
        a, b = drawn(EXPERTS * RANK, width), drawn(out, EXPERTS * RANK)
        for e in range(EXPERTS):
            # A is stacked by experts, and so B's columns are ordered by rank first.
            change = b[:, e::EXPERTS] @ a[e * RANK : (e + 1) * RANK] * ALPHA / RANK
            weight.data[e] += change if columns_in else change.T
        name = f"base_model.model.model.layers.{i}.mlp.experts"
        tensors |= {f"{name}.lora_A.weight": a, f"{name}.lora_B.weight": b}
    return tensors


def write(tensors, folder, **options):
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA}
    adapters.write(tensors, {**config, **options}, folder)
    return folder


def answered(build, base, folder):
    """Return what the engine answers with an adapter on the unchanged base."""
    target = Target(name="tuned", adapter=str(folder))
    return LocalEngine(ready(build, base)).score(target, [IDS])[0]


FUSED = {
    "0.18.1, square": (lambda: qwen(32), "gate_up_proj", "0.18.1", False),
    "no version, square": (lambda: qwen(32), "gate_up_proj", None, False),
    "0.19.0, square": (lambda: qwen(32), "gate_up_proj", "0.19.0", False),
    "0.19.1, square": (lambda: qwen(32), "gate_up_proj", "0.19.1", True),
    "0.18.1, not square": (lambda: qwen(32), "down_proj", "0.18.1", False),
    "0.21.2, not square": (lambda: qwen(32), "down_proj", "0.21.2", True),
    "0.17.1, wide": (lambda: qwen(40), "gate_up_proj", "0.17.1", False),
    "no version, but today's shapes": (lambda: qwen(40), "gate_up_proj", None, True),
    "a development version whose shapes say it": (
        lambda: qwen(40), "gate_up_proj", "0.18.2.dev0@abc", True,
    ),
    "0.18.1, stored transposed": (gpt_oss, "gate_up_proj", "0.18.1", False),
    "0.19.0, stored transposed": (gpt_oss, "gate_up_proj", "0.19.0", True),
    "0.20.0, stored transposed": (gpt_oss, "gate_up_proj", "0.20.0", False),
}  # fmt: skip


@pytest.mark.parametrize("kind", FUSED)
def test_fused_experts_are_those_of_the_peft_that_wrote_them(kind, base, tmp_path):
    build, parameter, version, columns_in = FUSED[kind]
    changed = ready(build, base)
    bare = log_probabilities(changed.model)
    tensors = fused(changed.model, parameter, columns_in=columns_in)
    said = {"peft_version": version} if version else {}
    folder = write(tensors, tmp_path / "lora", target_modules=[],
                   target_parameters=[f"mlp.experts.{parameter}"], **said)  # fmt: skip
    wanted = log_probabilities(changed.model)
    assert answered(build, base, folder) == pytest.approx(wanted, abs=2e-5)
    assert wanted != pytest.approx(bare, abs=1e-2)


@pytest.mark.parametrize("version", ["0.18.2.dev0@abc", "0.19.1.dev0", "soon"])
def test_fused_experts_that_may_be_either_way_are_refused(version, base, tmp_path):
    model = ready(lambda: qwen(32), base).model
    folder = write(fused(model, "gate_up_proj", columns_in=True), tmp_path / "lora",
                   target_modules=[], target_parameters=["mlp.experts.gate_up_proj"],
                   peft_version=version)  # fmt: skip
    with pytest.raises(InputError, match=r"development version|peft_version"):
        answered(lambda: qwen(32), base, folder)


def test_the_names_of_an_older_gemma_are_known(base, tmp_path):
    """Until transformers 4.51 the language model was outermost, as `language_model.model`."""
    changed, tensors = ready(gemma, base), {}
    for i, layer in enumerate(changed.model.model.language_model.layers):
        for projection in (layer.self_attn.q_proj, layer.self_attn.v_proj):
            a, b = drawn(RANK, 32), drawn(projection.weight.shape[0], RANK)
            projection.weight.data += b @ a * ALPHA / RANK
            which = "q_proj" if projection is layer.self_attn.q_proj else "v_proj"
            name = f"base_model.model.language_model.model.layers.{i}.self_attn.{which}"
            tensors |= {f"{name}.lora_A.weight": a, f"{name}.lora_B.weight": b}
    pattern = r".*language_model.*\.(q_proj|v_proj)"
    folder = write(tensors, tmp_path / "lora", target_modules=pattern, peft_version="0.15.2")
    wanted = log_probabilities(changed.model)
    assert answered(gemma, base, folder) == pytest.approx(wanted, abs=2e-5)


def each_expert(model):
    """Return an adapter on each expert's own layers, and add what it means to the fused ones."""
    tensors = {}
    for i, layer in enumerate(model.model.layers):
        both, down = layer.mlp.experts.gate_up_proj.data, layer.mlp.experts.down_proj.data
        half = both.shape[1] // 2
        for e in range(EXPERTS):
            for name, weight in (("w1", both[e, :half]), ("w3", both[e, half:]), ("w2", down[e])):
                a, b = drawn(RANK, weight.shape[1]), drawn(weight.shape[0], RANK)
                weight.add_(b @ a * ALPHA / RANK)
                path = f"base_model.model.model.layers.{i}.block_sparse_moe.experts.{e}.{name}"
                tensors |= {f"{path}.lora_A.weight": a, f"{path}.lora_B.weight": b}
    return tensors


def test_adapters_of_single_experts_are_fused_as_the_base_is(base, tmp_path):
    """Until transformers 5 each expert had layers of its own."""
    changed = ready(mixtral, base)
    folder = write(each_expert(changed.model), tmp_path / "lora", target_modules=["w1", "w2", "w3"])
    wanted = log_probabilities(changed.model)
    assert answered(mixtral, base, folder) == pytest.approx(wanted, abs=2e-5)


@pytest.mark.parametrize(
    "option", [{"use_rslora": True}, {"alpha_pattern": {"w2": 3}}, {"rank_pattern": {"w9": 2}}]
)
def test_settings_that_are_lost_as_experts_are_fused_are_refused(option, base, tmp_path):
    tensors = each_expert(ready(mixtral, base).model)
    folder = write(tensors, tmp_path / "lora", target_modules=["w1", "w2", "w3"], **option)
    with pytest.raises(InputError, match=rf"before transformers 5, with {next(iter(option))}"):
        answered(mixtral, base, folder)


def test_a_missing_expert_is_no_small_matter(base, tmp_path):
    tensors = each_expert(ready(mixtral, base).model)
    lacking = {name: t for name, t in tensors.items() if "experts.3.w2" not in name}
    folder = write(lacking, tmp_path / "lora", target_modules=["w1", "w2", "w3"])
    with pytest.raises(InputError, match=r"another base|cannot be converted"):
        answered(mixtral, base, folder)


def llama():
    return LlamaForCausalLM(LlamaConfig(**TEXT, hidden_size=32, intermediate_size=48))


def gpt2():
    sizes = {"vocab_size": 300, "n_positions": 80, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return GPT2LMHeadModel(GPT2Config(**sizes))


TWO_PATTERNS = {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"q_proj": 4},
                "alpha_pattern": {"0.self_attn.q_proj": 5}}  # fmt: skip
ONE_KEY = {**TWO_PATTERNS, "alpha_pattern": {"q_proj": 5}}
ONE_OF_TWO = {**TWO_PATTERNS, "rank_pattern": {}, "alpha_pattern": {"q_proj|v_proj": 5}}
FROM_THE_START = {**ONE_OF_TWO, "alpha_pattern": {"^model.layers.0.self_attn.q_proj": 5}}
BY_NAMES = {**ONE_OF_TWO, "alpha_pattern": {"q_proj": 5, r"layers\.[01]\.self_attn.v_proj": 3}}
NO_PATTERN_THEN = {**ONE_OF_TWO, "alpha_pattern": {"q_proj)|(v_proj": 5}}
DORA = {"target_modules": ["attn.c_proj"], "use_dora": True, "fan_in_fan_out": True}


@pytest.mark.parametrize(
    ("build", "options", "version", "says"),
    [
        (llama, TWO_PATTERNS, None, "does not say which PEFT wrote it"),
        (llama, TWO_PATTERNS, "0.13.2", "was written by PEFT 0.13.2"),
        (llama, TWO_PATTERNS, "0.14.0", ""),
        (llama, ONE_KEY, None, ""),
        (llama, ONE_OF_TWO, None, "does not say which PEFT wrote it, and before 0.15.0 alpha_pat"),
        (llama, ONE_OF_TWO, "0.14.0", "was written by PEFT 0.14.0, in which alpha_pattern"),
        (llama, ONE_OF_TWO, "0.15.0", ""),
        (llama, FROM_THE_START, None, "before 0.15.0 alpha_pattern had another effect"),
        (llama, BY_NAMES, None, ""),
        (llama, NO_PATTERN_THEN, None, ""),
        (gpt2, DORA, None, "does not say which PEFT wrote it.*use_dora"),
        (gpt2, DORA, "0.18.0", ""),
    ],
)
def test_options_that_meant_something_else_need_their_version(
    build, options, version, says, base, tmp_path
):
    loaded = ready(build, base)
    folder = tiny_models.write(loaded, tmp_path / "lora", r=2, lora_alpha=4, **options)
    config = json.loads((folder / adapters.CONFIG).read_text())
    config.pop("peft_version", None)
    (folder / adapters.CONFIG).write_text(
        json.dumps(config | ({"peft_version": version} if version else {}))
    )
    if not says:
        answered(build, base, folder)
        return
    with pytest.raises(InputError, match=says):
        answered(build, base, folder)
