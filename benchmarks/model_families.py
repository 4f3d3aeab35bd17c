"""Which families of causal language models are probed rightly: every one that can be built tiny.

    python benchmarks/model_families.py --out FILE [--only llama qwen3] [--table]

Every configuration that transformers maps to a causal language model is shrunk to four layers of
width 64 and drawn at random, saved beside the built-in tokenizer, and opened as an audit opens a
base. Ten texts of unlike lengths are scored in one batch, with and without a LoRA adapter on all
linear layers that PEFT saved. Right is what differs from plain transformers and PEFT, text by text,
by at most 1e-3 nats a token; a family that fedaudit refuses is listed with its line. FILE keeps a
line for each family: a run continues where another stopped. --table prints it as Markdown.
"""

import argparse
import json
import multiprocessing
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import FedauditError
from fedaudit.api.records import Target
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine

SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "model_dim", "embed_dim"), 64),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"), 4
    ),
    **dict.fromkeys(("encoder_layers", "num_encoder_layers", "num_decoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size"), 96),
    **dict.fromkeys(("decoder_ffn_dim", "encoder_ffn_dim", "dense_intermediate_size"), 96),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 48),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 128),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_dim", "rotary_dim", "v_head_dim"), 16),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_top_k"), 2),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim"), 16),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "n_shared_experts"), 1),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim"), 32),
    **dict.fromkeys(("state_size", "mamba_d_state", "ssm_state_size"), 16),
    **dict.fromkeys(("attn_layer_period", "expert_layer_period"), 2),
    **dict.fromkeys(("attn_layer_offset", "expert_layer_offset"), 1),
    "attn_layer_indices": [1, 3],
    "mamba_d_ssm": 128,
    "num_kv_shared_layers": 0,
    "axial_pos_shape": (8, 16),
    "axial_pos_embds_dim": (32, 32),
    "attention_types": [[["global", "local"], 2]],
    "hidden_size_per_layer_input": 16,
    "word_embed_proj_dim": 64,
    "embedding_size": 64,
    "sliding_window": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
"""What sizes are called, in transformers' configurations, and how large they become."""
MOST = 30_000_000
"""A model of more parameters was not made tiny by these names."""
SAME = 1e-3
"""In nats a token."""
SECONDS = 120
Row = dict[str, Any]


def families() -> Iterator[tuple[str, str]]:
    """Yield each model type with its class of causal language models."""
    for kind, classes in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.items()):
        yield kind, classes if isinstance(classes, str) else classes[0]


def build(kind: str, name: str, tokenizer: Any) -> Any:
    """Return a tiny model of random weights."""
    config_class = type(AutoConfig.for_model(kind))
    known = config_class().to_dict()
    tokens = {
        "vocab_size": len(tokenizer),
        "vocab_size_per_layer_input": len(tokenizer),
        "pad_token_id": 0,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "is_decoder": True,
        "use_cache": True,
    }
    wanted = {key: value for key, value in (SMALL | tokens).items() if key in known}
    if "kv_lora_rank" in known:  # multi-head latent attention has as many keys as queries
        wanted["num_key_value_heads"] = wanted["num_attention_heads"]
    config = config_class(**wanted)
    with torch.device("meta"):
        size = sum(p.numel() for p in getattr(transformers, name)(config).parameters())
    if size > MOST:
        raise ValueError(f"{size:,} parameters")
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).float().eval()
    for parameter in model.parameters():  # initial weights are so small that every token is alike
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    return model


def linear_layers(model: Any) -> list[str]:
    """Return the names of linear layers that PEFT adapts, without the output layer."""
    linear = {
        name.rsplit(".", 1)[-1]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
        and module is not model.get_output_embeddings()
    }
    barred = {"out_proj", "conv1d"} if "mamba" in model.config.model_type else set()
    return sorted(linear - barred)


def texts(tokenizer: Any) -> list[list[int]]:
    """Return ten texts of 3 to 21 tokens."""
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(5, len(tokenizer), (length,), generator=generator).tolist()
        for length in range(3, 23, 2)
    ]


def plain(model: Any, rows: list[list[int]]) -> list[list[float]]:
    """Return the log-probabilities of transformers' own forward pass, text by text."""
    found = []
    with torch.no_grad():
        for row in rows:
            logits = (
                model(torch.tensor([row]), use_cache=False).logits[0, :-1].double().log_softmax(-1)
            )
            found.append([float(logits[at, token]) for at, token in enumerate(row[1:])])
    return found


def farthest(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Return the largest difference in nats a token."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))


def measure(kind: str, name: str, tokenizer: Any) -> Row:
    """Return what came out for one family."""
    warnings.simplefilter("ignore")
    rows = texts(tokenizer)
    with tempfile.TemporaryDirectory() as place:
        folder, adapter = Path(place) / "base", Path(place) / "adapter"
        try:
            build(kind, name, tokenizer).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            model = getattr(transformers, name).from_pretrained(folder).float().eval()
            base = plain(model, rows)
        except Exception as error:  # whatever a family's own code raises
            return {"result": "not built", "why": _line(error)}
        try:
            config = LoraConfig(
                r=4,
                lora_alpha=8,
                target_modules=linear_layers(model),
                init_lora_weights=False,
                task_type="CAUSAL_LM",
            )
            tuned_model = get_peft_model(model, config)
            tuned_model.save_pretrained(str(adapter))
            tuned = plain(tuned_model, rows)
        except Exception as error:
            tuned, why = None, f"no adapter by PEFT: {_line(error)}"
        try:
            engine = LocalEngine(load_base(str(folder), device="cpu"))
            off = farthest(engine.score(Target(name="base"), rows), base)
            if tuned is None:
                return {"result": "right" if off < SAME else "wrong", "base": off, "why": why}
            target = Target(name="tuned", adapter=str(adapter))
            off_tuned = farthest(engine.score(target, rows), tuned)
        except FedauditError as error:
            return {"result": "refused", "why": _line(error).replace(place, "")}
    result = "right" if max(off, off_tuned) < SAME else "wrong"
    return {"result": result, "base": off, "adapter": off_tuned}


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _into(kind: str, name: str, tokenizer: Any, sender: Any) -> None:
    sender.send(measure(kind, name, tokenizer))


def apart(kind: str, name: str, tokenizer: Any) -> Row:
    """Return what came out, from a process of its own: a family may end it, or never answer."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_into, args=(kind, name, tokenizer, sender))
    child.start()
    sender.close()
    try:
        found: Row = receiver.recv() if receiver.poll(SECONDS) else {"result": "not built"}
    except EOFError:
        found = {"result": "not built", "why": "its process ended"}
    child.kill()
    child.join()
    return found or {"result": "not built", "why": f"no answer in {SECONDS} s"}


def table(rows: list[Row]) -> str:
    """Return the families by result, as Markdown."""
    counts = Counter(row["result"] for row in rows)
    lines = ["| result | families | which |", "| --- | --: | --- |"]
    for result in ("right", "wrong", "refused", "not built"):
        of = sorted(row["family"] for row in rows if row["result"] == result)
        lines.append(f"| {result} | {counts[result]} | {', '.join(f'`{one}`' for one in of)} |")
    lines += ["", "| refused | why |", "| --- | --- |"]
    lines += [f"| `{row['family']}` | {row['why']} |" for row in rows if row["result"] == "refused"]
    return "\n".join(lines)


def main() -> None:
    """Measure the families that FILE lacks, and print a line for each, or the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    lines = given.out.read_text("utf-8").splitlines() if given.out.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {row["family"] for row in rows}
    torch.set_num_threads(1)
    tokenizer = load_base("fedaudit-nano", device="cpu").tokenizer
    for kind, name in () if given.table else families():
        if kind in done or (given.only and kind not in given.only):
            continue
        row = {"family": kind, **apart(kind, name, tokenizer)}
        rows.append(row)
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
