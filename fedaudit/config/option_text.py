"""Options as text: a value as `--set` takes it, and what each option means."""

import ast
import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that TOML takes without quotes."""


def toml_value(value: Any) -> str:
    """Return a value as TOML, the form that `--set` takes; None, which TOML lacks, is "not set"."""
    if value is None:
        return "not set"
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(str(key))} = {toml_value(of)}" for key, of in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, float):
        return repr(value)  # JSON spells infinity otherwise
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")  # JSON leaves this control character as it is


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def option_docs(cls: type) -> dict[str, str]:
    """Return what the options of a dataclass mean, by name: the docstring below each field.

    Python keeps no docstrings of fields, so they are read from the source; an option whose class
    has no source at hand, or no docstring, is left out.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        docs |= _field_docstrings(tree)
    names = {option.name for option in dataclasses.fields(cls)}
    return {name: text for name, text in docs.items() if name in names}


def _field_docstrings(tree: ast.Module) -> dict[str, str]:
    """Return the docstrings that follow the annotated names of the one class in `tree`."""
    (definition,) = tree.body
    if not isinstance(definition, ast.ClassDef):
        return {}
    docs = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = " ".join(text.split())
    return docs
