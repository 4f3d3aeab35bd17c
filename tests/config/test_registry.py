"""Finding plugins: strangers' packages beside our own, and what is said of broken ones."""

import importlib
import sys
from importlib.metadata import entry_points

import pytest

from fedaudit.api.errors import PluginError, UsageError
from fedaudit.config import registry

ATTACK = """
from dataclasses import dataclass, field
from fedaudit.api.hooks import hookimpl
from fedaudit.api.plugin import Attack, Result

@dataclass(frozen=True)
class Stub(Attack):
    '''Ask nothing.

    And say nothing.'''

    name = "{name}"
    depth: int = 3
    words: tuple[str, ...] = field(default_factory=tuple)

    def run(self, case):
        return Result()

@hookimpl
def fedaudit_attacks():
    return [Stub]
"""


def forget() -> None:
    registry.manager.cache_clear()
    registry.plugins.cache_clear()
    importlib.invalidate_caches()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a package of one module with one entry point."""
    monkeypatch.delenv("FEDAUDIT_DISABLE_PLUGINS", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    installed = []

    def installing(package: str, code: str, entry: str | None = None) -> None:
        (tmp_path / f"{package}.py").write_text(code)
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        line = f"{entry or package} = {package}"
        (info / "entry_points.txt").write_text(f"[fedaudit]\n{line}\n")
        installed.append(package)
        forget()

    forget()
    yield installing
    forget()
    for package in installed:
        sys.modules.pop(package, None)


def test_our_own_plugins_come_from_entry_points_like_anybodys():
    values = {
        entry.value for entry in entry_points(group="fedaudit") if entry.dist.name == "fedaudit"
    }
    assert {value.partition(".")[0] for value in values} == {"fedaudit_plugins"}
    for kind in registry.KINDS:
        ours = [c for c in registry.plugins(kind).values() if "fedaudit_plugins" in c.__module__]
        assert ours, f"no built-in {kind}"
        assert all(any(c.__module__.startswith(f"{value}.") for value in values) for c in ours)


def test_a_strangers_plugin_stands_beside_ours(install):
    install("stranger_one", ATTACK.format(name="stub"))
    assert list(registry.plugins("attack")) == sorted(["stub", *_builtin("attack")])
    stub = registry.create("attack", "stub", {"depth": 5, "words": "a,b"})
    assert (stub.depth, stub.words) == (5, ("a", "b"))
    assert registry.distribution(type(stub)) == "stranger_one 1.0"
    assert registry.summary(type(stub)) == "Ask nothing."
    assert registry.describe("attack", type(stub)) == [
        "attack stub: Ask nothing.",
        "paper: none",
        "package: stranger_one 1.0",
        "  depth = 3",
        "  words = []",
    ]


def _builtin(kind: str) -> list[str]:
    offered = registry.plugins(kind)
    return [name for name, cls in offered.items() if cls.__module__.startswith("fedaudit_plugins")]


def test_an_entry_point_named_as_ours_is_refused(install):
    install("stranger_two", ATTACK.format(name="stub"), entry="attacks")
    with pytest.raises(PluginError, match="entry-point name 'attacks': fedaudit, stranger_two"):
        registry.manager()


def test_two_plugins_of_one_name_are_refused(install):
    install("stranger_three", ATTACK.format(name="contextual"))
    with pytest.raises(PluginError, match="Two plugins offer the attack 'contextual'") as caught:
        registry.plugins("attack")
    assert "stranger_three 1.0" in str(caught.value)
    assert "fedaudit " in str(caught.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("1 / 0", "division by zero"),
        ("def broken(:", "syntax"),
    ],
)
def test_a_plugin_that_does_not_import_is_named_with_its_package(install, code, message):
    install("stranger_four", code, entry="fourth")
    with pytest.raises(
        PluginError, match=f"Plugin 'fourth' of stranger_four .*{message}"
    ) as caught:
        registry.plugins("attack")
    assert caught.value.exit_code == 2


def test_a_misspelt_hook_is_an_error_and_not_silence(install):
    install("stranger_five", ATTACK.format(name="stub").replace("_attacks", "_atacks"))
    with pytest.raises(
        PluginError,
        match=r"stranger_five.*No hook named 'fedaudit_atacks'. Did you mean 'fedaudit_attacks'",
    ):
        registry.plugins("attack")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('out of order')", "out of order"),
        ("return None", "not iterable"),
        ("return [Stub()]", "not a plugin"),
        ("return [int]", "not a plugin"),
        ("return [Attack]", "not a plugin"),
    ],
)
def test_a_hook_that_returns_no_plugins_is_named(install, body, message):
    code = ATTACK.format(name="stub").replace("return [Stub]", body)
    install("stranger_six", code)
    with pytest.raises(
        PluginError, match=f"Plugin 'stranger_six' of stranger_six 1.0 does not load: .*{message}"
    ):
        registry.plugins("attack")


@pytest.mark.parametrize("value", ["stranger_seven", "other, stranger_seven ,"])
def test_a_plugin_can_be_left_out(install, monkeypatch, value):
    install("stranger_seven", "1 / 0")
    monkeypatch.setenv("FEDAUDIT_DISABLE_PLUGINS", value)
    assert _builtin("attack") == list(registry.plugins("attack"))


def test_ours_can_be_left_out_too(install, monkeypatch):
    monkeypatch.setenv("FEDAUDIT_DISABLE_PLUGINS", "attacks")
    assert registry.plugins("attack") == {}
    assert "fedavg" in registry.plugins("aggregation")
    with pytest.raises(UsageError, match="There is: none"):
        registry.create("attack", "contextual")


@pytest.mark.parametrize(
    ("kind", "name", "options", "message"),
    [
        ("attack", "contextuel", {}, "No attack named 'contextuel'. Did you mean 'contextual'"),
        ("aggregation", "fedprx", {}, "No aggregation named 'fedprx'. Did you mean 'fedprox'"),
        ("detector", "x", {}, "No detector named 'x'. There is: .*presidio"),
        ("aggregation", "fedprox", {"nu": 1}, "No option of aggregation fedprox named 'nu'"),
        ("attack", "contextual", {"sample": 1}, "Did you mean 'samples'"),
        ("attack", "contextual", {"samples": "many"}, "attack contextual.samples takes int"),
        ("attack", "contextual", {"samples": 0}, "attack contextual: samples"),
    ],
)
def test_an_unknown_name_or_option_is_one_line_with_the_nearest(kind, name, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        registry.create(kind, name, options)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
