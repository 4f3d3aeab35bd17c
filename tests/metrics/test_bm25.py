import math
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.metrics.bm25 import nearest_documents, tokens

WORDS = ["court", "ordered", "widow", "water", "the", "and", "fever", "法院", "命令"]


def slow(query, documents):
    """Return every document's score, from the formula."""
    rows = [tokens(document) for document in documents]
    n, average = len(rows), sum(map(len, rows)) / len(rows)
    scores = [0.0] * n
    for word in tokens(query):
        df = sum(word in row for row in rows)
        idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
        for i, row in enumerate(rows):
            tf = row.count(word)
            if tf:
                scores[i] += idf * tf / (tf + 1.2 * (0.25 + 0.75 * len(row) / average))
    return scores


def ranked(query, documents, k):
    scores = [round(score, 10) for score in slow(query, documents)]
    order = sorted(range(len(documents)), key=lambda i: (-scores[i], i))
    return tuple(i for i in order if k is None or len(documents) <= k or scores[i] > 0)[:k]


def test_the_scores_by_hand():
    documents = ["court court water", "court", "fever fever fever fever"]
    # N 3, average length 8/3. court: df 2, idf ln(1 + 1.5/2.5) = ln 1.6.
    scores = slow("court", documents)
    assert scores[0] == pytest.approx(math.log(1.6) * 2 / (2 + 1.2 * (0.25 + 0.75 * 9 / 8)))
    assert scores[1] == pytest.approx(math.log(1.6) * 1 / (1 + 1.2 * (0.25 + 0.75 * 3 / 8)))
    assert scores[2] == 0
    assert nearest_documents(["court"], documents, 2) == [(1, 0)] == [ranked("court", documents, 2)]


def test_random_texts_rank_as_the_formula_has_it():
    draw = random.Random(2)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(0, 12))) for _ in range(60)]
    for k in (1, 3, 10, None):
        for query, found in zip(texts[:15], nearest_documents(texts[:15], texts, k), strict=True):
            assert found == ranked(query, texts, k)


TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), max_size=8)


@given(TEXTS, TEXTS, st.integers(1, 4))
def test_a_query_has_its_own_answer_whatever_is_asked_beside_it(queries, documents, k):
    together = nearest_documents(queries, documents, k)
    assert together == [nearest_documents([query], documents, k)[0] for query in queries]
    for found in together:
        assert len(found) == len(set(found)) <= k
        assert all(0 <= i < len(documents) for i in found)


def test_equal_documents_come_in_their_order_and_a_stranger_not_at_all():
    documents = ["the fever"] * 5 + ["water"] * 20
    assert nearest_documents(["fever", "widow", ""], documents, 3) == [(0, 1, 2), (), ()]


def test_small_sets_and_k_none_give_all_pairs():
    documents = ["water", "fever", ""]
    assert (
        nearest_documents(["fever"], documents, 3)
        == [(1, 0, 2)]
        == nearest_documents(["fever"], documents, None)
    )
    assert nearest_documents(["fever", "x"], ["", ""], 5) == [(0, 1), (0, 1)]
    assert nearest_documents(["fever"], []) == [()]
    assert nearest_documents([], documents) == []
    with pytest.raises(ValueError, match="at least 1"):
        nearest_documents(["fever"], documents, 0)


def test_tokens_of_two_scripts():
    assert tokens("The Court's ＡＢ-12, 法院命令 院") == [
        *("the", "court", "s", "ab", "12"),
        *("法院", "院命", "命令", "院"),
    ]


def test_jax_is_kept_off_a_gpu(tmp_path):
    """bm25s calls JAX on import wherever it is installed; it would take most of a card's memory."""
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").touch()
    (tmp_path / "jax" / "lax.py").write_text(
        "import os\nprint('JAX on', os.environ['JAX_PLATFORMS'])\ndef top_k(*_): return 0, 0\n"
    )
    code = "from fedaudit.metrics.bm25 import nearest_documents as n; print(n(['b'], ['a', 'a b']))"
    environment = {key: value for key, value in os.environ.items() if key != "JAX_PLATFORMS"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["JAX on cpu", "[(1, 0)]"]
