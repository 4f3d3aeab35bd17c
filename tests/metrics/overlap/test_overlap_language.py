"""Sentences and words beside NLTK's, and Chinese by hand."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlap_texts import text_pair
from pan_reference import TREEBANK, split, units

from fedaudit.metrics.overlap import (
    DEFAULT,
    ORIGINAL,
    OverlapSettings,
    compare,
    prepare_text,
    prepare_texts,
)
from fedaudit.metrics.overlap.sentences import ends_plainly, ends_sentence, punkt, sentences
from fedaudit.metrics.overlap.tokenization import term_code, words

# fmt: off
PARTS = [
    "Dr", "Mr", "U.S", "e.g", "the", "Then", "cat", "No", "p.m", "J", "St", "12", "3.5", "He", "in",
    "According", "...", "..", "?", "!", '"', "'", ")", "(", "--", "-", "\n", " ", ". ", ".", " \n",
    "\t", ",", "Corp", "a", "I", "gonna", "cannot", "'tis", "don't", ";", ":", "“", "”", "wanna",
    "''", "``", "%", "x@y.z", "co-op", "é", "Σ", "'s", "s'", "more'n", "d'ye", "\u00a0", "Lemme",
    "(see", "above)", "(a).", "b);", ",5", "[12]", "cannot-be", "a/b", "§5", "No.", "v", "U.S.)",
    "_",
]
# fmt: on


def scrap(draw, most=12):
    return "".join(
        draw.choice(PARTS) + draw.choice(["", " ", " "]) for _ in range(draw.randint(1, most))
    )


def spelt(text, *, han=False):
    return [text[start:end] for start, end in sentences(text, han=han)]


def test_the_english_model_is_the_genuine_one():
    model = punkt()._params
    sizes = [len(model.abbrev_types), len(model.collocations), len(model.sent_starters)]
    assert [*sizes, len(model.ortho_context)] == [156, 37, 39, 20366]


def test_sentences_are_punkts():
    draw = random.Random(5)
    for _ in range(3000):
        text = scrap(draw)
        assert sentences(text) == split(text), text


@settings(deadline=None)
@given(st.lists(st.sampled_from(PARTS)).map(" ".join))
def test_sentences_are_in_order_and_begin_and_end_with_text(text):
    spans = sentences(text)
    assert spans == sorted(spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    left_out = "".join(text[a:b] for (_, a), (b, _) in pairwise([(0, 0), *spans, (len(text),) * 2]))
    assert not left_out.strip()


def test_words_are_treebanks():
    draw = random.Random(6)
    for _ in range(1500):
        text = scrap(draw, 7)
        low, at, expected = text.lower(), 0, []
        for token in TREEBANK.tokenize(low):
            if set(token) - set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"):
                at = low.find(token, at)
                expected.append((term_code(token), at, at + len(token)))
                at += len(token)
        assert words(low, han=False) == expected, text


def test_abbreviations_are_not_ends():
    assert spelt("Mrs. Hall met Dr. Abel. He left.") == ["Mrs. Hall met Dr. Abel.", "He left."]


@pytest.mark.parametrize("step", [20, pytest.param(1, marks=pytest.mark.oracle)])
def test_what_ends_plainly_ends_whatever_follows(step):
    model = punkt()._params
    known = [*model.ortho_context, *model.abbrev_types, *(a for a, _ in model.collocations)]
    plain = [
        w for word in known[::step] for w in (word + ".", word.title() + "?") if ends_plainly(w)
    ]
    assert len(plain) > 20_000 / step
    for word in plain:
        assert all(ends_sentence(word + after) for after in (" the", "  The", "\n(12", " ?"))
    assert not any(map(ends_plainly, ("Dr.", "J.", "12.", "U.S.", "word", 'word."')))


def test_units_and_terms_are_those_of_the_slow_way():
    draw = random.Random(8)
    texts = [scrap(draw, 40) for _ in range(120)] + [text_pair(draw)[0] for _ in range(40)]
    for text, fast in zip(texts, prepare_texts(texts, ORIGINAL), strict=True):
        slow, _ = units(text)
        assert fast.starts.tolist() == [start for _, start, _ in slow], text
        assert (fast.ends - fast.starts).tolist() == [length for _, _, length in slow]
        found = [Counter() for _ in slow]
        for column, unit, count in zip(fast.columns, fast.units, fast.counts, strict=True):
            found[unit][fast.terms[column]] = count
        assert found == [Counter({term_code(s): n for s, n in tf.items()}) for tf, _, _ in slow]


ARRAYS = ("starts", "ends", "terms", "first", "columns", "units", "counts", "by_unit", "bounds")


@given(
    st.lists(st.lists(st.sampled_from([*PARTS, "合同由", "。"]), max_size=30).map(" ".join)),
    st.sampled_from([DEFAULT, ORIGINAL]),
)
def test_texts_are_prepared_together_as_alone(texts, chosen):
    for text, together in zip(texts, prepare_texts(texts, chosen), strict=True):
        alone = prepare_text(text, chosen)
        assert (alone.text, alone.han is None) == (together.text, together.han is None)
        for name in ARRAYS:
            assert getattr(alone, name).tolist() == getattr(together, name).tolist()


def test_chinese_is_cut_at_its_marks_and_english_in_it_by_punkt():
    text = "他说：“你好！”然后走了。Dr. Smith came.\n第二行没有句号\n第三行……结束! 完"
    assert spelt(text, han=True) == [
        "他说：“你好！”",
        "然后走了。",
        "Dr. Smith came.",
        "第二行没有句号",
        "第三行……",
        "结束!",
        "完",
    ]


def test_a_chinese_character_is_a_word_and_two_are_a_term():
    text = "合同 ab-1234 由张三 signed，2011。"
    cut = [text[start:end] for _, start, end in words(text, han=True)]
    assert cut == ["合", "同", "ab-1234", "由", "张", "三", "signed", "2011"]
    prepared = prepare_text("由张三送达。")
    assert sorted(prepared.terms) == sorted(map(term_code, ("由张", "张三", "三送", "送达")))


OURS = "教区委员会在十月下旬开会审查排水预算。几位成员询问了新水泵的费用。"
THEIRS = "天文学家长期以来对那个星系的微弱光晕感到困惑。最近的一项调查收集了数千个光谱。"
RUN = "申请人在首都郊外的一处设施中被拘留了十一个月，没有经过任何听证。"


def test_a_chinese_copy_is_verbatim():
    found = compare(OURS + RUN, THEIRS + RUN)
    a, b = len(OURS), len(THEIRS)
    assert found.verdict == "verbatim"
    assert found.spans == ((a, a + len(RUN), b, b + len(RUN)),)
    assert compare(OURS, THEIRS).verdict == "none"
    assert compare(RUN, RUN).verdict == "verbatim"
    # The published program knows no Chinese: without a space it is one word.
    assert compare(OURS + RUN, THEIRS + RUN, compat=True).verdict == "none"


@pytest.mark.parametrize(("letters", "verdict"), [(20, "candidate"), (21, "verbatim")])
def test_the_threshold_counts_a_chinese_character_as_two_and_a_half(letters, verdict):
    # 20 characters weigh 50, which is not more than 50.
    run = RUN.replace("，", "")[:letters]
    found = compare(f"{OURS}昨日{run}甲乙丙丁戊。", f"{THEIRS}今朝{run}子丑寅卯辰。")
    assert found.verdict == verdict


def test_the_threshold_is_a_setting():
    a, b = f"{OURS}昨天{RUN[:13]}甲乙丙。", f"{THEIRS}今天{RUN[:13]}子丑寅。"
    assert compare(a, b).verdict != "verbatim"
    assert compare(a, b, settings=OverlapSettings(run=30, length=30)).verdict == "verbatim"
    for wrong in ({"gap": -1}, {"han_weight": 0}, {"ratio": 0}):
        with pytest.raises(ValueError, match="must"):
            OverlapSettings(**wrong)


def test_a_chinese_idea_is_found_one_way_only():
    short = "外科医生在手术中切除了病人肿大的甲状腺的两个腺叶。"
    long = (
        "外科医生在手术中切除了甲状腺的两个腺叶，因为病人的甲状腺肿大。"
        "病人甲状腺的两个腺叶已经肿大，外科医生在手术中切除了这两个腺叶。"
        "由于病人的甲状腺肿大，外科医生在当天的手术中切除了两个腺叶。"
    )
    assert compare(OURS + short, THEIRS + long).verdict == "idea"
    assert compare(THEIRS + long, OURS + short).verdict == "candidate"


def test_english_is_prepared_alike_with_and_without_chinese_support():
    text = "The court ordered the ministry to pay. İt did not; the “widow” waited - in vain."
    ours, theirs = prepare_text(text, DEFAULT), prepare_text(text, ORIGINAL)
    assert ours.han is None
    assert (ours.starts.tolist(), ours.ends.tolist()) == (
        theirs.starts.tolist(),
        theirs.ends.tolist(),
    )
