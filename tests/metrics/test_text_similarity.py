from collections import Counter
from math import exp, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.text_similarity import bleu, choice, is_chosen, is_correct, rouge_l, words


def longest(a, b):
    """Return the length of the longest common subsequence, by its textbook recursion."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def test_words_in_english_and_chinese():
    assert words("The Court's 2nd hearing, e.g.") == [
        "the",
        "court",
        "s",
        "2nd",
        "hearing",
        "e",
        "g",
    ]
    assert words("原告张三, Case 12号。") == ["原", "告", "张", "三", "case", "12", "号"]
    assert words("𠮷田 한국어 말") == ["𠮷", "田", "한국어", "말"]
    assert words("ＡＢＣ１２ ﬁne") == ["abc12", "fine"]  # full width and ligatures
    assert words("naïve Größe") == ["naïve", "größe"]
    assert words(" \n…_!") == []


def test_rouge_by_hand_in_english():
    # reference 6 words, answer 4, in common and in order: the cat mat -> P = 3/4, R = 3/6
    assert rouge_l("The cat sat on the mat.", "the cat, a mat") == pytest.approx(2 * 3 / (6 + 4))
    assert rouge_l("one two three", "three two one") == pytest.approx(1 / 3)


def test_rouge_by_hand_in_chinese():
    # reference 6 characters, answer 5, in common and in order: 告 胜 诉 -> P = 3/5, R = 3/6
    assert rouge_l("法院判原告胜", "被告不胜诉") == pytest.approx(2 * 2 / (6 + 5))
    assert rouge_l("原告胜诉", "原告胜诉。") == 1


@given(st.text("ab 原告.", max_size=12), st.text("ab 原告.", max_size=12))
def test_rouge_is_the_f1_of_the_longest_common_subsequence(reference, answer):
    a, b = words(reference), words(answer)
    wanted = 2 * longest(a, b) / (len(a) + len(b)) if a and b else 0
    assert rouge_l(reference, answer) == pytest.approx(wanted)


def test_bleu_by_hand_in_english():
    # Of the answer's n-grams the reference has 5 of 6, 3 of 5, 2 of 4 and 1 of 3; both are as long.
    found = bleu("the cat sat on the mat", "the cat sat on a mat")
    assert found == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4))
    # All of the 4, 3, 2 and 1 n-grams, but 4 words where the reference has 6.
    assert bleu("the cat sat on the mat", "the cat sat on") == pytest.approx(100 * exp(1 - 6 / 4))
    # 2 of 3 words, 1 of 2 pairs, and no triple: half of one of 1.
    found = bleu("the cat sat", "the cat ran")
    assert found == pytest.approx(100 * (2 / 3 * 1 / 2 * 0.5) ** (1 / 3))
    # Case and punctuation are of the text.
    assert bleu("They met.", "they met.") < bleu("They met.", "They met.") == 100


def test_bleu_by_hand_in_chinese():
    # A character is a word: all of 4, 3, 2 and 1 n-grams, 4 characters for 5.
    assert bleu("原告胜诉了", "原告胜诉") == pytest.approx(100 * exp(1 - 5 / 4))
    # 3 of 4 characters, 2 of 3 pairs (原告, 告胜), 1 of 2 triples, and no run of four: half of 1.
    found = bleu("原告胜诉", "原告胜了")
    assert found == pytest.approx(100 * (3 / 4 * 2 / 3 * 1 / 2 * 0.5) ** (1 / 4))
    assert bleu("张三 sued in 2019", "张三 sued in 2019") == 100


def test_bleu_of_short_and_of_empty_answers():
    assert bleu("Ann Lee", "Ann Lee") == bleu("B", "B") == bleu("张三", "张三") == 100
    assert bleu("Ann Lee", "") == bleu("Ann Lee", "Bob") == bleu("原告", "被") == 0


def slow_bleu(reference, answer):
    """Return BLEU of words that stand apart, by its definition."""
    a, b = reference.split(), answer.split()
    shares, misses = [], 0
    for size in range(1, min(4, len(b)) + 1):
        left = Counter(tuple(a[i : i + size]) for i in range(len(a) - size + 1))
        right = Counter(tuple(b[i : i + size]) for i in range(len(b) - size + 1))
        hits = sum(min(count, left[run]) for run, count in right.items())
        misses += not hits
        shares.append((hits or 0.5**misses) / right.total())
    if not set(a) & set(b):
        return 0
    return 100 * min(1, exp(1 - len(a) / len(b))) * prod(shares) ** (1 / len(shares))


@given(
    st.lists(st.sampled_from(["a", "b", "c", "原"]), max_size=8).map(" ".join),
    st.lists(st.sampled_from(["a", "b", "c", "原"]), max_size=8).map(" ".join),
)
def test_bleu_is_what_its_definition_says(reference, answer):
    found = bleu(reference, answer)
    assert found == pytest.approx(slow_bleu(reference, answer))
    assert 0 <= found <= 100


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        ("loan", " Loan.", True),
        ("loan", "loan of money", True),
        ("loan", "a loan", False),
        ("loan of money", "loan", False),
        ("借款", "借款纠纷", True),
        ("借款", "款", False),
        ("B", "B. because", True),
        ("B", "Because", False),
        ("", "anything", False),
        ("...", "...", False),
    ],
)
def test_an_answer_is_right_when_it_begins_with_the_reference(reference, answer, right):
    assert is_correct(reference, answer) is right


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("B", "B"),
        (" b)", "B"),
        ("(b).", "B"),
        ("Ｂ。", "B"),
        ("B. tort law", "B"),
        ("B: because", "B"),
        ("B\nA", "B"),
        ("B项", "B"),
        ("【C】", "C"),
        ("<A>", "A"),
        ("AC", "AC"),
        ("C, A", "AC"),
        ("A、B、D。", "ABD"),
        ("The answer is D.", "D"),
        ("Answer: (A)", "A"),
        ("Case B is more similar.", "B"),
        ("答案是AC", "AC"),
        ("正确答案：Ｄ", "D"),
        ("故选B。", "B"),
        ("案例A与前案相似", "A"),
        ("A. B is wrong", "A"),
        ("", None),
        ("...", None),
        ("A claim of unpaid rent", None),
        ("Because", None),
        ("A公司应当付款", None),
        ("J", None),
        ("The case is about rent", None),
        ("In this case a tenant", None),
        ("The answer: A claim of negligence is possible.", None),
        ("Answer:\n\nA claim is possible, so choose option B.", "B"),
        ("That is the case. A claim of negligence is possible.", None),
        ("Answer: B because of the lease", "B"),
        ("Answer: A", "A"),
        ("Answer: A because of the lease", "A"),
        ("Answer:\nA is right.", "A"),
        ("Option A is right.", "A"),
        ("The answer is A because of the lease", "A"),
        ("I do not know", None),
    ],
)
def test_which_options_an_answer_names(text, options):
    assert choice(text) == (None if options is None else frozenset(options))


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        ("B", "B. tort law", True),
        ("B", "The answer is B", True),
        ("A", "A claim of rent", False),
        ("A", "AB", False),
        ("AB", "B, A", True),
        ("AB", "A", False),
        ("B. tort law", "B", True),
        ("B", "", False),
        ("tort law", "Tort law.", True),
        ("tort law", "B", False),
    ],
)
def test_a_choice_is_right_when_it_is_all_of_the_reference_and_nothing_else(
    reference, answer, right
):
    assert is_chosen(reference, answer) is right


@settings(deadline=None)
@given(st.sets(st.sampled_from("ABCDEFGH"), min_size=1), st.randoms(), st.sampled_from(", 、；&"))
def test_options_are_read_in_any_order_with_any_mark_between(options, order, between):
    listed = sorted(options)
    order.shuffle(listed)
    for text in (between.join(listed), f"The answer is {between.join(listed)}."):
        assert choice(text) == options
