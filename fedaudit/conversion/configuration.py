"""An adapter's configuration: its file, or what the user says and its tensors show."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.importer import StateDump
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.system.files import read_json

FORM = "r=16,alpha=32,targets=q_proj+v_proj"
_PREFIX, _A = "base_model.model.", ".lora_A.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenConfig:
    """What `--config` says of LoRA; 0 and empty where it is silent."""

    r: int = 0
    alpha: float = 0.0
    targets: tuple[str, ...] = ()
    rslora: bool = False
    dora: bool = False


def parse(text: str) -> GivenConfig | Mapping[str, Any]:
    """Return what `--config` says: settings, or a whole configuration where it names a file.

    Raises UsageError for settings that there are not.
    """
    if not text:
        return GivenConfig()
    if "=" not in text:
        found = read_json(Path(text), f"There is no file {text}; --config takes one, or {FORM}.")
        if not isinstance(found, dict):
            raise InputError(f"{text} must hold a JSON object, as adapter_config.json does.")
        return found
    pairs = [part.partition("=") for part in text.split(",")]
    if len({key for key, _, _ in pairs}) < len(pairs):
        raise UsageError(f"--config {text} says something twice.")
    table: dict[str, Any] = {key.strip(): _value(value.strip()) for key, _, value in pairs}
    if isinstance(table.get("targets"), str):
        table["targets"] = tuple(filter(None, table["targets"].split("+")))
    found = build(GivenConfig, table, "--config")
    if found.r < 0 or found.alpha < 0:
        raise UsageError(f"--config {text}: r and alpha are above 0.")
    return found


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def complete(
    given: GivenConfig | Mapping[str, Any], dump: StateDump, path: Path, base: str
) -> Mapping[str, Any]:
    """Return the configuration of an adapter that came without one.

    Rank and targets follow from tensors with names. Raises InputError for what is then missing, or
    is other than the tensors.
    """
    if not isinstance(given, GivenConfig):
        return given
    ranks = {} if dump.ordered else _ranks(dump)
    missing = ["alpha"] if not given.alpha else []
    missing += ["r", "targets"] if dump.ordered and not (given.r and given.targets) else []
    if missing:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise InputError(
            f"{path} comes without an adapter_config.json, and {listed} cannot be "
            f"seen in its tensors: give what it was trained with, as --config {FORM}."
        )
    rank = given.r or Counter(ranks.values()).most_common(1)[0][0]
    if given.r and ranks and set(ranks.values()) != {given.r}:
        own = sorted(set(ranks.values()))
        raise InputError(f"{path} has the rank {own[0]}, not {given.r} as --config says.")
    alpha = int(given.alpha) if given.alpha == int(given.alpha) else given.alpha
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted(given.targets or ranks),
        "rank_pattern": {name: own for name, own in sorted(ranks.items()) if own != rank},
        "use_rslora": given.rslora,
        "use_dora": given.dora or any("lora_magnitude_vector" in name for name in dump.shapes),
        "bias": "none",
    }


def _ranks(dump: StateDump) -> dict[str, int]:
    """Return the rank of each module that LoRA is on, by the module's name in the base."""
    found = {}
    for name, shape in dump.shapes.items():
        plain = adapters.canonical(name)
        if plain.endswith(_A) and shape:
            found[plain.removeprefix(_PREFIX).removesuffix(_A)] = shape[0]
    return found
