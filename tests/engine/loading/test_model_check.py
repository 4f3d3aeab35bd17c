import shutil
from copy import deepcopy
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from random_models import HYBRIDS, UNPADDED, made

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.api.records import Target
from fedaudit.engine.architecture import allows_padding
from fedaudit.engine.loading import loader, model_check
from fedaudit.engine.local import LocalEngine

BASE = Target(name="base")
LLAMA = ("llama", {})
NOT_CAUSAL = [
    ("llama", {"is_causal": False}),
    ("gemma3_text", {"use_bidirectional_attention": True}),
    ("bert-generation", {}),
    ("xlnet", {}),
]
OTHERWISE = [("roberta", {"is_decoder": True}), ("rwkv", {}), ("openai-gpt", {})]
RAISING = ("minimax", {"num_local_experts": 2, "num_experts_per_tok": 1})
GOOD = [
    *((kind, {}) for kind in ("gpt2", "gpt_neox", "qwen3", "gemma2", "olmo2", "opt", "bloom")),
    *[LLAMA, ("mistral", {"sliding_window": 4}), ("falcon", {"alibi": True}), ("mpt", {})],
    *[("mixtral", {"num_local_experts": 4}), ("bert", {"is_decoder": True})],
    ("gemma3_text", {"sliding_window": 4}),
    *HYBRIDS,
]


def check(model, *, context=80):
    model_check.check(model, Path("folder"), context)


def refused(model, says, **options):
    with pytest.raises(InputError, match=says) as error:
        check(model, **options)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)


def in_both(kind, changes):
    """Yield a model in float32 and in bfloat16: copies, since a check marks what it forbids."""
    model = made(kind, changes)
    for dtype in (torch.float32, torch.bfloat16):
        yield deepcopy(model).to(dtype)


@pytest.mark.parametrize(("kind", "changes"), GOOD)
def test_causal_models_pass(kind, changes):
    for model in in_both(kind, changes):
        check(model)
        assert allows_padding(model)


@pytest.mark.oracle
@pytest.mark.parametrize(("kind", "changes"), GOOD)
def test_causal_models_pass_in_float16(kind, changes):
    model = made(kind, changes).to(torch.float16)
    check(model)
    assert allows_padding(model)


@pytest.mark.parametrize(("kind", "changes"), UNPADDED)
def test_models_that_padding_changes_pass_and_get_none(kind, changes):
    for model in in_both(kind, changes):
        check(model)
        assert not allows_padding(model)


@pytest.mark.parametrize(("kind", "changes"), NOT_CAUSAL[:3])
def test_models_that_see_the_future_are_refused(kind, changes):
    says = f"^folder is not a causal language model: this {kind} model sees the tokens behind"
    refused(made(kind, changes).to(torch.bfloat16), says)


@pytest.mark.parametrize(("kind", "changes"), NOT_CAUSAL)
@pytest.mark.parametrize("std", [0.02, 1.0])
def test_they_are_whatever_their_weights(kind, changes, std):
    refused(made(kind, changes, std), "sees the tokens behind")


@pytest.mark.parametrize(("kind", "changes"), OTHERWISE)
def test_models_that_answer_otherwise_from_a_cache_are_refused(kind, changes):
    for model in in_both(kind, changes):
        refused(model, f"folder cannot be audited: this {kind} model answers a prompt otherwise")


def test_a_model_that_refuses_the_cache_is_refused():
    model = made(*RAISING)
    refused(model, "folder cannot be audited: this minimax model cannot continue prompts from a")


def greatest_error(base, kind, changes):
    """Return by how much a group's scores are off from the engine's of each text alone."""
    model = made(kind, changes)
    engine = LocalEngine(loader.LoadedBase(kind, Path(), "", model, base.tokenizer))
    group = [[*range(50, 61), *range(70, 70 + n)] for n in (3, 9)]
    [together] = engine.score_groups(BASE, [group])
    alone = engine.score(BASE, group)
    pairs = zip(chain(*together), chain(*alone), strict=True)
    return max(abs(one - other) for one, other in pairs)


@pytest.mark.parametrize(("kind", "changes"), OTHERWISE[:2])
def test_what_is_refused_would_have_had_other_scores(kind, changes, base):
    assert greatest_error(base, kind, changes) > 0.3
    assert greatest_error(base, *LLAMA) < 1e-4


def test_a_context_of_minus_one_is_none(base):
    endless = loader.LoadedBase("xlnet", Path(), "", made("xlnet", {}), base.tokenizer)
    assert endless.context_length == min(base.tokenizer.model_max_length, loader.UNBOUNDED) > 0


def test_a_context_that_a_tokenizer_writes_with_a_point_is_a_whole_number():
    tokenizer = SimpleNamespace(model_max_length=12.0)
    length = loader.LoadedBase("xlnet", Path(), "", made("xlnet", {}), tokenizer).context_length
    assert (length, type(length)) == (12, int)


def test_one_position_that_sees_one_token_ahead_suffices():
    model = made(*LLAMA)

    def peek(_module, _args, output):
        ahead = output.logits.clone()
        ahead[:, 3] += output.logits[:, 7] / 20
        output.logits = ahead

    model.register_forward_hook(peek)
    refused(model, "sees the tokens behind")


def test_a_position_that_is_off_by_one_where_there_is_padding_suffices():
    model = made(*LLAMA)

    def shift(_module, args, kwargs):
        mask, positions = kwargs.get("attention_mask"), kwargs.get("position_ids")
        if mask is not None and mask.shape == positions.shape:
            kwargs["position_ids"] = positions.clone()
            kwargs["position_ids"][1:, -1] += 1
        return args, kwargs

    model.model.register_forward_pre_hook(shift, with_kwargs=True)
    check(model)
    assert not allows_padding(model)


def test_texts_that_are_read_behind_a_cache_several_tokens_at_a_time_count():
    model = made(*LLAMA)

    def reverse(_module, args, kwargs):
        positions = kwargs.get("position_ids")
        if positions is not None and positions.shape[1] > 1 and int(positions[0, 0]) > 0:
            kwargs["position_ids"] = positions.flip(-1)
        return args, kwargs

    model.model.register_forward_pre_hook(reverse, with_kwargs=True)
    check(model)
    assert not allows_padding(model)


def test_a_state_that_is_forgotten_after_some_tokens_is_seen():
    model = made(*LLAMA)

    def forget(_module, _args, kwargs, output):
        positions = kwargs["position_ids"] if kwargs.get("use_cache") else None
        if positions is not None and int(positions[0, -1]) > 8:
            output.logits = output.logits.roll(1, -1)
        return output

    model.register_forward_hook(forget, with_kwargs=True)
    refused(model, "even together with prompts of the same length alone")


def test_rounding_to_another_expert_is_no_reason_to_refuse():
    """In bfloat16 a token may fall to another expert; in the middle the others count."""
    model = made(*LLAMA).to(torch.bfloat16)
    reads = []

    def jump(_module, _args, output):
        reads.append(None)
        if len(reads) == 2:  # the prompts
            output.logits[1] = output.logits[0].clone()

    model.register_forward_hook(jump)
    check(model)
    assert len(reads) == 5
    assert allows_padding(model)
    reads.clear()
    check(model.float())
    assert not allows_padding(model)


def test_a_model_that_breaks_is_refused_in_one_line():
    model = made("mixtral", {"num_local_experts": 1, "num_experts_per_tok": 2})
    refused(model, "this mixtral model cannot read a few tokens .RuntimeError: [^\n]*.$")


@pytest.mark.parametrize("context", [2, 3, 5, 9, 17])
def test_a_short_context_is_not_exceeded(context):
    check(made("gpt2", {"n_positions": context}), context=context)
    refused(made("llama", {"is_causal": False}), "sees the tokens behind", context=context)


def test_what_has_no_numbers_is_left_to_the_answers():
    model = made(*LLAMA)
    model.lm_head.weight.data[:] = torch.nan
    check(model)


def test_tokens_that_are_ruled_out_and_equal_logits_are_no_reason_to_refuse():
    model = made(*LLAMA)

    def rule_out(_module, _args, output):
        output.logits[..., :40] = -torch.inf

    hook = model.register_forward_hook(rule_out)
    check(model)
    hook.remove()
    model.lm_head.weight.data[:] = 0
    check(model)


def test_a_folder_is_looked_at_when_it_is_loaded(tmp_path):
    kept = shutil.ignore_patterns("__pycache__", "*.py", "*.safetensors", "config.json")
    folder = shutil.copytree(nano.folder(), tmp_path / "model", ignore=kept)
    made("roberta", {"is_decoder": True, "vocab_size": 4096}).save_pretrained(folder)
    with pytest.raises(InputError, match=f"{folder} cannot be audited: this roberta model answers"):
        loader.load_base(str(folder), device="cpu")
    made("xlnet", {"vocab_size": 4096}).save_pretrained(folder)
    with pytest.raises(InputError, match="xlnet model sees the tokens behind"):
        loader.load_base(str(folder), device="cpu")
