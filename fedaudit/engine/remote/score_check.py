"""Whether a served model's scores of texts are its own, alone and while it scores other texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.engine.remote.abilities import ServerAbilities
from fedaudit.engine.remote.server import CompletionServer
from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse, Scoring

LOGPROB_TOLERANCE = 0.05
"""The tolerated difference, in nats, between a token's ln p when generated and when scored; and
the mean one between two scores of the same text."""
LARGEST_DIFFERENCE = 0.5
"""The tolerated difference between two scores of one token, an unlikely one in coarse dtypes."""
MIN_WAVE, MAX_WAVE = 4, 16
"""The texts that are scored at once, if the audit's concurrency is not in between."""
COMMON = "\nThe people of the town met every morning and talked of the weather and the harvest."
ENDS = (" In the evening they went home.", " But nobody knew why the river was low.")
"""Texts behind the generated tokens: with them, a text has more than two blocks of 16 tokens, and
two texts with the same beginning differ in their ends."""

COMPARED = 24
"""The generated tokens of a long text that are compared: later ones often repeat the first."""
JOINT = 8
"""The last tokens of a prompt behind which it is seen how an answer is tokenised."""
SHARED_END = 4
"""Two texts that part may not have equal scores of so many tokens behind."""

MISSING = "it gives none, or not one for each token of endpoint.tokenizer"
OTHERS = "they are not those by which it writes"
UNKNOWN = "nothing tells whether they are those by which it writes"
STALE = "they are those of other requests, as from a stale prefix cache"
CROWDED = (
    "they are wrong while several requests are under way, though not for one alone "
    "(--set endpoint.concurrency=1)"
)


_Scores = tuple[tuple[float, ...], tuple[bool, ...]]
"""ln p, and whether it is the likeliest, of each token of a text but the first."""


@dataclass(frozen=True)
class _Text:
    """A text whose tokens from `first` on were generated with the log-probabilities `expected`."""

    ids: tuple[int, ...]
    text: str
    first: int
    expected: tuple[float, ...]
    shared: int
    """The number of tokens that it shares with another text of the same prompt."""


@dataclass
class ScoreCheck:
    """Compares scores with the log-probabilities of the model's own greedy completions."""

    server: CompletionServer
    tokenizer: RemoteTokenizer
    abilities: ServerAbilities
    start: tuple[int, ...]
    """Tokens that prompts of token ids begin with."""
    prompts: Sequence[str]
    answers: Sequence[CompletionResponse | None]
    """The greedy completions of the prompts."""
    counted: int = 0
    """The most scores in an answer, whether or not there was one for each token."""
    answered: bool = False
    """Whether there were scores at all."""
    ranks: bool = True
    """Whether the scores tell which tokens are the likeliest."""
    suspect: str = ""
    """Why what the model generates may not be its own, as far as scores tell; or empty."""

    def problem(self, field: Scoring, before: CompletionServer | None = None) -> str:
        """Return what is wrong with a way to score texts; empty if nothing is.

        Texts of more than two cache blocks are scored one after the other, one of them behind
        another with the same beginning and once more, and then with the audit's concurrency. The
        tokens that the model has generated must be scored as they were then. If `before` is given,
        that model scores the same text first.
        """
        pairs = self._pairs(self.answers)
        problem = self._judge(field, pairs, before) if pairs else UNKNOWN
        if problem in ("", MISSING, STALE, CROWDED):  # these are seen on scores that fit alone
            return problem
        # The text of several tokens may be cut into others; that of one token hardly ever is.
        starts = [self._continue(prompt) for prompt in self.prompts]
        if not (pairs := self._pairs(self.server.try_all(starts))):
            return problem if self._scores(field, self._plain_text()) else MISSING
        self.suspect = ""
        return self._judge(field, pairs, before)

    def _judge(
        self,
        field: Scoring,
        pairs: Sequence[tuple[_Text, _Text]],
        before: CompletionServer | None,
    ) -> str:
        """Return what is wrong with the scores of texts, each of which has a sibling."""
        (text, sibling), *rest = pairs
        if before is not None:
            before.try_to(self.query(field, text, before.model))
        alone = self._scores(field, text)
        if alone is None:
            return MISSING
        self.answered = True
        if not self._fits(text, alone):
            self.suspect = "its scores of what it generates are other ones than when it did"
            return OTHERS if before is None else f"{OTHERS}, or {STALE}"
        others = [(one, self._scores(field, one)) for one, _ in rest[:1]] if before is None else []
        # If each token of a whole text is the likeliest, no other one was listed beside it.
        self.ranks = bool(alone[1]) and not all(alone[1])
        if self.ranks:
            self._look_for_penalty([(text, alone), *((t, s) for t, s in others if s)])
        again = self._scores(field, sibling)
        fresh = all(
            scores is not None and self._fits(one, scores)
            for one, scores in [*others, (sibling, again)]
        )
        fresh &= not any(s and s[0][:SHARED_END] == alone[0][:SHARED_END] for _, s in others)
        if not fresh or not _continues(alone, again, text.shared):
            return STALE
        return self._crowd(field, pairs, text, alone)

    def _crowd(
        self,
        field: Scoring,
        pairs: Sequence[tuple[_Text, _Text]],
        text: _Text,
        alone: _Scores,
    ) -> str:
        """Return what is wrong with scores of requests that are under way together."""
        width = self.server.spending.options.concurrency
        count = min(MAX_WAVE, max(MIN_WAVE, width))
        wave = [pairs[i % len(pairs)][0] for i in range(count)]
        read = self.server.try_all([self.query(field, one) for one in wave])
        scores = [self._aligned(one, answer) for one, answer in zip(wave, read, strict=True)]
        for one, row in zip(wave, scores, strict=True):
            same = row is not None and (one is not text or _close(row[0], alone[0]))
            if row is None or not self._fits(one, row) or not same:
                return CROWDED if width > 1 else STALE
        return ""

    def _look_for_penalty(self, scored: Sequence[tuple[_Text, _Scores]]) -> None:
        """Note it if a greedy completion's tokens are not the likeliest by the model's scores."""
        for text, (_, first) in scored:
            begin = text.first - 1
            if first and not all(first[begin : begin + len(text.expected)]):
                self.suspect = (
                    "its greedy answers are not the likeliest ones by its own scores, as with a "
                    "default repetition penalty"
                )

    def _pairs(self, answers: Sequence[CompletionResponse | None]) -> list[tuple[_Text, _Text]]:
        """Return two texts for each prompt whose greedy completion's tokens are known."""
        rows = zip(self.prompts, answers, strict=False)
        return [pair for prompt, answer in rows if (pair := self._texts(prompt, answer))]

    def whole(self, row: Sequence[int], answer: CompletionResponse) -> _Text | None:
        """Return the text of a prompt and its completion; None if its tokens are not known."""
        expected, count = answer.log_probabilities[:COMPARED], len(answer.log_probabilities)
        tail = tuple(row[-JOINT:])
        end = self.tokenizer.decode(tail)
        known, ids = (t.ids for t in self.tokenizer.tokenize([end, end + answer.texts[0]]))
        joined = known == tail and ids[: len(tail)] == tail
        if not expected or not joined or len(ids) - len(tail) != count:
            return None
        text = self.tokenizer.decode(row) + answer.texts[0]
        return _Text((*row, *ids[len(tail) :]), text, len(row), expected, 0)

    def prompt(self, row: Sequence[int]) -> _Text:
        """Return the text of a prompt, of which nothing was generated."""
        return _Text(tuple(row), self.tokenizer.decode(row), 1, (), 0)

    def agrees(self, text: _Text, answer: CompletionResponse) -> bool:
        """Tell whether generated tokens are scored as when they were generated, but for rounding.

        There are more of them than in the texts of the other checks, so one may differ more.
        """
        scores = self._aligned(text, answer)
        if scores is None:
            return True  # another number of tokens tells nothing of their scores
        begin = text.first - 1
        return _close(scores[0][begin : begin + len(text.expected)], text.expected)

    def _continue(self, prompt: str) -> CompletionRequest:
        """Return a request for the most likely token after a prompt."""
        [ids] = [t.ids for t in self.tokenizer.tokenize([prompt])]
        return CompletionRequest(
            model=self.server.model,
            prompt=(*self.start, *ids) if self.abilities.token_ids else prompt,
            max_tokens=1,
            logprobs=True,
            size=len(ids),
        )

    def _texts(self, prompt: str, answer: CompletionResponse | None) -> tuple[_Text, _Text] | None:
        """Return two texts that continue a prompt's completion; None if tokens do not tell."""
        if answer is None or not answer.log_probabilities:
            return None
        continued = prompt + answer.texts[0]
        wholes = [continued + COMMON + end for end in ENDS]
        ids, shared, *rows = (
            t.ids for t in self.tokenizer.tokenize([prompt, continued + COMMON, *wholes])
        )
        [said] = (t.ids for t in self.tokenizer.tokenize([continued]))
        count = len(said) - len(ids)
        expected = answer.log_probabilities
        if said[: len(ids)] != ids or count != len(expected):
            return None
        if any(row[: len(said)] != said for row in rows):
            return None
        common = next(
            (i for i, pair in enumerate(zip(*rows, strict=False)) if pair[0] != pair[1]),
            len(shared),
        )
        start = len(self.start)
        first, second = (
            _Text((*self.start, *row), whole, start + len(ids), expected[:count], start + common)
            for row, whole in zip(rows, wholes, strict=True)
        )
        return first, second

    def _plain_text(self) -> _Text:
        [ids] = [t.ids for t in self.tokenizer.tokenize([self.prompts[0]])]
        return _Text((*self.start, *ids), self.prompts[0], 0, (), 0)

    def query(self, field: Scoring, text: _Text, model: str = "") -> CompletionRequest:
        """Return a request for the scores of a text."""
        return CompletionRequest(
            model=model or self.server.model,
            prompt=text.ids if self.abilities.token_ids else text.text,
            max_tokens=1,
            scoring=field,
            size=len(text.ids),
        )

    def _scores(self, field: Scoring, text: _Text) -> _Scores | None:
        return self._aligned(text, self.server.try_to(self.query(field, text)))

    def _aligned(self, text: _Text, answer: CompletionResponse | None) -> _Scores | None:
        """Return (ln p, is likeliest) of a text's tokens but the first; None if there are none."""
        extra = int(self.abilities.adds_start and not self.abilities.token_ids)
        self.counted = max(self.counted, len(answer.prompt) if answer else 0)
        if answer is None or len(answer.prompt) - extra not in (len(text.ids) - 1, len(text.ids)):
            return None
        last = len(text.ids) - 1
        return answer.prompt[extra:][:last], answer.first[extra:][:last]

    @staticmethod
    def _fits(text: _Text, scores: _Scores) -> bool:
        """Tell whether generated tokens are scored as they were when they were generated."""
        begin = text.first - 1
        values = scores[0][begin : begin + len(text.expected)]
        pairs = zip(values, text.expected, strict=True)
        return all(abs(a - b) <= LOGPROB_TOLERANCE for a, b in pairs)


def _continues(first: _Scores, second: _Scores | None, shared: int) -> bool:
    """Tell whether two texts have the same scores up to where they part, and others from there."""
    if second is None or not _close(first[0][: shared - 1], second[0][: shared - 1]):
        return False
    # The first token after the parting is another one, and so is what follows it.
    return first[0][shared - 1 :][:SHARED_END] != second[0][shared - 1 :][:SHARED_END]


def _close(first: Sequence[float], second: Sequence[float]) -> bool:
    """Tell whether two rows of scores of the same tokens differ by rounding alone."""
    differences = [abs(a - b) for a, b in zip(first, second, strict=True)]
    return not differences or (
        max(differences) <= LARGEST_DIFFERENCE
        and sum(differences) / len(differences) <= LOGPROB_TOLERANCE
    )
