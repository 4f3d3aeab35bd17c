import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.candidates.observations import Key, StringObservation
from fedaudit.extraction.candidates.origins import AttackerTexts, foreign_prompts
from fedaudit.extraction.candidates.ranking import (
    MIN_LABELLED,
    Confidence,
    KindConfidence,
    first_word,
    fit_confidence,
    number_variants,
    well_formed,
)
from fedaudit.extraction.candidates.support import Support
from fedaudit.metrics.calibration import LabelledScores


def supported(score):
    return Support(score, None)


OWN: dict[Key, Support] = {(f"Ann{i} Lee", "PERSON"): supported(-1.0) for i in range(6)}
SLIPS: dict[Key, Support] = {(f"Ann{i} Low", "PERSON"): supported(-9.0) for i in range(6)}


def test_scores_that_mislead_give_no_curve():
    upside = KindConfidence(
        LabelledScores((-1.0,) * 5 + (1.0,) * 5, (True,) * 5 + (False,) * 5, tuple("a" * 10))
    )
    assert upside.curve is None


def test_only_what_begins_like_an_own_string_is_a_slip():
    other = {("Zoe Moor", "PERSON"): supported(-1.0), ("Ann0 Low", "ORG"): supported(-1.0)}
    found = fit_confidence(OWN, SLIPS | other, OWN)
    assert {label: (kind.true, kind.false) for label, kind in found.kinds.items()} == {
        "PERSON": (6, 6)
    }
    assert found.kinds["PERSON"].labelled_scores.groups.count("Ann0") == 2


def test_slips_at_own_strings_that_never_came_out_count_too():
    kept = dict(list(OWN.items())[:5])
    assert fit_confidence(kept, SLIPS, OWN).kinds["PERSON"].false == 6
    assert fit_confidence(kept, SLIPS, kept).kinds["PERSON"].false == 5


def test_too_little_is_a_reason():
    assert "did more than 4" in fit_confidence(dict(list(OWN.items())[:4]), SLIPS, OWN).reason
    assert "fewer than 5 false" in fit_confidence(OWN, {}, OWN).reason
    assert fit_confidence(OWN, SLIPS, OWN).reason == ""
    assert Confidence(reason="why").probability(("X", 0.0)) is None


def test_precision_is_the_mean_belief():
    found = fit_confidence(OWN, SLIPS, OWN)
    listed = [("PERSON", -1.0), ("PERSON", -9.0), ("PERSON", -5.0)]
    curve = found.kinds["PERSON"].curve
    beliefs = [found.probability(one) for one in listed]
    assert beliefs == list(curve.probabilities([-1.0, -9.0, -5.0]))
    one, three = found.precision(listed, (1, 3), seed=0)
    assert one.value == beliefs[0]
    assert three.value == pytest.approx(sum(beliefs) / 3)


def test_a_kind_with_few_labels_is_not_believed():
    few = {(f"N{i}", "ORG"): supported(-1.0) for i in range(MIN_LABELLED - 1)}
    found = fit_confidence(OWN | few, SLIPS, OWN | few)
    assert found.probability(("PERSON", -1.0)) > 0.5
    assert found.probability(("ORG", -1.0)) is None
    assert found.probability(("OTHER", -1.0)) is None


@settings(max_examples=3, deadline=None)
@given(st.permutations([*OWN.items(), *SLIPS.items()]), st.integers(0, 9))
def test_neither_order_nor_length_of_the_list_moves_an_estimate(items, seed):
    own = {key: one for key, one in items if key in OWN}
    slips = {key: one for key, one in items if key in SLIPS}
    listed = [("PERSON", -1.0)] * 3
    found = fit_confidence(own, slips, own).precision(listed, (2,), seed=seed)
    assert found == fit_confidence(OWN, SLIPS, OWN).precision(listed, (2,), seed=seed)
    assert 0 <= found[0].low <= found[0].value <= found[0].high <= 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Ann Lee", "Ann"), ("12345", "123"), ("王芳", "王"), ("9 May 1961", "9")],
)
def test_a_head_is_the_first_word_or_half(text, wanted):
    assert first_word(text) == wanted


def test_variants_differ_in_numbers_alone():
    assert number_variants("195 Wright Island") == number_variants("19 Wright Island")
    assert number_variants("9 July 1963") != number_variants(
        "4 July 1963"
    )  # one word: each may be true
    assert number_variants("Ann Lee") == "Ann Lee"


def test_template_words_are_junk():
    text = "The High Court heard Ann Lee."
    document = Document(id="a", text=text, pii=(PiiSpan(21, 28, "PERSON"),))
    found = {
        ("Court High", "PERSON"): StringObservation(9),
        ("Court Lee", "PERSON"): StringObservation(1),
    }
    assert list(well_formed(found, [document])) == [("Court Lee", "PERSON")]


def test_a_prompt_is_foreign_where_another_family_has_it_too():
    def record(name, text, string, group=""):
        at = text.index(string)
        return Document(
            id=name, text=text, pii=(PiiSpan(at, at + len(string), "PERSON"),), group=group
        )

    documents = [
        record("a", "Claim of Ann", "Ann", "one"),
        record("b", "so Ann", "Ann", "one"),
        record("c", "Claim of Bob", "Bob"),
        record("d", "then Cal", "Cal"),
    ]
    engine = FakeEngine(lambda target, prompt, sample: "")
    case = AttackContext(
        engine=engine, tuned=Target(name="t"), base=None, attacker=documents, victim=None
    )
    claim, so, then = (engine.tokenize([t])[0].ids for t in ("Claim of", "so", "then"))
    homes = AttackerTexts(case)
    standing = homes.families_by_prompt({claim, so, then})
    assert standing == {
        claim: {"group one", "document 2"},
        so: {"group one"},
        then: {"document 3"},
    }
    assert homes.families_with_string("Ann") == {"group one"}
    assert set(foreign_prompts([claim, so, then], standing, homes.families_with_string("Ann"))) == {
        claim,
        then,
    }
    assert foreign_prompts([then], standing, homes.families_with_string("Cal")) == []
