"""What every installed plugin keeps to, whoever wrote it."""

import dataclasses
import pickle
import re
import sys

import pytest

from fedaudit.api.attribution import Attributor
from fedaudit.api.defense import Defense
from fedaudit.api.importer import Importer
from fedaudit.api.plugin import Aggregator, Attack, Paraphraser, PiiDetector
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.api.watermark import Watermark
from fedaudit.config import registry
from fedaudit.config.option_text import option_docs
from fedaudit.config.options import parse_settings

INTERFACES = {
    "attack": Attack,
    "aggregation": Aggregator,
    "defense": Defense,
    "detector": PiiDetector,
    "watermark": Watermark,
    "secure aggregation": SecureAggregation,
    "attribution": Attributor,
    "paraphraser": Paraphraser,
    "importer": Importer,
}
INSTALLED = [
    pytest.param(kind, cls, id=f"{kind}-{name}")
    for kind in registry.KINDS
    for name, cls in registry.plugins(kind).items()
]


def test_every_kind_has_an_interface():
    assert INTERFACES.keys() == registry.KINDS.keys()


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_it_is_of_its_kind(kind, cls):
    assert issubclass(cls, INTERFACES[kind])


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_its_name_is_short_and_lower_case(kind, cls):
    assert re.fullmatch(r"[a-z][a-z0-9_-]{1,20}", cls.name)


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_its_summary_is_one_sentence_that_fits_a_line(kind, cls):
    summary = registry.summary(cls)
    assert re.fullmatch(r"[A-Z][^.!?]*(\.\w[^.!?]*)*\.", summary), summary
    assert len(summary) <= 100
    assert not summary.startswith(f"{cls.__name__}(")


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_its_paper_can_be_looked_up(kind, cls):
    assert not cls.paper or re.search(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+", cls.paper)
    if cls.paper:
        assert sys.modules[cls.__module__].__doc__


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_its_defaults_make_a_frozen_value(kind, cls):
    made = registry.create(kind, cls.name)
    assert type(made) is cls
    assert made == cls()
    assert hash(made) == hash(cls())
    for option in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, option.name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.something_else = 1


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_it_can_be_sent_to_a_worker_process(kind, cls):
    assert pickle.loads(pickle.dumps(cls())) == cls()


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_its_options_can_be_set_to_what_is_shown(kind, cls):
    shown = {option.name: getattr(cls(), option.name) for option in dataclasses.fields(cls)}
    assert registry.create(kind, cls.name, shown) == cls()
    lines = [line.strip() for line in registry.describe(kind, cls) if line.startswith("  ")]
    settings = [line for line in lines if line.partition(" = ")[0] in shown]
    given = [line.replace(" = ", "=", 1) for line in settings if not line.endswith("= not set")]
    assert registry.create(kind, cls.name, parse_settings(given)) == cls()
    assert [line.partition(" = ")[0] for line in settings] == list(shown)


@pytest.mark.parametrize(("kind", "cls"), INSTALLED)
def test_each_option_says_what_it_means(kind, cls):
    assert list(option_docs(cls)) == [option.name for option in dataclasses.fields(cls)]


@pytest.mark.parametrize("cls", registry.plugins("watermark").values(), ids=lambda cls: cls.name)
def test_a_watermark_has_null_marks_unless_a_setting_takes_them_away(cls):
    assert cls().null_marks >= 24
    with pytest.raises(TypeError, match="null_marks"):
        type(
            "Without", (Watermark,), dict.fromkeys(Watermark.__abstractmethods__ - {"null_marks"})
        )()
