"""Turn a Llama in GGUF into a model folder that fedaudit, PEFT and transformers train on.

    PYTHONPATH=FOLDER python benchmarks/gguf_to_safetensors.py MODEL.gguf OUT

FOLDER has the package `gguf`, which fedaudit itself does not need. transformers reads the tensors,
turns them back into float32 and says in the configuration that they are quantised, so that what it
loaded can be neither saved nor trained: the tensors go into a fresh model. It also takes every BPE
vocabulary for GPT-2's, so that the rule by which texts are split comes from here.

What was written is loaded again before it gets its name: its logits are those of the GGUF's model
to the last bit, its tokens, special tokens and chat template are what the GGUF says.
"""

import argparse
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Nothing here asks a hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

LEFT_OUT = ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version")
"""What the fresh configuration does not take over."""
PARTICULARS = {
    "bos_token_id": "tokenizer.ggml.bos_token_id",
    "eos_token_id": "tokenizer.ggml.eos_token_id",
    "pad_token_id": "tokenizer.ggml.padding_token_id",
    "unk_token_id": "tokenizer.ggml.unknown_token_id",
    "chat_template": "tokenizer.chat_template",
}
"""What a tokenizer must have as the GGUF has it: its attribute, and the GGUF's field."""
TEXT = "<|im_start|>user\nWho paid 1,250  22 on 3 May?<|im_end|>\n  Café 上海\t\n\nIt's so."


def pre_tokenizer(name: str) -> PreTokenizer:
    """Return how texts are split into what BPE works on, by the name that llama.cpp has for it."""
    gpt2 = ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    known = {"gpt-2": gpt2, "smollm": Sequence([Digits(individual_digits=True), gpt2])}
    if name not in known:
        raise SystemExit(f"How {name!r} splits texts is not known here: {', '.join(known)} are.")
    return known[name]


def plain_copy(model: PreTrainedModel) -> LlamaForCausalLM:
    """Return a float32 model of the same tensors whose configuration says nothing of a GGUF."""
    table = {key: value for key, value in model.config.to_dict().items() if key not in LEFT_OUT}
    copy: LlamaForCausalLM = LlamaForCausalLM(LlamaConfig(**table))
    copy.load_state_dict(model.state_dict(), strict=True)
    copy.tie_weights()
    copy.generation_config = model.generation_config
    copy.float().eval()
    return copy


def check(folder: Path, wanted: PreTrainedModel, fields: dict[str, Any]) -> None:
    """Stop unless the model and the tokenizer in `folder` are the GGUF's."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    with torch.inference_mode():
        if not torch.equal(model(ids).logits, wanted.eval()(ids).logits):
            raise SystemExit("The saved model's logits are not those of the GGUF's model.")
    wrong = [
        name
        for name, field in PARTICULARS.items()
        if field in fields and getattr(tokenizer, name) != fields[field]
    ]
    if wrong:
        raise SystemExit(f"The saved tokenizer has another {', '.join(wrong)} than the GGUF.")
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    if tokens != list(fields["tokenizer.ggml.tokens"]):
        raise SystemExit("The saved tokenizer has other tokens than the GGUF.")
    if tokenizer.decode(ids[0], clean_up_tokenization_spaces=False) != TEXT:
        raise SystemExit("The saved tokenizer does not give a text back as it was.")


def set_special_tokens(tokenizer: Any, fields: Mapping[str, Any]) -> None:
    """Name the special tokens that the GGUF names: some versions of transformers leave some out."""
    for name, field in PARTICULARS.items():
        if name.endswith("_token_id") and field in fields:
            token = tokenizer.convert_ids_to_tokens(fields[field])
            setattr(tokenizer, name.removesuffix("_id"), token)


def metadata(path: Path) -> dict[str, Any]:
    """Return the fields of a GGUF by name."""
    from gguf import GGUFReader

    return {name: field.contents() for name, field in GGUFReader(path).fields.items()}


def convert(path: Path, out: Path) -> None:
    """Write the model and the tokenizer of a GGUF to the folder `out`."""
    transformers_logging.disable_progress_bar()
    fields = metadata(path)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizer(fields["tokenizer.ggml.pre"])
    set_special_tokens(tokenizer, fields)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32
    )
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    plain_copy(model).save_pretrained(part)
    tokenizer.model_max_length = fields["llama.context_length"]
    tokenizer.save_pretrained(part)
    check(part, model, fields)
    part.rename(out)


def main() -> None:
    """Convert what the command line names, unless that has been done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if not given.out.exists():
        given.out.parent.mkdir(parents=True, exist_ok=True)
        convert(given.gguf, given.out)
    print(given.out)


if __name__ == "__main__":
    main()
