import random
from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit import nano
from fedaudit.api.errors import UsageError
from fedaudit.api.templates import TEMPLATES
from fedaudit.nano import generator
from fedaudit.nano.people import LABELS, invent
from fedaudit.pii.checksums import is_id_card, is_luhn
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.initialization import documents


def some(**changes):
    choices = {"cases": 6, "documents_per_case": 10, "seed": 3, **changes}
    return list(generator.corpus(**choices))


def test_every_span_is_what_the_case_says_it_is():
    cases = {
        case.id: case
        for case in generator.case_files(
            6, seed=3, languages=("en", "zh"), domains=("legal", "medical", "bank")
        )
    }
    for document in some():
        case = cases[document.group.partition("/")[2]]
        particulars = {
            (getattr(person, field), label)
            for person in (case.a, case.b)
            for field, label in LABELS.items()
        }
        assert document.strings()
        assert set(document.strings()) <= particulars


def test_all_pii_of_a_document_is_annotated():
    for case in generator.case_files(8, seed=5, languages=("en", "zh"), domains=("legal", "bank")):
        made = generator.documents(
            case, count=8, seed=5, tasks=generator.TASKS, template=TEMPLATES["alpaca"]
        )
        for document in made:
            covered = list(document.text)
            for span in document.pii or ():
                covered[span.start : span.end] = "\0" * (span.end - span.start)
            rest = "".join(covered)
            for person in (case.a, case.b):
                assert person.name not in rest
                assert person.phone not in rest
                assert person.id not in rest


def test_a_case_does_not_depend_on_how_many_there_are():
    assert some(cases=2) == some()[:20]


def test_languages_domains_and_tasks_are_those_asked_for():
    english = some(languages=("en",), tasks=("summary",))
    assert all(d.text.isascii() and d.task == "summary" and d.output for d in english)
    legal = " ".join(d.text for d in some(languages=("zh",), domains=("legal",), tasks=("record",)))
    assert "患者" not in legal
    assert "开户人" not in legal


DOMAINS = ("legal", "medical", "bank")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_exams_letter_is_that_of_the_answer_that_follows_from_the_matter(language):
    answers = {
        (domain["name"], matter): answer
        for domain in generator.record_templates()["domain"]
        if domain["language"] == language
        for matter, answer in zip(domain["matter"], domain["exam"]["answers"], strict=True)
    }
    letters = Counter()
    for document in some(cases=30, languages=(language,), domains=DOMAINS, tasks=("exam",)):
        record, *options = document.input.split("\n")
        by_letter = dict(option.split(". ") for option in options)
        assert list(by_letter) == ["A", "B", "C", "D"]
        corpus = document.group.partition("/")[0]
        [right] = {
            answer
            for (name, matter), answer in answers.items()
            if name == corpus and matter in record
        }
        assert by_letter[document.output] == right
        assert len(set(by_letter.values())) == 4
        letters[document.output] += 1
    # 300 answers, 75 of each letter with a deviation of 7.5: six of them are 45.
    assert all(30 <= letters[letter] <= 120 for letter in "ABCD")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_of_two_cases_one_has_the_matter_and_the_other_has_not(language):
    matters = {
        domain["name"]: domain["matter"]
        for domain in generator.record_templates()["domain"]
        if domain["language"] == language
    }
    marks = ("\n<Case A>\n", "\n<Case B>\n") if language == "en" else ("\n<案例A>\n", "\n<案例B>\n")
    letters = Counter()
    for document in some(
        cases=30, languages=(language,), domains=DOMAINS, tasks=("case_matching",)
    ):
        record, _, rest = document.input.partition(marks[0])
        a, _, b = rest.partition(marks[1])
        known = matters[document.group.partition("/")[0]]
        [about], [of_a], [of_b] = ([m for m in known if m in text] for text in (record, a, b))
        assert {"A": of_a, "B": of_b}[document.output] == about
        assert of_a != of_b
        letters[document.output] += 1
    assert min(letters.values()) > 98  # 300 fair coins: six standard deviations are 52


def test_the_people_of_cases_to_choose_from_occur_once():
    made = some(cases=10, tasks=("case_matching", "record"))
    where = {}
    for document in made:
        for text, label in document.strings():
            if label in {"ID_CARD", "PHONE_NUMBER", "BIRTHDAY", "ADDRESS"}:
                where.setdefault(text, set()).add(document.group)
    assert all(len(groups) == 1 for groups in where.values())
    own = {
        name
        for d in made
        for name, label in d.strings()
        if d.task == "record" and label == "PERSON"
    }
    others = Counter(
        name for d in made for name, label in d.strings() if label == "PERSON" and name not in own
    )
    assert sum(count == 1 for count in others.values()) > 0.9 * len(others)


def test_exams_have_one_answer_for_each_matter_and_none_twice():
    for domain in generator.record_templates()["domain"]:
        answers = domain["exam"]["answers"]
        assert len(answers) == len(domain["matter"]) == len(set(answers))


@pytest.mark.parametrize("task", generator.TASKS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_task_has_a_variant_in_every_language(task, language):
    for document in some(cases=3, languages=(language,), tasks=(task,)):
        assert document.task == task
        assert document.strings()
        if task != "record":
            assert document.instruction
            assert document.output
            ascii_only = document.instruction.isascii() and document.input.isascii()
            assert ascii_only == (language == "en")


def fingerprint(made):
    """Return a hash of documents; it holds for the version of faker in constraints.txt."""
    parts = []
    for d in made:
        spans = [(span.start, span.end, span.label) for span in d.pii]
        fields = (d.id, d.text, d.instruction, d.input, d.output, d.task, d.group)
        parts.append((*fields, *spans))
    return sha256(repr(parts).encode()).hexdigest()


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        (0, "fa394c79920929cea3a8c5aaf839750e2d47000d71bdd4949dc8ce5075fc8a19"),
        (3, "ca120580f1a12bcde74f8580aa9ab4782749cab72bf0a1ae9f4297b923ce8f83"),
    ],
)
def test_without_further_tasks_the_documents_are_what_they_were(kinds, wanted):
    """The hashes were taken before exam and case matching were written."""
    made = generator.corpus(cases=12, documents_per_case=10, seed=3, kinds=kinds)
    assert fingerprint(made) == wanted


def test_a_simulations_documents_are_what_they_were():
    made = documents(Simulation())
    assert {document.task for document in made} == set(generator.DEFAULT_TASKS)
    assert fingerprint(made) == "57b47fa46a9d8c487ddee01cfd51982609068b41ced81eb0419805bb9a65f5f3"


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": ("essay",)},
        {"languages": ("en", "fr")},
        {"domains": ("legal", "school")},
        {"tasks": ()},
        {"languages": ()},
    ],
    ids=str,
)
def test_what_there_are_no_templates_for_is_refused(wrong):
    with pytest.raises(UsageError, match="nano records"):
        some(**wrong)


def test_an_instruction_record_is_its_rendered_fields():
    for document in some(tasks=generator.TASKS[1:], template=TEMPLATES["alpaca"]):
        prompt = TEMPLATES["alpaca"].prompt(document.instruction, document.input)
        assert document.text == prompt + document.output


@given(st.integers(0, 2**32))
def test_numbers_have_true_check_digits(seed):
    chinese = invent("zh", random.Random(seed))
    assert is_id_card(chinese.id)
    assert is_luhn(chinese.card)
    year, _, rest = chinese.birthday.partition("年")
    month, _, day = rest.removesuffix("日").partition("月")
    assert chinese.id[6:14] == f"{int(year)}{int(month):02}{int(day):02}"
    assert is_luhn(invent("en", random.Random(seed)).card)


def test_the_model_fits_into_the_wheel():
    assert sum(path.stat().st_size for path in nano.folder().iterdir()) < 10 * 2**20
