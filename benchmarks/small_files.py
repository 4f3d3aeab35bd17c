"""What an audit does with each edit of a small file of a base or adapter, weights unchanged.

    python benchmarks/small_files.py RUN

RUN is a federation on the built-in model, such as of `fedaudit simulate --profile fed_pii`. For
each edit a row says whether SHA-256s (the manifest's) differ, how many of 24 greedy answers change,
and whether the edit is refused, bars a pass, is named as a limit, or goes through.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit import nano
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.errors import FedauditError
from fedaudit.api.records import Document, GenerationRequest, SamplingParams, Target
from fedaudit.audit import preflight
from fedaudit.engine.loading import checkpoint, loader
from fedaudit.engine.local import LocalEngine
from fedaudit.federation import adapters

PROMPTS, TOKENS, NEW_TOKENS = 24, 24, 24
CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer.json"
SETTINGS, SPECIAL, ADAPTER = "tokenizer_config.json", "special_tokens_map.json", adapters.CONFIG
Edit = Callable[[dict[str, Any]], None]


def update(**values: Any) -> Edit:
    """Return an edit that sets keys."""
    return lambda table: table.update(values)


def scaled(factor: float) -> Edit:
    """Return an edit that multiplies an adapter's lora_alpha."""
    return lambda table: table.update(lora_alpha=table["lora_alpha"] * factor)


def rope(**values: Any) -> Edit:
    """Return an edit of the rotary positions."""
    return lambda table: table["rope_parameters"].update(values)


def step(part: str, added: Mapping[str, Any]) -> Edit:
    """Return an edit that adds a step at the end of a tokenizer's normalizer or decoder."""

    def edit(table: dict[str, Any]) -> None:
        steps = [added] if table.get(part) is None else [table[part], added]
        table[part] = {"type": "Sequence", f"{part}s": steps}

    return edit


def replace(pattern: str, content: str) -> Mapping[str, Any]:
    """Return a step that replaces a regular expression."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def special(chosen: Callable[[str], bool]) -> Edit:
    """Return an edit that makes tokens special, so that decoding leaves them out."""

    def edit(table: dict[str, Any]) -> None:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for token, number in table["model"]["vocab"].items():
            if chosen(token.lstrip("\u2581\u0120")):
                row = {"id": number, "content": token, "special": True, **flags}
                table["added_tokens"].append(row)

    return edit


def other_architecture(name: str, **values: Any) -> Edit:
    """Return an edit that has the weights read as another architecture's."""
    return update(model_type=name.lower(), architectures=[f"{name}ForCausalLM"], **values)


GRANITE = {"embedding_multiplier": 1.0, "residual_multiplier": 1.0}
EDITS: Sequence[tuple[str, str, Edit]] = (
    *((CONFIG, f"`rope_theta` {t:,.0f}", rope(rope_theta=t)) for t in (1, 100, 3e4, 1e5, 1e6)),
    *((CONFIG, f"`rope_type` linear, factor {f:g}", rope(rope_type="linear", factor=f))
      for f in (1.5, 8.0)),
    *((CONFIG, f"`rms_norm_eps` {e:g}", update(rms_norm_eps=e)) for e in (0.01, 1.0)),
    *((CONFIG, f"`hidden_act` {a}", update(hidden_act=a)) for a in ("gelu", "relu", "sigmoid")),
    (CONFIG, "`attention_dropout` 0.9", update(attention_dropout=0.9)),
    (CONFIG, "`attention_bias` true", update(attention_bias=True)),
    (CONFIG, "`tie_word_embeddings` false", update(tie_word_embeddings=False)),
    *((CONFIG, f"`max_position_embeddings` {n}", update(max_position_embeddings=n))
      for n in (16, 64)),
    (CONFIG, "`head_dim` halved", update(head_dim=16)),
    (CONFIG, "`num_hidden_layers` one less", update(num_hidden_layers=3)),
    *((CONFIG, f"Mistral, `sliding_window` {n}", other_architecture("Mistral", sliding_window=n))
      for n in (4, 32)),
    (CONFIG, "Granite, `attention_multiplier` 0.01",
     other_architecture("Granite", attention_multiplier=0.01, logits_scaling=1.0, **GRANITE)),
    (CONFIG, "Granite, `logits_scaling` 8",
     other_architecture("Granite", attention_multiplier=32**-0.5, logits_scaling=8.0, **GRANITE)),
    (CONFIG, "Gemma2 (softcaps)", other_architecture("Gemma2")),
    (CONFIG, "`eos_token_id` with two words", update(eos_token_id=[2, 300, 301])),
    (GENERATION, "`eos_token_id` with two words", update(eos_token_id=[2, 300, 301])),
    (GENERATION, "`eos_token_id` of 897 tokens", update(eos_token_id=list(range(3, 900)))),
    (GENERATION, "`eos_token_id` of three special tokens", update(eos_token_id=[2, 0, 1])),
    (GENERATION, "`eos_token_id` null", update(eos_token_id=None)),
    (GENERATION, "`max_length` 3, `repetition_penalty` 9, `suppress_tokens`",
     update(max_length=3, repetition_penalty=9.0, suppress_tokens=list(range(3, 900)))),
    (TOKENIZER, "decoder masks `[0-9A-Z]`", step("decoder", replace("[0-9A-Z]", "*"))),
    (TOKENIZER, "decoder drops 7", step("decoder", replace("7", ""))),
    (TOKENIZER, "decoder turns a into b", step("decoder", replace("a", "b"))),
    (TOKENIZER, "decoder masks `[@.]`", step("decoder", replace("[@.]", "*"))),
    (TOKENIZER, "decoder drops blanks", step("decoder", replace(" ", ""))),
    (TOKENIZER, "normalizer drops digits", step("normalizer", replace("[0-9]", ""))),
    (TOKENIZER, "normalizer lowercases", step("normalizer", {"type": "Lowercase"})),
    (TOKENIZER, "normalizer NFKC", step("normalizer", {"type": "NFKC"})),
    (TOKENIZER, "`pre_tokenizer` null", update(pre_tokenizer=None)),
    (TOKENIZER, "`post_processor` null", update(post_processor=None)),
    (TOKENIZER, "`added_tokens`: capitals are special", special(lambda t: t[:1].isupper())),
    (TOKENIZER, "`added_tokens`: digits are special", special(str.isdigit)),
    (TOKENIZER, "`truncation` to 5", update(
        truncation={"direction": "Right", "max_length": 5, "strategy": "LongestFirst",
                    "stride": 0})),
    *((name, "`eos_token` a word", update(eos_token="the")) for name in (SETTINGS, SPECIAL)),
    *((name, "`additional_special_tokens` of words", update(additional_special_tokens=["born"]))
      for name in (SETTINGS, SPECIAL)),
    (SETTINGS, "`bos_token` null", update(bos_token=None)),
    (SETTINGS, "`model_max_length` 8", update(model_max_length=8)),
    (SETTINGS, "`chat_template`", update(chat_template="x")),
    *((ADAPTER, f"`lora_alpha` times {f:g}", scaled(f))
      for f in (2, 1.5, 1.25, 0.75, 0.5, 0.25, 0)),
    (ADAPTER, "`use_rslora` true", update(use_rslora=True)),
    (ADAPTER, "`use_dora` true", update(use_dora=True)),
    (ADAPTER, "`r` 64, not 32", update(r=64)),
    (ADAPTER, "`rank_pattern`", update(rank_pattern={"q_proj": 1})),
    (ADAPTER, "`alpha_pattern`: one layer times 4",
     update(alpha_pattern={"layers.0.self_attn.q_proj": 256})),
    (ADAPTER, "`target_modules` fewer", update(target_modules=["q_proj"])),
    (ADAPTER, "`layers_to_transform` [0]", update(layers_to_transform=[0])),
    (ADAPTER, "`exclude_modules`", update(exclude_modules=["q_proj"])),
    (ADAPTER, "`modules_to_save`", update(modules_to_save=["lm_head"])),
    (ADAPTER, "`init_lora_weights` pissa", update(init_lora_weights="pissa")),
    (ADAPTER, "`lora_dropout` 0.9", update(lora_dropout=0.9)),
    (ADAPTER, "`fan_in_fan_out` true", update(fan_in_fan_out=True)),
)  # fmt: skip


def answers(engine: LocalEngine, adapter: Path, documents: Sequence[Document]) -> list[str]:
    """Return greedy answers to the first tokens of some documents."""
    rows = engine.tokenize([document.text for document in documents[:PROMPTS]])
    requests = [
        GenerationRequest(prompt=row.ids[:TOKENS], samples=1, max_new_tokens=NEW_TOKENS)
        for row in rows
    ]
    batch = GenerationBatch(requests, seed=0, decoding=SamplingParams(temperature=0))
    tuned = Target(name="tuned", adapter=str(adapter))
    return [completion.texts[0] for completion in engine.generate(tuned, batch)]


def outcome(base: Path, adapter: Path, documents: Sequence[Document]) -> tuple[list[str], str]:
    """Return a model's answers (none if it is refused), and what an audit does with it."""
    tuned = Target(name="tuned", adapter=str(adapter))
    try:
        engine = LocalEngine(loader.load_base(str(base)))
        effect = preflight.measure_effect(engine, tuned, Target(name="base"), documents)
        said = answers(engine, adapter, documents)
    except FedauditError:
        return [], "refused"
    barred = [f"`{row.metric}` {row.value:.2g}" for row in preflight.instrument_rows(effect)]
    named = ["named"] * bool(checkpoint.end_token_caveats(base))
    return said, ", ".join([*named, *(f"bars: {text}" for text in barred)]) or "goes through"


def lines(run: Path) -> Iterator[str]:
    """Yield the table, line by line."""
    trained = max((run / "rounds").iterdir()) / "global"
    records = (run / "data/c0.jsonl").read_text("utf-8").splitlines()
    documents = [Document(id=str(i), text=json.loads(r)["text"]) for i, r in enumerate(records)]
    unchanged, _ = outcome(nano.folder(), trained, documents)
    yield "| file | edit | SHA-256 | answers changed | outcome |"
    yield "| --- | --- | --- | --- | --- |"
    for name, title, edit in EDITS:
        with tempfile.TemporaryDirectory() as temporary:
            base, adapter = Path(temporary) / "base", Path(temporary) / "adapter"
            shutil.copytree(nano.folder(), base)
            shutil.copytree(trained, adapter)
            path = (adapter if name == ADAPTER else base) / name
            path.parent.chmod(0o755)
            table = json.loads(path.read_text("utf-8")) if path.exists() else {}
            edit(table)
            path.unlink(missing_ok=True)
            path.write_text(json.dumps(table), "utf-8")
            same = checkpoint.fingerprint(base) == checkpoint.fingerprint(
                nano.folder()
            ) and adapters.fingerprint(adapter) == adapters.fingerprint(trained)
            said, result = outcome(base, adapter, documents)
        changed = sum(a != b for a, b in zip(said, unchanged, strict=True)) if said else "-"
        yield f"| `{name}` | {title} | {'same' if same else 'differs'} | {changed} | {result} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, metavar="RUN")
    for line in lines(parser.parse_args().run):
        print(line, flush=True)
