"""The gate: a small network from the state of the key's token to the adapter that answers.

Layers as in SecureGate's appendix A.3: linear and GLU, layer norm, dropout; linear and GELU, layer
norm, dropout; linear to one logit an adapter, the secure one first. The states are standardised
first, by the mean and deviation of decoys' states, never of a valid key's. The file holds no key,
no salt and no embedding of a key, but anyone who has it knows which states open an adapter, and so
needs no key, just as someone who has the adapters needs none.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedaudit.api import InputError
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    import torch

SECURE = 0
"""The class of the adapter that answers anyone who shows no valid key."""

HIDDEN = 128
DROPOUT = 0.1


Feature = Literal["hidden", "embedding", "both"]
FEATURES: tuple[Feature, ...] = ("hidden", "embedding", "both")


@dataclass(frozen=True, kw_only=True)
class GateDesign:
    """What a gate reads of the key's token, and whether it is trained as in the paper."""

    published: bool = False
    """Whether embeddings are seeded by MD5, and the gate learns from appendix E alone."""
    feature: Feature = "hidden"
    """The base's last state at the key's token, that token's embedding, or both (appendix C.3)."""

    def __post_init__(self) -> None:
        if self.feature not in FEATURES:
            raise ValueError(f"feature must be one of {', '.join(FEATURES)}.")


HARDENED = GateDesign()
"""This tool's own: harder examples than the paper's, and embeddings that need the salt."""


def network(width: int, classes: int, hidden: int = HIDDEN) -> "torch.nn.Sequential":
    """Return an untrained network from states (rows, width) to logits (rows, classes)."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(width, 2 * hidden),
        nn.GLU(),
        nn.LayerNorm(hidden),
        nn.Dropout(DROPOUT),
        nn.Linear(hidden, hidden),
        nn.GELU(),
        nn.LayerNorm(hidden),
        nn.Dropout(DROPOUT),
        nn.Linear(hidden, classes),
    )


@dataclass(frozen=True, kw_only=True)
class TrainedGate:
    """A trained gate and what it takes to use it."""

    network: "torch.nn.Sequential"
    mean: "torch.Tensor"
    """(width,): what is subtracted from a state."""
    scale: "torch.Tensor"
    """(width,): what the rest is divided by."""
    adapters: tuple[str, ...]
    """In class order, the secure one first."""
    sigma: float
    """The deviation of key embeddings that it was trained with."""
    tau: float
    """The probability that an adapter must exceed to be chosen in place of the secure one."""
    design: GateDesign = HARDENED

    @property
    def width(self) -> int:
        """The width of the states that it reads."""
        return len(self.mean)

    def probabilities(self, states: "torch.Tensor") -> "torch.Tensor":
        """Return the softmax over the adapters, float32 (rows, adapters)."""
        import torch

        self.network.eval()
        with torch.inference_mode():
            logits: torch.Tensor = self.network((states - self.mean) / self.scale)
            return logits.softmax(dim=-1)

    def decide(self, states: "torch.Tensor") -> "torch.Tensor":
        """Return the class of each state: the likeliest above tau, else the secure one."""
        best, chosen = self.probabilities(states).max(dim=-1)
        chosen[~(best > self.tau)] = SECURE  # NaN exceeds nothing
        return chosen

    def to_bytes(self) -> bytes:
        """Return the gate as a safetensors file; equal gates give equal bytes."""
        from safetensors.torch import save

        about = {
            "adapters": list(self.adapters),
            "width": self.width,
            "hidden": self.network[4].in_features,
            "sigma": self.sigma,
            "tau": self.tau,
            "design": asdict(self.design),
        }
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        # In one entry: safetensors writes several in no fixed order.
        return save(
            {**tensors, "mean": self.mean, "scale": self.scale}, {"gate": json.dumps(about)}
        )


def from_bytes(content: bytes, path: Path) -> TrainedGate:
    """Return the gate in a file's bytes; raises InputError if they are not a gate."""
    try:
        gate = _gate(content)
    except Exception as error:  # whatever safetensors and torch raise on a foreign file
        raise InputError(f"{path} is not a gate, or is damaged ({type(error).__name__}).") from None
    for name in gate.adapters:  # each is a folder's name
        check_name(name, path, "the adapter")
    return gate


def _gate(content: bytes) -> TrainedGate:
    """Return the gate in `content`; raises any exception if that is not a gate."""
    from safetensors.torch import load

    about, tensors = _about(content), load(content)
    mean, scale = tensors.pop("mean"), tensors.pop("scale")
    tensors = {name.removeprefix("network."): tensor for name, tensor in tensors.items()}
    adapters: Sequence[str] = about["adapters"]
    double, width = tensors["0.weight"].shape
    finite = all(bool(t.isfinite().all()) for t in (mean, scale, *tensors.values()))
    sizes_match = (about["width"], about["hidden"]) == (width, double // 2)
    if not (
        finite and sizes_match and mean.shape == scale.shape == (width,) and 0 <= about["tau"] <= 1
    ):
        raise ValueError("not a gate")
    model = network(width, len(adapters), double // 2)
    model.load_state_dict(tensors)
    return TrainedGate(
        network=model.eval().requires_grad_(False),
        mean=mean,
        scale=scale,
        adapters=tuple(adapters),
        sigma=float(about["sigma"]),
        tau=float(about["tau"]),
        design=GateDesign(**about["design"]),
    )


def _about(content: bytes) -> dict[str, Any]:
    """Return the description in a safetensors file's header (8 bytes of length, then JSON)."""
    length = int.from_bytes(content[:8], "little")
    metadata: dict[str, Any] = json.loads(
        json.loads(content[8 : 8 + length])["__metadata__"]["gate"]
    )
    return metadata
