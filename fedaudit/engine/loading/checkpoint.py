"""A model's folder: the files that are read, their fingerprint, and checks of the loaded weights.

transformers draws missing weights at random, ignores unexpected ones, and reads whatever files the
folder's files name. An audit would then be of another model than the folder's.
"""

import math
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters
from fedaudit.system.documents import LARGEST_DOCUMENT, check_size, too_large
from fedaudit.system.failures import first_line
from fedaudit.system.files import hash_files, read_json, sha256
from fedaudit.system.names import check_path
from fedaudit.system.tensor_files import reading_tensors

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

TOKENIZER = ("tokenizer*", "vocab*", "*.model", "*.tiktoken", "*.spm", "tekken.json")

READ = (
    *("config*.json", "generation_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "merges.txt", *TOKENIZER),
    *("chat_template*", "additional_chat_templates/*.jinja", "*.safetensors"),
    "*.safetensors.index.json",
)
"""The files that transformers looks for in a model's folder."""

HARMLESS = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias")
"""Suffixes of the names of constants that older checkpoints store but models compute themselves."""

LARGEST = 1e9
"""The largest weight accepted, far above every trained weight: the output would be noise."""

GENERATION = ("generation_config.json", "config.json")
MOST_END_TOKENS = 8
"""The maximum number of tokens that end an answer; models have one to three."""
WORD_STARTS = " \t\n\u0120\u2581\u010a\u0109\u010d"
"""White space at the start of a token, as byte-level vocabularies and SentencePiece write it."""

LOCAL: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""Options of `from_pretrained` with which no code of a model runs, and nothing is fetched."""

SHOWN_NAMES = 3
MAX_TENSORS = 10**6
"""The maximum number of tensors of a model; models of a trillion parameters have some 100,000."""


def check(folder: Path) -> None:
    """Raise InputError for a folder that is not a plain model in safetensors.

    A folder is also refused if its files name missing files or files outside of it, if it holds an
    adapter (transformers would load the base that the adapter names, and attach it), or if its
    configuration asks for code from the hub.
    """
    check_files(folder)
    if not any(folder.glob("*.safetensors")):
        pickled = next(chain(folder.glob("*.bin"), folder.glob("*.pt*")), None)
        advice = (
            f": {pickled.name} may run code when it is loaded. Save the model with "
            "save_pretrained, where you trust it."
            if pickled
            else "."
        )
        raise InputError(f"{folder} holds no model in safetensors{advice}")
    if (folder / adapters.CONFIG).exists():
        raise InputError(f"{folder} is not a base: it has an {adapters.CONFIG}.")
    for source, name in _referenced_files(folder):
        check_path(name, source)
        if not (folder / name).is_file():
            raise InputError(f"{folder} misses {name}, which {source.name} names.")
    config = _table(folder / "config.json")
    for table in (config, *(section for section in config.values() if isinstance(section, dict))):
        for key, value in table.items():
            if key.endswith("_implementation") and "/" in str(value):
                raise InputError(f"{folder / 'config.json'} asks for code: {key} is {value!r}.")


def check_tokenizer_files(folder: Path) -> None:
    """Raise InputError for a folder without any tokenizer file."""
    if not any(path for pattern in TOKENIZER for path in folder.glob(pattern)):
        raise InputError(
            f"{folder} has no tokenizer: add the model's own tokenizer files (tokenizer.json, "
            "tokenizer_config.json)."
        )


def check_files(folder: Path) -> None:
    """Raise InputError for a pipe, a device or a huge file where transformers looks for a file.

    Raises it also for JSON with too many values.
    """
    for path in (path for pattern in READ for path in folder.glob(pattern)):
        try:
            status = path.stat()
        except OSError:  # a broken link
            continue
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path} is not a regular file.")
        if status.st_size > LARGEST_DOCUMENT and path.suffix != ".safetensors":
            raise too_large(path)
        if path.suffix == ".json" and stat.S_ISREG(status.st_mode):
            check_size(path.read_bytes(), path)


def fingerprint(folder: Path) -> str:
    """Return a model's fingerprint: one SHA-256 over all files that are read."""
    return hash_files({name: sha256(folder / name) for name in files(folder)})


def files(folder: Path) -> list[str]:
    """Return the sorted names of the files in a model's folder that are read."""
    names = {p.relative_to(folder).as_posix() for pattern in READ for p in folder.glob(pattern)}
    names |= {name for _, name in _referenced_files(folder) if isinstance(name, str)}
    return sorted(name for name in names if (folder / name).is_file())


def count(folder: Path, names: Sequence[str]) -> int:
    """Return the number of tensors in a model's safetensors files.

    Raises InputError for an invalid file, or for more than MAX_TENSORS.
    """
    from safetensors import safe_open

    total = 0
    for name in names:
        if not name.endswith(".safetensors"):
            continue
        with reading_tensors(folder / name), safe_open(folder / name, "np") as file:
            total += len(file.keys())
        if total > MAX_TENSORS:
            raise InputError(f"{folder} cannot be opened: it holds over {MAX_TENSORS:,} tensors.")
    return total


def check_whole(model: "PreTrainedModel", info: Mapping[str, Any], folder: Path) -> None:
    """Raise InputError unless the folder held exactly the weights of `model`, all of them finite.

    `info` is what transformers returns for `output_loading_info`.
    """
    check_loaded(info, folder)
    if extra := [name for name in info["unexpected_keys"] if not name.endswith(HARMLESS)]:
        raise InputError(
            f"{folder} is not the model that it says: {_tensor_problem(extra, 'in it too many')}"
        )
    check_finite(model, folder)


def check_causal_lm(model: "PreTrainedModel", folder: Path) -> None:
    """Raise InputError for a masked language model, whose predictions see the tokens that follow.

    transformers loads such models, for example BERT, as causal language models too.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    kind = model.config.model_type
    sees_before = any(getattr(model.config, name, False) for name in ("is_decoder", "causal"))
    if kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not sees_before:
        raise InputError(
            f"{folder} is not a causal language model: a {kind} model fills gaps in texts (its "
            "is_decoder is not set), and fedaudit audits models that continue them."
        )


def check_loaded(info: Mapping[str, Any], folder: Path, allowed: tuple[str, ...] = ()) -> None:
    """Raise InputError if weights are missing or of another shape, since they are random then.

    `allowed` are prefixes of the names of weights that may be missing.
    """
    lost = [name for name in info["missing_keys"] if not name.startswith(allowed or ("\0",))]
    misshapen = [str(entry[0]) for entry in info["mismatched_keys"]]
    for names, problem in ((lost, "missing"), (misshapen, "of another shape")):
        if names:
            text = _tensor_problem(names, problem)
            raise InputError(f"{folder} is not the model that it says: {text}")
    if info["error_msgs"]:
        reason = str(info["error_msgs"][0]).splitlines()[0]
        raise InputError(f"{folder} cannot be loaded: {reason}")


def check_finite(model: "PreTrainedModel", folder: Path) -> None:
    """Raise InputError if a weight is NaN, infinite in the model's dtype, or above LARGEST."""
    largest = {name: _largest(tensor) for name, tensor in model.state_dict().items()}
    if invalid := [name for name, value in largest.items() if not math.isfinite(value)]:
        problem = f"NaN or infinite as {str(model.dtype).removeprefix('torch.')}"
        raise InputError(f"{folder} cannot be audited: {_tensor_problem(invalid, problem)}")
    if invalid := [name for name, value in largest.items() if value > LARGEST]:
        raise InputError(
            f"{folder} cannot be audited: {_tensor_problem(invalid, f'above {LARGEST:.0e}')}"
        )


def _largest(tensor: "torch.Tensor") -> float:
    """Return the largest absolute value in a tensor; NaN if it contains NaN."""
    values = tensor.float() if tensor.dtype.itemsize == 1 else tensor  # float8 has no such function
    weighs = values.is_floating_point() and values.numel()
    return float(values.abs().amax()) if weighs else 0.0


def check_tokenizer(tokenizer: Any, model: "PreTrainedModel", folder: Path) -> None:
    """Raise InputError for a tokenizer that fails, or that gives no offsets of its tokens.

    A tokenizer may have more tokens than the model, such as unused special tokens: then a hook is
    registered on the embedding that refuses texts which contain them.
    """
    import torch

    with refusing(f"{folder} has a tokenizer that does not work"):
        encoded = tokenizer(["A b."], add_special_tokens=False, return_offsets_mapping=True)
        largest = max(tokenizer.get_vocab().values(), default=0)
    if "offset_mapping" not in encoded:  # slow tokenizers leave them out silently
        raise InputError(
            f"{folder} has a tokenizer that does not say which characters a token stands for: "
            f"{type(tokenizer).__name__} is a slow one; a fast one (tokenizer.json) does."
        )
    eos_id = model.generation_config.eos_token_id
    eos_ids = [*(eos_id if isinstance(eos_id, list) else [eos_id]), tokenizer.eos_token_id]
    if not all(token is None or type(token) is int for token in eos_ids):
        raise InputError(f"{folder} has an eos_token_id that is not a token: {eos_ids[0]!r}.")
    check_end_tokens(tokenizer, sorted({token for token in eos_ids if token is not None}), folder)
    embeddings = model.get_input_embeddings()
    size = getattr(embeddings, "num_embeddings", largest + 1)

    def check_ids(_module: "torch.nn.Module", args: tuple[Any, ...]) -> None:
        if args and isinstance(ids := args[0], torch.Tensor) and int(ids.max()) >= size:
            raise InputError(
                f"{folder} has a tokenizer for another model: a text has the token "
                f"{int(ids.max())}, and the model has {size}."
            )

    if largest >= size:
        embeddings.register_forward_pre_hook(check_ids)


def check_end_tokens(tokenizer: Any, ids: Sequence[int], folder: Path) -> None:
    """Raise InputError if answers would end at ordinary text, so that a leak could not come out.

    `ids` are the tokens that end an answer: a handful in every real model, none of which begins
    with a letter or a digit, whatever white space comes before it.
    """
    source = "eos_token_id in generation_config.json or config.json, eos_token of the tokenizer"
    if len(ids) > MOST_END_TOKENS:
        raise InputError(
            f"{folder} has {len(ids):,} tokens that end an answer ({source}); a model has "
            f"{MOST_END_TOKENS} at most. Use the model's original files."
        )
    for token_id in ids:
        raw = str(tokenizer.convert_ids_to_tokens(token_id) or "").lstrip(WORD_STARTS)
        text = str(tokenizer.decode([token_id], skip_special_tokens=False)).strip()
        if raw[:1].isalnum() or text[:1].isalnum():
            raise InputError(
                f"{folder} ends answers at token {token_id}, which is ordinary text ({text[:20]!r};"
                f" {source}), so a leak could not come out. Use the model's original files."
            )


def end_token_caveats(folder: Path) -> list[str]:
    """Return a sentence on how a model's two configurations differ in what ends an answer."""
    said = {name: _table(folder / name).get("eos_token_id") for name in GENERATION}
    stated = {name: {*ids} if isinstance(ids, list) else {ids} for name, ids in said.items()
              if ids is not None}  # fmt: skip
    if len(stated) < len(GENERATION) or len(set(map(frozenset, stated.values()))) == 1:
        return []
    listed = " and ".join(f"{said[name]} in {name}" for name in GENERATION)
    return [
        f"The base has different tokens that end an answer: {listed}. Those of {GENERATION[0]} were"
        " used, as by transformers."
    ]


@contextmanager
def refusing(problem: str) -> Iterator[None]:
    """Raise InputError, with `problem` and the reason, if a library refuses a file in the block."""
    try:
        yield
    except InputError:
        raise
    except BaseException as error:
        # A Rust panic in tokenizers is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InputError(f"{problem}: {first_line(error)}") from None


def _tensor_problem(names: list[str], problem: str) -> str:
    listed = ", ".join(sorted(names)[:SHOWN_NAMES])
    remainder = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"{len(names)} of its tensors are {problem} ({listed}{remainder})."


def _referenced_files(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Yield (file, name) for each file of a model that names another file of it."""
    for path in sorted(folder.glob("*.index.json")):
        shards = _table(path).get("weight_map")
        for name in sorted({*map(str, shards.values())} if isinstance(shards, dict) else ()):
            yield path, name
    config, tokenizer = folder / "config.json", folder / "tokenizer_config.json"
    if weights := _table(config).get("transformers_weights"):
        yield config, weights
    versions = _table(tokenizer).get("fast_tokenizer_files")
    for name in versions if isinstance(versions, list) else ():
        yield tokenizer, name


def _table(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; {} if there is none, which transformers will report.

    Raises InputError for a file that is not JSON, or in which a name stands twice in one object.
    """
    table = read_json(path, "") if path.is_file() else {}
    return table if isinstance(table, dict) else {}
