"""A real HTTP server that continues and scores by fedaudit's own local engine, as vLLM would."""

import threading
from dataclasses import dataclass

from chat_server import Server

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.records import GenerationRequest, SamplingParams, Target
from fedaudit.engine.remote.engine import query_seed

LOCK = threading.Lock()
"""One at a time, of all servers: they may have one engine."""


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
    requests: int = 0
    change: object = None
    """Called with the request, may return an answer in place of the honest one."""

    def server(self):
        return Server(self.reply)

    def reply(self, request):
        self.requests += 1
        if self.change and (found := self.change(request)) is not None:
            return found
        if request["path"] == "/v1/models":
            rows = [
                {"id": name, "max_model_len": self.engine.context_length} for name in self.models
            ]
            return answer({"data": rows})
        if request["path"] != "/v1/completions":
            return 404, {}, "{}"
        body = request["body"]
        if body["model"] not in self.models:
            return 404, {}, '{"error": "no such model"}'
        if not isinstance(body["prompt"], str) and "token_ids" in self.without:
            return 400, {}, "{}"
        with LOCK:
            return answer(self.complete(self.models[body["model"]], body))

    def complete(self, adapter, body):
        target = Target(name="asked", adapter=adapter)
        prompt = self.ids(body["prompt"])
        how, n, seed = self.manner(body, prompt)
        request = GenerationRequest(prompt=prompt, samples=n, max_new_tokens=body["max_tokens"])
        batch = GenerationBatch([request], seed=seed, decoding=how)
        [drawn] = self.engine.generate(target, batch)
        choices = [{"index": i, "text": text} for i, text in enumerate(drawn.texts)]
        if "logprobs" in body and "logprobs" not in self.without:
            choices[0]["logprobs"] = self.logprobs(target, prompt, body)
        if "prompt_logprobs" in body and "prompt_logprobs" not in self.without:
            choices[0]["prompt_logprobs"] = self.prompt_logprobs(target, prompt)
        return {"choices": choices, "usage": {"prompt_tokens": len(prompt)}}

    def ids(self, prompt):
        if isinstance(prompt, str):
            return (*self.starts, *self.engine.tokenize([prompt])[0].ids)
        return tuple(prompt)

    def manner(self, body, prompt):
        def of(name, default):
            return default if name in self.without else body.get(name, default)

        how = SamplingParams(
            temperature=of("temperature", 1.0) if "temperature" not in self.without else 0.0,
            top_k=of("top_k", 0),
            top_p=of("top_p", 1.0),
        )
        asked = of("seed", self.requests + 10**6)
        return how, of("n", 1), self.seed if asked == query_seed(self.seed, prompt, 0) else asked

    def logprobs(self, target, prompt, body):
        [[completion]] = self.engine.answers([target], [prompt], new=body["max_tokens"])
        whole = (*prompt, *completion.tokens[0])
        [found] = self.engine.token_statistics(target, [whole])
        rows = [None, *found.log_probability]
        tops = [None] + [
            {"likeliest": value if first else value + 1.0}
            for value, first in zip(found.log_probability, found.first, strict=True)
        ]
        if body.get("echo") and "echo" not in self.without:
            return {"token_logprobs": rows, "top_logprobs": tops}
        return {"token_logprobs": rows[len(prompt) :], "top_logprobs": tops[len(prompt) :]}

    def prompt_logprobs(self, target, prompt):
        [found] = self.engine.token_statistics(target, [prompt])
        return [None] + [
            {str(token): {"logprob": value, "rank": 1 if first else 2}}
            for token, value, first in zip(
                prompt[1:], found.log_probability, found.first, strict=True
            )
        ]


def answer(table):
    import json

    return 200, {}, json.dumps(table)
