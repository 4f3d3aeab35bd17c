"""Checks of an adapter's configuration: its options must not make the audit one of another model.

Some options of PEFT change the base's own weights as soon as an adapter is attached, so that "the
base" would be another model; some import a module they name, create layers of any size, or have an
effect that the adapter's tensors do not show. None is needed to load a trained and saved LoRA
adapter.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError

RANK, ALPHA, NAMES, LENGTH = 2**16, 2**20, 10_000, 10_000
SHOWN_NAMES, SHOWN_CHARS = 3, 40
EMPTY: tuple[Any, ...] = (None, False, "", [], {})
"""Values that have the same effect as leaving the option out."""

STARTS = (True, False, None, "gaussian", "orthogonal", "eva")
"""Ways to initialize A and B that do not change the base; the saved A and B then replace them."""

UNUSED = (
    *("modules_to_save", "layer_replication", "trainable_token_indices", "use_qalora"),
    *("alora_invocation_tokens", "arrow_config", "kasa_config", "velora_config"),
    *("monteclora_config", "use_bdlora", "lora_ga_config", "megatron_config"),
)


def _is_int_between(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _rank(value: Any) -> bool:
    return _is_int_between(value, 1, RANK)


def _alpha(value: Any) -> bool:  # NaN is in no interval
    return type(value) in (int, float) and 0 <= value <= ALPHA


def _dropout(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


def _flag(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _names(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= NAMES and all(isinstance(name, str) and _names(name) for name in value)
    return value is None or (isinstance(value, str) and len(value) <= LENGTH)


def _layers(value: Any) -> bool:
    layers = value if isinstance(value, list) else [0 if value is None else value]
    return len(layers) <= NAMES and all(_is_int_between(layer, 0, RANK) for layer in layers)


def _table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def table(value: Any) -> bool:
        if value is None:
            return True
        is_table = isinstance(value, dict) and len(value) <= NAMES and _names(list(value))
        return is_table and all(map(fits, value.values()))

    return table


_FLAGS = ("use_rslora", "use_dora", "lora_bias", "fan_in_fan_out", "ensure_weight_tying")
_SELECTIONS = ("target_modules", "exclude_modules", "layers_pattern", "target_parameters")
_RANK_SAID = f"a whole number from 1 to {RANK}"
_ALPHA_SAID = f"a number from 0 to {ALPHA}"
_NAMES_SAID = "names of modules or a pattern"
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "r": (_rank, _RANK_SAID),
    "lora_alpha": (_alpha, _ALPHA_SAID),
    "lora_dropout": (_dropout, "a number from 0 up to 1"),
    "rank_pattern": (_table_of(_rank), f"a table of modules, each with {_RANK_SAID}"),
    "alpha_pattern": (_table_of(_alpha), f"a table of modules, each with {_ALPHA_SAID}"),
    "layers_to_transform": (_layers, "a layer's number or a list of them"),
    **dict.fromkeys(_FLAGS, (_flag, "true or false")),
    **dict.fromkeys(_SELECTIONS, (_names, _NAMES_SAID)),
}


def check(config: Mapping[str, Any], path: Path) -> None:
    """Raise InputError, naming the option, for a configuration that no audit should load.

    Options that PEFT does not know are ignored here, as by PEFT (see `unknown_option_caveats`).
    """
    odd = [name for name in UNUSED if config.get(name)]
    if config.get("bias") not in (None, "none"):
        odd.append("bias")
    start = config.get("init_lora_weights")
    if not isinstance(start, bool | str | None) or start not in STARTS:
        odd.append("init_lora_weights")
    if odd:
        raise InputError(
            f"{path} cannot be audited: it is not plain LoRA, its {odd[0]} is set. Have it saved "
            "as a LoRA adapter of the base as it is."
        )
    if "lora_alpha" not in config:
        raise InputError(
            f"{path} does not say its lora_alpha, and no tensor shows how strongly an adapter was "
            "trained to count: add the one of the training."
        )
    for name, (fits, expected) in _RULES.items():
        if name in config and not fits(config[name]):
            text = repr(config[name])
            excerpt = text if len(text) <= 60 else f"{text[:60]}…"
            raise InputError(
                f"{path} is not a LoRA configuration: {name} is {excerpt}, and must be {expected}."
            )


def unknown_option_caveats(config: Mapping[str, Any]) -> list[str]:
    """Return a sentence that names the set options that the installed PEFT does not know."""
    import peft

    known = {field.name for field in fields(peft.LoraConfig)}
    values = {name: value for name, value in config.items() if name not in known}
    unread = sorted(name for name, value in values.items() if value not in EMPTY)
    if not unread:
        return []
    listed = ", ".join(f"{name[:SHOWN_CHARS]!r}" for name in unread[:SHOWN_NAMES])
    remainder = f" and {len(unread) - SHOWN_NAMES} more" if len(unread) > SHOWN_NAMES else ""
    return [
        f"The adapter's configuration sets {listed}{remainder}, which peft {peft.__version__} does "
        "not know: where that changes its answers, the audit is of another model."
    ]
