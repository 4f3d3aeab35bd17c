"""Imports point one way, packages are shipped, and modules stay small."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A room (a folder or module of fedaudit/) imports from rooms below its own line, and from itself.
LAYERS = [
    {"__main__"},
    {"cli"},
    {"study"},
    {"attribution"},
    {"audit", "simulation"},
    {"report"},
    {"annotation"},
    {"registry", "profile"},
    {"synthesis"},
    {"engine", "judge"},
    {"hookspecs", "corpus", "nano", "federation"},
    {"attributor", "formats", "profile_tables"},
    {"defense", "secure", "watermark", "conversation", "locks"},
    {"interfaces", "prompts", "pii", "metrics", "files", "names", "options", "processes"},
    {"sandbox"},
    {"landlock"},
    {"records"},
    {"estimates"},
    {"errors"},
    {"__init__"},
]
PLUGINS_KEEP_OUT = {"__main__", "cli", "study", "simulation", "registry", "profile"}
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


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def test_every_room_has_a_place():
    assert {room(name) for name, _ in CORE} == RANK.keys()


@pytest.mark.parametrize(("name", "path"), CORE, ids=[name for name, _ in CORE])
def test_the_core_imports_downwards_and_no_plugin(name, path):
    for imported in imports(name, parsed(path)):
        top = imported.partition(".")[0]
        assert top not in {"fedaudit_plugins", "plugins"}, f"{name} imports {imported}"
        if top == "fedaudit" and room(imported) != room(name):
            assert RANK[room(imported)] < RANK[room(name)], f"{name} imports {imported}"


@pytest.mark.parametrize(("name", "path"), PLUGINS, ids=[name for name, _ in PLUGINS])
def test_plugins_keep_out_of_what_runs_them(name, path):
    for imported in imports(name, parsed(path)):
        if imported.partition(".")[0] == "fedaudit":
            assert room(imported) not in PLUGINS_KEEP_OUT, f"{name} imports {imported}"


@pytest.mark.parametrize(("name", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_models_are_imported_with_a_module_in_the_engine_only(name, path):
    heavy = {i for i in imports(name, at_start(parsed(path))) if i.partition(".")[0] in HEAVY}
    assert not heavy or name.startswith("fedaudit.engine."), f"{name} imports {heavy}"


def test_the_checks_see_through_every_way_to_import():
    code = "from ..report import html\nfrom . import scoring\nimport fedaudit.cli.console as s\n"
    found = list(imports("fedaudit.audit.extract", ast.parse(code)))
    assert found == [
        "fedaudit.report.renderers.html",
        "fedaudit.extraction.scoring",
        "fedaudit.cli.console",
    ]
    late = "def f():\n import torch\nif TYPE_CHECKING:\n import peft\nclass C:\n import a\n"
    assert list(imports("x", at_start(ast.parse(late)))) == ["a"]
    assert room("fedaudit") == "__init__"


def test_every_package_is_shipped():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {name.removesuffix(".__init__") for name, _ in MODULES if name.endswith(".__init__")}
    assert sorted(listed) == sorted(found)
    assert {name.rpartition(".")[0] for name, _ in MODULES} <= found


@pytest.mark.parametrize(("name", "path"), MODULES, ids=[name for name, _ in MODULES])
def test_modules_are_small(name, path):
    assert len(path.read_text("utf-8").splitlines()) <= 300
