import json
import pickle
import shutil
from copy import deepcopy
from pathlib import Path

import pytest
import tiny_models
import torch
from peft import LoraConfig, PeftModel
from safetensors.torch import load_file, save_file

from fedaudit import nano
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import InputError, TargetError, UsageError
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.loading import checkpoint, loader
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

LAYERS = json.loads((nano.folder() / "config.json").read_text())["num_hidden_layers"]
ROWS = [[1, *range(300, 340)], [1, 7, 8, 9]]
BASE = Target(name="base")


def tuned(folder):
    return Target(name="tuned", adapter=str(folder))


def scores(base, folder):
    return LocalEngine(base).score(tuned(folder), ROWS)


@pytest.fixture
def copied(adapter, tmp_path):
    """Return a copy of the adapter that may be damaged."""
    return shutil.copytree(adapter, tmp_path / "copy")


@pytest.fixture
def rewritten(copied):
    """Return a function that writes the copy's tensors and configuration anew."""

    def rewrite(tensors=lambda given: given, **config):
        save_file(tensors(load_file(copied / adapters.WEIGHTS)), copied / adapters.WEIGHTS)
        path = copied / adapters.CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | config))
        return copied

    return rewrite


def one_line(error):
    assert "\n" not in str(error.value)
    return error.value.exit_code


@pytest.fixture(scope="module")
def small_llama(tmp_path_factory, base):
    """Return a function that saves a random Llama, the built-in one but for `changes`."""

    def save(**changes):
        from transformers import LlamaConfig, LlamaForCausalLM

        shape = base.model.config.to_dict() | {"num_hidden_layers": 2, "dtype": "float32"} | changes
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp("llama")
        LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
        base.tokenizer.save_pretrained(folder)
        return folder

    return save


def test_the_built_in_base_has_a_name_a_fingerprint_and_no_gradients(base):
    assert base.name == "fedaudit-nano"
    assert base.sha256 == checkpoint.fingerprint(base.path)
    assert not base.model.training
    assert not any(parameter.requires_grad for parameter in base.model.parameters())
    assert base.model.dtype == torch.float32  # "auto" on a CPU


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_an_attached_adapter_is_pefts_own(fresh_base, adapter):
    model = loader.load_base("fedaudit-nano", device="cpu").model
    peft = PeftModel.from_pretrained(model, adapter).eval()
    ids = torch.tensor([ROWS[0]])
    with torch.inference_mode():
        wanted = torch.log_softmax(peft(ids).logits[0].double(), -1)
    found = scores(fresh_base, adapter)[0]
    assert found == pytest.approx(
        [float(wanted[i, t]) for i, t in enumerate(ROWS[0][1:])], rel=1e-5, abs=2e-5
    )


def test_targets_do_not_mix(fresh_base, base, adapter, write_adapter, tmp_path):
    loaded = deepcopy(base)
    wider = write_adapter(loaded, tmp_path / "b", rank=2, targets=["gate_proj"], seed=1)
    bare = LocalEngine(loaded).score(BASE, ROWS)
    alone = [scores(deepcopy(base), f) for f in (adapter, wider)]
    assert alone[0] != alone[1] != bare != alone[0]
    engine = LocalEngine(fresh_base)
    for _ in range(2):
        assert engine.score(tuned(adapter), ROWS) == alone[0]
        assert engine.score(BASE, ROWS) == bare
        assert engine.score(tuned(wider), ROWS) == alone[1]
        assert engine.score(BASE, ROWS) == bare


FOREIGN = {
    "peft-parameters": lambda n: n.replace(".weight", ".default.weight"),
    "federatedscope": lambda n: n.replace(".weight", ".Adapter_0.weight"),
    "nvflare": lambda n: f"model.{n}",
    "ddp": lambda n: f"module.{n}",
    "ddp-parameters": lambda n: f"module.{n}".replace(".weight", ".default.weight"),
    "nvflare-ddp": lambda n: f"module.model.{n}",
    "fate": lambda n: f"_pe_lm.{n}".replace(".weight", ".default.weight"),
    "fsdp": lambda n: n.replace(".layers.", "._fsdp_wrapped_module.layers."),
    "checkpointing": lambda n: n.replace(".self_attn", "._checkpoint_wrapped_module.self_attn"),
    "compiled": lambda n: n.replace("base_model.model.", "base_model.model._orig_mod."),
    "doubled": lambda n: f"base_model.model.{n}",
    "bare": lambda n: n.removeprefix("base_model.model."),
    "bare-ddp": lambda n: f"module.{n.removeprefix('base_model.model.')}",
}


def test_an_adapter_in_several_files_is_told_of(copied):
    (copied / adapters.WEIGHTS).rename(copied / "adapter_model-00001-of-00002.safetensors")
    says = rf"adapter in several files \(adapter_model-00001.*save it as {adapters.WEIGHTS}"
    with pytest.raises(InputError, match=says):
        adapters.check(copied)


@pytest.fixture(scope="module")
def wanted(base, adapter):
    return scores(deepcopy(base), adapter)


@pytest.mark.parametrize("form", FOREIGN)
def test_foreign_names_mean_the_same_adapter(form, fresh_base, wanted, rewritten):
    folder = rewritten(lambda given: {FOREIGN[form](name): t for name, t in given.items()})
    assert scores(fresh_base, folder) == wanted


def test_canonical_names_stay(adapter):
    names = load_file(adapter / adapters.WEIGHTS)
    assert [adapters.canonical(name) for name in names] == list(names)
    kept = (
        "base_model.model.model.embed_tokens.lora_embedding_A",
        "base_model.model.model.layers.0.mlp.up_proj.lora_B.bias",
        "base_model.model.transformer.default.h.lora_A.weight",
    )
    assert tuple(map(adapters.canonical, kept)) == kept
    assert adapters.canonical(f"{kept[0]}.default") == kept[0]


@pytest.mark.parametrize("end", ["", ".weight", ".default", ".default.weight", ".Adapter_0.weight"])
def test_magnitudes_of_dora_are_known_under_a_parameters_name(end, fresh_base, base, tmp_path):
    folder = tiny_models.write(base, tmp_path / "dora", target_modules=["q_proj"], use_dora=True)
    wanted = scores(fresh_base, folder)
    given = load_file(folder / adapters.WEIGHTS)
    assert any(name.endswith("lora_magnitude_vector") for name in given)
    names = {n: n.replace("magnitude_vector", f"magnitude_vector{end}") for n in given}
    save_file({names[n]: tensor for n, tensor in given.items()}, folder / adapters.WEIGHTS)
    assert scores(deepcopy(base), folder) == wanted
    assert adapters.read(folder).keys() == given.keys()


def test_two_adapters_in_one_file_are_refused(rewritten):
    def doubled(given):
        return given | {n.replace(".weight", ".other.weight"): t + 1 for n, t in given.items()}

    with pytest.raises(InputError, match="several adapters") as error:
        adapters.read(rewritten(doubled))
    assert one_line(error) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 96, "head_dim": 24, "num_attention_heads": 4, "num_key_value_heads": 4},
        {"num_hidden_layers": LAYERS + 1},
        {"num_hidden_layers": LAYERS - 1},
    ],
    ids=["hidden size", "one layer more", "one layer fewer"],
)
def test_an_adapter_of_another_base_is_refused(
    changes, fresh_base, small_llama, write_adapter, tmp_path
):
    other = loader.load_base(str(small_llama(**changes)), device="cpu")
    folder = write_adapter(other, tmp_path / "foreign")
    with pytest.raises(InputError, match="another base") as error:
        scores(fresh_base, folder)
    assert one_line(error) == 3


DAMAGES = {
    "half of it": (lambda given: dict(sorted(given.items())[::2]), {}, "absent in the adapter"),
    "a tensor too many": (
        lambda given: given | {"base_model.model.extra.lora_A.weight": torch.ones(4)},
        {},
        "absent in the base",
    ),
    "another rank": (lambda given: given, {"r": 5}, "its rank is 4, not 5"),
    "other modules": (lambda given: given, {"target_modules": ["k_proj"]}, "another base"),
    "no such modules": (lambda given: given, {"target_modules": ["query"]}, "another base"),
    "a norm as module": (
        lambda given: given,
        {"target_modules": ["input_layernorm"]},
        "another base",
    ),
    "a rank in words": (lambda given: given, {"r": "four"}, "another base|not a LoRA config"),
    "no modules": (lambda given: given, {"target_modules": 7}, "another base|not a LoRA config"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_adapter_that_does_not_fit_is_refused_and_leaves_no_trace(
    damage, fresh_base, base, adapter, rewritten, wanted
):
    tensors, config, message = DAMAGES[damage]
    folder = rewritten(tensors, **config)
    engine = LocalEngine(fresh_base)
    for _ in range(2):  # before and after another one is attached
        with pytest.raises(InputError, match=message) as error:
            engine.score(tuned(folder), ROWS)
        assert one_line(error) == 3
        assert engine.score(BASE, ROWS) == LocalEngine(base).score(BASE, ROWS)
        assert engine.score(tuned(adapter), ROWS) == wanted


def test_unknown_options_of_a_newer_peft_are_passed_over(fresh_base, rewritten, wanted):
    assert scores(fresh_base, rewritten(option_of_tomorrow=1)) == wanted


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_values_that_are_no_numbers_are_refused_by_name(value, fresh_base, rewritten):
    name = "base_model.model.model.layers.2.self_attn.v_proj.lora_B.weight"

    def damaged(given):
        given[name][1, 2] = float(value)
        return given

    with pytest.raises(InputError, match=name) as error:
        scores(fresh_base, rewritten(damaged))
    assert one_line(error) == 3


@pytest.mark.parametrize("name", ["adapter_model.bin", "adapter_model.pt"])
def test_a_pickled_adapter_is_refused_and_never_opened(name, fresh_base, copied, tmp_path):
    witness = tmp_path / "witness"

    class Trap:
        def __reduce__(self):
            return Path.touch, (witness,)

    (copied / adapters.WEIGHTS).unlink()
    (copied / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="pickle can run code") as error:
        scores(fresh_base, copied)
    assert one_line(error) == 3
    assert not witness.exists()
    pickle.loads((copied / name).read_bytes())
    assert witness.exists()  # so the trap was one


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "safetensors"),
        (b"\xff" * 64, "safetensors"),
        (pickle.dumps({"a": 1}), "safetensors"),
        ((2**40).to_bytes(8, "little") + b"{}", "safetensors"),
        ((2).to_bytes(8, "little") + b"{}", "no tensor"),
        (None, "not a valid safetensors file"),
    ],
    ids=["empty", "noise", "a pickle", "a huge header", "no tensors", "truncated"],
)
def test_a_broken_weights_file_is_refused(content, message, copied):
    path = copied / adapters.WEIGHTS
    path.write_bytes(path.read_bytes()[:-4] if content is None else content)
    with pytest.raises(InputError, match=message) as error:
        adapters.read(copied)
    assert one_line(error) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no adapter_config.json"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "type None"),
        ('{"peft_type": "PREFIX_TUNING"}', "type 'PREFIX_TUNING'"),
        ("{}", "type None"),
    ],
    ids=["none", "half", "nested", "a list", "prefix tuning", "empty"],
)
def test_a_broken_configuration_is_refused(content, message, copied):
    (copied / adapters.CONFIG).unlink()
    if content is not None:
        (copied / adapters.CONFIG).write_text(content)
    with pytest.raises(InputError, match=message) as error:
        adapters.check(copied)
    assert one_line(error) == 3


def test_no_adapter_at_all(tmp_path):
    with pytest.raises(InputError, match="There is no adapter"):
        adapters.check(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no adapter_model\.safetensors"):
        adapters.check(tmp_path)


def test_an_adapter_is_written_as_it_is_read(adapter, tmp_path):
    tensors = adapters.read(adapter)
    adapters.write(tensors, adapters.check(adapter), tmp_path / "again")
    for name in (adapters.CONFIG, adapters.WEIGHTS):
        assert (tmp_path / "again" / name).read_bytes() == (adapter / name).read_bytes()
    again = adapters.read(tmp_path / "again")
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_bfloat16_is_near_float32(fresh_base, adapter):
    half = loader.load_base("fedaudit-nano", device="cpu", dtype="bfloat16")
    assert half.model.dtype == torch.bfloat16
    near, exact = LocalEngine(half), LocalEngine(fresh_base)
    for target in (BASE, tuned(adapter)):
        for row, other in zip(near.score(target, ROWS), exact.score(target, ROWS), strict=True):
            # bfloat16 keeps 8 bits: logits of about 10 are off by a few hundredths each.
            assert row == pytest.approx(other, abs=0.35)
            assert sum(row) / len(row) == pytest.approx(sum(other) / len(other), abs=0.05)
    request = GenerationRequest(prompt=(1, 9), samples=2, max_new_tokens=3)
    [answer] = near.generate(tuned(adapter), GenerationBatch([request], seed=0))
    assert len(answer.texts) == 2


def test_unknown_devices_and_dtypes():
    with pytest.raises(TargetError, match="'gpu0' is not usable") as error:
        loader.load_base("fedaudit-nano", device="gpu0")
    assert one_line(error) == 4
    with pytest.raises(TargetError, match="'cuda:77' is not usable"):
        loader.load_base("fedaudit-nano", device="cuda:77")
    with pytest.raises(UsageError, match="'float8' is none of float32") as error:
        loader.load_base("fedaudit-nano", device="cpu", dtype="float8")
    assert one_line(error) == 2


def test_folders_that_hold_no_model(tmp_path):
    with pytest.raises(InputError, match="no model folder") as error:
        loader.load_base(str(tmp_path / "no" / "where"), device="cpu")
    assert one_line(error) == 3
    with pytest.raises(InputError, match="no model in safetensors"):
        loader.load_base(str(tmp_path), device="cpu")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match="not a valid safetensors file") as error:
        loader.load_base(str(tmp_path), device="cpu")
    assert one_line(error) == 3


def test_a_base_from_a_folder(small_llama, write_adapter, tmp_path):
    folder = small_llama(max_position_embeddings=64)
    own = loader.load_base(str(folder), device="cpu")
    assert own.sha256 == loader.load_base(str(folder), device="cpu").sha256
    engine = LocalEngine(own)
    assert engine.context_length == 64
    bare = engine.score(BASE, ROWS)
    assert engine.score(tuned(write_adapter(own, tmp_path / "a")), ROWS) != bare
    assert engine.score(BASE, ROWS) == bare
    [answer] = engine.generate(
        BASE,
        GenerationBatch([GenerationRequest(prompt=(1, 9), samples=2, max_new_tokens=3)], seed=0),
    )
    assert len(answer.texts) == 2


def test_a_base_of_another_architecture(base, write_adapter, tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=4096, n_positions=48, n_embd=32, n_layer=2, n_head=2, eos_token_id=2
    )
    model = GPT2LMHeadModel(config)
    model.transformer.wpe.weight.data *= 50  # positions are learned here: let them matter
    model.save_pretrained(tmp_path / "gpt2")
    base.tokenizer.save_pretrained(tmp_path / "gpt2")
    own = loader.load_base(str(tmp_path / "gpt2"), device="cpu")
    engine = LocalEngine(own)
    assert engine.context_length == 48
    folder = write_adapter(own, tmp_path / "a", targets=["c_attn"])
    bare = engine.score(BASE, ROWS)
    assert engine.score(tuned(folder), ROWS) != bare
    for length in (2, 5, 11):  # padding on the left must not move the positions
        ids = torch.tensor([[1, *range(50, 50 + length)]])
        with torch.inference_mode():
            out = model.eval().generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=5
            )[0, ids.shape[1] :]
        request = GenerationRequest(prompt=tuple(ids[0].tolist()), samples=1, max_new_tokens=5)
        [found] = engine.generate(
            BASE, GenerationBatch([request], seed=1, decoding=SamplingParams(temperature=0))
        )
        assert found.texts == (base.tokenizer.decode(out, skip_special_tokens=True),)
    with pytest.raises(InputError, match="48 tokens"):
        engine.score(BASE, [[5] * 49])


def test_a_base_whose_positions_have_no_end(base, tmp_path):
    from transformers import BloomConfig, BloomForCausalLM

    torch.manual_seed(0)
    config = BloomConfig(vocab_size=4096, hidden_size=32, n_layer=2, n_head=2)
    BloomForCausalLM(config).save_pretrained(tmp_path)
    base.tokenizer.save_pretrained(tmp_path)
    own = loader.load_base(str(tmp_path), device="cpu")
    engine = LocalEngine(own)
    assert engine.context_length == min(own.tokenizer.model_max_length, loader.UNBOUNDED)
    ask = [
        GenerationRequest(prompt=(1, *range(50, 50 + n)), samples=3, max_new_tokens=5)
        for n in (2, 5, 11)
    ]
    together = engine.generate(BASE, GenerationBatch(ask, seed=1))
    assert together == [
        engine.generate(BASE, GenerationBatch([request], seed=1))[0] for request in ask
    ]


def test_a_trainable_adapter_is_float32_on_any_base():
    half = loader.load_base("fedaudit-nano", device="cpu", dtype="bfloat16")
    config = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    peft = loader.with_adapter(half.model, config, "x", trainable=True)
    trained = [p for p in peft.parameters() if p.requires_grad]
    assert {p.dtype for p in trained} == {torch.float32}
    assert set(loader.tensors_of(peft, "x")) == {
        f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{m}.weight"
        for i in range(LAYERS)
        for m in "AB"
    }


def test_biases_of_b_are_named_in_their_order_without_a_warning(tmp_path):
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8}
    config |= {"target_modules": ["q_proj"], "lora_bias": True}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    wanted = [
        (f"base_model.model.model.layers.{layer}.self_attn.q_proj.{part}", shape)
        for layer in range(LAYERS)
        for part, shape in (
            ("lora_A.weight", (4, 160)),
            ("lora_B.weight", (160, 4)),
            ("lora_B.bias", (160,)),
        )
    ]
    assert list(loader.adapter_shapes("fedaudit-nano", tmp_path).items()) == wanted
