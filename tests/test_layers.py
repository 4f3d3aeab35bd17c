"""Imports point one way, without circles, and every package is shipped."""

import ast
import runpy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A room (a folder of fedaudit/) imports from rooms below its own line, and from itself.
LAYERS = [
    {"__main__"},
    {"cli", "flower", "nvflare"},
    {"reproduction", "joint"},
    {"audit"},
    {"attribution"},
    {"conversion", "extraction", "simulation", "testing", "watch"},
    {"canaries", "engine", "cache"},
    {"data", "federation"},
    {"judge", "nano", "report"},
    {"config"},
    {"metrics", "pii", "system"},
    {"api"},
    {"__init__"},
]
PLUGINS_KEEP_OUT = {"__main__", "cli", "config", "conversion", "reproduction", "simulation"}
HEAVY = {"torch", "transformers", "peft"}

RANK = {room: rank for rank, rooms in enumerate(reversed(LAYERS)) for room in rooms}
FOLDERS = {"fedaudit": "fedaudit", "fedaudit_plugins": "plugins", "fedaudit_profiles": "profiles"}
MODULES = [
    (".".join((package, *path.relative_to(ROOT / folder).with_suffix("").parts)), path)
    for package, folder in FOLDERS.items()
    for path in sorted((ROOT / folder).rglob("*.py"))
]
CORE = [(name, path) for name, path in MODULES if name.startswith("fedaudit.")]
PLUGINS = [module for module in MODULES if module not in CORE]
NAMES = {name.removesuffix(".__init__") for name, _ in MODULES}


PATHS = dict(MODULES)


def parsed(name: str) -> ast.Module:
    return ast.parse(PATHS[name].read_text("utf-8"))


@cache
def imported_by(name: str) -> tuple[str, ...]:
    """Return what a module imports anywhere in it."""
    return tuple(imports(name, parsed(name)))


def imports(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield the absolute names that a module's tree imports; submodules by their own name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(name.split(".")[: -node.level]) if node.level else ""
            source = ".".join(filter(None, (above, node.module)))
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole in NAMES else source


def room(name: str) -> str:
    """Return the room of a module of fedaudit."""
    return f"{name}.__init__".split(".")[1]


def at_start(tree: ast.Module) -> ast.Module:
    """Return what runs when the module is imported: no function bodies, no TYPE_CHECKING."""

    class Shallow(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
            return None

        def visit_If(self, node: ast.If) -> ast.AST | None:
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Shallow().visit(tree)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, each sorted; Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, set()):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return found


def test_every_room_has_a_layer():
    assert {room(name) for name, _ in CORE} == RANK.keys()


def test_the_core_imports_downwards_and_no_plugin():
    wrong = []
    for name, _ in CORE:
        for imported in imported_by(name):
            top = imported.partition(".")[0]
            upwards = top == "fedaudit" and room(imported) != room(name)
            if top in {"fedaudit_plugins", "plugins"} or (
                upwards and RANK[room(imported)] >= RANK[room(name)]
            ):
                wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_plugins_keep_out_of_what_runs_them():
    assert not [
        f"{name} imports {imported}"
        for name, _ in PLUGINS
        for imported in imported_by(name)
        if imported.partition(".")[0] == "fedaudit" and room(imported) in PLUGINS_KEEP_OUT
    ]


def test_no_modules_import_each_other():
    graph = {name.removesuffix(".__init__"): set(imported_by(name)) & NAMES for name in PATHS}
    assert circles(graph) == []


def test_circles_are_found():
    graph = {
        "a": {"b"},
        "b": {"c"},
        "c": {"a", "d"},
        "d": {"e"},
        "e": set(),
        "f": {"g"},
        "g": {"f"},
    }
    assert sorted(circles(graph)) == [["a", "b", "c"], ["f", "g"]]


def test_models_are_imported_with_a_module_in_the_engine_only():
    def heavy(found: Iterable[str]) -> set[str]:
        return {one for one in found if one.partition(".")[0] in HEAVY}

    assert not [
        f"{name} imports {early}"
        for name in PATHS
        if not name.startswith("fedaudit.engine.") and heavy(imported_by(name))
        if (early := heavy(imports(name, at_start(parsed(name)))))
    ]


def test_the_checks_see_through_every_way_to_import():
    code = "from ..report import document\nfrom . import run\nimport fedaudit.cli.console as s\n"
    found = list(imports("fedaudit.audit.request", ast.parse(code)))
    assert found == ["fedaudit.report.document", "fedaudit.audit.run", "fedaudit.cli.console"]
    late = "def f():\n import torch\nif TYPE_CHECKING:\n import peft\nclass C:\n import a\n"
    assert list(imports("x", at_start(ast.parse(late)))) == ["a"]
    assert room("fedaudit") == "__init__"


def test_every_package_is_shipped():
    listed = runpy.run_path(str(ROOT / "setup.py"))["packages"]()
    found = {name.removesuffix(".__init__") for name, _ in MODULES if name.endswith(".__init__")}
    assert sorted(listed) == sorted(found)
    assert {name.rpartition(".")[0] for name, _ in MODULES} <= found


def test_no_two_test_modules_have_one_name():
    """Pytest imports them by their names alone."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
