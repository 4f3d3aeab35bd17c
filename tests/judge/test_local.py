"""A judge on this machine, beside decoding that is as slow and plain as it can be."""

import json
import re

import pytest
import torch

from fedaudit.api.records import Tokens
from fedaudit.engine.loading.loader import load_base
from fedaudit.engine.local import LocalEngine
from fedaudit.judge.cache import JudgementCache
from fedaudit.judge.local import LocalJudge, plain_chat
from fedaudit.judge.prompt import ASPECTS, JudgeQuestion, parse_scores

QUESTIONS = {
    "one": JudgeQuestion("Who sues?", "Ann Lee", "The landlord"),
    "other": JudgeQuestion("Who sues?", "The landlord of Ann Lee's house", "Ann Lee"),
}


@pytest.fixture(scope="module")
def base():
    return load_base("fedaudit-nano", device="cpu")


def short_chat(messages):
    """Return what is to be judged alone: the instructions do not fit the built-in model."""
    return messages[1]["content"] + "\n"


def slow_reply(base, chat):
    """Return the reply whose scores are, one after the other, the likeliest in their JSON."""
    whole = json.dumps({number: dict.fromkeys(ASPECTS, 5) for number in ("1", "2")})
    before, *parts = whole.split(" 5")
    for part in parts:
        chances = {}
        for score in range(1, 11):
            text = f"{chat}{before} {score}{part}"
            ids = torch.tensor([base.tokenizer(text)["input_ids"]])
            with torch.no_grad():
                logits = base.model(ids).logits[0, :-1].log_softmax(-1)
            chances[score] = logits.gather(1, ids[0, 1:, None]).sum().item()
        before += f" {max(chances, key=chances.get)}{part}"
    return before


def test_scores_are_those_of_plain_greedy_decoding_among_the_numbers(base):
    judge = LocalJudge(LocalEngine(base), chat=short_chat, model="nano")
    cache = JudgementCache()
    found = dict(judge.judge(QUESTIONS, cache))
    assert {key: cache.get(key) for key in QUESTIONS} == found
    slow = slow_reply(base, short_chat(QUESTIONS["other"].messages()))
    assert found["other"] == parse_scores(slow)


class Liking:
    """A model of characters that gives one score the whole probability wherever it can stand."""

    context_length = 10_000

    def __init__(self, score):
        self.prompt_starts = {"bare": ()}
        self._score = str(score)

    def tokenize(self, texts):
        return [Tokens(tuple(map(ord, text)), ()) for text in texts]

    def score_groups(self, target, groups):
        return [[self._rows(sequence) for sequence in group] for group in groups]

    def _rows(self, sequence):
        text = "".join(map(chr, sequence))
        likes = re.findall(r'": (\d+)', text)[-1] == self._score
        return [*[0.0] * (len(sequence) - 2), 0.0 if likes else -1.0]


@pytest.mark.parametrize("score", [1, 7, 10])
def test_every_score_can_be_given_ten_too(score):
    judge = LocalJudge(Liking(score), chat=plain_chat, model="m")
    [(_, found)] = judge.judge({"k": QUESTIONS["one"]}, JudgementCache())
    assert found == ((float(score),) * 4, (float(score),) * 4)


def test_a_question_longer_than_the_context_has_no_judgement():
    engine = Liking(3)
    long = JudgeQuestion("Who sues?", "x" * engine.context_length, "y")
    judge = LocalJudge(engine, chat=plain_chat, model="m")
    found = dict(judge.judge({"short": QUESTIONS["one"], "long": long}, JudgementCache()))
    assert found["long"] is None
    assert found["short"]
