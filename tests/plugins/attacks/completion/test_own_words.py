"""Which documents say something of their own behind the cut: by hand, in three scripts."""

import pytest
from fedaudit_plugins.attacks.completion.pairs import DocumentSplit
from fedaudit_plugins.attacks.completion.verbatim import splits_with_own_words

from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Document, Target
from fedaudit.engine.fake import FakeEngine

CUT = " | "


def own(*victim, attacker=(), groups=(), held_out=None):
    """Return whether each of the victim's documents has a word of its own behind its cut."""
    texts = [text.replace(CUT, " ") for text in victim]
    names = groups or [""] * len(texts)
    context = AttackContext(
        engine=FakeEngine(lambda *_: ""),
        tuned=Target(name="tuned"),
        base=None,
        attacker=[Document(id=str(i), text=text) for i, text in enumerate(attacker)],
        victim=[
            Document(id=str(i), text=text, group=group)
            for i, (text, group) in enumerate(zip(texts, names, strict=True))
        ],
        held_out=held_out,
    )
    splits = [
        DocumentSplit(
            prompt=(),
            suffix=(),
            text=marked.partition(CUT)[2],
            task="",
            group=group,
            document=text,
            start=marked.index(CUT) + 1,
        )
        for marked, text, group in zip(victim, texts, names, strict=True)
    ]
    found = splits_with_own_words(context, splits)
    return [i in found for i in range(len(splits))]


def test_a_name_copied_into_a_form_is_nothing_of_its_own():
    form = "Court: {0} {1}. | It is ordered that {1} pays the costs."
    people = [("Jolana", "Norman"), ("Roswitha", "Roht")]
    assert own(*(form.format(*person) for person in people)) == [False, False]
    # The other document is the attacker's: all the same.
    mine = form.format("Ann", "Lee").replace(CUT, " ").upper()
    assert own(form.format("Jolana", "Norman"), attacker=[mine]) == [False]
    assert own(form.format("Jolana", "Norman")) == [True]


def test_an_amount_is_its_own_until_somebody_else_has_it():
    assert own("Lee | pays 4711", "Ray | pays 815") == [True, True]
    assert own("Lee | pays 4711", "Ray | pays 4711") == [False, False]
    assert own("Lee | pays 4711", attacker=["Bob pays 47119"]) == [True]
    held_out = [Document(id="h", text="Nobody pays 4711")]
    assert own("Lee | pays 4711", "Ray | pays 815", held_out=held_out) == [False, True]


def test_a_number_with_marks_inside_is_one_word():
    assert own("Lee | pays 12.50", attacker=["Ray pays 12 or 50"]) == [True]
    assert own("Lee | pays 12.50", attacker=["Ray pays 12.50."]) == [False]


def test_documents_of_one_group_have_their_words_together():
    texts = ["Lee | pays 4711", "Lee | has paid 4711 pays"]
    assert own(*texts, groups=["p", "p"]) == [True, True]
    assert own(*texts, groups=["p", "q"]) == [False, True]  # "has paid" is the second's alone


def test_a_word_that_the_cut_goes_through_does_not_count():
    [split] = [
        DocumentSplit(
            prompt=(), suffix=(), text="man pays", task="", document="Mr Norman pays", start=6
        )
    ]
    context = AttackContext(
        engine=FakeEngine(lambda *_: ""),
        tuned=Target(name="tuned"),
        base=None,
        attacker=[Document(id="a", text="who pays")],
        victim=[Document(id="v", text="Mr Norman pays")],
    )
    assert not splits_with_own_words(context, [split])


@pytest.mark.parametrize(
    ("victim", "expected"),
    [
        # 王伟 stands before the cut, 判令 and 支付费用 in the attacker's document.
        ("原告王伟。 | 判令王伟支付费用", False),
        ("原告王伟。 | 判令玥支付费用", True),
    ],
)
def test_chinese_characters_are_known_in_pairs(victim, expected):
    assert own(victim, attacker=["原告李强。判令李强支付费用"]) == [expected]
