"""A scorer of paraphrases, tuned on a handful of pairs with the built-in model."""

import runpy
import sys
from pathlib import Path

import pytest
from fedaudit_plugins.paraphrasers.sequence_pair import SequencePair

from fedaudit import nano
from fedaudit.metrics.intervals import wilson

scorer = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/paraphrase_scorer.py"))
HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
LINES = '1\t1\t2\tAnn sues "Bob.\tBob is sued by Ann.\n0\t3\t4\tAnn sues Bob.\tBob is ill.\n'


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text(HEADER + LINES * 4, encoding="utf-8-sig")
    return path


def test_quotation_marks_of_the_corpus_are_text(corpus):
    pairs, labels = scorer["read_pairs"](corpus)
    assert pairs[:2] == [
        ('Ann sues "Bob.', "Bob is sued by Ann."),
        ("Ann sues Bob.", "Bob is ill."),
    ]
    assert labels == [1, 0] * 4


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")
def test_the_folder_that_is_tuned_is_a_scorer_of_the_plugin(corpus, tmp_path, monkeypatch, capsys):
    out = tmp_path / "scorer"
    words = [
        corpus,
        corpus,
        "--base",
        nano.folder(),
        "--out",
        out,
        "--epochs",
        15,
        "--learning-rate",
        5e-3,
    ]
    monkeypatch.setattr(sys, "argv", ["paraphrase_scorer.py", *map(str, words)])
    scorer["main"]()
    assert '"pairs": 8' in capsys.readouterr().out
    (same, other, *_), _ = scorer["read_pairs"](corpus)
    tuned = SequencePair(model=str(out))
    assert tuned.score([same])[0] > 0.5 > tuned.score([other])[0]
    tokenizer = scorer["pair_tokenizer"](nano.folder())
    ids = tokenizer("a", "b")["input_ids"]
    assert ids.count(tokenizer.eos_token_id) == 2  # one ends each sentence


def test_errors_by_hand():
    """Of three paraphrases 0.9, 0.995 and 0.4, and two others 0.6 and 0.1, three are told rightly.

    Of the six couples of a paraphrase with another, 0.4 and 0.6 alone are in the wrong order.
    """
    found = scorer["errors"]([0.9, 0.6, 0.995, 0.4, 0.1], [1, 0, 1, 1, 0])
    assert found["accuracy"]["of"] == [3, 5]
    assert found["recall"]["of"] == [2, 3]
    assert found["false positives"]["of"] == [1, 2]
    assert found["recall"]["low"] == wilson(2, 3).low
    assert found["f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["auc"] == pytest.approx(5 / 6)
    assert found["paraphrases above 0.99"]["of"] == [1, 3]
    assert found["others above 0.99"]["of"] == [0, 2]
