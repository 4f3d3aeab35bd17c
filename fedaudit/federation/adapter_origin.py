"""What an adapter's files say about the model it was trained on, compared with its base here.

An adapter's configuration names a base, perhaps a revision of it, and often the base in a coarse
format: a difference is a caveat. Trainers save the tokenizer and the chat template of training
beside the adapter: where they do something else than the base's, they are used, and that is a
caveat; token ids that mean other tokens are refused. A whole model in the adapter's folder, or
training that commonly begins with a merged model, tells of a base that no configuration names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters
from fedaudit.system.files import read_json, sha256

TOKENIZER, SLOW = "tokenizer.json", "vocab.json"
SETTINGS, SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
SHOWN_CHARS, CARD_BYTES = 60, 4096
_WEIGHTS = re.compile(r"(?:pytorch_)?model(?:-\d+-of-\d+)?\.(?:safetensors|bin)")
"""What transformers saves a whole model's weights as."""
_TAGS = {"dpo", "online-dpo", "orpo", "kto", "cpo", "bco", "ppo", "rloo", "grpo", "xpo", "nash-md"}
"""Tags that TRL gives the models of its preference trainers."""
_COARSE = re.compile(r"(?:4|8)-?bit|bnb|gptq|awq|nf4|int[48]|fp8|q[48]_", re.IGNORECASE)
"""Parts of the names of bases in formats of few bits."""
_CACHED = re.compile(r"models--(.+)/snapshots/([^/]+)/?$")
"""A model's folder in the hub's cache: its name, with -- for /, and its revision."""
_SAYS_NOTHING = frozenset({"base", "base_model", "checkpoint", "final", "merged", "model"})
"""Names that folders have whatever model is in them."""


def other_base_caveats(
    configs: Iterable[Mapping[str, Any]], base: str, than: str = "the one audited"
) -> list[str]:
    """Return sentences on bases that adapters' configurations name, other than `base`.

    `base` is a folder, a hub id or the built-in base's name; `than` is where it is named.
    """
    others, coarse, revisions = set(), set(), set()
    for config in configs:
        named = str(config.get("base_model_name_or_path") or "")
        revision = str(config.get("revision") or "")
        if named and not _is_same(named, base):
            others.add(f"{named} (revision {revision})" if revision else named)
        elif revision and revision != _cached(base)[1]:
            revisions.add(revision)
        if _COARSE.search(named) and not _COARSE.search(base):
            coarse.add(named)
    caveats = []
    if others:
        caveats.append(
            f"Adapters name another base than {than} ({base}): {_list(others)}. Whether that is "
            "the same model was not checked; if it is not, nothing here tells of the federation."
        )
    if revisions:
        caveats.append(
            f"Adapters name the revision {_list(revisions)} of their base: whether {base} is that "
            "one was not checked."
        )
    if coarse:
        caveats.append(
            f"Adapters were trained on a base in a format of few bits ({_list(coarse)}): on the "
            "base in full precision, which was audited, they answer slightly differently."
        )
    return caveats


def merged_base_caveats(folder: Path, names: Iterable[str], base: str) -> list[str]:
    """Return sentences on signs that an adapter belongs to a base with an earlier one merged in.

    `names` are the files below the adapter's `folder`, with `/`; `base` is the one to audit.
    Raises InputError where ReLoRA left another base beside the adapter.
    """
    places = {name.rpartition("/")[::2] for name in names}
    described = {place for place, name in places if place and name == "config.json"}
    weighed = {place for place, name in places if is_whole_model(name)}
    whole = sorted(p for p in described & weighed if not _is_same(str(folder / p), base))
    for place in whole:
        if place.rpartition("/")[2] == "relora":
            raise InputError(
                f"{folder} was left by ReLoRA: its adapter belongs to the base with earlier ones "
                f"merged in. Please audit it by --target {folder / place} --adapter {folder}."
            )
    caveats = [
        f"{folder.name}/{place} is a whole model: if the adapter was trained on it, and not merged "
        "into it, it is the base to audit."
        for place in whole
    ]
    if method := _preference_method(folder / "README.md"):
        caveats.append(
            f"The adapter in {folder.name} was trained by preferences ({method}). Such training "
            "often begins with a model into which an adapter of supervised training was merged, "
            "and still names the original base: if so, the merged model is the base to audit."
        )
    return caveats


def is_whole_model(name: str) -> bool:
    """Tell whether a file by its name holds a whole model's weights, or a part of them."""
    return bool(_WEIGHTS.fullmatch(name))


def _preference_method(card: Path) -> str:
    """Return the preference training that a trainer's model card has among its tags, if any."""
    if not card.is_file():
        return ""
    with card.open("rb") as file:
        head = file.read(CARD_BYTES).decode("utf-8", "replace").split("\n---", 1)[0]
    return next((tag for tag in re.findall(r"^- (\S+)$", head, re.MULTILINE) if tag in _TAGS), "")


@dataclass(frozen=True, slots=True)
class SavedTokenizer:
    """How the tokenizer files beside an adapter differ from those of its base."""

    differences: tuple[str, ...]
    """In words; empty where the base is not on this machine."""
    template: bool
    """Whether it has a chat template of its own."""

    def caveat(self) -> str:
        """Return a sentence that says which tokenizer was used, and how it differs."""
        if not self.differences:
            return (
                "The tokenizer saved beside the adapter was used; it was not compared with the "
                "base's, which was not on this machine."
            )
        return (
            "The tokenizer saved beside the adapter was used, not the base's: it has "
            f"{self.listed()}."
        )

    def listed(self) -> str:
        """Return the differences as one phrase."""
        *others, last = self.differences
        return f"{', '.join(others)} and {last}" if others else last


def saved_tokenizer(folder: Path, base: Path | None) -> SavedTokenizer | None:
    """Compare the tokenizer beside the adapter in `folder` with that of `base`.

    None where there is none, or where it does what the base's does. `base` is None where the base
    is not on this machine. Raises InputError if the id of an ordinary token means another one: the
    adapter was trained on other text than the base's tokenizer makes of it.
    """
    if not adapters.tokenizer_files(folder):
        return None
    template = _template(folder)
    if base is None:
        return SavedTokenizer((), False)
    differences = _vocabulary_differences(folder, base)
    for name, what in (("eos_token", "ends"), ("bos_token", "begins")):
        mine, theirs = _special(folder, name), _special(base, name)
        if mine and mine != theirs:
            instead = f", not {_show(theirs)}" if theirs else ""
            differences.append(f"{_show(mine)} as the token that {what} a text{instead}")
    own_template = bool(template) and template != _template(base)
    if own_template:
        differences.append("a chat template of its own")
    return SavedTokenizer(tuple(differences), own_template) if differences else None


def _vocabulary_differences(folder: Path, base: Path) -> list[str]:
    """Return in words how two tokenizers' files differ in their tokens and rules."""
    (mine, special), (theirs, base_special) = _tokens(folder), _tokens(base)
    if not mine or not theirs:  # compared once they are loaded
        named = [name for name in adapters.VOCABULARY if (folder / name).is_file()]
        same = all(
            (base / name).is_file() and sha256(folder / name) == sha256(base / name)
            for name in named
        )
        return [] if same else [f"a {named[0]} of its own"]
    other = [number for number in mine.keys() & theirs.keys() if mine[number] != theirs[number]]
    for number in sorted(set(other) - special - base_special):
        raise InputError(
            f"{folder} comes with a tokenizer in which token {number} is "
            f"{_show(mine[number])}, and in that of the base {base} it is "
            f"{_show(theirs[number])}: it was trained on another base."
        )
    counts = {
        "renamed special token": len(other),
        "further token": len(mine.keys() - theirs.keys()),
        "missing token": len(theirs.keys() - mine.keys()),
    }
    said = [f"{n:,} {what}{'' if n == 1 else 's'}" for what, n in counts.items() if n]
    rules, base_rules = _rules(folder), _rules(base)
    return said + (["other rules of how texts become tokens"] if rules != base_rules else [])


def _is_same(named: str, base: str) -> bool:
    """Tell whether two names are of one model: equal, one folder, or a local copy by its name."""
    if named == base or _cached(base)[0] == named:
        return True
    here, there = Path(base), Path(named)
    if here.is_dir() and there.is_dir():
        return here.resolve() == there.resolve()
    name = here.name.casefold()
    return here.is_dir() and name == there.name.casefold() and name not in _SAYS_NOTHING


def _cached(base: str) -> tuple[str, str]:
    """Return the hub id and the revision of a folder in the hub's cache; empty for another."""
    match = _CACHED.search(base)
    return (match[1].replace("--", "/"), match[2]) if match else ("", "")


def _tokens(folder: Path) -> tuple[dict[int, str], set[int]]:
    """Return a tokenizer's tokens by id, and the ids of added ones; empty if they are not JSON."""
    table = _object(folder / TOKENIZER)
    model = table.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else _object(folder / SLOW)
    tokens: dict[int, str] = {}
    if isinstance(vocabulary, dict):
        tokens = {n: str(token) for token, n in vocabulary.items() if type(n) is int}
    elif isinstance(vocabulary, list):
        tokens = {
            n: str(row[0]) for n, row in enumerate(vocabulary) if isinstance(row, list) and row
        }
    rows = table.get("added_tokens")
    added = {
        row["id"]: str(row.get("content"))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and type(row.get("id")) is int
    }
    if not table and tokens:
        plain = _object(folder / "added_tokens.json")
        added = {n: str(token) for token, n in plain.items() if type(n) is int}
    return {**tokens, **added}, set(added)


def _rules(folder: Path) -> Any:
    """Return what a tokenizer.json says beside its tokens, whichever version wrote it."""
    table = dict(_object(folder / TOKENIZER))
    for name in ("version", "truncation", "padding", "added_tokens"):  # set anew for each call
        table.pop(name, None)
    model = table.get("model")
    if isinstance(model, dict):
        merges = model.get("merges")
        pairs = [" ".join(map(str, m)) if isinstance(m, list) else m for m in merges or ()]
        table["model"] = {**model, "vocab": None, "merges": pairs}
    return _without_empty(table)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        entries = {key: _without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in entries.items() if inner not in (None, False, "", [])}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value


def _special(folder: Path, which: str) -> str:
    for name in (SETTINGS, SPECIAL):
        token = _object(folder / name).get(which)
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and token:
            return token
    return ""


def chat_templates(folder: Path) -> dict[str, str]:
    """Return the chat templates saved in a folder by their names; a lone one is the `default`.

    Files of templates go before those in `tokenizer_config.json`, as in transformers, and these
    before a processor's.
    """
    templates = _named_templates(_object(folder / adapters.PROCESSOR_TEMPLATE))
    templates = _named_templates(_object(folder / SETTINGS)) or templates
    files = {"default": folder / adapters.CHAT_TEMPLATE}
    files |= {path.stem: path for path in sorted((folder / adapters.TEMPLATES).glob("*.jinja"))}
    texts = {
        name: path.read_text("utf-8", "replace")
        for name, path in files.items()
        if path.is_file() and path.stat().st_size <= adapters.LONGEST
    }
    return texts or templates


def _named_templates(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the templates of a JSON object: a text, a table of them or a list with their names."""
    said = table.get("chat_template")
    if isinstance(said, list):
        said = {row.get("name"): row.get("template") for row in said if isinstance(row, dict)}
    templates = said if isinstance(said, dict) else {"default": said}
    return {str(name): text for name, text in templates.items() if text and isinstance(text, str)}


def _template(folder: Path) -> str:
    """Return a folder's default chat template, without blanks at its ends; empty for none.

    Where none is the default, the result is all of them.
    """
    templates = chat_templates(folder)
    return templates.get("default", "\n".join(templates.values())).strip()


def _object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is none."""
    if not path.is_file():
        return {}
    try:
        table = read_json(path, "")
    except InputError:
        return {}
    return table if isinstance(table, dict) else {}


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _show(token: str) -> str:
    return repr(token[:SHOWN_CHARS])
