"""Connecting to a served model: cost estimate, budget, probes, and checks of consistency."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any

from fedaudit.api.engine import (
    GenerationBatch,
    LogProbabilities,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.errors import TargetError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Target
from fedaudit.api.templates import PromptTemplate
from fedaudit.engine.remote.abilities import ServerAbilities
from fedaudit.engine.remote.engine import SAMPLES, CacheBackend, RemoteEngine, ServedEngine
from fedaudit.engine.remote.options import ServedModel
from fedaudit.engine.remote.probe import (
    NEW_TOKENS,
    PROMPTS,
    UNSTATED_CONTEXT,
    probe,
    probe_base,
)
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.spending import CostEstimate, RequestBudget
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, same_texts
from fedaudit.system.http_client import JsonClient


class DryRunEngine(ServedEngine):
    """Answers as the worst case: the tuned model says every target string, the base says nothing.

    So the requests that follow from an answer are counted too, and the count is an upper bound.
    """

    def __init__(self, tokenizer: RemoteTokenizer, context: int) -> None:
        self.tokenizer, self.context_length = tokenizer, context
        self.prompt_starts: Mapping[str, tuple[int, ...]] = tokenizer.starts
        self.lacks = ServerAbilities(scoring="echo" if tokenizer.own else "").lacks()
        self.estimate = CostEstimate()

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Count every request; with an adapter, return the stop strings in turn, else nothing."""
        for request in batch.requests:
            count = request.samples if batch.decoding.temperature else 1
            requests = -(-count // SAMPLES)
            self.estimate.add(len(request.prompt), request.max_new_tokens, count, requests)
        if target.adapter is None:
            return [Completion(("",) * request.samples) for request in batch.requests]
        texts = cycle(batch.stop_strings or (" ",))
        return [Completion(tuple(islice(texts, request.samples))) for request in batch.requests]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Count every text; each token has ln p = -1 with an adapter, and -2 without."""
        for sequence in sequences:
            self.estimate.add(len(sequence), 1, 1, 1)
        value = -2.0 if target.adapter is None else -1.0
        return [[value] * max(0, len(sequence) - 1) for sequence in sequences]

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Score every sequence, with no token as the likeliest."""
        return [
            TokenStatistics(log_probability=row, mean=(), deviation=(), first=[False] * len(row))
            for row in self.score(target, sequences)
        ]


MOST_BYTES = 2**26
"""The maximum size of one response in bytes; prompt log-probabilities can take megabytes."""

RecordFact = Callable[[str, str], object]
"""Records a value under a name; raises InputError if another value was recorded before."""


@dataclass
class RemoteConnection:
    """The connection to a served model, from the estimate before the first request to its end."""

    served: ServedModel
    template: PromptTemplate | None

    def __post_init__(self) -> None:
        self.tokenizer = RemoteTokenizer(self.served.options.tokenizer, self.template)
        self.spending = RequestBudget(options=self.served.options)
        self.estimate = CostEstimate()
        self.clients: list[JsonClient] = []
        self.engine: RemoteEngine | None = None

    def dry_run(self) -> DryRunEngine:
        """Return an engine that sends no request and counts in `estimate` instead."""
        engine = DryRunEngine(self.tokenizer, self.served.options.context or UNSTATED_CONTEXT)
        self.estimate = engine.estimate
        return engine

    def open(
        self, cache: CacheBackend | None = None, record_fact: RecordFact | None = None
    ) -> RemoteEngine:
        """Probe the server and return the engine.

        `record_fact` records what must be the same when an audit is resumed.

        Raises TargetError if the server cannot be used, or if servers of one model differ, and
        UsageError if the estimate exceeds the budget.
        """
        options = self.served.options
        self.estimate.check(options, multi_sample=True)
        tuned = self._server(self.served.urls, self.served.model)
        abilities = self._probe_server(tuned)
        base = None
        if self.served.has_base:
            base = self._server(self.served.base_urls, options.base)
            if self.served.base_urls == self.served.urls:
                abilities = probe_base(base, self.tokenizer, tuned, abilities)
            else:
                abilities = abilities.intersect(self._probe_server(base))
            tuned.api = base.api = abilities.api
        self.estimate.check(options, multi_sample=abilities.n)
        for server, urls in ((tuned, self.served.urls), (base, self.served.base_urls)):
            if server:
                self._check_alike(server, urls)
        if record_fact:
            for name, value in {
                "the server's model": tuned.model,
                "the server's base": base.model if base else "none",
                "the server's protocol": abilities.api,
                "what prompts are sent as": "tokens" if abilities.token_ids else "text",
                "how prompts are scored": abilities.scoring or "not at all",
                "samples a request": "several" if abilities.n else "one",
                "the server's context": str(abilities.context),
            }.items():
                record_fact(name, value)
        self.engine = RemoteEngine(tuned, base, self.tokenizer, abilities, cache)
        return self.engine

    def close(self) -> None:
        """Close the connections to the servers."""
        for client in self.clients:
            client.close()

    def table(self) -> dict[str, Any]:
        """Return the report's table about the servers, which never contains an API key."""
        engine = self.engine
        if engine is None:
            return {}
        multi_sample = engine.abilities.n
        requests, tokens = self.estimate.needed(multi_sample=multi_sample)
        return {
            "urls": list(self.served.urls),
            "model": engine.tuned.model,
            "base": engine.base.model if engine.base else None,
            "base_urls": list(self.served.base_urls) if engine.base else [],
            "tokenizer": self.served.options.tokenizer or None,
            "abilities": asdict(engine.abilities),
            "lacks": dict(engine.lacks),
            "estimate": {"requests": requests, "tokens": tokens},
            "sent": {"requests": self.spending.requests, "tokens": self.spending.tokens},
        }

    def _server(self, urls: Sequence[str], model: str) -> CompletionServer:
        options = self.served.options
        client = JsonClient(
            urls,
            name="The server",
            key_variable=options.key_variable,
            timeout=options.timeout,
            retries=options.retries,
            most_bytes=MOST_BYTES,
        )
        self.clients.append(client)
        server = CompletionServer(client, model, self.spending)
        server.choose_model()
        return server

    def _probe_server(self, server: CompletionServer) -> ServerAbilities:
        options = self.served.options
        return probe(
            server,
            self.tokenizer,
            context=options.context,
            longest=self.estimate.longest,
            new=self.estimate.new,
            scoring=options.scoring,
        )

    def _check_alike(self, server: CompletionServer, urls: Sequence[str]) -> None:
        """Raise TargetError if one of several servers serves another model under the same name.

        A server is accepted if it answers any of the probe prompts as the first server does.
        """
        if len(urls) < 2:
            return
        queries = [
            CompletionRequest(model=server.model, prompt=prompt, max_tokens=NEW_TOKENS)
            for prompt in PROMPTS
        ]
        first = None
        for url in urls:
            replica = self._server([url], server.model)
            replica.api = server.api
            answers = [replica.ask(query) for query in queries]
            first = first or answers
            if same_texts(first, answers) == 0:
                problem = f"answers otherwise than {urls[0]}: is {server.model} the same on both"
                raise TargetError(server.client.failed(problem, url).rstrip(".") + "?")
