import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.utility import is_correct, rouge_l, words


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
