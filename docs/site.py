"""Hooks of the site's build: tables of the report's fields, and names of files outside the site."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).parents[1] / "fedaudit" / "report" / "schema.json"
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#\s]+)[^)]*\)")
TABLE = re.compile(r"<!-- (fields|metrics) of the schema:? ?([a-z_ ]*) -->")


def fields(node: dict[str, Any], schema: dict[str, Any], place: str = "") -> Iterator[list[str]]:
    """Yield the dotted path and the meaning of every property below a node of the schema."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    for branch in node.get("anyOf", ()):
        yield from fields(branch, schema, place)
    for name, inner in node.get("properties", {}).items():
        path = f"{place}.{name}" if place else name
        path += "[]" * isinstance(inner.get("items"), dict)
        yield [f"`{path}`", inner["description"]]
        yield from fields(inner, schema, path)
    if isinstance(node.get("items"), dict):
        yield from fields(node["items"], schema, place)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table of Markdown; pages that cells name become links."""
    lines = [head, ["---"] * len(head), *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return re.sub(r"docs/([\w-]+\.md(?:#[\w-]+)?)", r"[\1](\1)", text)


def with_tables(markdown: str) -> str:
    """Return a page with the tables of the schema in the places of their comments."""
    schema = json.loads(SCHEMA.read_text("utf-8"))
    measured = schema["$defs"]["measurement"]["properties"]["metric"]["metrics"]

    def one(found: re.Match[str]) -> str:
        if found[1] == "metrics":
            rows = [[f"`{name}`", one["unit"], one["meaning"]] for name, one in measured.items()]
            return table(["metric", "unit", "meaning"], rows)
        part = {"properties": {name: schema["properties"][name] for name in found[2].split()}}
        return table(["field", "meaning"], list(fields(part, schema)))

    return TABLE.sub(one, markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its tables, links to files outside the site replaced by their names."""
    return OUTSIDE.sub(r"\1 (`\2` in the repository)", with_tables(markdown))
