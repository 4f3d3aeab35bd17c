"""Probing what a served model can do, with a few dozen short requests about everyday topics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedaudit.api.errors import TargetError
from fedaudit.engine.remote.abilities import NO_TOKENIZER, ServerAbilities
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse, Scoring, same_texts
from fedaudit.system.http_client import HttpStatusError, ServerUnreachable

PROMPTS = (
    "The weather in the north will be",
    "In the year after that, the company",
    "She opened the door and saw",
    "One of the most important questions is",
)
"""Prompts that come from no record, so that probes reveal nothing to a server."""
SAMPLING_TEMPERATURE = 1.5
"""A temperature at which the samples of almost any model differ."""
NEW_TOKENS = 8
SEEDS = (101, 101, 202, 303)
"""The first two are equal, so their samples must be equal too."""
MIN_EQUAL_REPLIES = 3
"""Two settings count as equal if at least so many of the four prompts get equal completions."""
LOGPROB_TOLERANCE = 0.05
"""The tolerated difference, in nats, between a token's ln p when generated and when scored."""
DEFAULT_CONTEXT = 2048
"""The context length, in tokens, assumed for a server that states none."""
MIN_CONTEXT = 16
DIED_OF_SCORING = (
    "That was when it was asked for the log-probabilities of a prompt: if it died of that, start "
    "it again and leave them out with --set endpoint.scoring=false."
)


def probe(
    server: CompletionServer,
    tokenizer: RemoteTokenizer,
    *,
    context: int,
    longest: int,
    scoring: bool = True,
) -> ServerAbilities:
    """Return the abilities of a served model; raises TargetError if it cannot be used.

    `context` is the context length that the user states, or 0; `longest` is the number of tokens in
    the audit's longest request. Without `scoring`, no prompt log-probabilities are requested.
    """
    return _Probe(server, tokenizer).run(context, longest, may_score=scoring)


def find_scoring_problem(
    server: CompletionServer, tokenizer: RemoteTokenizer, abilities: ServerAbilities
) -> str:
    """Return what is wrong with a model's scores of texts; empty if nothing is.

    `abilities` are those of another model on the same server, which can score.
    """
    return _Probe(server, tokenizer).scoring_problem(abilities.scoring, abilities)


class _Probe:
    """The probes of one model."""

    def __init__(self, server: CompletionServer, tokenizer: RemoteTokenizer) -> None:
        self.server, self.tokenizer = server, tokenizer
        self.why: dict[str, str] = {}

    def run(self, context: int, longest: int, *, may_score: bool) -> ServerAbilities:
        self._find_api()
        first, second = self._greedy(), self._greedy()
        ids, starts = self._token_ids(first)
        temperature, seed = self._draws()
        abilities = ServerAbilities(
            api=self.server.api,
            greedy=same_texts(first, second) == len(PROMPTS),
            n=self._returns_several(),
            temperature=temperature,
            seed=seed,
            top_k=temperature and self._narrows(top_k=1),
            top_p=temperature and self._narrows(top_p=1e-4),
            logprobs=self._log_probabilities(),
            token_ids=ids,
            adds_start=starts,
        )
        scoring = self._scoring(abilities) if may_score else ""
        if not may_score:
            self.why["scoring"] = "endpoint.scoring is false"
        room = self._context(context, longest, ids=ids)
        return replace(abilities, scoring=scoring, context=room, why=self.why)

    def _query(self, prompt: str | tuple[int, ...], **changes: Any) -> CompletionRequest:
        query = CompletionRequest(
            model=self.server.model,
            prompt=prompt,
            max_tokens=NEW_TOKENS,
            size=max(1, len(prompt) // 3),
        )
        return replace(query, **changes)

    def _find_api(self) -> None:
        """Choose the completions API, or chat if there is no other."""
        if self.server.try_to(self._query(PROMPTS[0], max_tokens=1)) is not None:
            return
        self.server.api = "chat"
        try:
            self.server.ask(self._query(PROMPTS[0], max_tokens=1), patient=False)
        except HttpStatusError as error:
            prefix = f"knows no model {self.server.model!r}, or neither /completions nor "
            problem = self.server.client.failed(f"{prefix}/chat/completions ({error.status})")
            raise TargetError(problem) from None

    def _greedy(self) -> list[CompletionResponse]:
        return [self.server.ask(self._query(prompt)) for prompt in PROMPTS]

    def _returns_several(self) -> bool:
        return self.server.try_to(self._query(PROMPTS[0], n=3, temperature=1.0)) is not None

    def _samples(self, **changes: Any) -> list[list[str]]:
        """Return the samples of two prompts with each of the seeds, without refused requests.

        Requests are concurrent, as in an audit: some servers honour seeds only one at a time.
        """
        queries = [
            self._query(prompt, temperature=SAMPLING_TEMPERATURE, seed=seed, **changes)
            for prompt in PROMPTS[:2]
            for seed in SEEDS
        ]
        answers = self.server.try_all(queries)
        halves = answers[: len(SEEDS)], answers[len(SEEDS) :]
        return [[answer.texts[0] for answer in group if answer is not None] for group in halves]

    def _draws(self) -> tuple[bool, bool]:
        """Return whether samples differ at all, and whether seeds determine them."""
        samples = self._samples()
        if not all(len(texts) == len(SEEDS) for texts in samples):
            self.why["seed"] = "it refuses requests with a seed"
            answers = [
                self.server.try_to(self._query(PROMPTS[0], temperature=SAMPLING_TEMPERATURE))
                for _ in range(4)
            ]
            return len({answer.texts for answer in answers if answer is not None}) > 1, False
        differ = any(len(set(texts)) > 1 for texts in samples)
        same = all(texts[0] == texts[1] for texts in samples)
        return differ, differ and same and any(len({texts[0], *texts[2:]}) > 1 for texts in samples)

    def _narrows(self, **changes: Any) -> bool:
        """Tell whether all samples are equal if `changes` only allow the likeliest token."""
        samples = self._samples(**changes)
        return all(len(texts) == len(SEEDS) and len(set(texts)) == 1 for texts in samples)

    def _log_probabilities(self) -> bool:
        answer = self.server.try_to(self._query(PROMPTS[0], max_tokens=2, logprobs=True))
        return answer is not None and 0 < len(answer.log_probabilities) <= 2

    def _token_ids(self, texts: Sequence[CompletionResponse]) -> tuple[bool, bool]:
        """Return whether prompts may be token ids, and whether text gets a start token added.

        They may if token ids, with or without a start token, get the same completions as the text.
        """
        rows = [tokens.ids for tokens in self.tokenizer.tokenize(PROMPTS)]
        counts = [answer.prompt_tokens for answer in texts]
        starts = self.tokenizer.own and all(
            count == len(ids) + 1 for count, ids in zip(counts, rows, strict=True)
        )
        if not self.tokenizer.own or self.server.api == "chat":
            return False, starts
        begins = {False: (), True: self.tokenizer.starts.get("bos", ())}
        for added in (starts, not starts):
            answers = [self.server.try_to(self._query((*begins[added], *ids))) for ids in rows]
            replies = [answer for answer in answers if answer is not None]
            if len(replies) == len(rows) and same_texts(replies, texts) >= MIN_EQUAL_REPLIES:
                return True, added
        self.why["token_ids"] = (
            "a prompt as tokens is refused, or continued otherwise than its text: is "
            "endpoint.tokenizer the model's own?"
        )
        return False, starts

    def _scoring(self, abilities: ServerAbilities) -> Scoring:
        """Return the field with correct prompt log-probabilities, or an empty string."""
        if not self.tokenizer.own:
            self.why["scoring"] = NO_TOKENIZER
            return ""
        if abilities.api == "chat":
            self.why["scoring"] = "it only chats"
            return ""
        for field in ("echo", "prompt_logprobs"):
            try:
                problem = self.scoring_problem(field, abilities)
            except ServerUnreachable as error:
                raise ServerUnreachable(f"{error} {DIED_OF_SCORING}", error.status) from None
            if not problem:
                self.why.pop("scoring", None)
                return field
            self.why["scoring"] = problem
        return ""

    def scoring_problem(self, field: Scoring, abilities: ServerAbilities) -> str:
        """Return what is wrong with a way to score prompts; empty if nothing is.

        A prompt is scored together with the token that the model generates after it: that token's
        ln p must be the same as when it was generated. Other prompts must have other scores.
        """
        checked, scores = 0, set[tuple[float, ...]]()
        for prompt in PROMPTS:
            [tokens] = self.tokenizer.tokenize([prompt])
            query_prompt = tokens.ids if abilities.token_ids else prompt
            generation = self.server.try_to(self._query(query_prompt, max_tokens=1, logprobs=True))
            text = prompt + generation.texts[0] if generation else prompt
            [ids] = [t.ids for t in self.tokenizer.tokenize([text])]
            ask = ids if abilities.token_ids else text
            read = self.server.try_to(self._query(ask, max_tokens=1, scoring=field))
            extra = int(abilities.adds_start and not abilities.token_ids)
            if read is None or len(read.prompt) - extra not in (len(ids) - 1, len(ids)):
                return "it gives none, or not one for each token of endpoint.tokenizer"
            scores.add(read.prompt[:4])
            if generation and generation.log_probabilities and ids[:-1] == tokens.ids:
                checked += 1
                if (
                    abs(read.prompt[len(ids) - 2 + extra] - generation.log_probabilities[0])
                    > LOGPROB_TOLERANCE
                ):
                    return "they are not those by which it writes"
        if len(scores) < len(PROMPTS):
            return "it gives the same ones for every prompt"
        return "" if checked else "nothing tells whether they are those by which it writes"

    def _context(self, context: int, longest: int, *, ids: bool) -> int:
        """Return the context length, after trying a request as long as the audit's longest.

        If that is accepted, it is the stated one, the server's claim or DEFAULT_CONTEXT; if not, it
        is close to the longest request that is accepted.
        """
        claimed = self.server.list_models().get(self.server.model, 0)
        most = context or claimed or DEFAULT_CONTEXT
        size = min(most, max(longest, MIN_CONTEXT))
        if self._takes(size, ids=ids):
            return most
        low, high = 0, size
        while high - low > max(8, high // 16):
            middle = (low + high) // 2
            low, high = (middle, high) if self._takes(middle, ids=ids) else (low, middle)
        if low < MIN_CONTEXT:
            problem = f"takes no prompt of {MIN_CONTEXT} tokens"
            raise TargetError(self.server.client.failed(problem))
        self.why["context"] = f"a prompt of {high:,} tokens was refused or cut"
        return low

    def _takes(self, size: int, *, ids: bool) -> bool:
        """Tell whether the server accepts a request of `size` tokens without truncating it."""
        [tokens] = self.tokenizer.tokenize([" ".join(PROMPTS) + " "])
        row = (tokens.ids * (size // len(tokens.ids) + 1))[: size - 1]
        prompt = row if ids else self.tokenizer.decode(row)
        answer = self.server.try_to(self._query(prompt, max_tokens=1, size=size))
        if answer is None:
            return False
        return not ids or answer.prompt_tokens is None or answer.prompt_tokens >= len(row)
