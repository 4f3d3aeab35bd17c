"""A judge that is a language model on this machine."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from operator import itemgetter

from fedaudit.api.engine import Engine, text_start
from fedaudit.api.records import Target
from fedaudit.judge.cache import Judgement, JudgementCache
from fedaudit.judge.prompt import ASPECTS, HIGHEST, LOWEST, JudgeQuestion, parse_scores

QUESTIONS = 16
"""Questions that are answered together, and lost together if the process is killed."""
CHOICES = tuple(f" {score}" for score in range(LOWEST, HIGHEST + 1))
FIRST, *PARTS = json.dumps({number: dict.fromkeys(ASPECTS, 5) for number in "12"}).split(" 5")
"""The JSON of a reply: what stands before its eight scores, and what follows each."""
LONGEST = FIRST + "".join(CHOICES[-1] + part for part in PARTS)

Chat = Callable[[Sequence[Mapping[str, str]]], str]
"""A function that writes messages as the text after which the model replies."""


def plain_chat(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the messages as paragraphs, for a model without a chat template."""
    return "".join(f"{message['content']}\n\n" for message in messages)


class LocalJudge:
    """A model that judges by greedy decoding among the replies that can be read.

    It replies in the protocol's JSON: each of the eight scores is the likeliest of 1 to 10, with
    the JSON that follows it, after the question and the scores before it. So no reply is malformed,
    but a question that is longer than the model's context has no judgement.
    """

    def __init__(self, engine: Engine, *, chat: Chat, model: str) -> None:
        self.model = model
        self._engine, self._chat = engine, chat

    def judge(
        self, questions: Mapping[str, JudgeQuestion], cache: JudgementCache
    ) -> Iterable[tuple[str, Judgement | None]]:
        """Yield every question's judgement, some at a time."""
        chats = {key: self._chat(question.messages()) for key, question in questions.items()}
        sizes = map(len, self._tokens([chat + LONGEST for chat in chats.values()]))
        limit = self._engine.context_length
        fitting = [key for key, size in zip(chats, sizes, strict=True) if size <= limit]
        yield from ((key, None) for key in chats.keys() - set(fitting))
        for first in range(0, len(fitting), QUESTIONS):
            keys = fitting[first : first + QUESTIONS]
            replies = self._replies([chats[key] for key in keys])
            for key, judgement in zip(keys, map(parse_scores, replies), strict=True):
                if judgement:
                    cache.add(key, judgement)
                yield key, judgement

    def _replies(self, chats: Sequence[str]) -> list[str]:
        """Return the reply to each chat, score by score."""
        replies = [FIRST for _ in chats]
        for part in PARTS:
            # The part is scored with its number: alone, 1 begins 10 and is never less likely.
            choices = [choice + part for choice in CHOICES]
            groups = [
                self._tokens([chat + reply + choice for choice in choices])
                for chat, reply in zip(chats, replies, strict=True)
            ]
            scores = self._engine.score_groups(Target(name="judge"), groups)
            replies = [
                reply + max(zip(map(fsum, rows), choices, strict=True), key=itemgetter(0))[1]
                for reply, rows in zip(replies, scores, strict=True)
            ]
        return replies

    def _tokens(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        start = text_start(self._engine)
        return [(*start, *tokens.ids) for tokens in self._engine.tokenize(texts)]
