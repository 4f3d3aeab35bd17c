"""A language model that takes no time: what comes next follows from a hash of what stands before.

It speaks with the tokens of fedaudit-nano, and answers what `completion_server` asks an engine.
"""

import math
import random

from fedaudit.api.engine import TokenStatistics
from fedaudit.api.records import Completion, SamplingParams
from fedaudit.engine.remote.tokenizer import RemoteTokenizer

WORDS = """
the of and to in a is that for it as was with be by on not he his but at are this have from or had
an they which one you were her all she there would their we him been has when who will
"""


def unlikely(token):
    """Return the log-probability of a token that is none of those that may come next."""
    return -15.0 - token % 997 / 200


class HashModel:
    """The model and, by the name of its adapter, every other model."""

    context_length = 1024

    def __init__(self):
        self.tokenizer = RemoteTokenizer("fedaudit-nano", None)
        self.prompt_starts = self.tokenizer.starts
        cut = self.tokenizer.tokenize([f" {word}" for word in WORDS.split()])
        self.words = [tokens.ids[0] for tokens in cut if len(tokens.ids) == 1]
        assert len(self.words) > 20
        self.known = {}

    def tokenize(self, texts):
        return self.tokenizer.tokenize(texts)

    def next(self, target, before):
        """Return the log-probabilities of the tokens that may come next, the likeliest first."""
        key = f"{target.adapter} {before[-3:]}"
        if key not in self.known:
            drawn = random.Random(key)
            logits = {token: drawn.uniform(-1, 2) for token in drawn.sample(self.words, 6)}
            total = math.log(sum(map(math.exp, logits.values())))
            ranked = sorted(logits.items(), key=lambda item: (-item[1], item[0]))
            self.known[key] = {token: logit - total for token, logit in ranked}
        return self.known[key]

    def continued(self, target, prompt, new, how, drawn):
        tokens = list(prompt)
        for _ in range(new):
            ranked = self.next(target, tuple(tokens))
            kept = list(ranked.items())[: how.top_k or None]
            if how.temperature == 0 or how.top_p < 0.01:
                tokens.append(kept[0][0])
                continue
            weights = [math.exp(value / how.temperature) for _, value in kept]
            tokens.append(drawn.choices([token for token, _ in kept], weights)[0])
        return tuple(tokens[len(prompt) :])

    def generate(self, target, batch):
        return [
            Completion(
                tuple(
                    self.tokenizer.tokenizer.decode(
                        self.continued(
                            target,
                            request.prompt,
                            request.max_new_tokens,
                            batch.decoding,
                            random.Random(f"{batch.seed} {request.prompt} {sample}"),
                        )
                    )
                    for sample in range(request.samples)
                )
            )
            for request in batch.requests
        ]

    def answers(self, targets, questions, *, new):
        greedy = SamplingParams(temperature=0)
        return [
            [
                Completion(("",), (self.continued(target, tuple(row), new, greedy, None),))
                for row in questions
            ]
            for target in targets
        ]

    def token_statistics(self, target, rows):
        found = []
        for row in rows:
            ranked = [self.next(target, tuple(row[:at])) for at in range(1, len(row))]
            values = [
                one.get(token, unlikely(token)) for one, token in zip(ranked, row[1:], strict=True)
            ]
            first = [next(iter(one)) == t for one, t in zip(ranked, row[1:], strict=True)]
            found.append(TokenStatistics(values, [0.0] * len(values), [1.0] * len(values), first))
        return found
