"""What the default leaves out of the published program, as docs/choices.md lists it."""

import pytest

from fedaudit.metrics.overlap import (
    CachedScores,
    compare,
    hit_categories,
    paraphrases,
    sentence_pairs,
)

RUN = "The applicant was detained for eleven months in a facility outside the capital."
OURS = "A choir sang at noon. The village pond froze over during the night. "
THEIRS = "Prices of copper fell again. The referee stopped the match for half an hour. "


def verdicts(a, b):
    return compare(a, b, compat=True).verdict, compare(a, b).verdict


def test_two_equal_sentences_are_a_copy():
    assert verdicts(RUN, RUN) == ("none", "verbatim")


def test_what_a_training_text_says_twice_is_still_a_copy():
    a, b = f"{RUN} A choir sang at noon in the old square. {RUN}", THEIRS + RUN
    assert verdicts(a, b) == ("candidate", "verbatim")
    span = (0, len(RUN), len(THEIRS), len(THEIRS + RUN))
    assert compare(a, b).spans == (span,)


def test_a_joined_unit_ends_where_its_last_sentence_does():
    tail = "The applicant was held for eleven months in rooms outside Rome."
    a, b = f"{OURS}No way!{' ' * 20}{tail}", f"{THEIRS}No way!{' ' * 20}{tail}"
    (short,), (full,) = compare(a, b, compat=True).spans, compare(a, b).spans
    assert (full[1], full[3]) == (len(a), len(b))
    assert short[1] == len(a) - 20


def test_a_dotted_capital_does_not_move_what_follows_it():
    a, b = OURS + "İİİ " + RUN, THEIRS + "İİİ " + RUN
    assert compare(a, b).spans == ((len(OURS), len(a), len(THEIRS), len(b)),)


def test_line_breaks_stay_in_a_sentence_as_published():
    # The program drops list entries that are a line break alone, which its splitter never gives.
    a, b = A.replace("2009 and", "2009\nand"), B.replace("Seville, a", "Seville,\n a")
    texts = (OURS + a, THEIRS + b)
    for compat, wanted in ((True, (b, a)), (False, (B, A))):
        candidate = compare(*texts, compat=compat)
        assert wanted in sentence_pairs(*texts, candidate, compat=compat)


class Names:
    """Finds capitalised words; or lower-case names, as the published stage looks for them."""

    def __init__(self, *names):
        self.names = names

    def find(self, texts):
        return [{name for name in self.names if name in text} for text in texts]


A = "Maria Lopez moved to Seville in 2009 and opened a bakery near the cathedral."
B = "Near the cathedral of Seville, a bakery was opened by Maria Lopez in 2009."
NOBODY = Names()


def found(p, names=NOBODY, *, compat=False, a=A, b=B):
    texts = (OURS + a, THEIRS + b)
    candidate = compare(*texts, compat=compat)
    assert candidate.verdict == "candidate"
    pairs = sentence_pairs(*texts, candidate, compat=compat)
    scores = CachedScores(dict.fromkeys(pairs, p) if isinstance(p, float) else p)
    return hit_categories(candidate, paraphrases(*texts, candidate, scores, names, compat=compat))


@pytest.mark.parametrize(
    ("p", "original", "default"),
    [
        (0.2, ("paraphrase_low",), ()),
        (0.5, ("paraphrase_low",), ()),
        (0.51, ("paraphrase_high",), ("paraphrase_high",)),
        (0.99, ("paraphrase_high",), ("paraphrase_high",)),
        (0.995, (), ("paraphrase_high",)),
    ],
)
def test_only_probable_paraphrases_count_and_the_surest_too(p, original, default):
    assert found(p, compat=True) == original
    assert found(p) == default


def test_entities_are_sought_as_written():
    names = Names("Maria Lopez", "Granada")
    other = B.replace("Maria Lopez", "Granada")
    assert found(0.8, names, b=other) == ()
    # In lower case there is none of them, and two empty sets agree.
    assert found(0.8, names, b=other, compat=True) == ("paraphrase_high",)


@pytest.mark.parametrize(
    ("b", "agree"),
    [(B, True), (B.replace("Maria Lopez", "someone"), True), (B.replace("Seville", "Rome"), False)],
    ids=["equal", "contained", "apart"],
)
def test_one_sentence_has_to_name_all_that_the_other_one_names(b, agree):
    assert bool(found(0.8, Names("Maria Lopez", "Seville", "Rome"), b=b)) == agree


def test_an_equal_short_sentence_is_no_paraphrase():
    a = "The report was short. The minister of finance rejected the union's proposal on Tuesday."
    b = "The report was short. On Tuesday the finance minister rejected the proposal of the union."
    assert found(0.0, a=a, b=b) == ()
    assert found(0.999, a=a, b=b, compat=True) == ("paraphrase_low",)
    texts = (OURS + a, THEIRS + b)
    pairs = sentence_pairs(*texts, compare(*texts))
    assert len(pairs) == 3
    assert all(x.lower() != y.lower() for x, y in pairs)


def test_a_passage_does_not_inherit_the_pairs_of_another_one():
    between = " ".join(
        f"Unrelated remark about {w} came next." for w in ["gardens", "bicycles", "poetry"] * 3
    )
    first = (
        "The nurse measured blood pressure twice every day.",
        "Blood pressure was measured twice each day by the nurse.",
    )
    second = (
        "The patient took two tablets of aspirin daily with warm water.",
        "The patient daily took aspirin, two tablets with warm water.",
    )
    texts = (f"{OURS}{first[0]} {between} {second[0]}", f"{THEIRS}{first[1]} {second[1]}")
    sure = {(first[1], first[0]): 0.8, (second[1], second[0]): 0.1}
    many = {}
    for compat in (True, False):
        candidate = compare(*texts, compat=compat)
        assert len(candidate.spans) == 2
        scored = dict.fromkeys(sentence_pairs(*texts, candidate, compat=compat), 0.1) | sure
        many[compat] = paraphrases(*texts, candidate, CachedScores(scored), NOBODY, compat=compat)
    assert [bool(one.high) for one in many[True]] == [True, True]
    assert [(one.high.probability, one.span) for one in many[False]] == [(0.8, candidate.spans[0])]


def test_other_verdicts_have_no_paraphrase_and_categories_follow_the_verdict():
    copy, nothing = compare(OURS + RUN, THEIRS + RUN), compare(OURS, THEIRS)
    for texts, overlap in (((OURS + RUN, THEIRS + RUN), copy), ((OURS, THEIRS), nothing)):
        assert sentence_pairs(*texts, overlap) == []
        assert paraphrases(*texts, overlap, CachedScores({}), NOBODY) == ()
    assert (hit_categories(copy), hit_categories(nothing)) == (("verbatim",), ())
