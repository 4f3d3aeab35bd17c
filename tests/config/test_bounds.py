"""Every number that a user can set has a bound, which is checked before anything is loaded."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping

import pytest
from command import Command

from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import UpTo
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.audit.request import Protocol
from fedaudit.config import registry
from fedaudit.config.options import build, build_settings
from fedaudit.engine.remote.options import EndpointOptions
from fedaudit.engine.vllm.options import VllmOptions
from fedaudit.simulation.config import Simulation

CLASSES = {
    **{f"{kind} {name}": cls for kind in registry.KINDS
       for name, cls in registry.plugins(kind).items()},
    **{cls.__name__: cls
       for cls in (Simulation, Protocol, ProtocolConfig, EndpointOptions, VllmOptions)},
}  # fmt: skip


def numbers(cls, path=()):
    """Yield the place of every number among the options of a class, and how one is given."""
    for name, hint in typing.get_type_hints(cls).items():
        if name not in {option.name for option in dataclasses.fields(cls)}:
            continue
        if dataclasses.is_dataclass(hint):
            yield from numbers(hint, (*path, name))
        for kind in (int, float):
            if (give := given(hint, kind)) is not None:
                yield (*path, name), kind, give


def given(hint, kind):
    """Return what gives a number of this kind to an option of this type; None: it takes none."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if hint is kind:
        return lambda number: number
    if origin in (typing.Union, types.UnionType):
        return next((one for one in (given(m, kind) for m in members) if one), None)
    if origin is tuple and members[0] is kind:
        return lambda number: [number]
    if origin is Mapping and members[1] is kind:
        return lambda number: {"a": number}
    return None


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("sign", [1, -1])
def test_every_number_of_every_plugin_and_setting_has_a_bound(name, sign):
    for path, kind, give in numbers(CLASSES[name]):
        value = give(sign * (10**30 if kind is int else 1e300))
        for step in reversed(path):
            value = {step: value}
        with pytest.raises(UsageError, match=rf"{path[-1]}\S* takes at (most|least) ") as refused:
            build_settings(CLASSES[name], value, name)
        assert len(str(refused.value)) < 200


def test_a_number_of_a_list_or_a_table_has_the_bound_of_its_option():
    @dataclasses.dataclass(frozen=True)
    class Options:
        few: typing.Annotated[tuple[int, ...], UpTo(5)] = ()
        other: typing.Annotated[int | None, UpTo(10**7)] = None
        shares: Mapping[str, float] = dataclasses.field(default_factory=dict)

    made = build_settings(Options, {"few": [5, -5], "other": 10**7, "shares": {"a": 1e9}}, "x")
    assert (made.few, made.other) == ((5, -5), 10**7)
    for table, says in (
        ({"few": [1, 6]}, "x.few takes at most 5, not 6."),
        ({"few": [-6]}, "x.few takes at least -5, not -6."),
        ({"other": 10**7 + 1}, "x.other takes at most 10,000,000, not 10000001."),
        ({"shares": {"a": 1.1e9}}, "x.shares.a takes at most 1,000,000,000, not 1100000000.0."),
    ):
        with pytest.raises(UsageError) as refused:
            build_settings(Options, table, "x")
        assert str(refused.value) == says
    # What a file states is a fact, not a wish.
    assert build(Options, {"few": [10**30]}, "x").few == (10**30,)


def test_the_bound_is_no_float_s_end():
    assert build_settings(VllmOptions, {"timeout": 1e9}, "vllm").timeout == 1e9
    with pytest.raises(UsageError, match="finite"):
        build_settings(VllmOptions, {"timeout": math.inf}, "vllm")


TARGET = ("--target", "nothing/there", "--quiet")
SET = {
    "extract": ("--prefixes", "r.jsonl", *TARGET, "--set", "contextual.samples=999999999"),
    "infer": ("--data", "r.jsonl", *TARGET, "--set", "ranking.per_document=999999999"),
    "audit": ("fedaudit-nano", "--prefixes", "r.jsonl", "--set", "contextual.context=999999999"),
    "simulate": ("--profile", "fed_pii", "--set", "training.steps=999999999"),
    "reproduce": ("fed_pii", "--set", "rounds=999999999"),
    "scrub": ("r.jsonl", "clean.jsonl", "--set", "names.threshold=1e300"),
    "profile": ("simulate", "--profile", "wild.toml"),
    "watermark": ("watermark", "make", "r.jsonl", "marked.jsonl", "--watermark", "m.json",
                  "--set", "prompts=999999999"),
    "memorize": ("--clients", "r.jsonl", "s.jsonl", *TARGET, "--paraphraser", "sequence_pair",
                 "--set", "sequence_pair.batch_size=999999999"),
}  # fmt: skip
WILD = """
name = "wild"
title = "Wild"
paper = "none"
[scale.nano]
[scale.nano.training]
batch_size = 999999999
"""


@pytest.mark.parametrize("command", SET)
def test_a_number_without_end_is_refused_before_anything_is_loaded(
    tmp_path, monkeypatch, capfd, command
):
    monkeypatch.chdir(tmp_path)
    for name in ("r.jsonl", "s.jsonl"):
        (tmp_path / name).write_text('{"text": "Ann Lee of York", "pii": []}\n')
    (tmp_path / "wild.toml").write_text(WILD)
    words = (command, *SET[command]) if command not in ("profile", "watermark") else SET[command]
    before = sorted(tmp_path.iterdir())
    done = Command(monkeypatch, capfd)(*words)
    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert "takes at most" in line
    assert sorted(tmp_path.iterdir()) == before
