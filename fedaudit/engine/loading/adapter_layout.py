"""An adapter's tensors in the names and the layout of the installed PEFT and transformers.

What a file means depends on who wrote it: transformers renamed modules and fused experts, and PEFT
changed what A and B of `target_parameters` stand for. An adapter of an older version is converted
exactly, or refused by name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import peft
import torch
from packaging.version import InvalidVersion, Version
from peft import LoraConfig, PeftModel
from peft.tuners.lora.layer import LoraLayer
from peft.utils.other import get_pattern_key
from transformers.pytorch_utils import Conv1D

from fedaudit.api.errors import InputError
from fedaudit.engine.loading import module_patterns
from fedaudit.federation import adapters

ORIENTED, SWAPPED = Version("0.19.0"), Version("0.19.1")
"""The PEFT that first looked at the orientation of fused experts, and that which did it rightly."""
PATTERNS_APART = Version("0.14.0")
"""The first PEFT that looks up rank_pattern and alpha_pattern independently of each other."""
GROUPED_KEYS = Version("0.15.0")
"""The first PEFT that matches a pattern's key as a whole, from the start of a module's name too."""
DORA_CONV1D = Version("0.11.0")
"""The first PEFT with the right norm in DoRA on GPT-2's layers, which are stored as (in, out)."""
_ROOT, _A, _B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


def writer_version(config: Mapping[str, Any], path: Path) -> Version | None:
    """Return the version of the PEFT that wrote a configuration; None if it says none.

    PEFT has written its version since 0.18.0, so a configuration without one is older.

    Raises InputError for something that is not a version.
    """
    said = config.get("peft_version")
    if said is None:
        return None
    try:
        return Version(str(said).partition("@")[0])
    except InvalidVersion:
        raise InputError(
            f"{path} is not a LoRA configuration: its peft_version is not a version."
        ) from None


def renamed(
    model: PeftModel, tensors: Mapping[str, torch.Tensor], name: str, source: str
) -> dict[str, torch.Tensor]:
    """Return the tensors of the adapter `name` by the names of the installed transformers.

    PEFT renames modules and fuses the adapters of a mixture's experts. Raises InputError for
    settings of experts that PEFT loses as it fuses them.
    """
    try:
        from peft.utils.transformers_weight_conversion import (
            convert_peft_adapter_state_dict_for_transformers as convert,
        )
    except ImportError:  # a PEFT that does not know transformers 5
        return dict(tensors)
    config = model.peft_config[name]
    try:
        converted: dict[str, torch.Tensor] = convert(model, config, dict(tensors), name)
    except Exception as error:  # PEFT may raise anything on an untrusted file
        raise InputError(
            f"{source} cannot be converted to the modules of the installed transformers: {error}"
        ) from None
    return converted


def check_fusion(
    before: LoraConfig,
    tensors: Mapping[str, torch.Tensor],
    converted: Mapping[str, torch.Tensor],
    source: str,
) -> None:
    """Raise InputError if experts were fused whose settings PEFT loses in doing so.

    Two fused factors have twice the rank. PEFT doubles alpha to keep alpha / r, which is not what
    rsLoRA's alpha / sqrt(r) needs, and takes no notice of patterns. `before` is the adapter's
    configuration as it was saved.
    """
    if len(converted) == len(tensors):
        return
    for option in ("use_rslora", "rank_pattern", "alpha_pattern"):
        if getattr(before, option):
            raise InputError(
                f"{source} adapts each expert by itself, as before transformers 5, with {option}, "
                "which the installed PEFT does not keep as it fuses them: merge it into its base "
                "with the versions that trained it."
            )


def reoriented(
    model: PeftModel,
    name: str,
    parameters: Sequence[str],
    tensors: Mapping[str, torch.Tensor],
    config: Mapping[str, Any],
    folder: Path,
) -> dict[str, torch.Tensor]:
    """Return tensors in which A and B of fused experts are those of the installed PEFT.

    The change of expert e's parameter, of shape (rows, columns), is B_e A_e in one orientation
    and A_e^T B_e^T in the other, so that A and B of one are the transposed B and A of the other.
    Shapes tell them apart unless rows = columns; then the writer's version does. `parameters` are
    the configuration's own `target_parameters`. Raises InputError for a version that may be
    either.
    """
    version, result = writer_version(config, folder / adapters.CONFIG), dict(tensors)
    for path, module in model.named_modules():
        parameter = getattr(module, "parameter_name", None)
        if not isinstance(module, LoraLayer) or parameter is None or name not in module.lora_A:
            continue
        layer = module.get_base_layer()
        shape, a, b = (
            getattr(layer, parameter).shape,
            tensors.get(path + _A),
            tensors.get(path + _B),
        )
        owner = path.replace(".base_layer", "").removeprefix(_ROOT)
        named = any(f".{owner}.{parameter}".endswith(f".{target}") for target in parameters)
        if a is None or b is None or not named or len(shape) != 3 or shape[0] == 1:
            continue
        rows, columns = shape[1:]
        transposed = bool(getattr(layer, "is_transposed", False))
        swapped = _swaps(Version(peft.__version__), is_transposed=transposed)
        wide = columns if swapped else rows
        if rows == columns:
            was = _swaps(version, is_transposed=transposed)
            if version is not None and version.is_devrelease and version < SWAPPED:
                raise InputError(
                    f"{folder} adapts fused experts ({parameter}, {rows} x {columns}) and was "
                    f"written by the development version {version} of PEFT, which may mean A and B "
                    "either way: save it with a released PEFT."
                )
            same = was == swapped
        else:
            same = a.shape[1:] == (wide,)
        if not same:
            experts = shape[0]
            if a.shape[0] % experts or b.shape[-1] != a.shape[0]:
                continue  # of another base, as the comparison of shapes will say
            result[path + _A], result[path + _B] = _transposed(a, b, experts)
    return result


def _swaps(version: Version | None, *, is_transposed: bool) -> bool:
    """Tell whether a PEFT takes a fused parameter's columns for the inputs of A."""
    if version is None or version < ORIENTED:
        return False
    return is_transposed if version < SWAPPED else not is_transposed


def _transposed(
    a: torch.Tensor, b: torch.Tensor, experts: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B such that every expert's B A is transposed.

    PEFT flattens A as (experts, rank) x in, and B as out x (rank, experts).
    """
    by_expert = a.reshape(experts, -1, a.shape[1])  # experts, rank, in
    b_by_expert = b.reshape(b.shape[0], -1, experts)  # out, rank, experts
    new_a = b_by_expert.permute(2, 1, 0).reshape(-1, b.shape[0])
    new_b = by_expert.permute(2, 1, 0).reshape(a.shape[1], -1)
    return new_a.contiguous(), new_b.contiguous()


def check_patterns(
    config: LoraConfig, said: Mapping[str, Any], tensors: Iterable[str], folder: Path
) -> None:
    """Raise InputError for an alpha_pattern that an older PEFT, which may have trained it, missed.

    `said` is the configuration as it is in the file, `config` the same as PEFT reads it, and
    `tensors` are the names of the adapter's tensors.
    """
    version = writer_version(said, folder / adapters.CONFIG)
    ranks, alphas = list(config.rank_pattern or {}), list(config.alpha_pattern or {})
    if not (alphas and _before(version, GROUPED_KEYS)):
        return
    modules = sorted({name.partition(".lora_")[0].removeprefix(_ROOT) for name in tensors})
    module_patterns.check(config, modules)
    today = {name: _alpha(config, name) for name in modules}
    for changed, option, keys in (
        (GROUPED_KEYS, "alpha_pattern", alphas),
        (PATTERNS_APART, "alpha_pattern beside rank_pattern", [*ranks, *alphas]),
    ):
        if _before(version, changed) and any(
            _alpha_before(config, keys, name) not in (None, alpha) for name, alpha in today.items()
        ):
            raise _unclear(folder / adapters.CONFIG, option, changed, version)


def check_dora(
    model: torch.nn.Module, config: LoraConfig, said: Mapping[str, Any], folder: Path
) -> None:
    """Raise InputError for DoRA on a square layer of GPT-2's kind by a PEFT that transposed it."""
    version = writer_version(said, folder / adapters.CONFIG)
    if config.use_dora and _before(version, DORA_CONV1D):
        layers = (m.weight.shape for m in model.modules() if isinstance(m, Conv1D))
        if any(rows == columns for rows, columns in layers):
            options = "use_dora on layers such as GPT-2's"
            raise _unclear(folder / adapters.CONFIG, options, DORA_CONV1D, version)


def _before(version: Version | None, changed: Version) -> bool:
    return version is None or version < changed


def _unclear(path: Path, option: str, changed: Version, version: Version | None) -> InputError:
    if version is None:
        return InputError(
            f"{path} does not say which PEFT wrote it, and before {changed} {option} had another "
            'effect: add its "peft_version".'
        )
    return InputError(
        f"{path} was written by PEFT {version}, in which {option} had another effect: merge the "
        "adapter into its base with that version."
    )


def _alpha(config: LoraConfig, module: str) -> Any:
    """Return a module's alpha as the installed PEFT looks it up; None for an invalid key."""
    pattern = config.alpha_pattern or {}
    try:
        return pattern.get(get_pattern_key(list(pattern), module), config.lora_alpha)
    except re.error:
        return None


def _alpha_before(config: LoraConfig, keys: Sequence[str], module: str) -> Any:
    """Return a module's alpha as PEFT before 0.15 looked it up: by the first of `keys` that fits.

    A key stood there behind a dot and without parentheses: `^model` fits nothing, and of
    `q_proj|v_proj` the second part fits only a whole name. None for a key that is invalid there.
    """
    alphas = config.alpha_pattern or {}
    try:
        key = next((key for key in keys if re.match(module_patterns.old_key(key), module)), module)
    except re.error:
        return None
    return alphas.get(key, config.lora_alpha)
