"""The engine for a model behind a server; it answers like a local engine as far as HTTP allows."""

import json
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from fedaudit.api.abilities import decoding_abilities
from fedaudit.api.engine import (
    GenerationBatch,
    LogProbabilities,
    PrefixProbabilities,
    PrefixProbabilityRequest,
    TokenRows,
    TokenStatistics,
)
from fedaudit.api.errors import InputError, Interrupted, TargetError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target, Tokens
from fedaudit.engine.remote.abilities import ServerAbilities
from fedaudit.engine.remote.answer_checks import EffectCheck, Endings, SeedCheck
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse
from fedaudit.system.http_client import ServerUnreachable

MANY = 16
"""So many empty texts, and no other, are not answers at all."""
MOST_EMPTY = 0.1
"""The share of empty texts that needs no mention."""
SAMPLES = 128
"""The maximum number of samples per request, which is OpenAI's own limit."""


class CacheBackend(Protocol):
    """Stores the responses of a batch of requests in which a server failed.

    The cache of answers keeps whole batches; with these, no request is paid for twice.
    """

    def recall(self, name: str) -> Any | None:
        """Return the stored response, or None."""

    def keep(self, answers: Mapping[str, Any]) -> None:
        """Store responses, which may be any JSON values."""


class ServedEngine:
    """What is the same for every engine of a served model; `lacks` says what it cannot do."""

    tokenizer: RemoteTokenizer
    lacks: Mapping[str, str]

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise without special tokens; offsets are in code points."""
        return self.tokenizer.tokenize(texts)

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Return ln p of every token but the first of each sequence."""
        raise NotImplementedError

    def score_groups(
        self, target: Target, groups: Sequence[TokenRows], *, progress: Progress = no_progress
    ) -> list[LogProbabilities]:
        """Score every sequence of every group."""
        rows = [row for group in groups for row in group]
        scores = iter(self.score(target, rows, progress=progress))
        return [[next(scores) for _ in group] for group in groups]

    def prefix_probabilities(
        self, target: Target, request: PrefixProbabilityRequest, *, progress: Progress = no_progress
    ) -> list[PrefixProbabilities]:
        """Raise InputError, since exact probabilities need the model itself."""
        raise InputError(f"This cannot be asked: {self.lacks['exact']}.")


class RemoteEngine(ServedEngine):
    """Samples and scores with a served model, and with its base, served under another name.

    A target with an adapter is the model under audit, one without is its base. `lacks` gives the
    reason for each missing ability; requests that need one raise InputError.
    """

    def __init__(
        self,
        tuned: CompletionServer,
        base: CompletionServer | None,
        tokenizer: RemoteTokenizer,
        abilities: ServerAbilities,
        cache: CacheBackend | None,
    ) -> None:
        self.tuned, self.base, self.tokenizer = tuned, base, tokenizer
        self.abilities, self.cache = abilities, cache
        self.lacks: Mapping[str, str] = abilities.lacks()
        self.context_length = abilities.context - 1  # a scoring request generates one token
        self.prompt_starts: Mapping[str, tuple[int, ...]] = (
            tokenizer.starts if abilities.token_ids else tokenizer.text_starts()
        )
        self.texts = self.empty = 0
        """The texts generated, and how many of them were empty."""
        self.endings = Endings(
            tokenizer, whole_texts=abilities.api == "completions" and not abilities.templated
        )
        self.effect_check = EffectCheck(tuned, base) if base and base is not tuned else None
        self.seed_check = SeedCheck(tuned) if abilities.seed else None

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Sample every request; stop strings are ignored, so that texts are whole."""
        server = self._server(target)
        self._check(decoding_abilities(batch.decoding))
        queries: list[CompletionRequest] = []
        places: list[int] = []
        for index, request in enumerate(batch.requests):
            self._check_length(len(request.prompt), request.max_new_tokens)
            prompt_queries = list(self._queries(server, request, batch.seed, batch.decoding))
            queries += prompt_queries
            places += [index] * len(prompt_queries)
        texts: list[list[str]] = [[] for _ in batch.requests]
        answers = self._ask(server, queries, progress)
        self._check_content(server, answers)
        self.endings.add(queries, answers)
        for position, answer in zip(places, answers, strict=True):
            texts[position] += answer.texts
        return [
            Completion(tuple(outputs[: request.samples]) or ("",) * request.samples)
            for outputs, request in zip(_spread(texts, batch), batch.requests, strict=True)
        ]

    def score(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Return ln p of every token but the first of each sequence."""
        return [list(values) for values, _ in self._score_texts(target, sequences, progress)]

    def token_statistics(
        self, target: Target, sequences: TokenRows, *, progress: Progress = no_progress
    ) -> list[TokenStatistics]:
        """Return each token's ln p and whether it is the likeliest, without mean and deviation.

        If the server does not say which tokens are the likeliest, that is empty too.
        """
        return [
            TokenStatistics(log_probability=values, mean=(), deviation=(), first=first)
            for values, first in self._score_texts(target, sequences, progress)
        ]

    def finish(self) -> None:
        """Check the seeds and the adapter a last time, and close the connections to the servers.

        Raises NoEffectError if the adapter has no effect any more.
        """
        if self.seed_check:
            self.seed_check.check(last=True)
        if self.effect_check:
            self.effect_check.check()
        self.close()

    def close(self) -> None:
        """Close the connections to the servers."""
        for server in (self.tuned, self.base):
            if server:
                server.client.close()

    def caveats(self) -> list[str]:
        """Return what a reader should know about the answers."""
        caveats = [
            *self.abilities.caveats(),
            *(self.seed_check.caveats() if self.seed_check else ()),
        ]
        if self.empty > MOST_EMPTY * self.texts:
            caveats.append(
                f"{self.empty:,} of {self.texts:,} answers had no content, as when a model only "
                "reasons or a filter intervenes: they count as answers in which nothing came out."
            )
        return [*caveats, *self.endings.caveats()]

    def _check_content(
        self, server: CompletionServer, answers: Sequence[CompletionResponse]
    ) -> None:
        """Count empty texts; raises TargetError if all of many are: a rate of 0 would be wrong."""
        texts = [text for answer in answers for text in answer.texts]
        empty = sum(not text.strip() for text in texts)
        self.texts, self.empty = self.texts + len(texts), self.empty + empty
        if empty == len(texts) >= MANY:
            raise server.failure(f"answered {empty:,} questions, and no answer had content")

    def _score_texts(
        self, target: Target, sequences: TokenRows, progress: Progress
    ) -> list[tuple[tuple[float, ...], tuple[bool, ...]]]:
        self._check({"score"})
        server = self._server(target)
        for sequence in sequences:
            self._check_length(len(sequence), 0)
        queries = [
            CompletionRequest(
                model=server.model,
                prompt=self._prompt(sequence),
                max_tokens=1,
                scoring=self.abilities.scoring,
                size=len(sequence),
            )
            for sequence in sequences
            if len(sequence) > 1
        ]
        answers = iter(self._ask(server, queries, progress))
        return [
            self._align_scores(next(answers), len(sequence)) if len(sequence) > 1 else ((), ())
            for sequence in sequences
        ]

    def _align_scores(
        self, answer: CompletionResponse, size: int
    ) -> tuple[tuple[float, ...], tuple[bool, ...]]:
        """Return (ln p, is likeliest) of a text's tokens but the first.

        Raises InputError if the server tokenises the text into another number of tokens.
        """
        skip = int(self.abilities.adds_start and not self.abilities.token_ids)
        if len(answer.prompt) - skip not in (size - 1, size):
            raise InputError(
                f"The server cuts a text into {len(answer.prompt) - skip} tokens, not into "
                f"{size}: its scores cannot be assigned to tokens."
            )
        first = answer.first[skip:][: size - 1] if self.abilities.ranks else ()
        return answer.prompt[skip:][: size - 1], first

    def _queries(
        self, server: CompletionServer, request: GenerationRequest, seed: int, how: SamplingParams
    ) -> list[CompletionRequest]:
        """Return the requests for one prompt, each for as many samples as the server allows."""
        count = request.samples if how.temperature else min(1, request.samples)
        width = SAMPLES if self.abilities.n else 1
        return [
            CompletionRequest(
                model=server.model,
                prompt=self._prompt(request.prompt),
                max_tokens=request.max_new_tokens,
                n=min(width, count - first),
                seed=query_seed(seed, request.prompt, first) if self._draws(how) else None,
                temperature=how.temperature,
                top_k=how.top_k if how.temperature else 0,
                top_p=how.top_p if how.temperature else 1.0,
                extra=self.abilities.neutral if how.temperature else (),
                size=len(request.prompt),
            )
            for first in range(0, count, width)
        ]

    def _draws(self, how: SamplingParams) -> bool:
        """Tell whether to send a seed: not at temperature 0, nor if the server refuses seeds."""
        return how.temperature > 0 and "seed" not in self.abilities.why

    def _prompt(self, tokens: Sequence[int]) -> str | tuple[int, ...]:
        prompt = tuple(tokens) if self.abilities.token_ids else self.tokenizer.decode(tokens)
        if not prompt:
            raise InputError("A prompt is empty, and no server continues an empty prompt.")
        return prompt

    def _ask(
        self, server: CompletionServer, queries: Sequence[CompletionRequest], progress: Progress
    ) -> list[CompletionResponse]:
        """Return the response to every request; if one fails, the responses so far are stored."""
        answers: list[CompletionResponse | None] = [self._recall(query) for query in queries]
        missing = [i for i, answer in enumerate(answers) if answer is None]
        fresh: list[tuple[CompletionRequest, CompletionResponse]] = []

        def on_answer(position: int, answer: CompletionResponse) -> None:
            answers[missing[position]] = answer
            fresh.append((queries[missing[position]], answer))
            progress(len(queries) - len(missing) + len(fresh), len(queries))

        try:
            server.ask_all([queries[i] for i in missing], on_answer)
        except ServerUnreachable as error:
            self._keep(fresh)
            raise Interrupted(str(error)) from error
        except BaseException:
            self._keep(fresh)
            raise
        if self.seed_check and fresh:
            self.seed_check.check()
        complete = [answer for answer in answers if answer is not None]
        if self.effect_check:
            self.effect_check.keep(server, queries, complete)
        return complete

    def _recall(self, query: CompletionRequest) -> CompletionResponse | None:
        """Return the stored response to a request, or None; raises InputError if malformed."""
        row = self.cache.recall(_digest(query)) if self.cache else None
        if row is None:
            return None
        if not _is_answer(row, query):
            raise InputError(
                "A cached response of the server does not match its request: remove the cache."
            )
        texts, prompt, first = map(tuple, row)
        return CompletionResponse(texts=texts, prompt=prompt, first=first)

    def _keep(self, fresh: Sequence[tuple[CompletionRequest, CompletionResponse]]) -> None:
        if self.cache:
            rows = {_digest(q): [[*a.texts], [*a.prompt], [*a.first]] for q, a in fresh}
            self.cache.keep(rows)

    def _server(self, target: Target) -> CompletionServer:
        server = self.base if target.adapter is None else self.tuned
        if server is None:
            raise TargetError("The base of the model behind the server is not known.")
        return server

    def _check(self, needed: Collection[str]) -> None:
        if why := "; ".join(self.lacks[name] for name in sorted(needed) if name in self.lacks):
            raise InputError(f"This cannot be asked: {why}.")

    def _check_length(self, prompt: int, new: int) -> None:
        if prompt + new > self.context_length:
            raise InputError(
                f"A prompt of {prompt} tokens and {new} new ones is longer than the context of "
                f"the server, {self.context_length} tokens."
            )


def query_seed(seed: int, prompt: Sequence[int], first: int) -> int:
    """Return the seed of a request, from 0 to 2^31 - 1, a hash of seed, prompt and `first`.

    `first` is the index of the request's first sample among all samples of the prompt.
    """
    text = f"{seed} {first} {','.join(map(str, prompt))}"
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1


def _spread(texts: list[list[str]], batch: GenerationBatch) -> list[list[str]]:
    """Return as many texts as samples; at temperature 0 one completion stands for all of them."""
    if batch.decoding.temperature:
        return texts
    return [
        outputs * request.samples for outputs, request in zip(texts, batch.requests, strict=True)
    ]


def _digest(query: CompletionRequest) -> str:
    body = json.dumps(query.body("completions"), sort_keys=True)
    return blake2b(body.encode(), digest_size=16).hexdigest()


def _is_answer(row: Any, query: CompletionRequest) -> bool:
    """Tell whether a cached row is a response with as many texts as were requested."""
    if not isinstance(row, list) or [type(field) for field in row] != [list, list, list]:
        return False
    texts, prompt, first = row
    return (
        len(texts) == query.n
        and len(first) in (0, len(prompt))
        and {type(text) for text in texts} <= {str}
        and {type(value) for value in prompt} <= {float}
        and {type(flag) for flag in first} <= {bool}
    )
