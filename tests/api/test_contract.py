"""Whatever a plugin's method returns that its interface does not say is the plugin's fault."""

import dataclasses
import types
from collections.abc import Sequence

import pytest
import torch

from fedaudit.api import attribution, contract, defense, importer, plugin, watermark
from fedaudit.api import secure_aggregation as secure
from fedaudit.api.errors import ResultError
from fedaudit.api.records import Document, PiiSpan

INTERFACES = (
    *(plugin.Attack, plugin.Aggregator, plugin.PiiDetector, plugin.Paraphraser),
    *(defense.Defense, defense.Responder, defense.KeyedResponder, watermark.Watermark),
    *(attribution.Attributor, importer.Importer, secure.SecureAggregation),
)


def methods(cls):
    """Yield each method and property of an interface that returns something."""
    for name, member in vars(cls).items():
        function = member.fget if isinstance(member, property) else member
        if not isinstance(function, types.FunctionType) or name.startswith("_"):
            continue
        if function.__annotations__.get("return") is not None:
            yield name, isinstance(member, property)


METHODS = [
    pytest.param(cls, name, is_property, id=f"{cls.__name__}-{name}")
    for cls in INTERFACES
    for name, is_property in methods(cls)
]


def stranger(base, **members):
    """Return an instance of a class that another package derives from an interface."""
    named = {"__module__": "stranger.mod", "name": "odd", **members}
    cls = type("Odd", (base,), named)
    cls.__abstractmethods__ = frozenset()
    return cls()


def test_every_interface_has_methods_to_check():
    assert len(METHODS) > 35


@pytest.mark.parametrize(("base", "name", "is_property"), METHODS)
def test_what_no_interface_names_is_refused_where_it_is_returned(base, name, is_property):
    def wrong(_self, *_args, **_kwargs):
        return object()

    made = stranger(base, **{name: property(wrong) if is_property else wrong})
    with pytest.raises(ResultError) as refused:
        getattr(made, name) if is_property else getattr(made, name)(None, None, None)
    assert refused.value.exit_code == 70
    assert str(refused.value).startswith("The plugin 'odd' of stranger returned an object in")
    assert str(refused.value).endswith(f" from {name}. That is a bug in the plugin, not in your "
                                       "input.")  # fmt: skip


TENSORS = {"a": torch.zeros(2, 3), "b": torch.zeros(1)}
SPAN = PiiSpan(1, 3, "PERSON")


@pytest.mark.parametrize(
    ("base", "name", "arguments", "value", "says"),
    [
        (plugin.Attack, "run", (None,), None, "None in place of a Result"),
        (plugin.Attack, "run", (None,), "leak", "a str in place of a Result"),
        (plugin.Attack, "needs", (), None, "None in place of a frozenset"),
        (plugin.PiiDetector, "detect", (["abc"],), [], "the spans of 0 texts in place of 1"),
        (plugin.PiiDetector, "detect", (["abc"],), ["ab"], "a str in place of a tuple"),
        (plugin.PiiDetector, "detect", (["abc"],), [((1, 2, "X"),)],
         "a tuple in place of a PiiSpan"),
        (plugin.PiiDetector, "detect", (["ab"],), [(SPAN,)], "leave their text"),
        (plugin.PiiDetector, "detect", (["abcd"],), [(SPAN, SPAN)], "overlap"),
        (plugin.PiiDetector, "detect", (["abcd"],), [(PiiSpan(2, 2, "X"),)], "empty"),
        (plugin.PiiDetector, "detect", (["abcd"],), [(PiiSpan(2, 3, ""),)], "without a label"),
        (plugin.PiiDetector, "labels", ([],), {"PERSON": 1}, "a dict in place of a frozenset"),
        (plugin.Paraphraser, "score", ([("a", "b")],), [0.5, 0.5], "2 scores in place of 1"),
        (plugin.Paraphraser, "score", ([("a", "b")],), [1.5], "not from 0 to 1"),
        (plugin.Paraphraser, "score", ([("a", "b")],), [True], "a bool in place of a float"),
        (plugin.Aggregator, "aggregate", (TENSORS, [], []), [1], "a list in place of a Mapping"),
        (plugin.Aggregator, "aggregate", (TENSORS, [], []), {"a": [0.0]},
         "a list in place of a Tensor"),
        (plugin.Aggregator, "aggregate", (TENSORS, [], []), {"a": torch.zeros(2, 3)},
         "tensors of other names"),
        (plugin.Aggregator, "step", (TENSORS, [], [], {}),
         ({**TENSORS, "a": torch.zeros(3, 2)}, {}), "another shape of a"),
        (plugin.Aggregator, "step", (TENSORS, [], [], {}), (TENSORS,), "1 values in place of 2"),
        (defense.Defense, "prepare", ([],), "text", "a str in place of a list"),
        (defense.Defense, "train", (None,), "0.5", "a str in place of a float"),
        (defense.Responder, "route", ([None],), [], "0 results in place of 1"),
        (watermark.Watermark, "embed", ({}, [Document(id="a", text="b")], None), [],
         "0 documents in place of 1"),
        (importer.Importer, "runs", (None,), "run", "a str in place of a Sequence"),
        (importer.Importer, "runs", (None,), [1], "an int in place of a str"),
    ],
)  # fmt: skip
def test_what_a_wrong_value_is_called(base, name, arguments, value, says):
    def wrong(_self, *_args, **_kwargs):
        return value

    is_property = isinstance(vars(base)[name], property)
    made = stranger(base, **{name: property(wrong) if is_property else wrong})
    with pytest.raises(ResultError, match=says):
        getattr(made, name) if is_property else getattr(made, name)(*arguments)


def test_sums_that_come_one_by_one_are_checked_as_they_come():
    def add(_self, _updates, _sets):
        yield TENSORS
        yield "sum"

    made = stranger(secure.SecureAggregation, add=add)
    sums = iter(made.add({}, []))
    assert next(sums) is TENSORS
    with pytest.raises(ResultError, match="a str in place of a Mapping"):
        next(sums)


def test_what_an_interface_says_passes_unchanged():
    spans = [(SPAN,)]
    detector = stranger(plugin.PiiDetector, detect=lambda _self, texts: spans)
    assert detector.detect(["abcd"]) is spans
    rule = stranger(plugin.Aggregator, penalty=lambda _self, start, weights: torch.ones(1))
    assert rule.penalty({}, {}) == 1
    assert stranger(plugin.Aggregator).penalty({}, {}) is None


def test_a_kit_s_methods_are_checked_and_a_class_with_slots_once():
    class Kit(contract.Contract):
        def asked(self, texts: Sequence[str]) -> list[str]:
            return list(texts)

    Kit.__module__ = "fedaudit.extraction.kit"

    @dataclasses.dataclass(frozen=True, slots=True)
    class Odd(Kit):
        count: int = 0

        def asked(self, texts):
            return {"a": self.count}

    with pytest.raises(ResultError, match="a dict in place of a list from asked"):
        Odd().asked(["a"])
    assert not hasattr(Odd.asked.__wrapped__, "__wrapped__")
