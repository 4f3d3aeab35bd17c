"""Probing what a served model can do, with a few dozen short requests about everyday topics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.api.errors import TargetError
from fedaudit.engine.remote.abilities import NO_TOKENIZER, ServerAbilities
from fedaudit.engine.remote.score_check import CROWDED, STALE, ScoreCheck
from fedaudit.engine.remote.server import UNKNOWN, CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse, Scoring, same_texts
from fedaudit.system.http_client import HttpStatusError, ServerUnreachable

PROMPTS = (
    "The weather in the north will be",
    "In the year after that, the company",
    "She opened the door and saw",
    "One, two, three, one, two, three, one, two,",
)
"""Prompts that come from no record, so that probes reveal nothing to a server. The last one makes
a model repeat itself, which a repetition penalty would not let it."""
SAMPLING_TEMPERATURE = 1.5
"""A temperature at which the samples of almost any model differ."""
NEW_TOKENS = 12
BESIDE = 2
"""The prompts that a model is asked whose server is known by another one."""
SEEDS = (101, 101, 202)
"""The first two are equal, so their samples must be equal too."""
CHOICES, CHOICES_TOP_K = 4, 40
"""The samples of one request, and a top_k as an audit may set it beside a seed."""
MIN_EQUAL_REPLIES = 3
"""Two settings count as equal if at least so many of the four prompts get equal completions."""
UNSTATED_CONTEXT = 8192
"""The context length, in tokens, that is tried with a server that states none."""
MIN_CONTEXT = 16
NEEDLE = 8
"""The tokens by which the beginnings of two long prompts differ, or an eighth of them."""
SAME_LOGPROB = 1e-7
"""Log-probabilities that are closer than this have been computed from the same tokens."""
DIED_OF_SCORING = (
    "That was when it was asked for the log-probabilities of a prompt: if it died of that, start "
    "it again and leave them out with --set endpoint.scoring=false."
)
_STATED = re.compile(r"(?:maximum|max|limit|context)\D{0,60}?(\d[\d,]{1,8})", re.IGNORECASE)
"""A context length in a server's refusal of a prompt that is too long."""


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


def probe_base(
    base: CompletionServer,
    tokenizer: RemoteTokenizer,
    tuned: CompletionServer,
    abilities: ServerAbilities,
) -> ServerAbilities:
    """Return the abilities of the base that the same server serves beside the tuned model.

    What the server itself does was found with the tuned model. What depends on the model is whether
    it answers at all, and whether its scores are its own, also after those of the tuned model.
    Raises TargetError if it cannot be used.
    """
    base.api, base.length_field = abilities.api, tuned.length_field
    if not abilities.scoring:
        _check_model(base, tokenizer)
        return abilities
    problem = find_scoring_problem(base, tokenizer, abilities, before=tuned)
    if problem:
        _check_model(base, tokenizer)
        why = {**abilities.why, "scoring": f"of the base, {problem}"}
        return replace(abilities, scoring="", why=why)
    return abilities


def _check_model(server: CompletionServer, tokenizer: RemoteTokenizer) -> None:
    """Raise TargetError if a server that answers for another model knows none of this name."""
    try:
        _Probe(server, tokenizer).greedy(PROMPTS[:1])
    except HttpStatusError as error:
        if error.status not in UNKNOWN:
            raise
        said = server.clean(error.said)
        quoted = f", and says: {said}" if said else ""
        problem = f"knows no model {server.model!r} ({error.status}){quoted}"
        raise TargetError(server.client.failed(problem.rstrip("."))) from None


def find_scoring_problem(
    server: CompletionServer,
    tokenizer: RemoteTokenizer,
    abilities: ServerAbilities,
    before: CompletionServer | None = None,
) -> str:
    """Return what is wrong with a model's scores of texts; empty if nothing is.

    `abilities` are those of another model on the same server, which can score. `before` is a model
    that is asked to score the same text first, so that its scores may be left in a cache.
    """
    one = _Probe(server, tokenizer)
    one.answers = one.continuations(abilities)
    return one.check(abilities).problem(abilities.scoring, before=before)


@dataclass
class _Probe:
    """The probes of one model."""

    server: CompletionServer
    tokenizer: RemoteTokenizer

    def __post_init__(self) -> None:
        self.why: dict[str, str] = {}
        self.rows = [tokens.ids for tokens in self.tokenizer.tokenize(PROMPTS)]
        self.answers: Sequence[CompletionResponse | None] = ()
        """Greedy completions with the log-probabilities of their tokens."""
        self.counts: Scoring = ""
        """A field in which the server gives scores, whether or not they are right."""
        self.ranks = True
        """Whether the scores tell which tokens are the likeliest."""
        self.evidence = False
        """Whether a server refused a prompt, or counted fewer tokens than it was sent."""
        self.by_beginning = False
        """Whether prompts were cut in silence: then all but the last token of their beginnings may
        be missing without an effect on an answer."""
        self.replies: list[CompletionResponse] = []
        """All completions of short prompts."""
        self.likeliest: Sequence[str] = ()
        """The greedy completion of the second prompt."""
        self.likeliest_is_rare = False
        """Whether no sample of that prompt was its greedy completion."""

    def run(self, context: int, longest: int, *, may_score: bool) -> ServerAbilities:
        texts = self._first_replies()
        self.likeliest = texts[1].texts
        templated = self._templated(texts)
        ids, starts, greedy = self._token_ids(texts, templated=templated)
        drawn, temperature, seed = self._draws()
        self._check_content()
        several = self._returns_several(drawn)
        abilities = ServerAbilities(
            api=self.server.api,
            greedy=greedy,
            n=several,
            temperature=temperature,
            seed=seed,
            top_k=temperature and self._narrows(several, top_k=1),
            top_p=temperature and self._narrows(several, top_p=1e-4),
            logprobs=any(answer and answer.log_probabilities for answer in self.answers),
            token_ids=ids,
            adds_start=starts,
            templated=templated,
        )
        if not may_score:
            self.why["scoring"] = "endpoint.scoring is false"
        scoring, suspect = self._scoring(abilities) if may_score else ("", "")
        if not scoring and not suspect and not self.counts:
            suspect = self._penalty()
        abilities = replace(abilities, scoring=scoring, ranks=self.ranks, suspect=suspect)
        room = self._context(context, longest, abilities)
        return replace(abilities, context=room, why=self.why)

    def query(self, prompt: str | tuple[int, ...], **changes: Any) -> CompletionRequest:
        query = CompletionRequest(
            model=self.server.model,
            prompt=prompt,
            max_tokens=NEW_TOKENS,
            size=max(1, len(prompt) // 3),
        )
        return replace(query, **changes)

    def _first_replies(self) -> list[CompletionResponse]:
        """Return the greedy completions of all prompts, by the completions API if there is one."""
        reply = self.server.try_to(self.query(PROMPTS[0]))
        if reply is None:
            first, self.server.api = self.server.refusal, "chat"
            try:
                reply = self.server.ask(self.query(PROMPTS[0]), patient=False)
            except HttpStatusError as error:
                for failed in (self.server.refused, error):
                    if failed and failed.status not in UNKNOWN:
                        raise failed from None
                prefix = f"knows no model {self.server.model!r}, or neither /completions nor "
                said = self.server.clean(error.said) or first
                quoted = f", and says: {said}" if said else ""
                problem = self.server.client.failed(
                    f"{prefix}/chat/completions ({error.status}){quoted}".rstrip(".")
                )
                raise TargetError(problem) from None
        self.replies.append(reply)
        return [reply, *self.greedy(PROMPTS[1:])]

    def greedy(self, prompts: Sequence[str]) -> list[CompletionResponse]:
        """Return the greedy completions of prompts, sent as text."""
        answers = [self.server.ask(self.query(prompt)) for prompt in prompts]
        self.replies += answers
        return answers

    def _templated(self, texts: Sequence[CompletionResponse]) -> bool:
        """Tell whether the server counts more tokens than it was sent, beside a start token.

        Without the model's own tokenizer, a token counts as at least one byte.
        """
        if self.server.api == "chat":
            return False
        most = [
            len(ids) if self.tokenizer.own else len(prompt.encode())
            for ids, prompt in zip(self.rows, PROMPTS, strict=True)
        ]
        return all((a.prompt_tokens or 0) > n + 1 for a, n in zip(texts, most, strict=True))

    def _token_ids(
        self, texts: Sequence[CompletionResponse], *, templated: bool
    ) -> tuple[bool, bool, bool]:
        """Return whether prompts may be token ids, whether text gets a start token, and `greedy`.

        They may if token ids, with or without a start token, get the same completions as the text.
        If they do not, the texts are asked a second time, to see whether answers repeat.
        """
        counts = [answer.prompt_tokens for answer in texts]
        starts = self.tokenizer.own and all(
            count == len(ids) + 1 for count, ids in zip(counts, self.rows, strict=True)
        )
        if self.tokenizer.own and self.server.api == "completions" and not templated:
            begins = {False: (), True: self.tokenizer.starts.get("bos", ())}
            for added in (starts, not starts):
                prompts = [(*begins[added], *ids) for ids in self.rows]
                answers = self._with_logprobs(prompts)
                if answers[0] is None:
                    break
                replies = [answer for answer in answers if answer is not None]
                same = same_texts(replies, texts) if len(replies) == len(texts) else 0
                if same >= MIN_EQUAL_REPLIES:
                    self.answers = answers
                    return True, added, same == len(PROMPTS) or self._repeats(prompts, replies)
            self.why["token_ids"] = (
                "a prompt as tokens is refused, or continued otherwise than its text: is "
                "endpoint.tokenizer the model's own?"
            )
        self.answers = self._with_logprobs(PROMPTS)
        again = [answer for answer in self.answers if answer is not None]
        same = same_texts(again, texts) if len(again) == len(texts) else 0
        return False, starts, same == len(PROMPTS)

    def _repeats(
        self, prompts: Sequence[tuple[int, ...]], answers: Sequence[CompletionResponse]
    ) -> bool:
        """Tell whether prompts as token ids get the same greedy completions once more."""
        again = [self.server.ask(self.query(prompt)) for prompt in prompts]
        return same_texts(again, answers) == len(prompts)

    def _with_logprobs(
        self, prompts: Sequence[str | tuple[int, ...]]
    ) -> list[CompletionResponse | None]:
        """Return greedy completions, with log-probabilities if the server gives any."""
        first = self.server.try_to(self.query(prompts[0], logprobs=True))
        logprobs = first is not None and bool(first.log_probabilities)
        if first is None:
            first = self.server.try_to(self.query(prompts[0]))
        if first is None:
            return [None] * len(prompts)
        rest = self.server.try_all([self.query(p, logprobs=logprobs) for p in prompts[1:]])
        answers = [first, *rest]
        self.replies += [answer for answer in answers if answer is not None]
        return answers

    def continuations(self, abilities: ServerAbilities) -> list[CompletionResponse | None]:
        """Return the greedy completions that scores are compared with."""
        starts = self.tokenizer.starts.get("bos", ()) if abilities.adds_start else ()
        as_ids = [(*starts, *ids) for ids in self.rows]
        prompts = as_ids if abilities.token_ids else PROMPTS
        return self._with_logprobs(prompts[:BESIDE])

    def _draws(self) -> tuple[list[str], bool, bool]:
        """Return samples of other seeds, whether samples differ, and whether seeds fix them.

        Requests are concurrent, as in an audit: some servers honour seeds only one at a time.
        """
        ask = self.query(PROMPTS[0], temperature=SAMPLING_TEMPERATURE)
        seeds = [(PROMPTS[0], seed) for seed in SEEDS] + [(PROMPTS[1], seed) for seed in SEEDS[1:]]
        answers = self.server.try_all([replace(ask, prompt=p, seed=seed) for p, seed in seeds])
        seeded = all(answer is not None for answer in answers)
        if not seeded:
            self.why["seed"] = "it refuses requests with a seed"
            answers = self.server.try_all([replace(ask, prompt=prompt) for prompt, _ in seeds])
        self.replies += [answer for answer in answers if answer is not None]
        texts = [answer.texts[0] if answer is not None else "" for answer in answers]
        self.server.first_draw = texts[0]
        first, second = texts[: len(SEEDS)], texts[len(SEEDS) :]
        self.likeliest_is_rare = not set(second) & set(self.likeliest)
        differ = len(set(first)) > 1 or len(set(second)) > 1
        fixed = len(set(first)) > 1 and first[0] == first[1]
        return first[1:], differ, seeded and fixed

    def _check_content(self) -> None:
        """Raise TargetError if all replies are empty: nothing could be found in them."""
        if any(text.strip() for answer in self.replies for text in answer.texts):
            return
        count = sum(len(answer.texts) for answer in self.replies)
        thoughts = sum(answer.thoughts for answer in self.replies)
        reason = f"{thoughts:,} had reasoning alone: have it answer without" if thoughts else ""
        problem = f"answered {count:,} prompts, and no answer had content"
        raise TargetError(self.server.client.failed(f"{problem}{reason and f' ({reason})'}"))

    def _returns_several(self, drawn: Sequence[str]) -> bool:
        """Tell whether the samples of one request differ as those of several requests do.

        Seed, temperature and top_k are sent together, as an audit sends them.
        """
        ask = self.query(
            PROMPTS[0], n=CHOICES, temperature=SAMPLING_TEMPERATURE, top_k=CHOICES_TOP_K
        )
        ask = ask if "seed" in self.why else replace(ask, seed=SEEDS[0])
        if (first := self.server.try_to(ask)) is None:
            ask = replace(ask, top_k=0)
            first = self.server.try_to(ask)
        if first is None:
            self.why["n"] = "it refuses requests for several samples, or gives another number"
            return False
        least = CHOICES - 1 if len(set(drawn)) == len(drawn) else 1
        if len(set(first.texts)) >= least:
            return True
        second = self.server.try_to(replace(ask, prompt=PROMPTS[1]))
        if second is not None and len(set(second.texts)) >= least:
            return True
        self.why["n"] = "samples of one request are equal, where those of several differ"
        return False

    def _narrows(self, several: bool, **changes: Any) -> bool:
        """Tell whether all samples are equal if `changes` only allow the likeliest token."""
        ask = self.query(PROMPTS[1], temperature=SAMPLING_TEMPERATURE, **changes)
        seeds = [None] * len(SEEDS) if "seed" in self.why else list(SEEDS)
        if several:
            queries = [replace(ask, n=CHOICES, seed=seeds[0])]
        else:
            queries = [replace(ask, seed=seed) for seed in seeds[1:]]
            alone = self.server.try_to(queries[0])
            if alone is not None and alone.texts == self.likeliest and self.likeliest_is_rare:
                return True
            queries = queries[1:]
        answers = self.server.try_all(queries)
        answers = answers if several else [alone, *answers]
        texts = {text for answer in answers if answer is not None for text in answer.texts}
        return None not in answers and len(texts) == 1

    def check(self, abilities: ServerAbilities) -> ScoreCheck:
        """Return the check of the model's scores against its greedy completions."""
        starts = self.tokenizer.starts.get("bos", ()) if abilities.adds_start else ()
        return ScoreCheck(
            server=self.server,
            tokenizer=self.tokenizer,
            abilities=abilities,
            start=starts if abilities.token_ids else (),
            prompts=PROMPTS,
            answers=self.answers,
        )

    def _scoring(self, abilities: ServerAbilities) -> tuple[Scoring, str]:
        """Return the field with correct prompt log-probabilities, and what is suspect."""
        reason = ""
        if not self.tokenizer.own:
            reason = NO_TOKENIZER
        elif abilities.api == "chat":
            reason = "it only chats"
        elif abilities.templated:
            reason = "a chat template surrounds every prompt"
        if reason:
            self.why["scoring"] = reason
            return "", ""
        fields: tuple[Scoring, ...] = ("echo", "prompt_logprobs")
        found = []
        for field in fields:
            check = self.check(abilities)
            try:
                problem = check.problem(field)
            except ServerUnreachable as error:
                raise ServerUnreachable(f"{error} {DIED_OF_SCORING}", error.status) from None
            found.append(check)
            if check.counted:
                self.counts = self.counts or field
            if not problem:
                self.why.pop("scoring", None)
                self.ranks = check.ranks
                return field, check.suspect
            # The first reason that matters: a field that is missing says the least.
            if check.answered or "scoring" not in self.why:
                self.why.setdefault("scoring", problem)
                if check.answered and not any(other.answered for other in found[:-1]):
                    self.why["scoring"] = problem
            if problem in (STALE, CROWDED):  # of the server itself, whichever field asks it
                break
        return "", next((check.suspect for check in found if check.suspect), "")

    def _penalty(self) -> str:
        """Return what is suspect if the server penalises repetition unless told not to."""
        ask = self.query(PROMPTS[-1])
        default = self.server.try_to(ask)
        neutral = self.server.try_to(replace(ask, repetition_penalty=1.0))
        if default is None or neutral is None or default.texts == neutral.texts:
            return ""
        if (again := self.server.try_to(ask)) is None or again.texts != default.texts:
            return ""  # it does not answer the same twice anyway
        return "it penalises repetition by default"

    def _context(self, context: int, longest: int, abilities: ServerAbilities) -> int:
        """Return the context length, after trying a request as long as the audit's longest.

        If that is accepted, it is the stated one, the server's claim or else the length tried; if
        not, it is close to the longest request that is accepted.
        """
        most = context or self.server.list_models().get(self.server.model, 0)
        size = min(most or UNSTATED_CONTEXT, max(longest, MIN_CONTEXT))
        if not most:
            most = size = max(longest, UNSTATED_CONTEXT)
        if not (hint := self._refused(size, abilities)):
            return most
        low, high = 0, size
        if MIN_CONTEXT <= hint < size and not self._refused(hint, abilities):
            low = high = hint
        while high - low > max(8, high // 10) and high > MIN_CONTEXT:
            middle = (low + high) // 2 if low else max(MIN_CONTEXT, high // 8)
            if self._refused(middle, abilities):
                high = middle
            else:
                low = middle
        if low < MIN_CONTEXT and not self.evidence:
            return most  # the model does not tell two prompts apart that differ in their beginnings
        if low < MIN_CONTEXT:
            problem = f"takes no prompt of {MIN_CONTEXT} tokens"
            raise TargetError(self.server.client.failed(problem))
        self.why["context"] = f"a prompt of {size:,} tokens was refused or cut"
        return low - _beginning(low) if self.by_beginning else low

    def _refused(self, size: int, abilities: ServerAbilities) -> int:
        """Return 0 if the server takes a whole request of `size` tokens; else a length to try.

        A server may cut the beginning of a prompt in silence. Then it counts fewer tokens than it
        was sent, or scores fewer; or two prompts with other beginnings get the very same answers.
        """
        rows = [self._filler(size, first) for first in (0, 1)]
        prompts = [
            tuple(row) if abilities.token_ids else self.tokenizer.decode(row) for row in rows
        ]
        asks = [self.query(prompt, max_tokens=1, size=size) for prompt in prompts]
        if self.counts:
            asks[1] = replace(asks[0], scoring=self.counts)
        elif abilities.logprobs:
            asks = [replace(ask, logprobs=True) for ask in asks]
        else:
            asks = asks[:1]
        self.server.refusal = ""
        answers = [self.server.try_to(ask) for ask in asks]
        if answers[0] is None or (answers[-1] is None and abilities.scoring):
            self.evidence = True
            stated = [int(n.replace(",", "")) for n in _STATED.findall(self.server.refusal)]
            return next((n for n in stated if MIN_CONTEXT <= n < size), -1)
        sent = len(rows[0]) if self.tokenizer.own or abilities.token_ids else 0
        slack = 0 if abilities.token_ids else 8 + sent // 16
        counted = answers[0].prompt_tokens
        if self.counts and answers[-1] is not None:
            scored = len(answers[-1].prompt) + 1
            counted = scored if counted is None else min(scored, counted)
        if counted is not None and counted < sent - slack:
            self.evidence = True
            return counted if counted >= MIN_CONTEXT else -1
        if self.counts:
            return 0
        if len(answers) > 1 and _same(*answers) and not self._blind(abilities):
            self.by_beginning = True
            return -1
        return 0

    def _blind(self, abilities: ServerAbilities) -> bool:
        """Tell whether the model's answers do not depend on the beginning of a short prompt."""
        if self.by_beginning:
            return False
        rows = [self._filler(2 * MIN_CONTEXT, first) for first in (0, 1)]
        prompts = [
            tuple(row) if abilities.token_ids else self.tokenizer.decode(row) for row in rows
        ]
        asks = [self.query(prompt, max_tokens=1, logprobs=True) for prompt in prompts]
        return _same(*map(self.server.try_to, asks))

    def _filler(self, size: int, first: int) -> list[int]:
        """Return a row for a request of `size` tokens, which begins in one of two ways."""
        kept = max(1, size - 1)
        [tokens] = self.tokenizer.tokenize([" ".join(PROMPTS) + " "])
        row = (tokens.ids * (kept // len(tokens.ids) + 1))[:kept]
        beginning = _beginning(kept)
        other = (self.rows[1] * (beginning // len(self.rows[1]) + 1))[:beginning]
        return list(row) if not first else [*other, *row[len(other) :]][:kept]


def _beginning(size: int) -> int:
    """Return the number of tokens by which the beginnings of two long prompts differ."""
    return max(NEEDLE, size // 8)


def _same(*answers: CompletionResponse | None) -> bool:
    """Tell whether two answers have the same texts and the very same log-probabilities."""
    first, second = answers
    if first is None or second is None or first.texts != second.texts:
        return False
    pairs = list(zip(first.log_probabilities, second.log_probabilities, strict=False))
    return bool(pairs) and all(abs(a - b) <= SAME_LOGPROB for a, b in pairs)
