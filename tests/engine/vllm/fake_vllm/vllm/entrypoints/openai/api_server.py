"""What `python -m vllm.entrypoints.openai.api_server` would be, around a model that takes no time.

FAKE_VLLM is a file of JSON with the address of that model, a server in the test's own process, and
how this one fails; commands and loaded adapters are added to a file beside it.
"""

import argparse
import json
import math
import os
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from chat_server import Server


def main():
    orders = Path(os.environ["FAKE_VLLM"])
    how = json.loads(orders.read_text())
    if problem := how.get("does_not_start"):
        sys.exit(problem)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("model", "served-model-name", "host", "dtype", "load-format", "generation-config"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "seed", "tensor-parallel-size", "max-loras", "max-lora-rank"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--max-cpu-loras", type=int)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--enable-lora", action="store_true")
    parser.add_argument("--no-enable-chunked-prefill", action="store_true")
    parser.add_argument("--lora-target-modules", nargs="+", required=True)
    given = parser.parse_args()
    diary = orders.with_name("diary.jsonl")

    def note(**row):
        with diary.open("a") as file:
            file.write(json.dumps(row) + "\n")

    note(**vars(given), pid=os.getpid(), cwd=os.getcwd())
    models, counted = {given.served_model_name: "plain"}, [0]

    def reply(request):
        if request["headers"].get("Authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            return 401, {}, "{}"
        body = request["body"]
        if request["path"] == "/v1/load_lora_adapter":
            folder = Path(body["lora_path"])
            config = json.loads((folder / "adapter_config.json").read_text())
            if config["r"] > given.max_lora_rank or "refuses" in how:
                return 400, {}, '{"error": "rank"}'
            models[body["lora_name"]] = "plain" if how.get("serves_base") else "tuned"
            note(loaded=body["lora_name"], rank=config["r"], files=len(list(folder.iterdir())))
            return 200, {}, '"Success"'
        if request["path"] == "/v1/completions":
            counted[0] += 1
            note(asked=body["model"], n=body.get("n", 1))
            if counted[0] >= how.get("dies_after", math.inf):  # others may be counting beside it
                # Another thread may end the process while this one writes.
                new_orders = orders.with_suffix(f".{threading.get_ident()}")
                new_orders.write_text(json.dumps({"model": how["model"]}))
                new_orders.replace(orders)
                print("RuntimeError: einsum", flush=True)
                os._exit(9)
            if how.get("scores_base") and body["model"] in models and "echo" in body:
                body["model"] = given.served_model_name
            if body["model"] in models:
                return asked(
                    how["model"], request["path"], {**body, "model": models[body["model"]]}
                )
        if request["path"] == "/v1/models":
            rows = [{"id": name, "max_model_len": 1024} for name in models]
            return 200, {}, json.dumps({"data": rows})
        return 404, {}, '{"error": "no such model"}'

    server = Server(reply, given.port)
    with server.running():
        sys.stdin.read()
        while True:
            __import__("time").sleep(3600)


def asked(url, path, body):
    """Return what the server of the model replies."""
    request = Request(url.removesuffix("/v1") + path, json.dumps(body).encode())
    try:
        with urlopen(request) as response:
            return response.status, {}, response.read().decode()
    except HTTPError as error:
        with error:
            return error.code, {}, error.read().decode()


main()
