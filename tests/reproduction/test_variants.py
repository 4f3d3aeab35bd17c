"""Which variants of a study run, and what their steps cost."""

import pytest

from fedaudit.api.errors import UsageError
from fedaudit.config.profile import Variant, parse
from fedaudit.reproduction import variant as of_study
from fedaudit.reproduction.runner import shared_federations, study_variants
from fedaudit.simulation.config import Simulation, SumQuerySettings
from fedaudit.simulation.data.settings import WatermarkSettings

PROFILE = {
    "name": "some",
    "scale": {"nano": {}, "paper": {}},
    "study": [
        {"name": "both", "quick": True},
        {"name": "large", "only": "paper"},
        {"name": "small", "only": "nano", "quick": True},
    ],
}


@pytest.mark.parametrize(
    ("scale", "quick", "names"),
    [
        ("nano", False, ["both", "small"]),
        ("nano", True, ["both", "small"]),
        ("paper", False, ["both", "large"]),
        ("paper", True, ["both"]),
    ],
)
def test_a_variant_of_one_scale_runs_at_no_other(scale, quick, names):
    assert [one.name for one in study_variants(parse(PROFILE), scale, quick)] == names


def test_a_scale_without_variants_is_refused():
    only = {**PROFILE, "study": [{"name": "large", "only": "paper"}]}
    with pytest.raises(UsageError, match="no study"):
        study_variants(parse(only), "nano", quick=False)


def test_a_federation_is_not_trained_twice_for_its_central_model(tmp_path):
    plain, other = Simulation(central=False), Simulation(central=False, seed=1)
    whole = Simulation(central=True)
    assert shared_federations([plain, other, whole], tmp_path) == [whole, other, whole]
    assert shared_federations([plain, other], tmp_path) == [plain, other]
    (tmp_path / plain.sha256()[:12]).mkdir()  # from a study that did without
    assert shared_federations([plain, other, whole], tmp_path) == [plain, other, whole]
    (tmp_path / whole.sha256()[:12]).mkdir()
    assert shared_federations([plain, other, whole], tmp_path) == [whole, other, whole]


@pytest.mark.parametrize(
    ("options", "limit"), [({}, 1.0), ({"limit": 0.6}, 0.6), ({"pairs": 10}, 1.0)]
)
def test_a_study_without_a_limit_has_none(tmp_path, monkeypatch, options, limit):
    """The paper has none; `attribute` alone would take its default."""
    asked = []
    monkeypatch.setattr(of_study, "resolve_request", lambda request, reader: request)
    monkeypatch.setattr(of_study.attribution, "run", lambda request, watch: asked.append(request))
    one = Variant(name="v", attribution=("fed_attr",), options={"fed_attr": options})
    config = Simulation(seed=3, queries=SumQuerySettings(limit=1.0))
    watch = of_study.Watch(variant=print, training=print, bar=print)
    list(of_study._attribution_reports(one, tmp_path, config, watch))
    assert (asked[0].protocol_config.limit, asked[0].protocol_config.seed) == (limit, 3)


def test_attribution_gets_the_options_of_its_methods_and_of_the_watermark_alone(
    tmp_path, monkeypatch
):
    asked = []
    monkeypatch.setattr(of_study, "resolve_request", lambda request, reader: request)
    monkeypatch.setattr(of_study.attribution, "run", lambda request, watch: asked.append(request))
    options = {"kgw": {"tokens": 8}, "global": {"x": 1}, "ranking": {"y": 1}, "fictitious": {}}
    one = Variant(name="v", attribution=("fed_attr", "global"), options=options)
    watch = of_study.Watch(variant=print, training=print, bar=print)
    watermark = WatermarkSettings(plugin={"name": "kgw", "scheme": "lefthash"})
    list(of_study._attribution_reports(one, tmp_path, Simulation(watermark=watermark), watch))
    assert asked[0].options == {"kgw": {"tokens": 8}, "global": {"x": 1}}
