"""How a server's answers ended: whole, or cut by its limit, a filter or a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.engine.remote.tokenizer import RemoteTokenizer
from fedaudit.engine.remote.wire import CompletionRequest, CompletionResponse

CUT_BELOW = 0.9
"""An answer with this share of the tokens asked for may be said to have its full length."""
MISSING_ABOVE = 0.25
"""The share of generated tokens that may be missing from a text, which may be tokenised into fewer
tokens than it was generated in."""


def count_missing(tokenizer: RemoteTokenizer, answer: CompletionResponse) -> int:
    """Return how many generated tokens are not in the texts of an answer; 0 if few or unknown.

    One token for each text may be its end token.
    """
    generated = answer.new_tokens
    if generated is None and len(answer.texts) == 1 and answer.log_probabilities:
        generated = len(answer.log_probabilities)
    if generated is None or not tokenizer.own:
        return 0
    written = sum(len(tokens.ids) for tokens in tokenizer.tokenize(answer.texts))
    missing = generated - written - len(answer.texts)
    return missing if missing > MISSING_ABOVE * generated else 0


@dataclass
class Endings:
    """Counts of the answers to an audit's questions that may not be whole."""

    tokenizer: RemoteTokenizer
    whole_texts: bool
    """Whether all that is generated is in the text, as in continuations and not in replies."""
    texts: int = 0
    filtered: int = 0
    """Texts that ended at a content filter, according to the server."""
    stopped: int = 0
    """Texts that ended at a stop string, or lack a part of what was generated."""
    cut: int = 0
    """Texts that ended at a limit, with fewer tokens than were asked for."""

    def add(
        self, queries: Sequence[CompletionRequest], answers: Sequence[CompletionResponse]
    ) -> None:
        """Count the answers to some requests."""
        for query, answer in zip(queries, answers, strict=True):
            size = len(answer.texts)
            self.texts += size
            filtered = answer.ends.count("content_filter")
            self.filtered += filtered
            if filtered:
                continue
            least = CUT_BELOW * query.max_tokens * size
            if set(answer.ends) == {"length"} and (answer.new_tokens or least) < least:
                self.cut += size
            elif answer.stopped:
                self.stopped += answer.stopped
            elif self.whole_texts and count_missing(self.tokenizer, answer):
                self.stopped += size

    def caveats(self) -> list[str]:
        """Return what a reader should know of answers that are not whole."""
        reasons = (
            (self.filtered, "were cut by a content filter of the server"),
            (self.cut, "were cut by a limit of the server before the length that was asked for"),
            (
                self.stopped,
                "ended at a stop string of the server, or lack a part of what was generated",
            ),
        )
        return [
            f"{count:,} of {self.texts:,} answers {what}: the model may say what they do not."
            for count, what in reasons
            if count
        ]
