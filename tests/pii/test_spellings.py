"""Strings as files spell them: escaped, encoded, transliterated; little else is the same."""

import base64
import json
from urllib.parse import quote

import pytest

from fedaudit.data import corpus
from fedaudit.data.scrubbing import ScrubRequest, scrub
from fedaudit.pii.spellings import forms, readings

NAME = "Jürgen Äckermann"


def stands(string, text):
    read = "\n".join(readings(text))
    return any(form in read for form in forms(string))


SPELLINGS = [
    json.dumps({"a": NAME}),
    json.dumps(json.dumps(NAME)),
    "J&uuml;rgen &#196;ckermann",
    "J&amp;uuml;rgen &amp;Auml;ckermann",
    quote(NAME),
    quote(NAME).replace("%20", "+"),
    "J=C3=BCrgen =\nÄcker=\nmann",
    "J=FCrgen =C4ckermann",
    "=?utf-8?B?" + base64.b64encode(NAME.encode()).decode() + "?=",
    "=?utf-8?Q?J=C3=BCrgen_=C3=84ckermann?=",
    base64.b64encode(NAME.encode()).decode(),
    "Jür\u00adgen Äcker\u00admann",
    "Jür\u200bgen\u200b Äckermann",
    "J\0ü\0r\0g\0e\0n\0 \0Ä\0c\0k\0e\0r\0m\0a\0n\0n\0",
    "jürgen_äckermann",
    "jürgen.äckermann",
    "JÜRGEN-ÄCKERMANN",
    "JürgenÄckermann",
    "Juergen Aeckermann",
    "Jurgen Ackermann",
    "Äckermann, Jürgen",
    "JÃ¼rgen Ã„ckermann",
    'J\\"urgen \\"{A}ckermann',
    "**Jürgen** <b>Äcker</b>mann",
    "J ü r g e n  Ä c k e r m a n n",
    "Jürgen\u00a0Äcker-\nmann",
    "ju\u0308rgen a\u0308ckermann",
    r"J\u{fc}rgen \u{c4}ckermann",
    r"J\303\274rgen \303\204ckermann",
    r"\U0000004a\U000000fcrgen \u00c4ckermann",
    "%u004a%u00fcrgen %u00C4ckermann",
    "J%FCrgen%20%C4ckermann",
    quote(quote(NAME, encoding="latin-1")),
    "ÄckermannJürgen",
]


@pytest.mark.parametrize(
    "text",
    SPELLINGS,
)
def test_a_name_is_seen_however_a_file_spells_it(text):
    assert stands(NAME, f"by {text} and others")


@pytest.mark.parametrize(
    ("string", "text"),
    [
        ("Jürgen Ackermann", "Jürgen Ackerbauer"),
        ("4111 1111 1111 1111", "4111 1111 2222 1111"),
    ],
)
def test_other_strings_are_not_the_same(string, text):
    assert not stands(string, text)


def test_a_number_is_seen_with_other_marks_in_it():
    assert stands("4111 1111 1111 1111", "4111-1111.1111\u20111111")
    assert stands("+44 20 7946 0958", "(+44) 20/7946-0958")

    assert stands("+44 20 7946 0958", "+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨")
    assert stands("DE89 3704 0044 0532", "?iban=DE89%203704%200044%200532&x=1")


@pytest.mark.parametrize("name", ["한지우", "Ｒｅｎ", "Ełżbieta Łoś", "ﬂora"])
def test_escapes_of_json_are_read_in_every_script(name):
    assert stands(name, json.dumps({"a": name}))
    assert stands(name, "".join(f"\\u{{{ord(char):x}}}" for char in name))


def test_scrub_finds_the_spellings_that_other_records_of_a_file_hold(tmp_path):
    source, seen = tmp_path / "in.jsonl", []
    named = {"text": f"By {NAME}.", "pii": [{"start": 3, "end": 19, "label": "PERSON"}]}
    for spelling in SPELLINGS:
        other = {"text": f"by {spelling} and others", "pii": []}
        corpus.write_fields(source, [named, other], array=False)
        request = ScrubRequest(source=source, out=tmp_path / "out", force=True, seed=1)
        seen.append(scrub(request).remaining)
    assert seen == [1] * len(SPELLINGS)
