from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Finding, Measurement, PiiSpan
from fedaudit.audit.evidence import mask_findings, mask_results, spell_mask
from fedaudit.report.redaction import Redactor

REDACTOR = Redactor(bytes(32))
TEXT = "Ann Lee, LP 713923 D, of York, 35, saw a CARD."
PII = (
    PiiSpan(0, 7, "PERSON"),
    PiiSpan(9, 20, "CARD"),
    PiiSpan(25, 29, "PLACE"),
    PiiSpan(31, 33, "AGE"),
    PiiSpan(41, 45, "WORD"),
)
DOCUMENTS = [Document(id="1", text=TEXT, pii=PII)]


def redactor():
    return REDACTOR


def never():
    raise AssertionError("the key is made only where there is something to mask")


def finding(evidence, **changes):
    parts = {"id": "a-1", "severity": "high", "label": "PERSON", "measurement": "a x"}
    return Finding(**{**parts, **changes}, evidence=evidence)


def seen(evidence, **changes):
    [found] = mask_findings([finding(evidence, **changes)], redactor)
    return found.evidence


def row(**changes):
    return Measurement(**{"kind": "own", "plugin": "a", "metric": "x", "value": 1.0, **changes})


def only(result, names=()):
    [found] = mask_results([result], DOCUMENTS, redactor, names)
    return found


def mask(text, label="PERSON"):
    return REDACTOR.mask(text, label)


# evidence


def test_every_string_is_masked_but_those_declared_safe():
    evidence = {
        "text": "Ann Lee",
        "context": "Ann Lee sued",
        "place": "opening",
        "tokens": 3,
        "share": 0.5,
        "sure": True,
        "none": None,
        "nested": [["Bo Chu", 1], {"id_card": "LP 713923 D", "Bo Chu": {"n": 2}}],
    }
    assert seen(evidence, safe=("place",)) == {
        **mask("Ann Lee"),
        "context": mask("Ann Lee sued"),
        "place": "opening",
        "tokens": 3,
        "share": 0.5,
        "sure": True,
        "none": None,
        "nested": [
            [mask("Bo Chu"), 1],
            {"id_card": mask("LP 713923 D"), spell_mask(mask("Bo Chu")): {"n": 2}},
        ],
    }


def test_evidence_needs_no_text():
    assert seen({"place": "x"}, safe=("place",)) == {"place": "x"}


def test_a_field_whose_name_is_no_name_is_masked_too():
    assert seen({"Ann Lee": 3, "35010119900307123": 1, "12": 2}) == {
        spell_mask(mask("Ann Lee")): 3,
        spell_mask(mask("35010119900307123")): 1,
        "12": 2,
    }


def test_strings_of_numpy_and_records_are_strings():
    evidence = {"one": np.array("Ann Lee"), "other": np.str_("Ann Lee"), "span": PII[0]}
    masks = {"one": mask("Ann Lee"), "other": mask("Ann Lee")}
    assert seen(evidence) == {**masks, "span": {"start": 0, "end": 7, "label": mask("PERSON")}}


def test_the_key_is_not_made_without_findings():
    assert mask_findings([], never) == []


VALUES = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def strings(value):
    """Yield every string of a value but those of masks."""
    if isinstance(value, dict) and value.keys() == {"label", "length", "hmac"}:
        return
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if type(value) is list else ():
        yield from strings(one)


@given(VALUES)
def test_no_string_is_left_in_what_is_not_safe(value):
    assert not [*strings(seen({"field": value})["field"])] or isinstance(value, dict)
    assert not [s for s in strings(seen({"field": value})) if s]
    assert seen({"field": value}, safe=("field",)) == {"field": value}


# what plugins write elsewhere


def test_known_data_is_masked_wherever_a_plugin_writes():
    card, ann = (spell_mask(mask(*one)) for one in (("LP 713923 D", "CARD"), ("Ann Lee", "PERSON")))
    result = Result(
        measurements=(row(scope={"who": "Ann Lee", "Ann Lee": ["of", "Ann Lee"]}),),
        findings=(
            finding(
                {"text": "Ann Lee", "place": "by Ann Lee"},
                id="leak-ann-lee",
                label="of LP 713923 D",
                safe=("place",),
            ),
        ),
        limits=("It said ANN  LEE and xLP_713923_Dx.",),
        revealed=({"id": "leak-ann-lee", "text": "Ann Lee"},),
    )
    found = only(result)
    assert found.measurements[0].scope == {"who": ann, ann: ["of", ann]}
    assert found.limits == (f"It said {ann} and x{card}x.",)
    assert (found.findings[0].id, found.findings[0].label) == (f"leak-{ann}", f"of {card}")
    assert found.findings[0].evidence == {"text": "Ann Lee", "place": f"by {ann}"}
    assert found.revealed == ({"id": f"leak-{ann}", "text": "Ann Lee"},)


def test_a_reason_is_written_by_a_plugin_too():
    [found] = only(Result(measurements=(row(value=None, reason="no Ann Lee"),))).measurements
    assert found.reason == f"no {spell_mask(mask('Ann Lee'))}"


def test_short_strings_labels_and_the_names_of_parties_stay():
    # "35" has two characters, CARD is a label as well, and York is a client here.
    result = Result(limits=("35 of CARD in York",), measurements=(row(scope={"at": "York"}),))
    assert only(result, names=["York"]) == result
    assert "York" not in repr(only(result))


def test_closed_parts_of_a_scope_stay():
    documents = [Document(id="1", text="tuned", pii=(PiiSpan(0, 5, "WORD"),))]
    result = Result(measurements=(row(scope={"source": "tuned", "by": "tuned"}),))
    [found] = mask_results([result], documents, redactor)
    assert found.measurements[0].scope["source"] == "tuned"
    assert found.measurements[0].scope["by"] == spell_mask(mask("tuned", "WORD"))


def test_of_two_strings_the_longer_one_is_masked():
    documents = [
        Document(id="1", text="Ann Lee Roy", pii=(PiiSpan(0, 7, "A"), PiiSpan(0, 11, "B")))
    ]
    [found] = mask_results([Result(limits=("Ann Lee Roy, Ann Lee",))], documents, redactor)
    assert found.limits == (
        f"{spell_mask(mask('Ann Lee Roy', 'B'))}, {spell_mask(mask('Ann Lee', 'A'))}",
    )


@pytest.mark.parametrize("string", ["Hauptstraße 5", "ﬁnch_lane", "İzmir", "Ann  Lee"])
def test_letters_that_are_several_without_their_case_are_masked(string):
    documents = [Document(id="1", text=string, pii=(PiiSpan(0, len(string), "PLACE"),))]
    spellings = [string, string.casefold(), string.upper(), f"ß İ {string}ﬁß"]
    masked = spell_mask(mask(string, "PLACE"))
    [found] = mask_results([Result(limits=tuple(spellings))], documents, redactor)
    assert found.limits == (masked, masked, masked, f"ß İ {masked}ﬁß")


def test_a_letter_that_two_strings_share_is_masked_with_both():
    documents = [
        Document(id="1", text="Gras sand", pii=(PiiSpan(0, 4, "A"), PiiSpan(5, 9, "B"))),
    ]
    [found] = mask_results([Result(limits=("to Graßand.",))], documents, redactor)
    assert found.limits == (f"to {spell_mask(mask('Gras', 'A'))}{spell_mask(mask('sand', 'B'))}.",)


def test_clean_results_stay_as_they_are_and_need_no_key():
    result = Result(limits=("Nothing was found.",), measurements=(row(scope={"budget": 3}),))
    assert mask_results([result], DOCUMENTS, never) == [result]
    assert (
        mask_results([result, replace(result, limits=("York",))], DOCUMENTS, redactor)[0] == result
    )
