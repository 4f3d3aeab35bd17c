"""Plugins, ours and a stranger's, import from the list of `fedaudit.api` and from kits only."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedaudit.api
from fedaudit.api import KITS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "writing-a-plugin.md").read_text("utf-8")
CODE = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for folder in ("plugins", "tests/third_party", "examples/plugins")
    for path in sorted((ROOT / folder).rglob("*.py"))
} | {
    f"docs/writing-a-plugin.md, block {number}": block
    for number, block in enumerate(re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE), 1)
}


def imported_names(code: str) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for all that code imports of fedaudit; no name for a whole module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        yield from (pair for pair in names if pair[0].partition(".")[0] == "fedaudit")


def allowed(module: str, name: str) -> bool:
    """Tell whether a plugin may import `name` of `module`."""
    if module == "fedaudit.api":
        return name in fedaudit.api.__all__
    parts = f"{module}.{name}".rstrip(".").split(".")
    inside = any(".".join(parts[: kit.count(".") + 1]) == kit for kit in KITS)
    return inside and not any(part.startswith("_") for part in parts)


def test_plugins_import_what_the_list_and_the_kits_have():
    wrong = [
        f"{place}: {module} {name}"
        for place, code in CODE.items()
        for module, name in imported_names(code)
        if not allowed(module, name)
    ]
    assert not wrong


def test_the_check_refuses_what_is_internal():
    code = """
import fedaudit.audit.run
def f():
    from fedaudit.api.plugin import Attack
    from fedaudit.api import Attack, hookspec
    from fedaudit.federation import adapters, folder
    from fedaudit.metrics.intervals import _z
    from fedaudit.metrics.intervals import wilson
    from .own import x
"""
    assert [name or module for module, name in imported_names(code) if not allowed(module, name)]\
        == ["fedaudit.audit.run", "Attack", "hookspec", "folder", "_z"]  # fmt: skip


def test_every_kit_is_used_by_a_plugin():
    imports = {
        f"{module}.{name}." for code in CODE.values() for module, name in imported_names(code)
    }
    assert not [kit for kit in KITS if not any(name.startswith(f"{kit}.") for name in imports)]


def test_the_page_names_the_kits():
    rows = re.findall(r"(?m)^\| `(fedaudit\.[\w.]+)` \| (.+) \|$", PAGE)
    assert {kit: purpose.replace("`", "") for kit, purpose in rows} == KITS


def test_the_list_is_all_there_is_and_sorted():
    names = fedaudit.api.__all__
    modules = {path.stem for path in (ROOT / "fedaudit" / "api").glob("*.py")}
    public = {name for name in vars(fedaudit.api) if not name.startswith("_")} - modules
    assert sorted(names) == sorted(public)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", ["class", "function"])
def test_every_class_and_function_of_the_list_is_documented(kind):
    wanted = type if kind == "class" else type(allowed)
    members = [getattr(fedaudit.api, name) for name in fedaudit.api.__all__]
    chosen = [one for one in members if isinstance(one, wanted)]
    assert chosen
    assert not [one.__name__ for one in chosen if not one.__doc__]


def test_what_hooks_return_is_in_the_list():
    hooks = importlib.import_module("fedaudit.api.hooks")
    returned = {
        re.findall(r"\w+", function.__annotations__["return"])[-1]
        for name, function in vars(hooks).items()
        if name.startswith("fedaudit_")
    }
    assert returned <= set(fedaudit.api.__all__)


def test_the_list_needs_nothing_else_of_fedaudit_and_no_torch():
    code = """
import sys, fedaudit.api
ours = {name for name in sys.modules if name.startswith("fedaudit.")}
print({name for name in ours if not name.startswith("fedaudit.api")})
print({"torch", "numpy", "transformers", "rich"} & sys.modules.keys())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nset()\n"
