"""Hooks of the site: tables from the package's data, and names of files outside the site."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "fedaudit"
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


def categories(known: dict[str, Any]) -> str:
    """Return a section with a table for each major category of the taxonomy."""
    head = ["category", "what", "for instance", *(one["name"] for one in known["norms"].values())]
    text = "\n## The categories\n"
    for major in known["major"]:
        rows = [
            [one["name"], one["description"], "; ".join(one["examples"])]
            + ["; ".join(one[norm]) for norm in known["norms"]]
            + [", ".join(f"`{label}`" for label in one["labels"])]
            for one in major["minor"]
        ]
        text += f"\n### {major['name']}\n\n{major['description']}\n\n"
        text += table([*head, "labels"], rows) + "\n"
    return text


def clauses(known: dict[str, Any]) -> str:
    """Return a section with a table of the clauses of each norm."""
    text = "\n## The clauses\n"
    for norm in known["norms"].values():
        text += f"\n### {norm['name']}\n\n{norm['title']}.\n\n"
        text += table(["clause", "about"], [list(one) for one in norm["clauses"].items()]) + "\n"
    return text


def with_tables(markdown: str) -> str:
    """Return a page with the tables of schema and taxonomy in the places of their comments."""
    if "<!-- taxonomy -->" in markdown:
        known = tomllib.loads((PACKAGE / "pii" / "taxonomy.toml").read_text("utf-8"))
        markdown = markdown.replace("<!-- taxonomy -->", categories(known) + clauses(known))
    schema = json.loads((PACKAGE / "report" / "schema.json").read_text("utf-8"))
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
    return OUTSIDE.sub(r"\1 (`\2`)", with_tables(markdown))
