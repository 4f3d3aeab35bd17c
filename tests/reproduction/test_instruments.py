"""Which requests a variant's inference, exposure and membership are, and through which model."""

from types import SimpleNamespace

import pytest
from study_report import study_report

from fedaudit.audit.request import ExposureRequest, InferenceRequest
from fedaudit.config.profile import Variant
from fedaudit.reproduction import audits, instruments
from fedaudit.reproduction import variant as variants


class Requests(list):
    """The requests that are made; none is answered."""

    def __call__(self, request):
        self.append(request)
        return SimpleNamespace(report=study_report(), revealed=())


@pytest.fixture
def asked():
    return Requests()


def test_nothing_is_measured_that_a_variant_does_not_ask_for(place, small, asked):
    assert not list(
        instruments.measure_inference_and_exposure(Variant(name="v"), place, small, asked)
    )
    assert asked == []


def test_inference_is_about_the_victim_and_exposure_of_the_global_adapter(place, small, asked):
    variant = Variant(name="v", infer={"candidates": [20]}, exposure=True, victim="c0")
    assert len(list(instruments.measure_inference_and_exposure(variant, place, small, asked))) == 2
    inference, exposure = asked
    assert isinstance(inference, InferenceRequest)
    assert (inference.data, inference.client) == (place / "data/c0.jsonl", None)
    assert inference.options == {"ranking": {"candidates": [20]}}
    assert isinstance(exposure, ExposureRequest)
    assert (exposure.canaries, exposure.round) == (place / "owner/canaries.json", small.rounds)
    assert {one.target for one in asked} == {str(place)}
    assert {one.seed for one in asked} == {small.seed}


def test_a_deployed_defence_answers_as_the_victims_model(place, small, asked, monkeypatch):
    """But exposure and memorization are the global adapter's, which the others have."""
    monkeypatch.setattr(audits, "is_deployed", lambda variant, place: True)
    monkeypatch.setattr(variants, "is_deployed", lambda variant, place: True)
    variant = Variant(
        name="v", attacks=("contextual",), infer={}, exposure=True, memorize={}, keys=("none",)
    )
    list(instruments.measure_inference_and_exposure(variant, place, small, asked))
    list(variants.measure_memorization(variant, place, small, asked))
    inference, exposure, memorized = asked
    assert (inference.client, inference.keys) == ("c1", ("none",))
    assert (exposure.client, exposure.round) == (None, small.rounds)
    assert (memorized.client, memorized.round) == (None, small.rounds)


@pytest.mark.parametrize(
    ("attacks", "held_out"), [(("contextual",), None), (("membership",), "data/held_out.jsonl")]
)
def test_membership_has_what_nobody_trained_on(place, small, asked, attacks, held_out):
    variant = Variant(name="v", attacks=attacks)
    next(iter(audits.audit_variant(variant, place, small, asked)), None)
    assert asked[0].held_out == (place / held_out if held_out else None)
