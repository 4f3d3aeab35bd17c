import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit import nano
from fedaudit.nano import generator
from fedaudit.nano.people import LABELS, invent
from fedaudit.pii.checksums import is_id_card, is_luhn
from fedaudit.prompts import TEMPLATES


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


def test_people_recur_across_the_documents_of_a_case():
    counts = Counter(
        (d.group, text) for d in some() for text, label in d.strings() if label == "PERSON"
    )
    assert max(counts.values()) >= 8
    assert len({group for group, _ in counts}) == 6


def test_a_seed_gives_the_same_records_and_another_one_other_people():
    assert some() == some()
    one, other = ({t for d in some(seed=s) for t, _ in d.strings()} for s in (3, 4))
    assert len(one & other) < len(one) / 20


def test_a_case_does_not_depend_on_how_many_there_are():
    assert some(cases=2) == some()[:20]


def test_fewer_kinds_make_particulars_recur_more():
    def distinct(kinds):
        return len({t for d in some(kinds=kinds, tasks=("record",)) for t, _ in d.strings()})

    assert distinct(2) < distinct(4) < distinct(0)


def test_languages_domains_and_tasks_are_those_asked_for():
    english = some(languages=("en",), tasks=("summary",))
    assert all(d.text.isascii() and d.task == "summary" and d.output for d in english)
    legal = " ".join(d.text for d in some(languages=("zh",), domains=("legal",), tasks=("record",)))
    assert "患者" not in legal
    assert "开户人" not in legal


def test_an_instruction_record_is_its_rendered_fields():
    for document in some(tasks=("reading", "classification"), template=TEMPLATES["alpaca"]):
        prompt = TEMPLATES["alpaca"].prompt(document.instruction, document.input)
        assert document.text == prompt + document.output


@settings(max_examples=30, deadline=None)
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
