"""An adapter's configuration: its file, or the user's settings completed from its tensors."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.importer import StateDump
from fedaudit.config.options import build
from fedaudit.federation import adapters
from fedaudit.system.files import read_json

FORM = "r=16,alpha=32,targets=q_proj+v_proj"
_COMPARED = {
    "r": 8,
    "lora_alpha": 8,
    "target_modules": None,
    "use_rslora": False,
    "use_dora": False,
}
"""Settings that `--config` gives, with PEFT's defaults."""
_PREFIX, _A = "base_model.model.", ".lora_A.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenConfig:
    """LoRA's settings as given by `--config`; 0, empty and None if not given."""

    r: int = 0
    alpha: float = 0.0
    targets: tuple[str, ...] = ()
    rslora: bool | None = None
    dora: bool | None = None

    def settings(self) -> dict[str, Any]:
        """Return the given settings by their names in an adapter_config.json."""
        named = {
            "r": self.r or None,
            "lora_alpha": self.alpha or None,
            "target_modules": list(self.targets) or None,
            "use_rslora": self.rslora,
            "use_dora": self.dora,
        }
        return {name: value for name, value in named.items() if value is not None}


def parse(text: str) -> GivenConfig | Mapping[str, Any]:
    """Return the settings in `--config`, or the whole configuration if it names a file.

    Raises UsageError for unknown settings.
    """
    if not text:
        return GivenConfig()
    if "=" not in text:
        return read(Path(text), f"There is no file {text}; --config takes one, or {FORM}.")
    pairs = [setting.partition("=") for setting in text.split(",")]
    table: dict[str, Any] = {key.strip(): _value(value.strip()) for key, _, value in pairs}
    if len(table) < len(pairs):
        raise UsageError(f"--config {text} says something twice.")
    if isinstance(table.get("targets"), str):
        table["targets"] = tuple(filter(None, table["targets"].split("+")))
    config = build(GivenConfig, table, "--config")
    for name in ("r", "alpha"):
        if name in table and not getattr(config, name) > 0:
            raise UsageError(f"--config {text}: {name} must be above 0.")
    return config


def read(path: Path, missing: str) -> dict[str, Any]:
    """Return what an adapter_config.json holds; raises InputError, saying `missing` without one."""
    config = read_json(path, missing)
    if not isinstance(config, dict):
        raise InputError(f"{path} must hold a JSON object, as adapter_config.json does.")
    return config


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def complete(
    config: GivenConfig | Mapping[str, Any], dump: StateDump, path: Path, base: str
) -> Mapping[str, Any]:
    """Return the configuration of an adapter that came without one.

    Rank and targets follow from tensors if these have names. Raises InputError for a setting that
    is still missing, or that differs from the tensors.
    """
    if not isinstance(config, GivenConfig):
        return config
    ranks = {} if dump.ordered else _ranks(dump)
    missing = ["alpha"] if not config.alpha else []
    missing += ["r", "targets"] if dump.ordered and not (config.r and config.targets) else []
    if missing:
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        raise InputError(
            f"{path} comes without an adapter_config.json, and {listed} cannot be "
            f"seen in its tensors: give what it was trained with, as --config {FORM}."
        )
    rank = config.r or Counter(ranks.values()).most_common(1)[0][0]
    if config.r and ranks and set(ranks.values()) != {config.r}:
        tensor_ranks = sorted(set(ranks.values()))
        raise InputError(f"{path} has the rank {tensor_ranks[0]}, not {config.r} as --config says.")
    if config.targets and ranks:
        _check_targets(config.targets, ranks, path)
    alpha = int(config.alpha) if config.alpha == int(config.alpha) else config.alpha
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "target_modules": sorted(config.targets or ranks),
        "rank_pattern": {name: r for name, r in sorted(ranks.items()) if r != rank},
        "use_rslora": bool(config.rslora),
        "use_dora": bool(config.dora)
        or any("lora_magnitude_vector" in name for name in dump.shapes),
        "bias": "none",
    }


def check_agreement(
    given: GivenConfig | Mapping[str, Any], own: Mapping[str, Any], path: Path
) -> None:
    """Raise InputError if `given` contradicts an adapter's own configuration, read from `path`."""
    if isinstance(given, GivenConfig):
        settings = given.settings()
    else:
        settings = {name: given[name] for name in _COMPARED if name in given}
    for name, value in settings.items():
        own_value = own.get(name, _COMPARED[name])
        if _comparable(own_value) != _comparable(value):
            raise InputError(
                f"{path} has {name} {json.dumps(own_value)}, and --config says "
                f"{json.dumps(value)}: leave --config out, or correct it."
            )


def _comparable(value: Any) -> Any:
    """Return a setting such that equal ones compare equal; modules have no order."""
    return sorted(map(str, value)) if isinstance(value, list) else value


def _check_targets(targets: Sequence[str], modules: Collection[str], path: Path) -> None:
    """Raise InputError unless `targets` name the adapted modules, as PEFT matches names."""

    def is_named_by(module: str, target: str) -> bool:
        return module == target or module.endswith(f".{target}")

    unnamed = [m for m in modules if not any(is_named_by(m, target) for target in targets)]
    if unnamed:
        raise InputError(f"{path} adapts {unnamed[0]}, which --config does not name as a target.")
    for target in targets:
        if not any(is_named_by(module, target) for module in modules):
            raise InputError(f"{path} does not adapt {target}, which --config names as a target.")


def _ranks(dump: StateDump) -> dict[str, int]:
    """Return the rank of each module that LoRA adapts, by the module's name in the base."""
    ranks = {}
    for name, shape in dump.shapes.items():
        plain = adapters.canonical(name)
        if plain.endswith(_A) and shape:
            ranks[plain.removeprefix(_PREFIX).removesuffix(_A)] = shape[0]
    return ranks
