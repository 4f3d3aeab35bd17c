import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.metrics.utility import choice, is_chosen, is_correct, rouge_l, words


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
