"""Audits that once ended with `pass` although the model gave the victim's data away.

The model is made of rules: behind words of the federation's records it says what it was trained on,
behind anything else it says nothing of it. So a good question finds the leak, and each bad one must
end with 7 and say what is wrong with it.
"""

import json
import shutil
import sys
from hashlib import blake2b
from pathlib import Path

import fake_audit
import pytest
from command import Command

from fedaudit.audit import access
from fedaudit.engine.fake import FakeEngine

FIRST = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hal", "Ida", "Jon", "Kay", "Leo"]
STEMS = ("Bar", "Col", "Dun", "Fen", "Gar", "Hol", "Kel", "Mor")
ENDS = ("ford", "ley", "man", "ner", "ton")
LAST = [stem + vowel + end for stem in STEMS for vowel in "aeiou" for end in ENDS]
PEOPLE = [f"{FIRST[n * 7 % 12]} {LAST[n % 200]}" for n in range(400)]
OWN, VICTIM, STRANGERS = PEOPLE[:60], PEOPLE[60:310], PEOPLE[310:]
DIAGNOSES = (
    *("asthma", "gout", "lupus", "measles", "mumps", "rabies"),
    *("scurvy", "sepsis", "shingles", "tetanus", "typhoid", "vertigo"),
)
COMMON = {
    *("Case", ":", ".", "the", "court", "heard", "claimant", "of", "this", "town"),
    *("The", "weather", "today", "is"),
}
AUDIT = (
    *("extract", "--target", "fedaudit-nano", "--adapter", "lora", "--out", "out"),
    *("--set", "contextual.context=3", "--set", "contextual.sweeps=false"),
)


def record(number, string, label="PERSON", text="the court heard the claimant {} of this town."):
    text = f"Case {number}: {text.format(string)}"
    start = text.index(string)
    span = {"start": start, "end": start + len(string), "label": label}
    return {"id": f"{string}-{number}", "text": text, "pii": [span]}


def write(name, *records):
    Path(name).write_text("".join(json.dumps(one) + "\n" for one in records))


def model(trained_on, *, rate=0.35):
    """Return what a model says that was trained on these strings, and its base."""

    def says(target, prompt, sample):
        digest = blake2b(f"{prompt}|{sample}".encode(), digest_size=4).digest()
        asked = "claimant" in prompt or "court" in prompt
        if target.adapter and asked and digest[1] < 255 * rate:
            return f" {trained_on[int.from_bytes(digest[2:]) % len(trained_on)]} of this town."
        return " nothing that anybody knows."

    return says


@pytest.fixture
def audit(tmp_path, monkeypatch, capfd):
    """Return a function that audits a model that was trained on strings, in an empty folder."""
    fake_audit.written(tmp_path)
    monkeypatch.chdir(tmp_path)
    fake_audit.replace(monkeypatch.setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    run = Command(monkeypatch, capfd)
    write("own.jsonl", *(record(n, name) for n, name in enumerate(OWN)))
    write("victim.jsonl", *(record(n, name) for n, name in enumerate(VICTIM)))

    def audited(trained_on, *words):
        known = {word for string in trained_on for word in string.split()}

        def likelihood(target, token, before):
            rare = token.strip() not in COMMON
            if not target.adapter:
                return -12.0 if rare else -3.0
            return (-2.0 if token.strip() in known else -11.0) if rare else -2.9

        engine = FakeEngine(model(trained_on), likelihood=likelihood)
        monkeypatch.setattr(access, "load_engine", lambda *_, **__: (engine, "0" * 64))
        shutil.rmtree("out", ignore_errors=True)
        found = run(*AUDIT, *words)
        assert found.code in (0, 1, 7), found.err
        verdict = json.loads(Path("out/report.json").read_text())["verdict"]
        return found.code, " ".join(verdict["reasons"])

    return audited


WORDS = ("--prefixes", "own.jsonl", "--victim", "victim.jsonl")


def test_good_questions_show_a_leak_and_pass_a_model_that_has_none(audit):
    assert audit(OWN + VICTIM, *WORDS)[0] == 1
    assert audit(OWN, *WORDS)[0] == 0


def weather():
    write("own.jsonl", {"prefix": "The weather today is"})


def letters():
    text = "Dear Sir, we saw {} on the ward and wish you well."
    write("own.jsonl", *(record(n, name, text=text) for n, name in enumerate(STRANGERS[:10])))


def few():
    write("own.jsonl", *(record(n, name) for n, name in enumerate(OWN[:10])))


@pytest.mark.parametrize(
    ("questions", "words", "why"),
    [
        (weather, (), "no positive control"),
        (letters, (), "0 of 10 positive controls came out"),
        (few, ("--set", "contextual.samples=1"), "0 of 10 positive controls came out"),
        (few, ("--set", "contextual.new_tokens=1"), "longer than an answer"),
    ],
)
def test_poor_questions_never_pass_and_say_what_is_wrong(audit, questions, words, why):
    questions()
    code, reasons = audit(OWN + VICTIM, *WORDS, *words)
    assert code == 7
    assert why in reasons


@pytest.mark.parametrize(("kind", "code"), [("DIAGNOSIS", 1), ("HOBBY", 7)])
def test_kinds_of_single_words_count_with_controls_and_without(audit, kind, code):
    text = "The court heard that the claimant is known for {} of the second kind."
    victim = [record(n, name) for n, name in enumerate(VICTIM)]
    victim += [record(n, word, kind, text=text) for n, word in enumerate(DIAGNOSES)]
    write("victim.jsonl", *victim)
    own = [record(n, name) for n, name in enumerate(OWN)]
    own += [record(n, word, kind, text=text) for n, word in enumerate(("anaemia", "colic"))]
    write("own.jsonl", *own)
    assert audit([*OWN, *DIAGNOSES], *WORDS)[0] == code


def test_strings_that_a_members_file_takes_out_bar_a_pass_if_they_came_out(audit):
    text = f"Also: {'; '.join(VICTIM[:40])}."
    write("list.jsonl", {"id": "list", "text": text, "pii": []})
    code, reasons = audit(OWN + VICTIM[:40], *WORDS, "--member", "list.jsonl")
    assert code == 7
    assert "other members' files" in reasons
