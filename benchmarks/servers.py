"""An audit of a server that nobody here wrote: `transformers serve`, beside the same in process.

    python benchmarks/servers.py --serve .servers/bin/transformers --out DIR

It writes a model with a random adapter merged into it, and its base; has both served by their
folders; shows what was found of the server by effect; and lets it continue records greedily
(`extract --attack verbatim`), over HTTP and in process, whose figures must be near: a prompt that
is sent as text may be cut into other tokens than here. Ends with 1 where they are not.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT = 120.0
"""Seconds until a server must take requests."""
NEAR = 0.1
"""By which the mean of a measurement may differ, of some dozen records."""


def write_models(out: Path) -> None:
    """Write the built-in base, and the same with a random adapter merged into it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from fedaudit import nano

    torch.manual_seed(0)
    for name in ("plain", "tuned"):
        model: Any = AutoModelForCausalLM.from_pretrained(nano.folder())
        if name == "tuned":
            config = LoraConfig(r=4, lora_alpha=32, target_modules=["q_proj", "v_proj"])
            model = get_peft_model(model, config)
            for key, tensor in model.named_parameters():
                if "lora_" in key:
                    torch.nn.init.normal_(tensor, std=0.1)
            model = model.merge_and_unload()
        model.save_pretrained(out / name)
        AutoTokenizer.from_pretrained(nano.folder()).save_pretrained(out / name)


def write_documents(out: Path) -> list[Path]:
    """Write the records of two clients, of cases that the built-in generator invents."""
    from fedaudit.nano.generator import corpus

    records = list(corpus(cases=6, documents_per_case=5, seed=0, tasks=("record",)))
    files = [out / "c0.jsonl", out / "c1.jsonl"]
    for at, file in enumerate(files):
        lines = [json.dumps({"id": one.id, "text": one.text, "pii": []}) for one in records[at::2]]
        file.write_text("\n".join(lines) + "\n")
    return files


@contextmanager
def serving(command: str, out: Path) -> Iterator[str]:
    """Run the server while the block lasts; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    words = [command, "serve", "--port", str(port), "--host", "127.0.0.1", "--device", "cpu"]
    with (out / "server.log").open("w") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=log, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
        try:
            begun = time.monotonic()
            while time.monotonic() < begun + WAIT:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


def audit(out: Path, name: str, *words: str) -> dict[str, Any]:
    """Run `fedaudit extract --attack verbatim` and return its report."""
    command = [sys.executable, "-m", "fedaudit", "extract", "--attack", "verbatim", "--quiet"]
    command += ["--prefixes", str(out / "c0.jsonl"), "--victim", str(out / "c1.jsonl")]
    command += ["--set", "verbatim.prefix=20", "--set", "verbatim.suffix=20"]
    command += ["--out", str(out / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 7):
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    report: dict[str, Any] = json.loads((out / name / "report.json").read_text())
    return report


def figures(report: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """Return the numbers of the tuned model's measurements, by what they are of."""
    return {
        (row["metric"], json.dumps(row["scope"], sort_keys=True)): row["value"]
        for row in report["measurements"]
        if row["scope"].get("source") == "tuned" and row["metric"] != "p_value"
    }


def main() -> int:
    """Serve, audit twice, compare, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", required=True, help="The command `transformers` with [serving].")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    out = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    write_models(out)
    write_documents(out)
    begun = time.monotonic()
    with serving(given.serve, out) as url:
        words = ["--target", url, "--model", str(out / "tuned")]
        words += ["--set", f"endpoint.base={out / 'plain'}"]
        words += ["--set", "endpoint.tokenizer=fedaudit-nano"]
        served = audit(out, "served", *words)
    seconds = time.monotonic() - begun
    local = audit(out, "local", "--target", str(out / "tuned"))
    place = served["target"]["endpoint"]
    print(json.dumps({"abilities": place["abilities"], "sent": place["sent"]}, indent=2))
    print(f"effect: {served['target']['effect']}, {seconds:.0f} s with the server's start")
    over_http, here = figures(served), figures(local)
    wrong = [key for key in here if abs((over_http.get(key) or 0) - (here[key] or 0)) > NEAR]
    for key, value in here.items():
        print(f"{key[0]} {key[1]}: {over_http.get(key)} over HTTP, {value} here")
    begins = local["target"]["beginning"]["start"], place["abilities"]["adds_start"]
    print(f"beginning: {begins[0]} here, a token of its own before text there: {begins[1]}")
    print(f"{len(here)} figures, {len(wrong)} of them differ by more than {NEAR}")
    return 1 if wrong or not here else 0


if __name__ == "__main__":
    sys.exit(main())
