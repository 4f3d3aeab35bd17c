import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, PiiSpan, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.prefix_attack import masked_prompts

TUNED = Target(name="tuned", adapter="x")


def record(name, phone, note=""):
    """Return a record whose name is annotated; its phone number and note were missed."""
    text = f"In the matter of 2019 {note}the defendant {name} of {phone} was heard by"
    start = text.index(name)
    return Document(id=name, text=text, pii=(PiiSpan(start, start + len(name), "PERSON"),))


ATTACKER = [
    record("Tom Ray", "555-1234", "Quistgaard "),
    record("Sue Rose", "555-1234"),
    record("Eve Stone", "555-1234"),
    Document(id="rose", text="the rose was heard, the rose, a rose", pii=()),
    Document(id="rose again", text="a rose by the matter of the rose was heard", pii=()),
]
VICTIM = [
    Document(
        id="v",
        text="by Heard Low",
        pii=(PiiSpan(3, 12, "PERSON"),),
    )
]


def context(attacker=ATTACKER, victim=VICTIM):
    fake = FakeEngine(
        lambda target, prompt, sample: " Heard Low",
        chance=lambda target, prompt, string: float(string == "Heard Low"),
    )
    return AttackContext(engine=fake, tuned=TUNED, base=None, attacker=attacker, victim=victim)


def masked(document, attacker=ATTACKER, victim=VICTIM):
    here = context(attacker, victim)
    [tokens] = here.engine.tokenize([document.text])
    prompt = here.with_start(tokens.ids, at_start=True)
    return masked_prompts(here, {prompt}, attacker)[prompt]


def test_a_masked_prompt_keeps_common_words_that_are_part_of_no_known_pii():
    # "heard" is a name of the victim's, "by" and "matter" stand in three records or more, "2019"
    # has digits, "defendant" stands in three.
    assert masked(ATTACKER[0]) == "In the matter of … the defendant [PERSON] of …-… was … by"


@pytest.mark.parametrize("estimator", ["sample", "exact"])
def test_a_finding_shows_the_masked_prompt_that_drew_it(estimator):
    attacker = [*ATTACKER, *(Document(id=str(n), text="was heard by", pii=()) for n in range(3))]
    attack = registry.create("attack", "contextual", {"estimator": estimator})
    result = attack.run(context(attacker))
    [finding] = result.findings
    prompt = finding.evidence["prompt"]
    assert prompt["before"] == ["PERSON"]
    assert prompt["text"].endswith("the defendant")
    assert "prompt" in finding.safe


def test_no_text_is_shown_where_only_some_kinds_are_annotated():
    attack = registry.create("attack", "contextual", {"labels": ["PERSON"]})
    [finding] = attack.run(context()).findings
    assert "text" not in finding.evidence["prompt"]


WORDS = st.lists(st.sampled_from(["Ann", "Bob", "of", "the", "12", "lives", "é"]), min_size=1)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5))
def test_a_masked_prompt_shows_no_rare_word_and_no_word_of_a_known_name(rows):
    documents = []
    for before, name, after in rows:
        text = " ".join((*before, *name, *after))
        start = len(" ".join(before)) + 1
        pii = (PiiSpan(start, start + len(" ".join(name)), "PERSON"),)
        documents.append(Document(id=str(len(documents)), text=text, pii=pii))
    names = {word for _, name, _ in rows for word in name}
    for document in documents:
        for word in re.findall(r"\w+", masked(document, documents, []).replace("[PERSON]", "")):
            assert word not in names
            assert sum(word in one.text.split() for one in documents) >= 3
