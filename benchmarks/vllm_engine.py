"""`--engine vllm` against the local engine: the same audit, the same law of draws, and the times.

    python benchmarks/vllm_engine.py --python .vllm/bin/python --out DIR [--federation FOLDER]

1. A federation of the profile fed_pii (simulated, unless a folder is named) is audited by both:
   `extract` with two attacks and `memorize`; each share must lie in the other's interval.
2. The same prompts are continued often by both, and what comes first is compared by a chi-square
   test for each prompt; among that many p-values the smallest must not be small (Bonferroni, 1 %).
   Scores of texts must be equal to rounding.
3. The server is killed in the middle of an audit: with --resume the report is as it would be.
4. On a Llama of 110 million random weights: the seconds of 16 prompts of 50 tokens with 15 samples
   of 10 tokens, in turn, and their ratio. vLLM is loaded already.

Ends with 1 where something differs.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

SAMPLES, LENGTH = 400, 3
"""Continuations of each prompt for the chi-square test, and their tokens."""
LEAST = 5.0
"""The fewest that must be expected of a kind; rarer ones are counted together."""
REPEATS = 5
CACHE_BYTES = 60_000
"""Of the cache of answers when the server is killed: some batches are answered."""
RECORDS = 30
"""Of each client in the audits: on a CPU vLLM takes some twenty times as long as our engine."""
PARTS = ("audits", "law", "killed", "times")
FEDAUDIT = (sys.executable, "-m", "fedaudit")


def run(*words: str, ok: tuple[int, ...] = (0, 1, 7)) -> float:
    """Run a command of fedaudit; return its seconds."""
    begun = time.monotonic()
    done = subprocess.run([*FEDAUDIT, *words], capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return time.monotonic() - begun


def extraction(federation: Path, out: Path) -> list[str]:
    """Return the words of an audit of some records of two clients."""
    words = ["extract", "--target", str(federation), "--quiet"]
    for name, option in (("c0", "--prefixes"), ("c1", "--victim")):
        lines = (federation / f"data/{name}.jsonl").read_text().splitlines()[:RECORDS]
        (out / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        words += [option, str(out / f"{name}.jsonl")]
    return [*words, "--attack", "contextual", "--attack", "verbatim"]


def audits(federation: Path, out: Path, vllm: list[str]) -> int:
    """Audit with both engines; print what differs, and return how much."""
    extract = extraction(federation, out)
    memorize = ["memorize", str(federation), "--sample", "10", "--quiet"]
    wrong = 0
    for name, words in (("extract", extract), ("memorize", memorize)):
        seconds = [
            run(*words, "--out", str(out / f"{name}-{kind}"), *more)
            for kind, more in (("local", []), ("vllm", vllm))
        ]
        here, there = (
            json.loads((out / f"{name}-{kind}/report.json").read_text())
            for kind in ("local", "vllm")
        )
        wrong += compared(name, here, there)
        print(f"{name}: {seconds[0]:.0f} s here, {seconds[1]:.0f} s by vLLM with its start")
        print(f"  verdicts: {here['verdict']['status']} and {there['verdict']['status']}")
    return wrong


def compared(name: str, here: dict[str, Any], there: dict[str, Any]) -> int:
    """Print how two reports compare; return how many shares lie outside of the other's interval."""
    tables = [
        {
            (row["plugin"], row["metric"], json.dumps(row["scope"], sort_keys=True)): row
            for row in report["measurements"]
        }
        for report in (here, there)
    ]
    rows = [
        (key, one, tables[1].get(key))
        for key, one in tables[0].items()
        if one["low"] is not None and one["metric"] not in ("seconds", "overhead")
    ]
    outside = []
    for key, one, other in rows:
        if other is None or other["value"] is None:
            outside.append((key, one["value"], None))
            continue
        if one["low"] > other["high"] or other["low"] > one["high"]:
            outside.append((key, one["value"], other["value"]))
    equal = sum(other is not None and one["value"] == other["value"] for _, one, other in rows)
    print(f"{name}: {len(rows)} rows with intervals, {equal} equal, {len(outside)} apart")
    for row in outside:
        print("  apart:", *row)
    return len(outside)


def law(federation: Path, python: str) -> int:
    """Compare draws and scores of both engines; return how many comparisons fail."""
    from scipy.stats import chi2_contingency

    from fedaudit.api.engine import GenerationBatch
    from fedaudit.api.records import GenerationRequest, SamplingParams, Target

    local, served = engines("fedaudit-nano", python)
    adapter = sorted((federation / "rounds").glob("*/global"))[-1]
    target = Target(name="tuned", adapter=str(adapter))
    lines = (federation / "data/c0.jsonl").read_text().splitlines()[:24]
    texts = [json.loads(line) for line in lines]
    prompts = [
        tokens.ids[:12]
        for tokens in local.tokenize([one.get("text") or one["instruction"] for one in texts])
    ]
    failed = 0
    for how in (
        SamplingParams(),
        SamplingParams(top_k=5, temperature=0.7),
        SamplingParams(top_p=0.9),
    ):
        requests = [
            GenerationRequest(prompt=prompt, samples=SAMPLES, max_new_tokens=LENGTH)
            for prompt in prompts
        ]
        batch = GenerationBatch(requests, seed=1, decoding=how)
        drawn = [engine.generate(target, batch) for engine in (local, served)]
        p_values = []
        for mine, theirs in zip(*drawn, strict=True):
            table = contingency(Counter(mine.texts), Counter(theirs.texts))
            if len(table[0]) > 1:
                p_values.append(float(chi2_contingency(table).pvalue))
        least = min(min(p_values) * len(p_values), 1.0)
        failed += least < 0.01
        print(f"draws, {how}: {len(p_values)} prompts, smallest p {min(p_values):.3f}, "
              f"adjusted {least:.2f}, median {statistics.median(p_values):.2f}")  # fmt: skip
    rows = [tokens.ids[:200] for tokens in local.tokenize([json.dumps(one) for one in texts])]
    for asked in (target, Target(name="base")):
        here, there = (engine.score(asked, rows) for engine in (local, served))
        most = max(
            abs(a - b) for x, y in zip(here, there, strict=True) for a, b in zip(x, y, strict=True)
        )
        print(
            f"scores, {asked.name}: {sum(map(len, here)):,} tokens, at most {most:.1e} nats apart"
        )
        failed += most > 1e-3
    served.close()
    return failed


def contingency(one: Counter[str], other: Counter[str]) -> list[list[int]]:
    """Return counts of kinds by engine, with rare kinds together."""
    both = one + other
    kinds = [kind for kind, count in both.items() if count / 2 >= LEAST]
    rest = [
        sum(count for kind, count in table.items() if kind not in kinds) for table in (one, other)
    ]
    rows = [[table[kind] for kind in kinds] for table in (one, other)]
    if sum(rest) / 2 >= LEAST:
        rows = [[*row, more] for row, more in zip(rows, rest, strict=True)]
    return rows


def engines(base: str, python: str) -> tuple[Any, Any]:
    """Return the local engine and one that has started vLLM, in float32."""
    from fedaudit.engine import factory
    from fedaudit.engine.parallel.protocol import EngineConfig
    from fedaudit.engine.vllm.options import VllmOptions

    config = EngineConfig(base=base, device="auto", dtype="float32", template=None, batch_size=0)
    local, _ = factory.make_engine(config, "local")
    served, _ = factory.make_engine(config, "vllm", VllmOptions(python=python))
    return local, served


def killed(federation: Path, out: Path, vllm: list[str]) -> int:
    """Kill the server in the middle of an audit, resume it, and compare with the first one."""
    words = [*extraction(federation, out), "--out", str(out / "killed"), *vllm]
    audit = subprocess.Popen(
        [*FEDAUDIT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    place, begun = out / "killed", time.monotonic()
    while audit.poll() is None and time.monotonic() - begun < 600:
        files = list(place.rglob("answers.sqlite*"))
        if sum(path.stat().st_size for path in files if path.is_file()) > CACHE_BYTES:
            break
        time.sleep(0.2)
    servers = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"vllm.entrypoints.openai.api_server" in path.read_bytes()
        and b"supervisor" not in path.read_bytes()
    ]
    for server in servers:
        os.kill(server, signal.SIGKILL)
    _, said = audit.communicate(timeout=120)
    print(f"killed: exit code {audit.returncode}: {' '.join(said.split())}")
    run(*words, "--resume")
    first, again = (
        json.loads((out / name / "report.json").read_text()) for name in ("extract-vllm", "killed")
    )
    values = [
        [(row["metric"], row["scope"], row["value"]) for row in one["measurements"]
         if row["metric"] != "seconds"]
        for one in (first, again)
    ]  # fmt: skip
    same = values[0] == values[1]
    print(f"killed and resumed: {len(values[1])} measurements, {'as' if same else 'not as'} before")
    return int(audit.returncode != 6 or not same)


def times(out: Path, python: str) -> None:
    """Print the seconds of both engines on the same prompts, in turn, and their ratio."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from fedaudit import nano
    from fedaudit.api.engine import GenerationBatch
    from fedaudit.api.records import GenerationRequest, Target

    torch.manual_seed(0)
    folder = out / "llama-110m"
    if not folder.exists():
        config = LlamaConfig(
            vocab_size=4096, hidden_size=768, intermediate_size=2560, num_hidden_layers=12,
            num_attention_heads=12, num_key_value_heads=12, max_position_embeddings=1024,
            bos_token_id=1, eos_token_id=2, pad_token_id=0,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(folder)
        AutoTokenizer.from_pretrained(nano.folder()).save_pretrained(folder)
    local, served = engines(str(folder), python)
    generator = torch.Generator().manual_seed(0)
    prompts = torch.randint(5, 4096, (16, 50), generator=generator).tolist()
    found: dict[str, list[float]] = {"here": [], "vLLM": []}
    for repeat in range(REPEATS + 1):
        for name, engine in (("here", local), ("vLLM", served)):
            requests = [
                GenerationRequest(prompt=tuple(prompt), samples=15, max_new_tokens=10)
                for prompt in prompts
            ]
            begun = time.perf_counter()
            engine.generate(Target(name="base"), GenerationBatch(requests, seed=repeat))
            if repeat:  # the first round warms both up
                found[name].append(time.perf_counter() - begun)
    served.close()
    ratios = sorted(b / a for a, b in zip(found["here"], found["vLLM"], strict=True))
    medians = {name: statistics.median(values) for name, values in found.items()}
    print(f"110M Llama, float32, 16 prompts x 15 samples of 10: {medians['here']:.2f} s here, "
          f"{medians['vLLM']:.2f} s by vLLM; vLLM takes {statistics.median(ratios):.2f} times as "
          f"long ({ratios[0]:.2f} to {ratios[-1]:.2f}, n = {len(ratios)})")  # fmt: skip


def main() -> int:
    """Run all four parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", required=True, help="the Python that has vLLM")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--federation", type=Path, help="one that is there already")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to do")
    given = parser.parse_args()
    out, python = given.out.absolute(), str(Path(given.python).absolute())
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB; by default half of the memory
    federation = given.federation or out / "federation"
    if not federation.exists():
        run("simulate", "--profile", "fed_pii", "--out", str(federation), "--quiet")
    vllm = ["--engine", "vllm", "--set", f"vllm.python={python}"]
    wrong = 0
    if "audits" in given.parts:
        wrong += audits(federation, out, vllm)
    if "law" in given.parts:
        wrong += law(federation, python)
    if "killed" in given.parts:  # compared with the audit of the first part
        wrong += killed(federation, out, vllm)
    if "times" in given.parts:
        times(out, python)
    print(f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
