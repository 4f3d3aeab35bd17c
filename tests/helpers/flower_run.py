"""Flower's strategies over a grid in this process: clients answer at once, none of them trains."""

import numpy as np
import pytest
import torch

from fedaudit.federation import adapters
from fedaudit.flower.mods import name_mod

A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"
LORA = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "fedaudit-nano",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj"],
    "layers_to_transform": [0],
}
SHAPES = {A: (2, 160), B: (160, 2)}


def initial(seed=0):
    draw = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=draw) / 8 for name, shape in SHAPES.items()}


class Array:
    """An array as Flower's records hold it."""

    def __init__(self, tensor):
        self.tensor = torch.as_tensor(tensor)

    def numpy(self):
        return self.tensor.numpy()


def arrays(tensors):
    return {name: Array(tensor) for name, tensor in tensors.items()}


class Grid:
    """Nodes of which the k-th, from 0, adds k + 1 to what it gets."""

    def __init__(self, examples=(1, 3, 4), *, named=True, fails=lambda round_, node: False):
        self.examples, self.named, self.fails = examples, named, fails
        self.rounds = []

    def get_node_ids(self):
        from flwr.supercore.task_identity import TaskIdentity

        # What Flower's own grids set before a strategy makes its messages.
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        return [1000 + number for number in range(len(self.examples))]

    def send_and_receive(self, messages, timeout=None):
        return [self._answer(one) for one in messages]

    def _answer(self, message):
        from flwr.app import Error, Message

        node = message.metadata.dst_node_id - 1000
        number = message.content["config"]["server-round"]
        self.rounds.append(number)
        message.metadata.__dict__["_message_id"] = f"m{node}"
        if self.fails(number, node):
            return Message(Error(code=0, reason="down"), reply_to=message)
        return self._train(message, node)

    def _train(self, message, node):
        from types import SimpleNamespace

        def app(message, context):
            from flwr.app import Array as FlowerArray
            from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

            got = message.content["arrays"]
            moved = {name: array.numpy() + np.float32(node + 1) for name, array in got.items()}
            content = {
                "arrays": ArrayRecord({n: FlowerArray(one) for n, one in moved.items()}),
                "metrics": MetricRecord(
                    {"num-examples": self.examples[node], "train_loss": 1.5 + node}
                ),
            }
            return Message(RecordDict(content), reply_to=message)

        context = SimpleNamespace(node_config={"partition-id": node} if self.named else {})
        return name_mod(message, context, app)


def record_of(tensors):
    from flwr.app import ArrayRecord

    return ArrayRecord(tensors)


def needs_flower():
    return pytest.importorskip("flwr", reason="Flower is not installed: fedaudit[flower]")


def tensors_of(folder, name):
    return adapters.read(folder / name)
