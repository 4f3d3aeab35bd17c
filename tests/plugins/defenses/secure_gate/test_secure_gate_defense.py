"""SecureGate's stages, one by one, without a federation."""

import pytest

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.records import Document, PiiSpan
from fedaudit.config import registry


def document(number, group="legal/a"):
    text = f"Ann Lee signed paper {number}."
    return Document(id=f"d{number}", text=text, pii=(PiiSpan(0, 7, "PERSON"),), group=group)


def gate(**options):
    return registry.create("defense", "secure_gate", options)


OWN = [document(1), document(2, "bank/b"), document(3, "bank/c")]


def test_the_shared_adapter_sees_the_masked_view_and_the_revealing_one_the_raw_view():
    assert [d.text for d in gate().prepare(OWN)] == [f"[MASK] signed paper {n}." for n in (1, 2, 3)]
    assert gate().private(OWN) == {"revealing": OWN}
    assert gate(masked=False).prepare(OWN) == OWN


def test_a_detectors_misses_stay_in_the_masked_view():
    [first, *_] = gate(detector="presidio").prepare(OWN)  # it finds no names without a model
    assert first.text == "Ann Lee signed paper 1."
    with pytest.raises(UsageError, match="detector"):
        gate(detector="nobody")


def test_several_revealing_adapters_have_the_documents_of_their_pattern():
    made = gate(revealing=["both", "bank=bank/*", "legal=legal/*", "none=medical/*"]).private(OWN)
    assert {name: [d.id for d in own] for name, own in made.items()} == {
        "both": ["d1", "d2", "d3"],
        "bank": ["d2", "d3"],
        "legal": ["d1"],
    }


def test_without_pii_there_is_nothing_to_gate():
    with pytest.raises(InputError, match="needs documents with PII"):
        gate().private([Document(id="a", text="nothing", pii=())])


def test_the_server_takes_nesterov_steps_or_keeps_its_own_rule():
    own = registry.create("aggregation", "fedadam")
    step = gate(momentum=0.25, rate=0.5).server(own)
    assert (step.name, step.momentum, step.rate) == ("nesterov", 0.25, 0.5)
    assert gate(nesterov=False).server(own) is own


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tau": 1.5}, "tau"),
        ({"tau": -0.1}, "tau"),
        ({"psi": -1.0}, "psi"),
        ({"budget": 1}, "budget"),
        ({"budget": 101}, "budget"),
        ({"query": 0}, "query"),
        ({"rate": 0.0}, "rate"),
        ({"momentum": 1.0}, "momentum"),
        ({"revealing": []}, "different names"),
        ({"revealing": ["a", "a=legal/*"]}, "different names"),
        ({"revealing": ["secure"]}, "different names"),
        ({"revealing": ["../x"]}, "letters"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        gate(**options)
