"""What a model's folder must hold, and what its fingerprint is over."""

import hashlib
import json
import shutil
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertLMHeadModel, ByT5Tokenizer

from fedaudit import nano
from fedaudit.api.errors import InputError
from fedaudit.engine import embeddings
from fedaudit.engine.loading import checkpoint, loader

WEIGHTS, CONFIG = "model.safetensors", "config.json"


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(
        nano.folder(), tmp_path / "model", ignore=shutil.ignore_patterns("__pycache__", "*.py")
    )


def retold(folder, name=CONFIG, **changes):
    path = folder / name
    table = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(table | changes))


def rewritten(folder, change):
    path = folder / WEIGHTS
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def refused(folder, *says, dtype="auto"):
    with pytest.raises(InputError) as error:
        loader.load_base(str(folder), device="cpu", dtype=dtype)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    for one in (str(folder), *says):
        assert one in str(error.value)


def test_a_model_that_fills_gaps_is_not_asked_to_continue_texts(model):
    sizes = {"vocab_size": 2048, "hidden_size": 32, "intermediate_size": 48}
    config = BertConfig(**sizes, num_hidden_layers=2, num_attention_heads=4)
    (model / WEIGHTS).unlink()
    BertLMHeadModel(config).save_pretrained(model)
    refused(model, "is not a causal language model: a bert model fills gaps")
    config.is_decoder = True
    BertLMHeadModel(config).save_pretrained(model)
    loader.load_base(str(model), device="cpu")


def test_a_model_without_a_tokenizer_is_told_which_files_to_add(model):
    for path in model.glob("tokenizer*"):
        path.unlink()
    refused(model, "has no tokenizer: add the model's own tokenizer files (tokenizer.json")


def test_a_tokenizer_without_offsets_is_refused(model):
    for path in model.glob("tokenizer*"):
        path.unlink()
    ByT5Tokenizer().save_pretrained(model)
    refused(model, "does not say which characters a token stands for: ByT5Tokenizer is a slow one")


def test_a_model_that_is_only_pickled_is_told_how_to_be_saved(model):
    (model / WEIGHTS).rename(model / "pytorch_model.bin")
    refused(model, "pytorch_model.bin may run code when it is loaded. Save the model with")


def test_a_model_whose_tensors_have_other_names(model):
    rewritten(model, lambda given: {f"x.{name}": t for name, t in given.items()})
    refused(model, "39 of its tensors are missing", "lm_head.weight", "and 36 more")


def test_a_model_with_a_layer_fewer_or_more_than_it_says(model):
    layers = json.loads((model / CONFIG).read_text())["num_hidden_layers"]
    retold(model, num_hidden_layers=layers + 1)
    refused(model, "9 of its tensors are missing", f"model.layers.{layers}.input_layernorm.weight")
    retold(model, num_hidden_layers=layers - 1)
    refused(model, "9 of its tensors are in it too many", f"model.layers.{layers - 1}.")


def test_a_head_that_is_said_to_be_its_own(model):
    tied = json.loads((model / CONFIG).read_text())["tie_word_embeddings"]
    assert tied
    retold(model, tie_word_embeddings=False)
    refused(model, "1 of its tensors are missing (lm_head.weight)")


def test_a_tensor_of_another_shape(model):
    name = "model.layers.0.mlp.up_proj.weight"
    rewritten(model, lambda given: given | {name: given[name][:-2].contiguous()})
    refused(model, f"1 of its tensors are of another shape ({name})")
    rewritten(model, lambda given: given | {name: torch.tensor(1.0)})
    refused(model, f"1 of its tensors are of another shape ({name})")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_weights_that_are_no_numbers(value, model):
    name = "model.layers.1.input_layernorm.weight"

    def damaged(given):
        given[name][3] = float(value)
        return given

    rewritten(model, damaged)
    refused(model, f"1 of its tensors are NaN or infinite as float32 ({name})")
    with pytest.raises(InputError, match="NaN or infinite"):
        embeddings.load_embedder(str(model), device="cpu")


def test_weights_that_float16_cannot_hold(model):
    name = "model.layers.1.input_layernorm.weight"

    def large(given):
        given[name][3] = 1e5
        return given

    rewritten(model, large)
    loader.load_base(str(model), device="cpu")
    refused(model, "NaN or infinite as float16", dtype="float16")


def test_what_older_models_hold_besides_is_no_harm(model):
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(16)}
    rewritten(model, lambda given: given | extra)
    loader.load_base(str(model), device="cpu")


def test_an_embedder_needs_the_body_only(model, base):
    assert embeddings.load_embedder(str(model), device="cpu").sha256 == base.sha256
    rewritten(model, lambda given: {n: t for n, t in given.items() if "layers.2" not in n})
    with pytest.raises(InputError, match="tensors are missing"):
        embeddings.load_embedder(str(model), device="cpu")


CODE = "import pathlib\npathlib.Path(__file__).parent.joinpath('witness').write_text('ran')\n"


@pytest.mark.parametrize("kind", ["llama", "unheard-of"])
def test_no_code_of_a_model_runs_and_nobody_is_asked(kind, model, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked"))
    for name in ("evil.py", "custom_generate/generate.py"):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_text(CODE)
    modules = {f"Auto{one}": f"evil.{one}" for one in ("Config", "Model", "ModelForCausalLM")}
    retold(model, model_type=kind, auto_map=modules)
    retold(model, "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]})
    if kind == "llama":
        assert type(loader.load_base(str(model), device="cpu").model).__name__ == "LlamaForCausalLM"
    else:
        refused(model, "custom code")
        with pytest.raises(InputError):
            embeddings.load_embedder(str(model), device="cpu")
    assert not list(model.rglob("witness"))
    assert capsys.readouterr() == ("", "")
    assert "evil" not in sys.modules


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_no_kernel_is_fetched_for_a_model(key, model):
    retold(model, **{key: "somebody/kernel"})
    refused(model, "asks for code", "somebody/kernel")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_name_that_stands_twice_is_refused(name, model):
    """Readers differ in which of them they take, and so would checks and the model."""
    path = model / name
    whole = path.read_text().rstrip()
    path.write_text(
        f'{whole[:-1]}, "attn_implementation": "me/kernel", "attn_implementation": "x"}}'
    )
    refused(model, "'attn_implementation' stands twice")


def test_a_model_with_an_adapter_in_it_is_no_base(model):
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "other"}')
    refused(model, "it has an adapter_config.json")


def sharded(model, place):
    """Move the weights to `place`, which the index names; a decoy stays beside it."""
    (model / place).parent.mkdir(parents=True, exist_ok=True)
    names = list(load_file(model / WEIGHTS))
    (model / WEIGHTS).rename(model / place)
    table = {"metadata": {}, "weight_map": dict.fromkeys(names, place)}
    (model / "model.safetensors.index.json").write_text(json.dumps(table))
    save_file({"decoy": torch.zeros(1)}, model / "decoy.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    "place", ["../away.safetensors", "parts/../../away.safetensors", "{}/away.safetensors"]
)
def test_weights_outside_the_folder_are_refused(place, model, tmp_path):
    place = place.format(tmp_path)
    sharded(model, place)
    with pytest.raises(InputError, match="points outside its folder") as error:
        loader.load_base(str(model), device="cpu")
    assert place in str(error.value)


def test_weights_below_the_folder_count(model, base):
    sharded(model, "parts/a.safetensors")
    first = loader.load_base(str(model), device="cpu")
    assert "parts/a.safetensors" in checkpoint.files(model)
    part = model / "parts/a.safetensors"
    save_file({n: t * 1.01 for n, t in load_file(part).items()}, part, metadata={"format": "pt"})
    assert loader.load_base(str(model), device="cpu").sha256 != first.sha256


def test_a_fingerprint_is_over_every_file_that_is_read(model, base):
    whole = checkpoint.fingerprint(model)
    assert whole == base.sha256
    names = sorted(
        path.name for path in model.iterdir() if path.suffix in (".json", ".safetensors")
    )
    hashes = [hashlib.sha256((model / name).read_bytes()).hexdigest() for name in names]
    lines = "".join(f"{own}  {name}\n" for own, name in zip(hashes, names, strict=True))
    assert whole == hashlib.sha256(lines.encode()).hexdigest()
    (model / "README.md").write_text("not part of it")
    (model / "notes.json").write_text("{}")
    assert checkpoint.fingerprint(model) == whole
    further = ("merges.txt", "vocab.json", "tokenizer.model", "special_tokens_map.json")
    for name in (*names, *further, "chat_template.jinja", "additional_chat_templates/a.jinja"):
        path = model / name
        path.parent.mkdir(exist_ok=True)
        content = path.read_bytes() if path.exists() else None
        path.write_bytes((content or b"") + b" ")
        assert checkpoint.fingerprint(model) != whole, name
        path.unlink() if content is None else path.write_bytes(content)
    assert checkpoint.fingerprint(model) == whole
