"""A Flower app with PEFT and Trainer clients, for `flower_training.py`.

    python benchmarks/flower_app.py FEDERATION OUT STEPS BATCH

It trains the clients of a folder that `fedaudit simulate` left again, on the same batches.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fedaudit.api.templates import template
from fedaudit.data import corpus
from fedaudit.federation import adapters


def client_batches(
    federation: Path, client: str, number: int, steps: int, size: int
) -> Iterator[Sequence[int]]:
    """Yield the token sequences that fedaudit trains a client on in a round, in order."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.simulation.client.trainer import draw_batches
    from fedaudit.simulation.config import Training
    from fedaudit.simulation.data.datasets import training_sequences
    from fedaudit.simulation.rounds import seed_of

    manifest = json.loads((federation / "federation.json").read_text())
    base = load_base("fedaudit-nano", device="cpu", dtype="float32")
    form = template(manifest["template"]["name"])
    documents = list(corpus.read(federation / "data" / f"{client}.jsonl", form))
    training = Training(steps=steps, batch_size=size, max_length=128, learned="text")
    sequences = training_sequences(training, base, documents)
    seed = seed_of(manifest["seeds"]["simulation"], number, client)
    for batch in islice(draw_batches(sequences, size, seed), steps):
        yield from batch


def run(federation: Path, out: Path, steps: int, size: int) -> None:
    """Run the Flower app: as many rounds as `federation` has, one client at a time."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    manifest = json.loads((federation / "federation.json").read_text())
    examples = {client["id"]: client["examples"] for client in manifest["clients"]}
    first = federation / manifest["rounds"][0]["adapter"]
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def fit(message: Message, context: Context) -> Message:
        client = f"c{context.node_config['partition-id']}"
        number = int(message.content["config"]["server-round"])
        rows = list(client_batches(federation, client, number, steps, size))
        state = message.content["arrays"].to_torch_state_dict()
        loss, tensors = fine_tune(first, state, rows, steps, size)
        metrics = MetricRecord({"num-examples": examples[client], "train_loss": loss})
        content = RecordDict({"arrays": ArrayRecord(tensors), "metrics": metrics})
        return Message(content, reply_to=message)

    @server_app.main()
    def serve(grid: Grid, _context: Context) -> None:
        result = FedAvg(fraction_evaluate=0.0, min_available_nodes=len(examples)).start(
            grid=grid,
            initial_arrays=ArrayRecord(adapters.read(first)),
            num_rounds=len(manifest["rounds"]) - 1,
        )
        out.mkdir(parents=True, exist_ok=True)
        adapters.write(result.arrays.to_torch_state_dict(), adapters.check(first), out)
        losses = [metrics["train_loss"] for metrics in result.train_metrics_clientapp.values()]
        (out / "losses.json").write_text(json.dumps(losses))

    ray = {"num_cpus": 1, "include_dashboard": False, "log_to_driver": False}
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=len(examples),
        backend_config={"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )


def fine_tune(
    first: Path, state: Any, rows: list[Sequence[int]], steps: int, size: int
) -> tuple[float, Any]:
    """Tune the adapter `state` with PEFT and the Trainer; return the mean loss and the tensors."""
    import torch
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from peft import set_peft_model_state_dict as load_state
    from training import InOrder
    from transformers import AutoModelForCausalLM, TrainingArguments

    from fedaudit import nano
    from fedaudit.simulation.client.trainer import pad_batch

    torch.set_num_threads(1)
    base = AutoModelForCausalLM.from_pretrained(nano.folder(), dtype=torch.float32)
    lora = LoraConfig.from_pretrained(str(first))
    lora.inference_mode = False
    model = get_peft_model(base, lora)
    load_state(model, state)
    arguments = TrainingArguments(
        output_dir=str(first.parent / "trainer"), max_steps=steps, use_cpu=True,
        per_device_train_batch_size=size, learning_rate=1e-3, lr_scheduler_type="linear",
        weight_decay=0.0, max_grad_norm=1.0, save_strategy="no", report_to=[],
        disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    trainer = InOrder(
        model=model,
        args=arguments,
        train_dataset=[{"input_ids": row} for row in rows],
        data_collator=lambda some: pad_batch([one["input_ids"] for one in some], "cpu"),
    )
    return trainer.train().training_loss, get_peft_model_state_dict(model)


if __name__ == "__main__":
    import flower_app  # by its name, so that Ray's workers import the app and unpickle none of it

    flower_app.run(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
