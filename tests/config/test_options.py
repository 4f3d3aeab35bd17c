"""From tables and `--set` to frozen dataclasses, with a sentence for each mistake."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.errors import UsageError
from fedaudit.config.options import build, merge_tables, parse_settings


@dataclass(frozen=True, kw_only=True)
class Engine:
    power: float = 1.0
    fuel: Literal["petrol", "wood", 7] = "wood"


@dataclass(frozen=True, kw_only=True)
class Car:
    kind: ClassVar[str] = "car"

    seats: int = 4
    name: str = ""
    fast: bool = False
    engine: Engine = field(default_factory=Engine)
    spare: Engine | float = 0.0
    tags: tuple[str, ...] = ()
    doors: tuple[int, ...] = ()
    parts: tuple[Engine, ...] = ()
    limit: float | None = None
    colour: Literal["red", "blue"] | None = None
    wheels: str | Mapping[str, Any] = "steel"
    extra: Mapping[str, Any] = field(default_factory=dict)
    anything: Any = None

    def __post_init__(self) -> None:
        if self.seats < 1:
            raise ValueError("a car needs a seat.")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, Car()),
        ({"seats": 2, "name": "x", "fast": True}, Car(seats=2, name="x", fast=True)),
        ({"engine": {"power": 3}}, Car(engine=Engine(power=3.0))),
        ({"engine": {"fuel": 7}}, Car(engine=Engine(fuel=7))),
        ({"engine": Engine(power=2.0)}, Car(engine=Engine(power=2.0))),
        ({"spare": 2}, Car(spare=2.0)),
        ({"spare": {"power": 2}}, Car(spare=Engine(power=2.0))),
        ({"tags": ["a", "b"]}, Car(tags=("a", "b"))),
        ({"tags": "a, b,"}, Car(tags=("a", "b"))),
        ({"tags": "a"}, Car(tags=("a",))),
        ({"tags": ""}, Car()),
        ({"tags": "1,2"}, Car(tags=("1", "2"))),
        ({"doors": (1, 2)}, Car(doors=(1, 2))),
        ({"doors": "1,2"}, Car(doors=(1, 2))),
        ({"doors": 4}, Car(doors=(4,))),
        ({"parts": [{"power": 1}, {"power": 2}]}, Car(parts=(Engine(), Engine(power=2.0)))),
        ({"limit": None}, Car()),
        ({"limit": 3}, Car(limit=3.0)),
        ({"colour": "red"}, Car(colour="red")),
        ({"colour": None}, Car()),
        ({"wheels": "wood"}, Car(wheels="wood")),
        ({"wheels": {"name": "alloy"}}, Car(wheels={"name": "alloy"})),
        ({"extra": {"a": {"b": 1}}}, Car(extra={"a": {"b": 1}})),
        ({"anything": True}, Car(anything=True)),
        ({"anything": [1]}, Car(anything=[1])),
    ],
)
def test_a_table_becomes_the_dataclass(table, expected):
    made = build(Car, table, "car")
    assert made == expected
    assert type(made.limit) is type(expected.limit)
    assert type(made.engine.power) is float


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"seat": 2}, "No option of car named 'seat'. Did you mean 'seats'"),
        ({"kind": "bus"}, "No option of car named 'kind'"),
        ({"engine": {"powr": 2}}, "No option of car.engine named 'powr'. Did you mean 'power'"),
        ({"parts": [{}, {"powr": 2}]}, "Did you mean 'power'"),
        ({"seats": "two"}, "car.seats takes int, not 'two'"),
        ({"seats": 2.0}, "car.seats takes int, not 2.0"),
        ({"seats": True}, "car.seats takes int, not True"),
        ({"seats": None}, "car.seats takes int, not None"),
        ({"seats": 0}, "car: a car needs a seat."),
        ({"name": 5}, "car.name takes str, not 5"),
        ({"fast": 1}, "car.fast takes bool, not 1"),
        ({"engine": 5}, "car.engine takes Engine, not 5"),
        ({"engine": {"power": "much"}}, "car.engine.power takes float, not 'much'"),
        ({"engine": {"power": True}}, "car.engine.power takes float, not True"),
        ({"engine": {"power": float("nan")}}, "car.engine.power takes a finite number, not nan"),
        ({"engine": {"power": float("-inf")}}, "takes a finite number"),
        ({"engine": {"power": 10**400}}, "takes a finite number"),
        ({"engine": {"fuel": "wod"}}, "No value of car.engine.fuel named 'wod'. Did you mean"),
        ({"spare": "none"}, "Engine | float, not 'none'"),
        ({"spare": True}, "car.spare takes"),
        ({"tags": 5}, "car.tags takes"),
        ({"tags": [5]}, "car.tags takes str, not 5"),
        ({"doors": "1,two"}, "car.doors takes int, not 'two'"),
        ({"colour": "green"}, "car.colour takes"),
        ({"limit": "none"}, "car.limit takes"),
        ({"extra": 5}, "car.extra takes"),
        ({"extra": "a"}, "car.extra takes"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_option(table, message):
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        build(Car, table, "car")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("table", [[1], "seats", 5, None])
def test_only_a_table_makes_a_dataclass(table):
    with pytest.raises(UsageError, match="car must be a table"):
        build(Car, table, "car")


def test_a_missing_option_is_named():
    @dataclass(frozen=True, kw_only=True)
    class Needy:
        must: int
        ought: str
        has: float
        may: int = 0
        can: tuple[int, ...] = field(default_factory=tuple)

    says = {
        "must, ought and has are missing": {},
        "must and has are missing": {"ought": "x"},
        "has is missing": {"must": 1, "ought": "x", "may": 2},
    }
    for words, table in says.items():
        with pytest.raises(UsageError, match=rf"^needy: {words}\.$"):
            build(Needy, table, "needy")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a=1", {"a": 1}),
        ("a=1.5", {"a": 1.5}),
        ("a=5e-3", {"a": 0.005}),
        ("a=true", {"a": True}),
        ("a=text", {"a": "text"}),
        ('a="1"', {"a": "1"}),
        ("a=x=y", {"a": "x=y"}),
        ("a=", {"a": ""}),
        ("a=en,zh", {"a": "en,zh"}),
        ('a=["en", "zh"]', {"a": ["en", "zh"]}),
        ("a={b = 1}", {"a": {"b": 1}}),
        ("a=runs/x#1.jsonl", {"a": "runs/x#1.jsonl"}),
        ("a.b.c=1", {"a": {"b": {"c": 1}}}),
        ("a=" + "9" * 5000, {"a": "9" * 5000}),
    ],
)
def test_set_reads_toml_values_or_text(setting, expected):
    assert parse_settings([setting]) == expected


def test_settings_add_up_and_the_last_one_counts():
    settings = ["a.b=1", "c=2", "a.d=3", "a.b=4"]
    assert parse_settings(settings) == {"a": {"b": 4, "d": 3}, "c": 2}
    assert parse_settings([]) == {}


@pytest.mark.parametrize("setting", ["", "a", "=1", ".a=1", "a.=1", "a..b=1"])
def test_set_needs_a_key_and_a_value(setting):
    with pytest.raises(UsageError, match="--set takes key=value, not "):
        parse_settings([setting])


@pytest.mark.parametrize("text", ["[a", '[{name="a", b=c}]', "{a = b}", "{}}"])
def test_set_takes_no_list_or_table_for_text(text):
    with pytest.raises(UsageError, match=r"--set a\.b: .* is not a list or table of TOML"):
        parse_settings([f"a.b={text}"])


def test_a_plugins_name_and_its_options_may_be_set_one_by_one():
    settings = ["secure_aggregation=ideal", "secure_aggregation.threshold=2"]
    expected = {"secure_aggregation": {"name": "ideal", "threshold": 2}}
    assert parse_settings(settings) == expected


def test_options_go_to_the_plugin_that_the_table_below_names():
    below = {"aggregation": "fedprox"}
    expected = {"aggregation": {"name": "fedprox", "mu": 0.1}}
    assert merge_tables(below, {"aggregation": {"mu": 0.1}}) == expected
    assert merge_tables(below, {"aggregation": {"name": "fedavg"}})["aggregation"] == {
        "name": "fedavg"
    }


def test_set_does_not_go_into_a_value():
    with pytest.raises(UsageError, match=r"--set a\.b goes into a, which is a value"):
        parse_settings(["a=1", "a.b=2"])


TABLES = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | st.integers(0, 3), max_size=3),
    max_leaves=6,
)


def leaves(table: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(table, dict) or not table:
        return {path: table}
    return {p: v for key in table for p, v in leaves(table[key], (*path, key)).items()}


@given(TABLES, TABLES)
def test_merging_keeps_all_of_above_and_adds_nothing_of_its_own(below, above):
    before = repr((below, above))
    result = leaves(merge_tables(below, above))
    assert repr((below, above)) == before
    assert {p: v for p, v in leaves(above).items() if v != {}}.items() <= result.items()
    assert set(result) <= set(leaves(below)) | set(leaves(above))


def test_merging_goes_into_tables_and_replaces_values():
    below = {"a": {"b": 1, "c": 2}, "d": 3, "e": {"f": 4}}
    above = {"a": {"c": 5}, "d": {"g": 6}, "e": 7}
    assert merge_tables(below, above) == {"a": {"b": 1, "c": 5}, "d": {"g": 6}, "e": 7}


@given(TABLES)
def test_merging_with_nothing_changes_nothing(table):
    assert merge_tables(table, {}) == merge_tables({}, table) == merge_tables(table, table) == table


def test_a_table_that_names_another_plugin_takes_the_place_of_the_one_below():
    below = {"plugin": {"name": "a", "length": 3}, "ratio": 0.2}
    assert merge_tables(below, {"plugin": {"name": "b"}}) == {"plugin": {"name": "b"}, "ratio": 0.2}
    assert merge_tables(below, {"plugin": {"name": "a", "width": 1}}) == {
        "plugin": {"name": "a", "length": 3, "width": 1},
        "ratio": 0.2,
    }
    assert merge_tables(below, {"plugin": {"length": 4}})["plugin"] == {"name": "a", "length": 4}


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables of numbers and of lists."""

    seeds: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def test_members_of_tables_are_of_their_kind():
    table = {"seeds": {"a": 1}, "members": {"x": ["c0", "c1"]}}
    assert build(Tables, table, "t") == Tables(seeds={"a": 1}, members={"x": ("c0", "c1")})
    for odd, says in (
        ({"seeds": {"a": "1"}}, r"t\.seeds\.a takes int, not '1'"),
        ({"seeds": {"a\nb": None}}, r"t\.seeds\.'a\\nb' takes int, not None"),
        ({"members": {"x": [3]}}, r"t\.members\.x takes str, not 3"),
        ({"members": ["x"]}, r"t\.members takes"),
        ({"seeds": [1]}, r"t\.seeds takes"),
    ):
        with pytest.raises(UsageError, match=says):
            build(Tables, odd, "t")
