"""A Llama from GGUF becomes a plain model folder, or nothing does."""

import re
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fedaudit.engine.loading import loader

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import gguf_to_safetensors as conversion  # noqa: E402

sys.path.pop(0)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("1", "2"), ("Ġ", "Ġ"), ("Ġ", "1")]
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]
CHAT = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"
FIELDS = {
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.chat_template": CHAT,
    "llama.context_length": 128,
}


def small_llama(*, tied=True):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval()


def as_from_gguf(model):
    """Return a model whose configuration says that it is quantised, as transformers makes it."""
    model.config.quantization_config = {"quant_method": "gguf", "gguf_file": "m.gguf"}
    return model


def small_tokenizer(split="smollm"):
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=MERGES))
    backend.pre_tokenizer = conversion.pre_tokenizer(split)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        unk_token=SPECIAL[0],
        pad_token=SPECIAL[2],
    )
    tokenizer.chat_template = CHAT
    return tokenizer


def folder_of(place, model, tokenizer):
    conversion.plain_copy(model).save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def logits(model, ids):
    with torch.inference_mode():
        return model(ids).logits


@pytest.mark.parametrize("tied", [True, False])
def test_a_copy_says_what_the_model_says_and_can_be_loaded_as_a_base(tmp_path, tied):
    model = as_from_gguf(small_llama(tied=tied))
    copy = conversion.plain_copy(model)
    assert not hasattr(copy.config, "quantization_config")
    same = copy.lm_head.weight.data_ptr() == copy.model.embed_tokens.weight.data_ptr()
    assert same == tied
    base = loader.load_base(str(folder_of(tmp_path, model, small_tokenizer())))
    ids = torch.tensor([[1, 5, 9, 33, 2]])
    assert torch.equal(logits(base.model, ids), logits(model, ids))
    theta = base.model.config.rope_parameters["rope_theta"]
    assert (theta, base.end_tokens) == (100_000.0, [2, 2])


@pytest.mark.parametrize(
    ("text", "smollm", "gpt2"),
    [
        ("12", ["1", "2"], ["12"]),
        (" 1", ["Ġ", "1"], ["Ġ1"]),
        # Both spaces stand before a digit that stands alone, or one of them with it.
        ("  1", ["ĠĠ", "1"], ["Ġ", "Ġ1"]),
        ("a b", ["a", "Ġ", "b"], ["a", "Ġ", "b"]),
    ],
)
def test_smollm_takes_every_digit_alone_and_gpt2_does_not(text, smollm, gpt2):
    assert small_tokenizer().tokenize(text) == smollm
    assert small_tokenizer("gpt-2").tokenize(text) == gpt2


def test_another_way_to_split_texts_is_refused():
    with pytest.raises(SystemExit, match=r"'llama-bpe' .* gpt-2, smollm are"):
        conversion.pre_tokenizer("llama-bpe")


def test_what_is_the_ggufs_passes(tmp_path):
    model = small_llama()
    conversion.check(folder_of(tmp_path, model, small_tokenizer()), model, FIELDS)


def test_another_tensor_is_noticed(tmp_path):
    folder_of(tmp_path, small_llama(), small_tokenizer())
    other = small_llama()
    with torch.no_grad():
        other.model.norm.weight[0] += 1e-3
    with pytest.raises(SystemExit, match="logits"):
        conversion.check(tmp_path, other, FIELDS)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("tokenizer.ggml.bos_token_id", 2, "another bos_token_id than"),
        ("tokenizer.ggml.eos_token_id", 1, "another eos_token_id than"),
        ("tokenizer.ggml.padding_token_id", 0, "another pad_token_id than"),
        ("tokenizer.chat_template", "", "another chat_template than"),
        ("tokenizer.ggml.tokens", TOKENS[:-1], "other tokens"),
    ],
)
def test_another_tokenizer_is_noticed(tmp_path, field, value, said):
    model = small_llama()
    folder_of(tmp_path, model, small_tokenizer())
    with pytest.raises(SystemExit, match=said):
        conversion.check(tmp_path, model, {**FIELDS, field: value})


def in_ggml_order(tensor, heads):
    """Return the rows of each head with its two halves, which are rotated together, interleaved."""
    halves = tensor.view(heads, 2, tensor.shape[0] // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def write_gguf(path, model):
    """Write a model as llama.cpp's converter does: queries and keys in its order of rotation."""
    gguf = pytest.importorskip("gguf", reason="`make real` fetches it")
    writer, config = gguf.GGUFWriter(path, "llama"), model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3] * 3 + [1] * (len(TOKENS) - 3))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied
        count = heads.get(name.split(".")[-2])
        turned = in_ggml_order(tensor, count) if count else tensor
        writer.add_tensor(names.get_name(name, (".weight",)), turned.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_small_gguf_is_converted_whole(tmp_path, monkeypatch, capsys):
    model = small_llama()
    write_gguf(tmp_path / "small.gguf", model)
    monkeypatch.setattr(sys, "argv", ["x", str(tmp_path / "small.gguf"), str(tmp_path / "a/out")])
    conversion.main()
    base = loader.load_base(str(tmp_path / "a/out"))
    ids = torch.tensor([base.tokenizer("<|im_start|>It's  12.<|im_end|>")["input_ids"]])
    assert torch.equal(logits(base.model, ids), logits(model, ids))
    assert base.tokenizer.tokenize("  12") == ["ĠĠ", "1", "2"]
    assert not (tmp_path / "a/out.part").exists()
    (tmp_path / "small.gguf").unlink()
    conversion.main()  # what is there is not made again
    assert capsys.readouterr().out.count("a/out") == 2


def test_what_is_fetched_has_a_version_and_a_hash():
    lines = (ROOT / "benchmarks/real_model.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) == 2
    assert all(re.fullmatch(r"[\w-]+==[\d.]+ --hash=sha256:[0-9a-f]{64}", pin) for pin in pins)
