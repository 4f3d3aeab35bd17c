"""A real HTTP server that continues and scores by fedaudit's own local engine, as vLLM would."""

import json
import threading
import time
from dataclasses import dataclass, field

from chat_server import Server

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target
from fedaudit.engine.remote.engine import query_seed

LOCK, COUNT = threading.Lock(), threading.Lock()
"""One at a time, of all servers: they may have one engine."""
QUIRKS = {
    "same choices": "all choices of a request are the first one",
    "crowded": "scores are the base's for all but one of the requests under way",
    "stale places": "scores of whole blocks are those of the request before",
    "stale blocks": "scores of whole blocks are those of the model that was asked first",
    "template": "a chat template surrounds every prompt",
    "cut": "only the end of a prompt is read, and usage says so",
    "cut and lied": "only the end of a prompt is read, and usage counts all of it",
    "no context": "no context length is stated",
    "other length": "max_tokens is refused",
    "penalty": "greedy answers say nothing twice",
    "no top": "only the log-probability of each token itself is given",
    "own top": "as the likeliest token, each token itself is listed",
    "few choices": "more than 8 samples a request are refused",
    "few tokens": "at most 16 tokens are generated, and usage says so",
    "few tokens and stop": "at most 16 tokens are generated, as if the model had ended there",
    "echo always": "each text begins with its prompt",
    "late base": "scores from the 65th token on are the base's",
    "late shift": "scores from the 65th token on are those of the tokens before",
    "end cut": "only the beginning of a prompt is read, and usage counts all of it",
    "narrow draws": "with no top_k, only the two likeliest tokens are drawn",
    "filter": "texts end after three characters, at a content filter",
    "stop string": "texts end at the first `on`",
    "double start": "a start token precedes prompts of token ids, too",
    "other penalty": "greedy answers say nothing twice, whatever the request says",
    "choices at most": "of more than 8 samples a request, 8 are given",
}


@dataclass
class HonestServer:
    """Models by name, each a target of one local engine; what is `without` is not honoured.

    A request whose seed is that of the audit's `seed` for its prompt gets the samples that the
    engine draws with `seed` itself: so an audit over HTTP can be compared with one in process.
    """

    engine: object
    models: dict
    seed: int = 0
    without: frozenset = frozenset()
    starts: tuple = ()
    """Tokens that it puts before a prompt that is text."""
    seedless: int = 0
    """How many were answered, under a lock: each that has no seed gets another."""
    change: object = None
    """Called with the request, may return an answer in place of the honest one."""
    quirks: frozenset = frozenset()
    """What it does otherwise, in silence: see `QUIRKS`."""
    kept: int = 64
    """The tokens that remain of a prompt that is cut."""
    under_way: int = 0
    left: list = field(default_factory=list)
    """The scores of the request before."""
    blocks: dict = field(default_factory=dict)
    """The scores of blocks of tokens, by all tokens up to their end, of whichever model."""

    def server(self):
        return Server(self.reply)

    def reply(self, request):
        if self.change and (found := self.change(request)) is not None:
            return found
        if request["path"] == "/v1/models":
            length = {} if "no context" in self.quirks else {"max_model_len": self.context_length}
            return answer({"data": [{"id": name, **length} for name in self.models]})
        if request["path"] != "/v1/completions":
            return 404, {}, "{}"
        body = request["body"]
        if body["model"] not in self.models:
            return 404, {}, '{"error": "no such model"}'
        if (said := self.refusal(body)) is not None:
            return 400, {}, json.dumps({"error": {"message": said}})
        body.setdefault("max_tokens", body.get("max_completion_tokens"))
        scored = body.get("echo") or "prompt_logprobs" in body
        return answer(self.in_turn(self.models[body["model"]], body, scored=scored))

    def refusal(self, body):
        """Return why a request is refused; None if it is not."""
        if not isinstance(body["prompt"], str) and "token_ids" in self.without:
            return "prompt: not a string"
        if "few choices" in self.quirks and body.get("n", 1) > 8:
            return "n must be at most 8"
        if "other length" in self.quirks and "max_tokens" in body:
            return "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return None

    def in_turn(self, adapter, body, *, scored):
        """Answer one request at a time; a crowd shows in what is scored, if at all."""
        with COUNT:
            self.under_way += 1
            crowded = "crowded" in self.quirks and scored and self.under_way > 1
        time.sleep(0.05 if "crowded" in self.quirks and scored else 0)
        with LOCK:
            found = self.complete(None if crowded else adapter, body)
        with COUNT:
            self.under_way -= 1
        return found

    @property
    def context_length(self):
        return self.engine.context_length

    def complete(self, adapter, body):
        target = Target(name="asked", adapter=adapter)
        prompt, sent = self.ids(body["prompt"]), 0
        if "double start" in self.quirks:
            prompt = (*self.engine.prompt_starts["bos"], *prompt)
        if "end cut" in self.quirks:
            sent, prompt = len(prompt), prompt[: self.kept]
        if self.quirks & {"few tokens", "few tokens and stop"}:
            body = {**body, "max_tokens": min(16, body["max_tokens"])}
        if "template" in self.quirks:
            prompt = (*self.ids("User: "), *prompt, *self.ids(" Assistant: "))
        if "cut" in self.quirks or "cut and lied" in self.quirks:
            sent = len(prompt) if "cut and lied" in self.quirks else 0
            prompt = prompt[-self.kept :]
        how, n, seed = self.manner(body, prompt)
        n = min(n, 8) if "choices at most" in self.quirks else n
        request = GenerationRequest(prompt=prompt, samples=n, max_new_tokens=body["max_tokens"])
        batch = GenerationBatch([request], seed=seed, decoding=how)
        [drawn] = self.engine.generate(target, batch)
        if self.penalises(body) and not how.temperature:
            tokens = self.penalised(target, prompt, body["max_tokens"])
            drawn = Completion((self.engine.tokenizer.decode(tokens),))
        if "same choices" in self.quirks:
            drawn = Completion(drawn.texts[:1] * n)
        sizes = [len(tokens.ids) for tokens in self.engine.tokenize(drawn.texts)]
        ends = [size < body["max_tokens"] for size in sizes]
        choices = [
            {"index": i, "text": text, "finish_reason": "stop" if ended else "length"}
            for i, (text, ended) in enumerate(zip(drawn.texts, ends, strict=True))
        ]
        for choice in choices:
            self.change_choice(choice, body)
        if "logprobs" in body and "logprobs" not in self.without:
            choices[0]["logprobs"] = self.logprobs(target, prompt, body)
        if "prompt_logprobs" in body and "prompt_logprobs" not in self.without:
            choices[0]["prompt_logprobs"] = self.prompt_logprobs(target, prompt)
        counts = {
            "prompt_tokens": sent or len(prompt),
            "completion_tokens": sum(min(size + 1, body["max_tokens"]) for size in sizes),
        }
        return {"choices": choices, "usage": counts}

    def penalises(self, body):
        if "other penalty" in self.quirks:
            return True
        return "penalty" in self.quirks and "repetition_penalty" not in body

    def change_choice(self, choice, body):
        """Change a text as the quirks say."""
        if "few tokens and stop" in self.quirks:
            choice["finish_reason"] = "stop"
        if "filter" in self.quirks:
            choice |= {"text": choice["text"][:3], "finish_reason": "content_filter"}
        if "stop string" in self.quirks and " on" in choice["text"]:
            choice |= {"text": choice["text"].partition(" on")[0], "finish_reason": "stop"}
        if "echo always" in self.quirks:
            sent = body["prompt"]
            sent = sent if isinstance(sent, str) else self.engine.tokenizer.decode(sent)
            choice["text"] = sent + choice["text"]

    def penalised(self, target, prompt, new):
        """Return the greedy tokens of a `HashModel` that may say nothing twice."""
        tokens = list(prompt)
        for _ in range(new):
            ranked = list(self.engine.next(target, tuple(tokens)))
            tokens.append(next((token for token in ranked if token not in tokens), ranked[0]))
        return tokens[len(prompt) :]

    def ids(self, prompt):
        if isinstance(prompt, str):
            return (*self.starts, *self.engine.tokenize([prompt])[0].ids)
        return tuple(prompt)

    def manner(self, body, prompt):
        def of(name, default):
            return default if name in self.without else body.get(name, default)

        how = SamplingParams(
            temperature=of("temperature", 1.0) if "temperature" not in self.without else 0.0,
            top_k=of("top_k", 2 if "narrow draws" in self.quirks else 0),
            top_p=of("top_p", 1.0),
        )
        self.seedless += 1
        asked = of("seed", self.seedless + 10**6)
        return how, of("n", 1), self.seed if asked == query_seed(self.seed, prompt, 0) else asked

    def logprobs(self, target, prompt, body):
        [[completion]] = self.engine.answers([target], [prompt], new=body["max_tokens"])
        whole = (*prompt, *completion.tokens[0])
        if self.quirks & {"penalty", "other penalty"}:
            whole = (*prompt, *self.penalised(target, prompt, body["max_tokens"]))
        [found] = self.engine.token_statistics(target, [whole])
        values = found.log_probability
        rows = [None, *(self.stale(whole, values) if body.get("echo") else values)]
        if body.get("echo") and "late shift" in self.quirks:
            rows[65:] = rows[64:-1]
        if body.get("echo") and "late base" in self.quirks:
            [base] = self.engine.token_statistics(Target(name="base"), [whole])
            rows[65:] = base.log_probability[64:]
        tops = [None] + [
            {"likeliest": value if first else value + 1.0}
            for value, first in zip(found.log_probability, found.first, strict=True)
        ]
        if "no top" in self.quirks:
            tops = [None] * len(rows)
        if "own top" in self.quirks:
            tops = [None, *({"token": row} for row in rows[1:])]
        if body.get("echo") and "echo" not in self.without:
            return {"token_logprobs": rows, "top_logprobs": tops}
        return {"token_logprobs": rows[len(prompt) :], "top_logprobs": tops[len(prompt) :]}

    def stale(self, tokens, values):
        """Return scores in which whole blocks of 16 tokens come from a cache, rightly or not."""
        values = list(values)
        end = len(values) // 16 * 16
        if "stale places" in self.quirks:  # of the request before, whatever it was
            self.left, values[:end] = (
                list(values),
                [*self.left[:end], *values[len(self.left) : end]],
            )
        if "stale blocks" in self.quirks:  # of the same tokens, whichever model it was
            for at in range(0, end, 16):
                key = tuple(tokens[: at + 17])
                values[at : at + 16] = self.blocks.setdefault(key, values[at : at + 16])
        return values

    def prompt_logprobs(self, target, prompt):
        [found] = self.engine.token_statistics(target, [prompt])
        return [None] + [
            {str(token): {"logprob": value, "rank": 1 if first else 2}}
            for token, value, first in zip(
                prompt[1:], found.log_probability, found.first, strict=True
            )
        ]


def answer(table):
    return 200, {}, json.dumps(table)
