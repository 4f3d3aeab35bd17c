"""What an adapter's files say about the model it was trained on, compared with its base here.

An adapter's configuration names a base, perhaps a revision of it, and often the base in a coarse
format. Trainers save the tokenizer and the chat template of training beside the adapter. None of it
is used: a difference is a caveat, and token ids that mean other tokens are refused.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.federation import adapters
from fedaudit.system.files import read_json

TOKENIZER, SETTINGS, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
TEMPLATE = "chat_template.jinja"
SHOWN_CHARS = 60
_COARSE = re.compile(r"(?:4|8)-?bit|bnb|gptq|awq|nf4|int[48]|fp8|q[48]_", re.IGNORECASE)
"""Parts of the names of bases in formats of few bits."""
_CACHED = re.compile(r"models--(.+)/snapshots/([^/]+)/?$")
"""A model's folder in the hub's cache: its name, with -- for /, and its revision."""


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


def tokenizer_caveats(folder: Path, base: Path) -> list[str]:
    """Return a sentence on how the tokenizer saved beside an adapter differs from the base's.

    Raises InputError if a token id means different tokens: the adapter was trained on other text
    than the base's tokenizer makes of it.
    """
    mine, theirs = _tokens(folder), _tokens(base)
    for number in sorted(mine.keys() & theirs.keys()):
        if mine[number] != theirs[number]:
            raise InputError(
                f"{folder} comes with a tokenizer in which token {number} is "
                f"{_show(mine[number])}, and in that of the base {base} it is "
                f"{_show(theirs[number])}: it was trained on another base."
            )
    differences = []
    if theirs and (further := len(mine.keys() - theirs.keys())):
        differences.append(f"{further:,} further token{'' if further == 1 else 's'}")
    eos, base_eos = _end_token(folder), _end_token(base)
    if eos and eos != base_eos:
        differences.append(f"{_show(eos)} as the token that ends a text, not {_show(base_eos)}")
    template = _template(folder)
    if template and template != _template(base):
        differences.append("a chat template of its own")
    if not differences:
        return []
    listed = " and ".join(filter(None, (", ".join(differences[:-1]), differences[-1])))
    return [
        f"The adapter was saved with a tokenizer that has {listed}. The base's tokenizer was used, "
        "and --template decides how records became text: where training rendered them by that chat "
        "template, give one that renders them so."
    ]


def _is_same(named: str, base: str) -> bool:
    """Tell whether two names are of one model: equal, one folder, or a local copy by its name."""
    if named == base or _cached(base)[0] == named:
        return True
    here, there = Path(base), Path(named)
    if here.is_dir() and there.is_dir():
        return here.resolve() == there.resolve()
    return here.is_dir() and here.name.casefold() == there.name.casefold()


def _cached(base: str) -> tuple[str, str]:
    """Return the hub id and the revision of a folder in the hub's cache; empty for another."""
    match = _CACHED.search(base)
    return (match[1].replace("--", "/"), match[2]) if match else ("", "")


def _tokens(folder: Path) -> dict[int, str]:
    """Return the tokens of a folder's fast tokenizer by id; empty if there is none."""
    table = _object(folder / TOKENIZER)
    model = table.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    tokens: dict[int, str] = {}
    if isinstance(vocabulary, dict):
        tokens = {n: str(token) for token, n in vocabulary.items() if type(n) is int}
    elif isinstance(vocabulary, list):
        tokens = {
            n: str(row[0]) for n, row in enumerate(vocabulary) if isinstance(row, list) and row
        }
    added = table.get("added_tokens")
    for row in added if isinstance(added, list) else ():
        if isinstance(row, dict) and type(row.get("id")) is int:
            tokens[row["id"]] = str(row.get("content"))
    return tokens


def _end_token(folder: Path) -> str:
    for name in (SETTINGS, SPECIAL):
        token = _object(folder / name).get("eos_token")
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str) and token:
            return token
    return ""


def _template(folder: Path) -> str:
    """Return a folder's chat template, without blanks at its ends; empty if there is none."""
    path = folder / TEMPLATE
    if path.is_file() and path.stat().st_size <= adapters.LONGEST:
        return path.read_text("utf-8", "replace").strip()
    template = _object(folder / SETTINGS).get("chat_template")
    return template.strip() if isinstance(template, str) else ""


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
