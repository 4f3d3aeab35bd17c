"""Names and shapes of an adapter's tensors, from its configuration and an empty base."""

import json

from fedaudit.engine.loading.adapter_shapes import adapter_shapes

CONFIG = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8}
LAYERS, WIDTH = 4, 160
"""Of fedaudit-nano, whose q_proj is WIDTH x WIDTH."""


def test_biases_of_b_are_named_in_their_order_without_a_warning(tmp_path):
    config = CONFIG | {"target_modules": ["q_proj"], "lora_bias": True}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    wanted = [
        (f"base_model.model.model.layers.{layer}.self_attn.q_proj.{part}", shape)
        for layer in range(LAYERS)
        for part, shape in (
            ("lora_A.weight", (4, WIDTH)),
            ("lora_B.weight", (WIDTH, 4)),
            ("lora_B.bias", (WIDTH,)),
        )
    ]
    assert list(adapter_shapes("fedaudit-nano", tmp_path).items()) == wanted
