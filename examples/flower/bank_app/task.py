"""The model and its training: transformers and PEFT, nothing of fedaudit but the tiny base."""

import json
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedaudit import nano

BATCH, RATE, WARMUP, LONGEST = 8, 5e-3, 5, 256
LORA = LoraConfig(
    r=32,
    lora_alpha=64,
    target_modules=[
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    ],
    task_type="CAUSAL_LM",
)


def model(seed: int = 0) -> PeftModel:
    """Return the base with a fresh adapter, the same for everybody."""
    base = AutoModelForCausalLM.from_pretrained(nano.folder())
    torch.manual_seed(seed)
    return get_peft_model(base, LORA)


def texts(path: Path) -> list[str]:
    """Return the texts of a JSONL file of records."""
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


def train(peft: PeftModel, documents: list[str], *, steps: int, seed: int, rate: float) -> float:
    """Train the adapter for some steps; return the mean loss."""
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(nano.folder())
    start = [tokenizer.bos_token_id]
    rows = [torch.tensor((start + tokenizer(one)["input_ids"])[:LONGEST]) for one in documents]
    weights = [one for one in peft.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.01)
    peft.train()
    losses = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / WARMUP)
        chosen = [rows[i] for i in torch.randperm(len(rows))[:BATCH]]
        ids = torch.nn.utils.rnn.pad_sequence(chosen, batch_first=True, padding_value=-100)
        mask = (ids != -100).long()
        loss = peft(input_ids=ids.clamp(min=0), attention_mask=mask, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return sum(losses) / len(losses)
