"""Probing what a served model can do, with a few dozen short requests about everyday topics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedaudit.engine.remote.abilities import NO_TOKENIZER, ServerAbilities
from fedaudit.engine.remote.score_check import CROWDED, OTHERS, STALE, ScoreCheck
from fedaudit.engine.remote.server import UNKNOWN, CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import (
    NEUTRAL_DRAWS,
    NEUTRAL_PENALTIES,
    STANDARD_DRAWS,
    CompletionRequest,
    CompletionResponse,
    Scoring,
    same_texts,
)
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
MOST_OF = 0.9
"""An answer with this share of its tokens is not taken for one that is cut."""
SPARE = 16
"""The characters that may be before a prompt that is repeated, such as a start token."""
UNLIKELY = (
    "the tokens of its greedy answers are not the likeliest by its own log-probabilities, as with "
    "a default repetition penalty"
)
SHORTENED = "its answers lack a part of what was generated, as with a stop string of the server"
NEEDLE = 8
"""The tokens by which the beginnings of two long prompts differ, or an eighth of them."""
SAME_LOGPROB = 1e-7
"""Log-probabilities that are closer than this have been computed from the same tokens."""
Place = Literal["beginning", "middle", "end"]
PLACES: tuple[Place, ...] = ("beginning", "end", "middle")
"""Where two long prompts differ, to see whether a server reads them there. The middle is the last:
what is missing there may be missing up to an end."""
ENDING = "\nThe people of the town met every morning, but nobody knew why the river was low. It"
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
    new: int = 1,
    scoring: bool = True,
) -> ServerAbilities:
    """Return the abilities of a served model; raises TargetError if it cannot be used.

    `context` is the context length that the user states, or 0; `longest` is the number of tokens in
    the audit's longest request, and `new` the most that it generates. Without `scoring`,
    no prompt log-probabilities are requested.
    """
    return _Probe(server, tokenizer, new).run(context, longest, may_score=scoring)


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
        problem = f"knows no model {server.model!r} ({error.status})"
        raise server.failure(problem, error.said) from None


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
    new: int = 1
    """The most tokens that the audit generates in a request."""

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
        self.cut: Place | None = None
        """Where prompts were found to be cut in silence, by other tokens there: then all of these
        but one may be missing without an effect on an answer."""
        self.neutral: tuple[tuple[str, float], ...] = ()
        """Fields without which the server narrows what it draws, or may do so."""
        self.lacking = False
        """Whether a long answer has less text than was generated."""
        self.late = ""
        """What is wrong with the scores of a long text alone."""
        self.replies: list[CompletionResponse] = []
        """All completions of short prompts."""
        self.certain: list[CompletionResponse] = []
        """The greedy ones among them, with log-probabilities if the server gives any."""
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
            neutral=self.neutral if temperature else (),
        )
        if not may_score:
            self.why["scoring"] = "endpoint.scoring is false"
        scoring, suspect = self._scoring(abilities) if may_score else ("", "")
        if not scoring and not suspect and not self.counts:
            suspect = self._penalty(texts[-1])
        if not suspect and self.server.api == "completions" and not templated:
            suspect = SHORTENED if any(map(self.tokenizer.count_missing, self.certain)) else ""
        if not suspect and any(answer.greedy is False for answer in self.certain):
            suspect = UNLIKELY
        abilities = replace(abilities, scoring=scoring, ranks=self.ranks, suspect=suspect)
        room = self._context(context, longest, abilities)
        if self.lacking and not suspect:
            abilities = replace(abilities, suspect=SHORTENED)
        if self.late and scoring:
            self.why["scoring"] = self.late
            abilities = replace(abilities, scoring="")
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
                problem = (
                    f"knows no model {self.server.model!r}, or neither /completions nor "
                    f"/chat/completions ({error.status})"
                )
                raise self.server.failure(problem, error.said or first) from None
        self.replies.append(reply)
        replies = [reply, *self.greedy(PROMPTS[1:])]
        # A reply of a chat may well take up its question, but not every continuation its prompt.
        if self.server.api == "completions" and all(
            prompt in one.texts[0][: len(prompt) + SPARE]
            for prompt, one in zip(PROMPTS, replies, strict=True)
        ):
            raise self.server.failure("repeats every prompt before its answer: turn its echo off")
        return replies

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
                if all(
                    answer.prompt_tokens == len(prompt) + 1
                    for answer, prompt in zip(replies, prompts, strict=False)
                ):
                    self.why["token_ids"] = "it puts a token of its own before a prompt of tokens"
                    break
                same = same_texts(replies, texts) if len(replies) == len(texts) else 0
                if same >= MIN_EQUAL_REPLIES:
                    self.answers = answers
                    self.why.pop("token_ids", None)
                    return True, added, same == len(PROMPTS) or self._repeats(prompts, replies)
            self.why.setdefault(
                "token_ids",
                "a prompt as tokens is refused, or continued otherwise than its text: is "
                "endpoint.tokenizer the model's own?",
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
        known = [answer for answer in answers if answer is not None]
        self.certain += known
        self.replies += known
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
        queries = [replace(ask, prompt=p, seed=seed) for p, seed in seeds]
        neutral = replace(queries[1], extra=NEUTRAL_DRAWS)
        answers = self.server.try_all([queries[0], neutral, *queries[2:]])
        one, again = answers[:2]
        if one is not None and (again is None or again.texts != one.texts):
            # The server refuses the fields, or narrows draws without them, or ignores seeds.
            answers[1] = self.server.try_to(queries[1])
            self.neutral = self._neutral(again, answers[1])
        seeded = all(answer is not None for answer in answers)
        if not seeded:
            self.why["seed"] = "it refuses requests with a seed"
            answers = self.server.try_all([replace(ask, prompt=prompt) for prompt, _ in seeds])
            self.neutral = self._neutral(None, None)
        self.replies += [answer for answer in answers if answer is not None]
        texts = [answer.texts[0] if answer is not None else "" for answer in answers]
        self.server.first_draw = texts[0]
        first, second = texts[: len(SEEDS)], texts[len(SEEDS) :]
        self.likeliest_is_rare = not set(second) & set(self.likeliest)
        differ = len(set(first)) > 1 or len(set(second)) > 1
        fixed = len(set(first)) > 1 and first[0] == first[1]
        return first[1:], differ, seeded and fixed

    def _neutral(
        self, neutral: CompletionResponse | None, plain: CompletionResponse | None
    ) -> tuple[tuple[str, float], ...]:
        """Return the fields without which the server narrows what it draws, if it takes them.

        `neutral` and `plain` are samples of one seed with all of these fields and without them, or
        None. If a server refuses some, those of OpenAI's protocol are tried. Without seeds nothing
        tells whether it narrows anything, so they are sent to be sure.
        """
        if neutral is not None:
            return NEUTRAL_DRAWS
        ask = self.query(PROMPTS[0], temperature=SAMPLING_TEMPERATURE, extra=STANDARD_DRAWS)
        seed = SEEDS[0] if plain is not None else None
        if (answer := self.server.try_to(replace(ask, seed=seed))) is None:
            return ()
        return () if plain is not None and answer.texts == plain.texts else STANDARD_DRAWS

    def _check_content(self) -> None:
        """Raise TargetError if all replies are empty: nothing could be found in them."""
        if any(text.strip() for answer in self.replies for text in answer.texts):
            return
        count = sum(len(answer.texts) for answer in self.replies)
        thoughts = sum(answer.thoughts for answer in self.replies)
        reason = f"{thoughts:,} had reasoning alone: have it answer without" if thoughts else ""
        problem = f"answered {count:,} prompts, and no answer had content"
        raise self.server.failure(f"{problem}{reason and f' ({reason})'}")

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
            answers = [self.server.try_to(replace(ask, n=CHOICES, seed=seeds[0]))]
        else:
            first, *rest = (replace(ask, seed=seed) for seed in seeds[1:])
            alone = self.server.try_to(first)
            if alone is not None and alone.texts == self.likeliest and self.likeliest_is_rare:
                return True
            answers = [alone, *self.server.try_all(rest)]
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
        found: list[tuple[ScoreCheck, str]] = []
        for field in fields:
            check = self.check(abilities)
            try:
                problem = check.problem(field)
            except ServerUnreachable as error:
                raise ServerUnreachable(f"{error} {DIED_OF_SCORING}", error.status) from None
            found.append((check, problem))
            if check.counted:
                self.counts = self.counts or field
            if not problem:
                self.ranks = check.ranks
                return field, check.suspect
            if problem in (STALE, CROWDED):  # of the server itself, whichever field asks it
                break
        # The first reason that matters: a field that is missing says the least.
        reasons = [problem for check, problem in found if check.answered]
        self.why["scoring"] = [*reasons, found[0][1]][0]
        return "", next((check.suspect for check, _ in found if check.suspect), "")

    def _penalty(self, default: CompletionResponse) -> str:
        """Return what is suspect if the server penalises repetition unless told not to.

        `default` is its greedy completion of the last prompt.
        """
        ask = self.query(PROMPTS[-1])
        neutral = self.server.try_to(replace(ask, extra=NEUTRAL_PENALTIES))
        if neutral is None:  # it may refuse fields that it does not know
            neutral = self.server.try_to(replace(ask, extra=NEUTRAL_PENALTIES[:1]))
        if neutral is None or default.texts == neutral.texts:
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
            raise self.server.failure(f"takes no prompt of {MIN_CONTEXT} tokens")
        self.why["context"] = f"a prompt of {size:,} tokens was refused or cut"
        # Of a prompt that is cut, all but one of the tokens that were changed may be missing.
        prompt = low - self._new_tokens(low)
        return prompt - _beginning(prompt) if self.cut else low

    def _refused(self, size: int, abilities: ServerAbilities) -> int:
        """Return 0 if the server takes a whole request of `size` tokens; else a length to try.

        The request asks for as many new tokens as the audit does. A server may cut a prompt in
        silence. Then it counts fewer tokens than it was sent, or scores fewer; or two prompts that
        differ where it cuts get the very same answers. Raises TargetError if it cuts its answers,
        or the end of a prompt although it counts all of it.
        """
        new = self._new_tokens(size)
        kept = size - new - bool(self.counts)  # scores are asked for with one more token
        row = self._filler(kept)
        self.server.refusal = ""
        answer = self.server.try_to(self._long_query(row, new, abilities))
        if answer is None:
            return self._hint(size)
        if (generated := self._cut_answer(row, new, answer, abilities)) is not None:
            self.evidence = True
            return max(MIN_CONTEXT, len(row) + generated) if generated else -1
        sent = len(row) if self.tokenizer.own or abilities.token_ids else 0
        slack = 0 if abilities.token_ids else 8 + sent // 16
        counted = answer.prompt_tokens
        if counted is not None and counted < sent - slack:
            self.evidence = True
            return counted if counted >= MIN_CONTEXT else -1
        if self.counts:
            return self._scored_less(row, answer, slack, abilities)
        return -1 if self._cuts(row, new, answer, abilities) else 0

    def _new_tokens(self, size: int) -> int:
        """Return how many tokens to generate in a request of `size`, so as to leave a prompt."""
        return max(1, min(max(self.new, NEW_TOKENS), size - 2 * MIN_CONTEXT))

    def _scored_less(
        self, row: Sequence[int], answer: CompletionResponse, slack: int, abilities: ServerAbilities
    ) -> int:
        """Return 0 if a long prompt and its completion are scored as a whole; else a length to try.

        `slack` is by how many tokens the server may count otherwise.
        """
        check = self.check(abilities)
        text = check.whole(row, answer) or check.prompt(row)
        scored = self.server.try_to(check.query(self.counts, text))
        if scored is None:
            return self._hint(len(text.ids)) if abilities.scoring else 0
        counted = len(scored.prompt) + 1
        if counted < len(text.ids) - slack:
            self.evidence = True
            return counted if counted >= MIN_CONTEXT else -1
        if not check.agrees(text, scored) and not self._agrees_on_one(row, check, abilities):
            self.late = f"of a text of {len(text.ids):,} tokens, {OTHERS}"
        return 0

    def _agrees_on_one(
        self, row: Sequence[int], check: ScoreCheck, abilities: ServerAbilities
    ) -> bool:
        """Tell whether the one token after a long prompt is scored as when it was generated.

        Several tokens may have been generated as others than their text is cut into.
        """
        answer = self.server.try_to(self._long_query(row, 1, abilities))
        if answer is None or (text := check.whole(row, answer)) is None:
            return True
        scored = self.server.try_to(check.query(self.counts, text))
        return scored is not None and check.agrees(text, scored)

    def _cuts(
        self,
        row: Sequence[int],
        new: int,
        answer: CompletionResponse,
        abilities: ServerAbilities,
    ) -> bool:
        """Tell whether a prompt that differs from `row` at one place gets the very same answer."""
        replies = self.server.api == "chat" or abilities.templated
        for place in [self.cut] if self.cut else PLACES:
            if not abilities.logprobs and (place != "end" or replies):
                continue  # without numbers, such prompts may well have equal answers
            changed = self._filler(len(row), place)
            other = self.server.try_to(self._long_query(changed, new, abilities))
            if not _same(answer, other, exactly=abilities.logprobs):
                continue
            if place == "end" and not replies:
                # What precedes a continuation always counts. No search for the longest prompt that
                # is read: this is rare, and takes many requests.
                problem = (
                    f"does not read the end of a prompt of {len(row):,} tokens: state how "
                    "many it takes with --set endpoint.context"
                )
                raise self.server.failure(problem)
            if self._blind(abilities):
                return False  # and so it is to other tokens in the middle
            self.cut = place
            return True
        return False

    def _hint(self, size: int) -> int:
        """Return the length that a refusal states, or -1."""
        self.evidence = True
        stated = [int(n.replace(",", "")) for n in _STATED.findall(self.server.refusal)]
        return next((n for n in stated if MIN_CONTEXT <= n < size), -1)

    def _long_query(
        self, row: Sequence[int], new: int, abilities: ServerAbilities
    ) -> CompletionRequest:
        prompt = tuple(row) if abilities.token_ids else self.tokenizer.decode(row)
        size = len(row)
        return self.query(prompt, max_tokens=new, logprobs=abilities.logprobs, size=size)

    def _cut_answer(
        self, row: Sequence[int], new: int, answer: CompletionResponse, abilities: ServerAbilities
    ) -> int | None:
        """Return how many tokens were generated if a full context cut them; None if nothing did.

        Raises TargetError if a short prompt gets no more of them either: then the server generates
        fewer than the audit asks for. What ends before is taken to have come to its end, unless its
        continuation has just as many tokens.
        """
        count = self._generated(answer)
        lacking = self.server.api == "completions" and self.tokenizer.count_missing(answer) > 0
        if count is None or (count > MOST_OF * new and not lacking):
            return None
        if lacking or "length" not in answer.ends:
            if self.server.api == "chat" or abilities.templated:
                return None
            self.lacking = lacking
            if answer.log_probabilities and lacking:
                return None  # so many tokens were generated, though they are not in the text
            count = self._written(answer)
            ids = self.tokenizer.tokenize([self.tokenizer.decode(row) + answer.texts[0]])[0].ids
            more = self.server.try_to(self._long_query(ids, new, abilities))
            if not count or more is None or self._written(more) != count:
                return None
        short = self.server.try_to(self._long_query(self.rows[0], new, abilities))
        if short is None or (self._generated(short) or 0) > count:
            return count
        asked = f"generates at most {count:,} tokens, though asked for {new:,}"
        raise self.server.failure(f"{asked}: raise its limit for an answer")

    def _generated(self, answer: CompletionResponse) -> int | None:
        """Return the number of tokens of an answer as the server gives it, or of its text."""
        if answer.log_probabilities:
            return len(answer.log_probabilities)
        return self._written(answer) if answer.new_tokens is None else answer.new_tokens

    def _written(self, answer: CompletionResponse) -> int | None:
        """Return into how many tokens an answer's text is cut; None without the tokenizer."""
        if not self.tokenizer.own:
            return None
        return len(self.tokenizer.tokenize([answer.texts[0]])[0].ids)

    def _blind(self, abilities: ServerAbilities) -> bool:
        """Tell whether the model's answers do not depend on the beginning of a short prompt."""
        if self.cut:
            return False
        rows = [self._filler(2 * MIN_CONTEXT, place) for place in (None, "beginning")]
        asks = [self._long_query(row, 1, abilities) for row in rows]
        return _same(*map(self.server.try_to, asks))

    def _filler(self, size: int, place: "Place | None" = None) -> list[int]:
        """Return a prompt of `size` tokens, with other ones at a place of two.

        It ends in words that it does not repeat, so that its continuation cannot be copied from it.
        """
        # At least this many tokens: each of the prompts has more than four.
        filler = "\n".join(PROMPTS * (size // (4 * len(PROMPTS)) + 1))
        body, end, other = (
            list(tokens.ids) for tokens in self.tokenizer.tokenize([filler, ENDING, PROMPTS[1]])
        )
        end = end if size >= 2 * len(end) else []
        row = [*body[: size - len(end)], *end]
        changed = min(size, _beginning(size))
        starts = {"beginning": 0, "middle": (size - changed) // 2, "end": size - changed}
        if place is not None:
            at = starts[place]
            row[at : at + changed] = (other * (changed // len(other) + 1))[:changed]
        return row


def _beginning(size: int) -> int:
    """Return the number of tokens by which the beginnings of two long prompts differ."""
    return max(NEEDLE, size // 8)


def _same(
    first: CompletionResponse | None, second: CompletionResponse | None, *, exactly: bool = True
) -> bool:
    """Tell whether two answers have the same texts and, if `exactly`, log-probabilities too."""
    if first is None or second is None or first.texts != second.texts:
        return False
    if not exactly:
        return bool(first.texts[0].strip())
    pairs = list(zip(first.log_probabilities, second.log_probabilities, strict=False))
    return bool(pairs) and all(abs(a - b) <= SAME_LOGPROB for a, b in pairs)
