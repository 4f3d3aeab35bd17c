"""The invisible watermark: texts keep what is seen, and the test is an exact rank."""

import unicodedata
from collections import Counter
from itertools import product

import pytest
import tokenizers
from fedaudit_plugins.watermarks.invisible import watermark
from fedaudit_plugins.watermarks.invisible.watermark import ALPHABET, NULLS, Invisible, pair_of
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedaudit.api.errors import InputError
from fedaudit.api.records import Completion, Document, Tokens
from fedaudit.engine.fake import FakeEngine

PLUGIN = Invisible()
ENGINE = FakeEngine(lambda *_: "")
PROMPTS = ["The court met on Monday .", "A bank lent money to Anna Beck ."]
A, B, C = ALPHABET[:3]


def issued(seed=0, index=0, plugin=PLUGIN):
    return plugin.issue(ENGINE, PROMPTS, seed=seed, index=index)


def answered(*texts):
    return [Completion((text,)) for text in texts]


@given(st.text(), st.integers(1, 20), st.integers(0, 10**9))
def test_a_marked_text_is_the_original_without_its_invisible_characters(text, chunk, seed):
    cue, reply = pair_of(issued(seed))
    marked = watermark.mark_text(text, cue, reply, chunk=chunk)
    assert marked.replace(cue, "").replace(reply, "") == text
    pairs = len(text.split()) // (2 * chunk)
    assert marked.count(cue) == marked.count(reply) == max(pairs, len(text.split()) > 1)


def test_cue_and_reply_stand_on_both_sides_of_a_gap():
    marked = watermark.mark_text("a b  c d e f g", A, B, chunk=1)
    assert marked == f"a{A} {B}b  c{A} {B}d e{A} {B}f g"
    assert watermark.mark_text("a b\nc", A, B, chunk=16) == f"a{A} {B}b\nc"


def test_a_document_without_a_gap_is_refused():
    with pytest.raises(InputError, match="d has fewer than two words"):
        PLUGIN.embed(issued(), [Document(id="d", text="word")], ENGINE, seed=0)


def slow_law(counts, hits):
    """Return P(more hits) + P(as many) / 2 over every reply of two characters."""
    every = [watermark.count_hits(counts, pair) for pair in product(ALPHABET, repeat=2)]
    return (sum(h > hits for h in every) + sum(h == hits for h in every) / 2) / len(every)


@given(st.lists(st.text(alphabet=[A, B, C, "x", " "], max_size=5), min_size=1, max_size=5))
def test_the_score_is_the_rank_among_all_replies(answers):
    counts = watermark.count_characters(answers, 2)
    law = watermark.hits_law(counts)
    assert law.sum() == pytest.approx(1)
    for reply in (A + B, C + C, B + A):
        hits = watermark.count_hits(counts, reply)
        assert norm.sf(watermark._normal_scores(law)[hits]) == pytest.approx(slow_law(counts, hits))


def test_by_hand():
    plugin = Invisible(length=2)
    secret = issued(plugin=plugin)
    cue, reply = pair_of(secret)
    score = plugin.test(secret, answered(f" {reply}", f"x{reply[0]}y{cue}"), ENGINE)
    # Three hits of four. One other reply has as many, that which ends in the cue's first character.
    assert (score.hits, score.n) == (3, 4)
    assert score.p_value == pytest.approx(2 / 64**2)
    assert score.z == pytest.approx(norm.isf(2 / 64**2 / 2))
    assert len(score.null) == plugin.null_marks == 256


def test_answers_that_say_nothing_invisible_speak_neither_for_nor_against():
    score = PLUGIN.test(issued(), answered(" the bank.", ""), ENGINE)
    assert (score.z, score.p_value, score.hits, score.n, score.chance) == (0, 1, 0, 16, 0)
    assert set(score.null) == {0.0}


def test_one_loud_answer_repeated_is_not_more_than_one():
    secret = issued()
    _, reply = pair_of(secret)
    half = reply[:4]
    once, often = (PLUGIN.test(secret, answered(*[half] * n), ENGINE) for n in (1, 9))
    assert once.z == pytest.approx(often.z)
    assert once.p_value == pytest.approx(64.0**-4)


def test_another_owners_reply_is_chance():
    """Where every model says one other reply by heart, z over issued marks is as by chance."""
    said, plugin = answered(pair_of(issued(77))[1]), Invisible(nulls=NULLS[0])
    found = [plugin.test(issued(seed), said, ENGINE) for seed in range(1000, 2000)]
    for level in (0.15, 0.01):  # expected: one of 64 at each of eight places
        share = sum(one.p_value <= level for one in found) / len(found)
        assert share <= level + 3 * (level / len(found)) ** 0.5
    hits = Counter(one.hits > 0 for one in found)
    assert hits[True] / len(found) == pytest.approx(1 - (63 / 64) ** 8, abs=0.03)


def test_a_mark_is_asked_for_behind_the_words_of_its_prompts():
    secret = issued()
    cue, _ = pair_of(secret)
    asked = PLUGIN.questions(secret, ENGINE)
    assert [ENGINE._text(one.prompt) for one in asked] == [text + cue for text in PROMPTS]
    again = PLUGIN.add_prompts(secret, [f"Of{cue} the court"], ENGINE)
    assert again["prompts"] == ["Of the court"]


def test_texts_show_the_mark_that_they_have_and_no_other():
    secret = issued()
    [marked] = PLUGIN.embed(secret, [Document(id="d", text="a b c d")], ENGINE, seed=0)
    found = PLUGIN.test_texts(secret, [marked.text, "a b c d"], ENGINE)
    assert (found.hits, found.n) == (1, 2)
    assert found.z > 6
    other = PLUGIN.test_texts(issued(1), [marked.text], ENGINE)
    assert (other.z, other.hits, other.p_value) == (0, 0, 1)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_unicode_normalisation_keeps_the_mark(form):
    cue, reply = pair_of(issued())
    marked = watermark.mark_text("a b c d", cue, reply, chunk=1)
    assert unicodedata.normalize(form, marked) == marked


class Normalising(FakeEngine):
    """An engine whose tokenizer normalises texts first."""

    def __init__(self, normaliser, unknown=frozenset()):
        super().__init__(lambda *_: "")
        self.normaliser, self.unknown = normaliser, unknown

    def tokenize(self, texts):
        def shown(text):
            text = self.normaliser.normalize_str(text) if self.normaliser else text
            return "".join("?" if c in self.unknown else c for c in text)

        return [Tokens(tuple(map(ord, s)), tuple((i, i + 1) for i in range(len(s))))
                for s in map(shown, texts)]  # fmt: skip


@pytest.mark.parametrize("name", ["NFKC", "Nmt"])
def test_tokenizers_that_keep_the_mark_are_taken(name):
    engine = Normalising(getattr(tokenizers.normalizers, name)())
    assert PLUGIN.questions(issued(), engine)


@pytest.mark.parametrize(
    "engine",
    [
        Normalising(tokenizers.normalizers.BertNormalizer()),
        Normalising(tokenizers.normalizers.StripAccents()),
        Normalising(None, unknown=frozenset(ALPHABET)),
    ],
    ids=["accents", "bert", "unknown"],
)
def test_a_tokenizer_that_loses_the_mark_is_refused(engine):
    with pytest.raises(InputError, match="no model with this tokenizer can learn"):
        PLUGIN.questions(issued(), engine)
    with pytest.raises(InputError, match="no model with this tokenizer can learn"):
        PLUGIN.issue(engine, PROMPTS, seed=0, index=0)


@pytest.mark.parametrize("change", [{"length": 0}, {"seed": "1"}, {"prompts": 3}])
def test_a_damaged_secret_is_said(change):
    with pytest.raises(InputError, match="damaged"):
        PLUGIN.questions({**issued(), **change}, ENGINE)


def test_a_report_says_what_may_have_taken_the_mark_away():
    from fedaudit.attribution.report import lost_mark_caveats

    assert lost_mark_caveats(["kgw", "fictitious"]) == []
    [line] = lost_mark_caveats(["invisible", "invisible", "kgw", "not installed"])
    assert Invisible.lost_by in line
