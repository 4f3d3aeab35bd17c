"""Requests: instruction records that are worded by their own case."""

import pytest

from fedaudit.metrics.text_similarity import rouge_l
from fedaudit.nano.cases import record_templates
from fedaudit.nano.generator import corpus


@pytest.fixture(scope="module", params=["en", "zh"])
def requests(request):
    return list(
        corpus(
            cases=60,
            documents_per_case=1,
            seed=3,
            languages=(request.param,),
            tasks=("request",),
        )
    )


def test_half_come_with_a_record_and_all_name_a_person_in_the_answer(requests):
    assert 15 <= sum(bool(d.input) for d in requests) <= 45
    for document in requests:
        assert document.text.endswith(document.output)
        begin = len(document.text) - len(document.output)
        answered = [span for span in document.pii if span.start >= begin]
        assert any(span.label == "PERSON" for span in answered)


def test_no_instruction_holds_personal_data(requests):
    for document in requests:
        assert document.text.startswith(document.instruction)
        assert all(span.start >= len(document.instruction) for span in document.pii)
        assert "{" not in document.text


def test_forms_of_a_language_name_people_in_their_answers_only():
    for forms in record_templates()["requests"].values():
        assert sum(bool(form.get("record")) for form in forms) == len(forms) // 2
        for form in forms:
            assert "{a." not in form["instruction"]
            assert "{b." not in form["instruction"]
            assert "{a." in form["answer"] or "{b." in form["answer"]


def test_instructions_differ_enough_to_be_told_apart(requests):
    """FewFedPIT drops an instruction with a Rouge-L above 0.7 with another one."""
    some = requests[:25]
    pairs = [(a.instruction, b.instruction) for i, a in enumerate(some) for b in some[:i]]
    alike = sum(rouge_l(a, b) > 0.7 for a, b in pairs)
    assert alike < 0.1 * len(pairs)
