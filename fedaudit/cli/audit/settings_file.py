"""fedaudit.toml: an audit written down in its folder, and `fedaudit init`, which writes it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.cli.console import print_text
from fedaudit.system.documents import parse_toml
from fedaudit.system.files import atomic_text, read_regular

if TYPE_CHECKING:
    import click

NAME, TABLE = "fedaudit.toml", "audit"
KEYS = (
    *("target", "adapter", "prefixes", "victim", "held-out", "canaries", "commitment"),
    *("watermark", "policy", "release", "position", "declared-by", "party", "round", "client"),
    *("attack", "detector", "pattern", "template", "seed"),
)
"""The options of `fedaudit audit` that the file may set: what is audited, and by which rules.
Output paths and settings of the machine are left out: the file may come from another party."""
DEEPEST = 2
"""How many folders down `init` looks."""
ROLES = {
    "prefixes": ("ours", "own", "mine", "local", "attacker"),
    "victim": ("theirs", "victim", "others"),
    "held-out": ("held_out", "held-out", "heldout", "unseen"),
}
"""Names of files of records, by the option that they are for."""
COMMENTS = {
    "prefixes": "your own records: the attacker's",
    "victim": "the records that must not come out",
    "held-out": "records like the victim's that no training saw: without them no membership test",
    "policy": "default, strict, research, or a file of your own",
    "party": "what pages call the parties",
    "pattern": "kinds of personal data of your own",
}


def option_defaults(command: "click.Command", words: Sequence[str]) -> dict[str, Any]:
    """Return the values of fedaudit.toml here, by parameter of the `command` `fedaudit audit`.

    There are none without a file, and where the `words` behind the command name what is audited:
    the file is about something else then. Raises InputError for a file that cannot be read or has
    other keys or types.
    """
    path = Path(NAME)
    if not path.exists():
        return {}
    typed = command.make_context(command.name, list(words), resilient_parsing=True).params
    if typed.get("run") or typed.get("target"):
        return {}
    try:
        tables = parse_toml(read_regular(path), path)
    except OSError as error:
        raise InputError(f"{NAME} cannot be read: {error}.") from None
    if set(tables) != {TABLE} or not isinstance(tables[TABLE], dict):
        raise InputError(f"{NAME}: all settings stand in one table, [{TABLE}].")
    options = {opt.lstrip("-"): one for one in command.params for opt in one.opts}
    values = {}
    for key, value in tables[TABLE].items():
        if key not in KEYS:
            raise InputError(f"{NAME}: {unknown_name_error('setting', key, KEYS)}")
        several = getattr(options[key], "multiple", False)
        whole = int if key in ("round", "seed") else str
        items = value if several else [value]
        if not isinstance(items, list) or not all(type(item) is whole for item in items):
            kind = "a list of texts" if several else "a number" if whole is int else "a text"
            raise InputError(f"{NAME}: {key} takes {kind}.")
        values[str(options[key].name)] = value
    return values


def init() -> int:
    """Write fedaudit.toml for the audit of what is in this folder.

    It names the federation, or the base with its adapter, and the files of records that it finds;
    `fedaudit audit` without options reads it. Look at which file is whose before you audit.
    """
    path = Path(NAME)
    if path.exists():
        raise InputError(f"{NAME} is there already; delete it first to have it written anew.")
    found = {**_model(), **_records()}
    if "target" not in found:
        if adapter := found.get("adapter"):
            raise InputError(
                f"{adapter} names no base, and here is no folder of one: put it here, or name it "
                f"with `fedaudit audit BASE --adapter {adapter}`."
            )
        raise InputError(
            "Here is neither a federation's folder (federation.json) nor one adapter "
            "(adapter_config.json): go to the folder that has it, or make a federation with "
            "`fedaudit simulate --profile fed_pii`."
        )
    atomic_text(path, "\n".join(_lines(found)) + "\n")
    for key, value in found.items():
        print_text(f"{key:10} {value}")
    print_text(f"{NAME} is written. Next: fedaudit audit --dry-run, then fedaudit audit")
    return 0


def _model() -> dict[str, str]:
    """Return the federation here, or the base and the adapter; only what there is one of."""
    from fedaudit.federation import adapters

    if federations := list(_folders("federation.json")):
        return {"target": federations[-1]}
    folders = list(_folders(adapters.CONFIG))
    if len(folders) != 1:
        return {}
    [adapter] = folders
    bases = [one for one in _folders("config.json") if one != adapter]
    named = str(adapters.read_config(Path(adapter)).get("base_model_name_or_path") or "")
    base = bases[0] if len(bases) == 1 else named
    return {"target": base, "adapter": adapter} if base else {"adapter": adapter}


def _records() -> dict[str, str]:
    """Return files of records by role: by their names, else the first two in alphabetical order."""
    from fedaudit.data import tables

    files = sorted(
        path
        for path in Path().iterdir()
        if path.is_file() and (path.suffix == ".jsonl" or tables.is_table(path))
    )
    found = {
        role: str(path)
        for role, names in ROLES.items()
        for path in files
        if path.stem.casefold() in names
    }
    rest = [str(path) for path in files if str(path) not in found.values()]
    for role in ("prefixes", "victim"):
        if role not in found and rest:
            found[role] = rest.pop(0)
    return found


def _folders(file: str) -> Iterator[str]:
    """Yield the folders here that hold a file of this name, the oldest first."""
    depths = ["/".join(["*"] * depth + [file]) for depth in range(DEEPEST + 1)]
    places = [path for pattern in depths for path in Path().glob(pattern) if path.is_file()]
    for path in sorted(places, key=lambda path: (path.stat().st_mtime, str(path))):
        yield str(path.parent)


def _lines(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the file."""
    import json  # a JSON string is a TOML string

    yield "# What `fedaudit audit` audits in this folder. Options that you type take precedence."
    yield f"[{TABLE}]"
    for key, value in found.items():
        comment = f"  # {COMMENTS[key]}" if key in COMMENTS else ""
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}{comment}"
    for key, example in (
        ("victim", '"theirs.jsonl"'),
        ("held-out", '"held_out.jsonl"'),
        ("policy", '"strict"'),
        ("party", '["c1=St Mary\'s Hospital"]'),
        ("pattern", '["CASE_NUMBER=[A-Z]{2}/[0-9]{4}"]'),
    ):
        if key not in found:
            yield f"# {key} = {example}  # {COMMENTS[key]}"
