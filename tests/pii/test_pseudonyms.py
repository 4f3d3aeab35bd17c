"""Pseudonyms are of the same kind, consistent, different, nobody's, and follow from the key."""

import hmac
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.nano.generator import corpus
from fedaudit.pii.checksums import is_id_card, is_luhn, is_mod97, luhn_check_digit
from fedaudit.pii.masking import assign_pseudonyms, surrogate_like

PAIRS = sorted({p for d in corpus(cases=30, documents_per_case=6, seed=2) for p in d.strings()})
CARD = "6222 0000 1111 222"
CARD += luhn_check_digit(CARD.replace(" ", ""))


def test_no_pseudonym_is_an_original_or_anothers():
    made = assign_pseudonyms(PAIRS, key="k")
    assert made.keys() == set(PAIRS)
    new = [one.casefold() for one in made.values()]
    assert len(set(new)) == len(new)
    assert not set(new) & {string.casefold() for string, _ in PAIRS}
    assert sum(one.startswith("<") for one in new) < len(new) / 100


def test_they_follow_from_the_key_and_not_from_the_order():
    made = assign_pseudonyms(PAIRS, key="k")
    assert assign_pseudonyms(reversed(PAIRS), key="k") == made
    other = assign_pseudonyms(PAIRS, key="l")
    assert sum(other[pair] == made[pair] for pair in PAIRS) < len(PAIRS) / 20
    part = assign_pseudonyms(PAIRS[::2], key="k")
    assert sum(made[pair] == new for pair, new in part.items()) > 0.95 * len(part)


def test_spellings_of_one_string_have_one_pseudonym():
    names = ["Ann Lee", "Ann\u00a0Lee", "Ann\nLee ", "Ａｎｎ Lee", "Ann Lees"]
    made = assign_pseudonyms([(name, "PERSON") for name in names], key="k")
    found = [made[name.strip(), "PERSON"] for name in names]
    assert len(set(found[:4])) == 1
    assert found[4] != found[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Helga Brunner", "HELGA BRUNNER"),
        ("Siobhán O'Neill", "siobhán O’Neill"),
        ("Ann-Marie Quux", "Ann\u2011Marie Qu\u200bux"),
    ],
)
def test_a_name_in_other_case_or_with_other_marks_has_the_same_pseudonym(one, other):
    labels = ["PERSON", "PER", "PATIENT", "NAME", "B-PER", "person"]
    made = assign_pseudonyms([(name, at) for name in (one, other) for at in labels], key="k")
    assert len({new.casefold() for new in made.values()}) == 1
    assert made[one, "PERSON"] == made[one, "B-PER"]
    assert other.isupper() == made[other, "PER"].isupper()


def test_other_strings_are_the_same_only_in_labels_of_one_category():
    pairs = [
        ("aB-1", "PASSWORD"),
        ("Ab-1", "PASSWORD"),
        ("F", "GENDER"),
        ("F", "SEX"),
        ("F", "AGE"),
    ]
    made = assign_pseudonyms(pairs, key="k")
    assert made[pairs[0]] != made[pairs[1]]
    assert made[pairs[2]][-9:] == made[pairs[3]][-9:] != made[pairs[4]][-9:]


FORMS = [
    ("3 May 1980", "BIRTHDAY", r"\d{1,2} [A-Z][a-z]+ (19|20)\d\d"),
    ("May 3rd, 1980", "BIRTHDAY", r"[A-Z][a-z]+ \d{1,2}(st|nd|rd|th), \d{4}"),
    ("10 SEP 2001", "DATE_TIME", r"\d{1,2} [A-Z]{3} \d{4}"),
    ("1980年5月3日", "BIRTHDAY", r"\d{4}年(1[012]|[1-9])月([12]\d|[1-9])日"),
    ("1980-05-03", "BIRTHDAY", r"\d{4}-(0[1-9]|1[012])-(0[1-9]|1[012])"),
    ("19800503", "BIRTHDAY", r"(19|20)\d\d(0[1-9]|1[012])([01]\d|2[0-8])"),
    ("020 7946 0958", "PHONE_NUMBER", r"0[1-9]\d \d{4} \d{4}"),
    ("+44 20 7946 0958", "PHONE_NUMBER", r"\+44 2\d \d{4} \d{4}"),
    ("13812345678", "PHONE_NUMBER", r"1[35789]\d{9}"),
    ("ann.lee@mail.co.uk", "EMAIL_ADDRESS", r"[a-z0-9.]+@example\.(com|org|net)"),
    ("AB 123456 C", "ID_CARD", r"[A-Z]{2} \d{6} [A-Z]"),
    ("123-45-6789", "US_SSN", r"\d{3}-\d\d-\d{4}"),
    ("GB29 NWBK 6016 1331 9268 19", "IBAN_CODE", r"GB\d\d [A-Z]{4}( \d{4}){3} \d\d"),
    ("192.168.7.1", "IP_ADDRESS", r"10(\.\d{1,3}){3}"),
    ("2001:470:1f0b::1", "IP_ADDRESS", r"2001:db8::[0-9a-f]+:[0-9a-f]+"),
    ("aa:bb:cc:dd:ee:ff", "MAC_ADDRESS", r"02(:[0-9a-f]{2}){5}"),
    ("Ann Lee", "PERSON", r"\S+ \S+"),
    ("Mr J. LEE", "PERSON", r"Mr [A-Z-']+ [A-Z'-]+"),
    ("Lee, Ann", "PERSON", r"\S+, \S+"),
    ("张三", "PERSON", r"[\u4e00-\u9fff]{2,4}"),
    ("12 High Street, Bath", "ADDRESS", r"\d{1,3} .+, .+"),
    ("北京市朝阳路5号", "ADDRESS", r"[\u4e00-\u9fff]+\d{1,3}号"),
    ("Ankara", "LOCATION", r"[A-Z][A-Za-z .'-]+"),
    ("34岁", "AGE", r"[1-7]\d岁"),
    ("ann_lee", "USERNAME", r"[a-z0-9.]+"),
    ("https://ann.example.co/me", "URL", r"https://example\.(com|org|net)/\w+"),
]


@pytest.mark.parametrize(("string", "label", "form"), FORMS)
def test_the_form_stays(string, label, form):
    for seed in range(30):
        new = surrogate_like(string, label, random.Random(seed))
        assert re.fullmatch(form, new), new
        assert surrogate_like(string, label, random.Random(seed)) == new


def test_check_digits_hold_where_they_did():
    identity = "110101194110169516"
    assert is_id_card(identity)
    for seed in range(30):
        draw = random.Random(seed)
        assert is_id_card(surrogate_like(identity, "ID_CARD", draw))
        new = surrogate_like(CARD, "BANK_CARD", draw)
        assert re.fullmatch(r"6222( \d{4}){3}", new)
        assert is_luhn(new.replace(" ", ""))


@pytest.mark.parametrize(
    ("iban", "form"),
    [
        ("DE89 3704 0044 0532 0130 00", r"DE\d\d( \d{4}){4} \d\d"),
        ("CH93-0076-2011-6238-5295-7", r"CH\d\d(-\d{4}){4}-\d"),
        ("GB82.WEST.1234.5698.7654.32", r"GB\d\d\.[A-Z]{4}(\.\d{4}){3}\.\d\d"),
        ("gb82west12345698765432", r"gb\d\d[a-z]{4}\d{14}"),
        ("FR14\u20132004\u20131010\u20130505\u20130001\u20133M02\u2013606",
         r"FR\d\d(\u2013\d{4}){4}\u2013\d[A-Z]\d\d\u2013\d{3}"),
    ],
)  # fmt: skip
def test_an_iban_keeps_its_country_its_form_and_true_check_digits(iban, form):
    for seed in range(30):
        new = surrogate_like(iban, "IBAN_CODE", random.Random(seed))
        assert re.fullmatch(form, new), new
        assert is_mod97("".join(filter(str.isalnum, new)))
        assert new != iban


@pytest.mark.parametrize("label", ["WORKPLACE", "OCCUPATION", "ORGANIZATION"])
@pytest.mark.parametrize("string", ["Smith and Sons", "大发网络公司"])
def test_words_come_in_the_language_of_the_string(string, label):
    new = surrogate_like(string, label, random.Random(1))
    assert new
    assert bool(re.search("[\u4e00-\u9fff]", new)) == (not string.isascii())


GENDERS = [("male", "GENDER"), ("female", "GENDER"), ("一九八〇年", "BIRTHDAY")]


def test_what_cannot_be_invented_is_a_label_with_digits_of_the_key():
    made = assign_pseudonyms(GENDERS, key="k")
    assert re.fullmatch("<GENDER-[0-9a-f]{8}>", made["male", "GENDER"])
    assert re.fullmatch("<BIRTHDAY-[0-9a-f]{8}>", made["一九八〇年", "BIRTHDAY"])
    expected = hmac.new(b"k", b"tag\x00GENDER\x00male", "sha256").hexdigest()[:8]
    assert made["male", "GENDER"] == f"<GENDER-{expected}>"


def test_a_label_with_digits_does_not_tell_which_strings_there_are_besides():
    made = assign_pseudonyms(GENDERS, key="k")
    for pair in GENDERS:
        assert assign_pseudonyms([pair], key="k") == {pair: made[pair]}
        assert assign_pseudonyms([*GENDERS, ("all", "GENDER")], key="k")[pair] == made[pair]
        assert assign_pseudonyms([pair], key="l")[pair] != made[pair]


def test_a_label_with_digits_that_are_taken_gets_more_of_them():
    (short,) = assign_pseudonyms(GENDERS[:1], key="k").values()
    made = assign_pseudonyms([*GENDERS, (short.upper(), "X")], key="k")
    assert re.fullmatch(rf"{short[:-1]}[0-9a-f]>", made["male", "GENDER"])


def test_two_strings_whose_first_digits_are_equal_are_told_apart(monkeypatch):
    monkeypatch.setattr("fedaudit.pii.masking.DIGITS", 1)
    pairs = [(chr(ord("a") + number) * 2, "GENDER") for number in range(26)]
    made = assign_pseudonyms(pairs, key="k")
    assert len(set(made.values())) == 26
    assert {len(tag) for tag in made.values()} == {len("<GENDER-0>"), len("<GENDER-00>")}


def test_white_space_around_a_string_is_no_part_of_it():
    assert assign_pseudonyms([(" Ann Lee\n", "PERSON")], key="k").keys() == {("Ann Lee", "PERSON")}


KINDS = st.sampled_from(["PERSON", "BIRTHDAY", "ADDRESS", "PHONE", "ID_CARD", "BANK_CARD", "EMAIL",
                         "IP_ADDRESS", "AGE", "DIAGNOSIS", "DATE_TIME", "???"])  # fmt: skip


@given(st.sets(st.tuples(st.text(min_size=1, max_size=12), KINDS), max_size=8), st.text())
def test_any_string_gets_one_that_is_nobodys(pairs, key):
    known = {(string.strip(), label) for string, label in pairs}
    made = assign_pseudonyms(pairs, key=key)
    assert made.keys() == known
    assert len({one.casefold() for one in made.values()}) == len(known)
    assert not {one.casefold() for one in made.values()} & {s.casefold() for s, _ in known}
