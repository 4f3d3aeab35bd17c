"""Other values of a base's configuration under which its weights may model text better.

Weights show which configuration they were trained with: positions, activations, windows and
scalings of another one make ordinary text much less likely. So each value that is not its
architecture's default is replaced by the default, one at a time, and the base of the rotary
positions by the values that published models have.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from transformers.initialization import no_init_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

USUAL_THETAS = (1e4, 5e5, 1e6)
WITHOUT_EFFECT = (
    *("_token_id", "_size", "_dim", "_dropout", "dropout", "_version", "_path", "_range", "_cache"),
    *(
        "dtype",
        "model_type",
        "architectures",
        "max_position_embeddings",
        "tie_word_embeddings",
        "_pdrop",
        "_tp",
    ),
)
"""Suffixes of keys that change no prediction, or that weights and tokenizer fix."""
COUNTS = ("num_", "n_", "is_", "output_", "return_", "pretraining_")
"""Prefixes of the same."""


def best_alternative(model: "PreTrainedModel", rows: Sequence[Sequence[int]]) -> tuple[str, float]:
    """Return the key whose other value makes `rows` likeliest, and the mean ln p per token.

    `model` is read as it is, without the adapters that PEFT may have inserted, and shares its
    weights with each alternative. Without any alternative, the key is empty.
    """
    weights = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in model.state_dict().items()
        if ".lora_" not in name
    }
    found = ("", -float("inf"))
    for key, config in alternatives(model.config):
        try:
            value = _mean_log_probability(_build(model, config, weights), rows)
        except Exception:  # the architecture may have no such variant, and may raise anything
            continue
        found = max(found, (key, value), key=lambda pair: pair[1])
    return found


def alternatives(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield (key, configuration) for each other value of a text model's configuration."""
    values, defaults = config.to_dict(), type(config)().to_dict()
    for key, default in defaults.items():
        usual = isinstance(default, bool | int | float | str | None)
        ignored = key.startswith(COUNTS) or key.endswith(WITHOUT_EFFECT)
        if usual and not ignored and values.get(key) != default:
            yield key, _changed(config, key, default)
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and "rope_theta" in rope:
        for theta in USUAL_THETAS:
            if rope["rope_theta"] != theta:
                yield (
                    "rope_theta",
                    _changed(config, "rope_parameters", {**rope, "rope_theta": theta}),
                )
        if rope.get("rope_type", "default") != "default":
            plain = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
            yield "rope_type", _changed(config, "rope_parameters", plain)


def _changed(config: Any, key: str, value: Any) -> Any:
    other = copy.deepcopy(config)
    setattr(other, key, value)
    return other


def _build(
    model: "PreTrainedModel", config: Any, weights: dict[str, torch.Tensor]
) -> "PreTrainedModel":
    with _empty_parameters(), no_init_weights():
        other: Any = type(model)(config)
    other.load_state_dict(weights, strict=False, assign=True)
    other.tie_weights()
    if any(parameter.is_meta for parameter in other.parameters()):
        raise ValueError("the base has no such weights")
    built: PreTrainedModel = other.to(model.device).eval()
    return built


@contextmanager
def _empty_parameters() -> Iterator[None]:
    """Create modules whose parameters take no memory, and whose buffers are computed."""
    name = "register_parameter"
    register = torch.nn.Module.register_parameter

    def register_empty(module: torch.nn.Module, key: str, parameter: Any) -> None:
        if parameter is not None:
            parameter = torch.nn.Parameter(parameter.to("meta"), requires_grad=False)
        register(module, key, parameter)

    setattr(torch.nn.Module, name, register_empty)
    try:
        yield
    finally:
        setattr(torch.nn.Module, name, register)


def _mean_log_probability(model: "PreTrainedModel", rows: Sequence[Sequence[int]]) -> float:
    total, count = 0.0, 0
    with torch.no_grad():
        for row in rows:
            ids = torch.tensor([row], device=model.device)
            scores = model(input_ids=ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
            total += float(scores.gather(-1, ids[0, 1:, None]).sum())
            count += len(row) - 1
    return total / max(1, count)
