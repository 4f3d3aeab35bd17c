import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.scripts import scripts
from fedaudit.extraction.controls import CONTROLS, FACTOR, fill_candidates, sample_controls
from fedaudit.nano.people import LABELS
from fedaudit.pii.normalized_search import fold

TARGETS = {
    "Ann Lee": "PERSON",
    "张三": "PERSON",
    "12 High Street, Leeds": "ADDRESS",
    "13812345678": "PHONE_NUMBER",
    "severe seasonal asthma": "DIAGNOSIS",
    "chronic back pain": "DIAGNOSIS",
}


def test_controls_are_of_the_targets_kinds_and_scripts():
    found = dict(sample_controls(TARGETS, list(TARGETS), seed=0))
    assert set(found.values()) == set(TARGETS.values())
    people = [string for string, label in found.items() if label == "PERSON"]
    assert sum(string.isascii() for string in people) >= FACTOR
    assert sum(not string.isascii() for string in people) >= FACTOR
    assert not set(found) & set(TARGETS)


def test_controls_stand_in_no_text_in_any_spelling():
    corpus = [*TARGETS, "chronic severe pain", "CHRONIC  BACK ASTHMA", "severe back p\u0061in"]
    found = dict(sample_controls(TARGETS, corpus, seed=0))
    assert found
    assert not {"chronic severe pain", "chronic back asthma", "severe back pain"} & found.keys()
    assert not any(fold(string) in fold(text) for string in found for text in corpus)


def test_controls_are_made_of_pieces_of_the_corpus():
    targets = {"Ann Lee": "CODE", "Bob Fox": "CODE"}
    found = {string for string, _ in sample_controls(targets, list(targets), seed=0)}
    words = {"Ann", "Lee", "Bob", "Fox"}
    # All pairs of the four words but the two that are targets: first and last place may be swapped.
    assert found == {f"{a} {b}" for a in words for b in words} - set(targets)


def test_few_targets_borrow_from_what_others_have_of_their_kind():
    targets, donors = {"Ann-1 fever": "CODE"}, {"CODE": ["Bob-2 cough"]}
    found = {
        s
        for s, _ in sample_controls(targets, ["Ann-1 fever", "Bob-2 cough"], seed=0, donors=donors)
    }
    assert {string.split("-")[0] for string in found} == {"Ann", "Bob"}
    assert {string.split()[-1] for string in found} == {"fever", "cough"}
    alone = {string for string, _ in sample_controls({"asthma": "CODE"}, ["asthma"], seed=0)}
    assert alone == set()  # there is nothing to make another one of


def test_real_strings_take_the_place_of_made_ones_of_their_kind():
    real = {"Eve Ash": "PERSON", "Ann Lee": "PERSON", "Tom Ray": "PERSON"}
    corpus = [*TARGETS, "We know tom ray."]
    found = dict(sample_controls(TARGETS, corpus, seed=0, real_controls=real))
    assert [string for string, label in found.items() if label == "PERSON"] == ["Eve Ash"]
    assert "DIAGNOSIS" in found.values()


def test_there_are_about_as_many_as_one_asks_for():
    targets = {f"Ann{'abcdefghij'[n]} Lee{'abcdefghij'[9 - n]}": "CODE" for n in range(10)}
    few, many = (
        sample_controls(targets, list(targets), seed=0, most=most) for most in (40, CONTROLS)
    )
    assert len(few) <= 40
    # Any of the twenty words may stand in both places: 400 pairs, ten of which are targets.
    assert len(few) < len(many) <= 390


def test_controls_are_seeded_sorted_and_know_no_order():
    found = sample_controls(TARGETS, ["x"], seed=3)
    assert list(found) == sorted(found)
    assert sample_controls(dict(reversed(TARGETS.items())), ["x"], seed=3) == found
    assert sample_controls(TARGETS, ["x"], seed=4) != found


@pytest.mark.parametrize("label", sorted(set(LABELS.values())))
def test_every_label_of_an_invented_person_has_controls(label):
    chinese = "zhang@x.cn" if label == "EMAIL_ADDRESS" else "张三"
    found = sample_controls({"Ann Lee": label, chinese: label}, ["Ann Lee"], seed=0)
    assert len(found) >= 2 * FACTOR
    assert {kind for _, kind in found} == {label}


@given(
    st.dictionaries(st.text("aAb 原", min_size=1, max_size=6), st.just("OTHER"), max_size=8),
    st.lists(st.text("aAb 原", max_size=20), max_size=3),
)
def test_no_control_is_empty_in_the_data_or_begins_another_string(targets, texts):
    corpus = [*targets, *texts]
    found = [fold(string) for string, _ in sample_controls(targets, corpus, seed=0, most=40)]
    for string in found:
        assert string
        assert not any(string in fold(text) for text in corpus)
        assert not any(other != string and other.startswith(string) for other in found)
    assert len(found) == len(set(found))


KOREAN = [f"{a}{b}" for a in "김이박최정" for b in ("철수", "영희", "민준", "서연", "지호")]
RUSSIAN = [
    f"{a} {b}" for a in ("Иван", "Анна", "Олег", "Нина") for b in ("Орлов", "Белов", "Котов")
]


@pytest.mark.parametrize(
    ("names", "alphabet", "least"),
    [
        (KOREAN[::2], "HANGUL", 100),
        (RUSSIAN[::2], "CYRILLIC", 5),
        (["マリア", "サクラ", "ケンジ", "ヒカル"], "KATAKANA", 50),
        (["สมชาย", "ธนา", "อนงค์"], "THAI", 0),
    ],
)
def test_no_control_is_in_a_script_that_no_target_is_in(names, alphabet, least):
    corpus = [*names, "Nobody by the name of John Smith lives in London."]
    found = sample_controls(dict.fromkeys(names, "PERSON"), corpus, seed=0)
    assert len(found) >= least
    assert {scripts(string) for string, _ in found} <= {frozenset([alphabet])}


def test_what_fills_a_gap_is_of_the_scripts_of_its_kind():
    found = fill_candidates(KOREAN, "PERSON", [KOREAN[0]], count=20, seed=0)
    assert {scripts(string) for string in found} == {frozenset(["HANGUL"])}
    assert all(
        scripts(s) == {"LATIN"} for s in fill_candidates(["Al"], "PERSON", [], count=5, seed=0)
    )


def test_numbers_are_invented_whatever_is_written_beside_them():
    found = {string for string, _ in sample_controls({"010-12": "PHONE_NUMBER"}, ["x"], seed=0)}
    assert any(string.count(" ") == 2 for string in found)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("DIAGNOSIS", ("asthma", "gout", "lupus")),
        ("NATIONALITY", ("German", "French", "Thai")),
        ("RELIGION", ("佛教", "道教", "禅宗")),
        ("GIVEN_NAME", ("Anna", "Ben", "Chloe")),
        ("USERNAME", ("anna77", "b.smith", "chloe_k")),
    ],
)
def test_kinds_of_single_words_have_controls_of_their_kind(label, words):
    texts = ["She has gout and typhoid."]
    found = sample_controls(dict.fromkeys(words, label), texts, seed=1)
    strings = [string for string, _ in found]
    assert len(strings) >= 25
    assert not {*words, "typhoid"} & set(strings)
    assert {string[0].isupper() for string in strings} == {words[0][0].isupper()}
    assert found == sample_controls(dict.fromkeys(reversed(words), label), texts, seed=1)
