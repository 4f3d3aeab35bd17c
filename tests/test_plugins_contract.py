"""Installed plugins pass the contract test that strangers run, and what breaks it is said."""

import importlib.util
import itertools
import json
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
import torch

from fedaudit.api import (
    Aggregator,
    Attack,
    Defense,
    Document,
    Finding,
    ForeignFederation,
    Importer,
    Measurement,
    PiiDetector,
    PiiSpan,
    Result,
    SecureAggregation,
    hooks,
)
from fedaudit.api.watermark import Watermark
from fedaudit.config import registry
from fedaudit.testing import INTERFACES, check_plugin, made_up_context

INSTALLED = [
    pytest.param(kind, cls, id=f"{kind}-{name}")
    for kind in registry.KINDS
    for name, cls in registry.plugins(kind).items()
]
QUICK = {
    "fictitious": {"nulls": 5, "null_names": 2, "paraphrases": 4},
    "kgw": {"length": 16, "shortest": 8, "prompts": 8},
}
"""Options with which a plugin asks little."""
DECLINED = {
    ("attack", "gate"): "has no gate",
    ("attack", "laft"): "whose weights are here",
    ("attack", "source"): "does not come from|nothing to tell apart",
    ("secure aggregation", "flower"): "needs Flower",
    ("paraphraser", "sequence_pair"): "Name the model",
}
"""What these lack: a gate, weights, clients of their own, a package that is not there, a model."""


CALLS = itertools.count(1)


def test_every_kind_has_an_interface():
    assert INTERFACES.keys() == registry.KINDS.keys()
    assert {name for name in vars(hooks) if name.startswith("fedaudit_")} == {
        *registry.KINDS.values()
    }


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_it_keeps_the_contract_of_its_kind(kind, cls):
    assert issubclass(cls, INTERFACES[kind])
    declined = DECLINED.get((kind, cls.name))
    if declined is None:
        return check_plugin(cls, **QUICK.get(cls.name, {}))
    if cls.name == "flower" and importlib.util.find_spec("flwr"):
        return check_plugin(cls)
    with pytest.raises(AssertionError, match=f"declines what.*(?:{declined})"):
        check_plugin(cls)
    return None


@pytest.mark.parametrize("cls", registry.plugins("watermark").values(), ids=lambda cls: cls.name)
def test_a_watermark_has_null_marks_unless_a_setting_takes_them_away(cls):
    assert cls().null_marks >= 24
    with pytest.raises(TypeError, match="null_marks"):
        type(
            "Without", (Watermark,), dict.fromkeys(Watermark.__abstractmethods__ - {"null_marks"})
        )()


def plugin(base, doc="Do what a test needs.", name="broken", **members):
    """Return a frozen dataclass with these members; a tuple is an option's type and default."""
    annotations = {key: value[0] for key, value in members.items() if isinstance(value, tuple)}
    values = {
        key: value[1] if isinstance(value, tuple) else value for key, value in members.items()
    }
    body = {"__doc__": doc, "name": name, "__annotations__": annotations, "__module__": __name__}
    made = type("Broken", (base,), body | values)
    globals()["Broken"] = made  # for pickle
    return dataclass(frozen=True, kw_only=True)(made)


def silent(self, context):
    return Result()


def leaking(where):
    def run(self, context):
        name = context.victim[0].strings()[0][0]
        scope = {"who": name if where == "scope" else "x"}
        row = Measurement.rate(1, 2, kind="tries", plugin="broken", metric="tries", scope=scope)
        finding = Finding(
            id=name if where == "id" else "one", severity="low", label="PERSON",
            measurement="tries", evidence={"text": name, "where": f"in {name}"},
            safe=("where",) if where == "safe" else (),
        )  # fmt: skip
        limits = (f"{name.upper()} came out.",) if where == "limit" else ()
        return Result(measurements=(row,), findings=(finding,), limits=limits)

    return run


def dicing(self, context):
    return Result(limits=(f"{next(CALLS)}",))


def first(self, start, updates, weights):
    return updates[0]


def shortened(self, start, trained, private):
    return {name: tensor[:1] for name, tensor in trained.items()}


def doubled(self, start, trained, private):
    return {**trained, "extra": torch.zeros(1)}


def by_place(self, texts):
    return [(PiiSpan(0, 1 + number, "PERSON"),) for number, _ in enumerate(texts)]


def too_much(self, updates, sets):
    names = list(next(iter(updates.values())))
    return [
        {name: 1 + sum(updates[who][name] for who in members) for name in names} for members in sets
    ]


def nothing(self, run):
    return ForeignFederation(rounds=[])


BROKEN = {
    "no kind": (lambda: plugin(object), "subclass of none of the interfaces"),
    "abstract": (lambda: plugin(Attack), "does not define run"),
    "name": (lambda: plugin(Attack, name="My Attack", run=silent), "its name is not"),
    "summary": (lambda: plugin(Attack, doc="no sentence", run=silent), "does not begin with a"),
    "paper": (lambda: plugin(Attack, paper="Carlini 2021", run=silent), "neither an arXiv"),
    "option": (lambda: plugin(Attack, run=silent, tries=(int, 3)), "tries has no docstring"),
    "required": (lambda: plugin(Attack, run=silent, tries=(int, field())), "tries has no default"),
    "arity": (
        lambda: plugin(Attack, run=lambda self: Result()),
        "run cannot be called as run(self",
    ),
    "other names": (
        lambda: plugin(Aggregator, aggregate=lambda self, a, b, c: a),
        "aggregate cannot be called as",
    ),
    "a stage's arity": (
        lambda: plugin(Defense, upload=lambda self, x: x),
        "upload cannot be called",
    ),
    "dice": (lambda: plugin(Attack, run=dicing), "another result"),
    "leak in a scope": (
        lambda: plugin(Attack, run=leaking("scope")),
        "the scope who holds personal",
    ),
    "leak in an id": (lambda: plugin(Attack, run=leaking("id")), "a finding's id holds personal"),
    "leak in a limit": (
        lambda: plugin(Attack, run=leaking("limit")),
        "a limit holds personal data",
    ),
    "leak in a safe field": (lambda: plugin(Attack, run=leaking("safe")), "the safe field where"),
    "order of clients": (
        lambda: plugin(Aggregator, aggregate=first),
        "order of the clients changes",
    ),
    "shape": (lambda: plugin(Defense, upload=shortened), "other names or shapes"),
    "further tensor": (lambda: plugin(Defense, upload=doubled), "other names or shapes"),
    "documents": (
        lambda: plugin(Defense, prepare=lambda self, documents: documents[: next(CALLS)]),
        "prepare gives other documents",
    ),
    "texts beside": (
        lambda: plugin(PiiDetector, detect=by_place, describe=lambda self: "places"),
        "depends on the other texts",
    ),
    "sums": (lambda: plugin(SecureAggregation, threshold=1, add=too_much), "not the sum"),
    "any folder": (
        lambda: plugin(Importer, runs=lambda self, folder: [""], read=nothing),
        "takes a folder with no files for a run",
    ),
    "declines": (lambda: plugin(Attack, run=lambda self, context: int("x")), None),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_the_contract_is_said(case, monkeypatch):
    monkeypatch.setattr(
        "fedaudit.config.option_text.inspect.getsource", lambda cls: "class C: pass"
    )
    make, says = BROKEN[case]
    if says is None:  # an error of the plugin's own is shown as it is
        with pytest.raises(ValueError, match="invalid literal"):
            check_plugin(make())
        return
    with pytest.raises(AssertionError) as raised:
        check_plugin(make())
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_attack_may_bring_its_own_context():
    @dataclass(frozen=True, kw_only=True)
    class Tells(Attack):
        """Say how many documents the victim has."""

        name: ClassVar[str] = "tells"

        def run(self, context):
            assert len(context.victim) == 1
            return Result(limits=(json.dumps(len(context.victim)),))

    one = [Document(id="a", text="A text.")]
    context = replace(made_up_context(), victim=one)
    globals()["Tells"] = Tells
    Tells.__qualname__ = "Tells"
    check_plugin(Tells, context=context)
