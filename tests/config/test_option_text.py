"""Options as text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.config.option_text import option_docs, toml_value
from fedaudit.config.options import parse_settings


@dataclass
class Base:
    depth: int = 3
    """How deep
    it goes."""
    width: int = 1


@dataclass
class Derived(Base):
    width: int = 2
    """How wide."""
    other: str = ""

    note = "no option"
    """Not one."""


def test_what_an_option_means_stands_below_it_in_its_class_or_a_base():
    assert option_docs(Derived) == {"depth": "How deep it goes.", "width": "How wide."}
    assert option_docs(Base) == {"depth": "How deep it goes."}


def test_a_class_without_source_has_no_docs():
    space: dict[str, Any] = {}
    exec("@dataclass\nclass Made:\n    depth: int = 3\n    'How deep.'", globals(), space)
    assert option_docs(space["Made"]) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "not set"),
        (True, "true"),
        (5e-05, "5e-05"),
        (("en", "zh"), '["en", "zh"]'),
        ({"c0": 1, "c1": [2]}, "{c0 = 1, c1 = [2]}"),
        ({"ID cards": 0, "a.b": 1, "": 2}, '{"ID cards" = 0, "a.b" = 1, "" = 2}'),
        (Path("a/b"), '"a/b"'),
        ("Grüße", '"Grüße"'),
    ],
)
def test_a_value_is_shown_as_set_takes_it(value, text):
    assert toml_value(value) == text


scalars = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)


@given(scalars | st.lists(scalars) | st.dictionaries(st.text(), scalars))
def test_a_shown_value_can_be_set(value):
    assert parse_settings([f"key={toml_value(value)}"]) == {"key": value}
