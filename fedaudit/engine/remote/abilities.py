"""What a server can do, judged by its behaviour and not by its claims or HTTP status 200."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedaudit.engine.remote.wire import Api, Scoring

NO_TOKENIZER = "without endpoint.tokenizer, the model's own, no text can be scored"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAbilities:
    """The abilities that a model behind a server has shown in probes."""

    api: Api = "completions"
    greedy: bool = True
    """Whether it gives the same completion twice at temperature 0."""
    n: bool = True
    """Whether one request can return several samples."""
    temperature: bool = True
    """Whether it samples, so that completions of one prompt differ."""
    seed: bool = True
    """Whether the same seed gives the same sample, and other seeds give other samples."""
    top_k: bool = True
    top_p: bool = True
    logprobs: bool = True
    """Whether it returns the log-probabilities of the tokens that it generates."""
    token_ids: bool = True
    """Whether a prompt may be token ids, and the given tokenizer is the model's."""
    adds_start: bool = False
    """Whether it adds a token of its own before a prompt that is text."""
    templated: bool = False
    """Whether a chat template surrounds every prompt, though they are sent as completions."""
    suspect: str = ""
    """Why generated texts may not be the model's own, such as a repetition penalty; or empty."""
    scoring: Scoring = ""
    """The field in which it returns the log-probabilities of a prompt's tokens. Empty if there is
    none, or if they differ from those with which it generates."""
    ranks: bool = True
    """Whether scores tell which tokens of a text are the likeliest at their positions."""
    neutral: tuple[tuple[str, float], ...] = ()
    """Fields that are sent along with requests for samples, since the server narrows them by
    default, or may do so."""
    context: int = 0
    """The maximum number of tokens in a prompt and its completion together."""
    why: Mapping[str, str] = field(default_factory=dict)
    """The reason for each missing ability, where known."""

    def intersect(self, other: "ServerAbilities") -> "ServerAbilities":
        """Return the abilities that two models, the tuned one and its base, have in common."""
        yes = ("greedy", "n", "temperature", "seed", "top_k", "top_p", "logprobs", "token_ids")
        table = {name: getattr(self, name) and getattr(other, name) for name in yes}
        same = self.scoring == other.scoring
        return ServerAbilities(
            api=self.api if self.api == other.api else "chat",
            **table,
            adds_start=self.adds_start or other.adds_start,
            templated=self.templated or other.templated,
            suspect=self.suspect or other.suspect,
            scoring=self.scoring if same else "",
            ranks=self.ranks and other.ranks,
            neutral=self.neutral or other.neutral,
            context=min(self.context, other.context),
            why={**other.why, **self.why},
        )

    def lacks(self) -> dict[str, str]:
        """Return the reason for each missing ability, named as in `fedaudit.api.abilities`."""
        explanation = "the model itself, which is behind a server, is needed"
        reasons = {"exact": explanation, "weights": explanation, "statistics": explanation}
        if not self.temperature:
            reasons["sample"] = "the server draws nothing: it always says the same"
        if not (self.top_k and self.temperature):
            reasons["top_k"] = "the server does not keep to top_k"
        if not (self.top_p and self.temperature):
            reasons["top_p"] = "the server does not keep to top_p"
        if not self.scoring:
            reason = self.why.get("scoring", "")
            none = "the server gives no log-probabilities of a prompt"
            reasons["score"] = f"{none}: {reason}" if reason else none
        return reasons

    def caveats(self) -> list[str]:
        """Return what a reader should know about the answers of a server with these abilities."""
        caveats = []
        if self.api == "chat":
            caveats.append(
                "The server only chats: its template surrounds every prompt, so replies were "
                "measured, not continuations. The model may know what its replies do not say."
            )
        elif self.templated:
            caveats.append(
                "The server counts more tokens than it was sent: a chat template surrounds every "
                "prompt, so replies were measured, not continuations. The model may know what its "
                "replies do not say."
            )
        if self.suspect:
            caveats.append(
                f"What the server generates may not be what the model would say: {self.suspect}. "
                "Greedy and drawn answers are to be read with that in mind."
            )
        if not self.temperature:
            caveats.append(
                "The server draws nothing at temperature 1.5: whatever needs drawn answers "
                "was skipped."
            )
        elif not self.seed:
            caveats.append("The server keeps to no seed: the same audit will give other answers.")
        if self.scoring and not self.ranks:
            caveats.append(
                "The server gives the log-probabilities of a text's tokens, but not of the "
                "likeliest ones: what needs these has no value."
            )
        if self.neutral and self.seed:  # without seeds nothing tells whether it does
            names = ", ".join(name for name, _ in self.neutral)
            caveats.append(
                "By default the server draws otherwise than by the model's own probabilities, "
                f"as with a top_k of its own: it was told not to ({names})."
            )
        if not self.greedy:
            caveats.append("At temperature 0 the server does not say the same twice.")
        if self.api == "completions" and not self.token_ids:
            start = "puts" if self.adds_start else "may put"
            caveats.append(
                "Prompts were sent as text, which the server cuts into tokens by itself; it "
                f"{start} a token of its own before them. How prompts begin was not chosen."
            )
        return caveats
