"""Which sums a server is asked for; commands take their options from here, so imports are light."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from typer import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolConfig:
    """What the server is asked to do; None and empty stand for the federation's own settings."""

    rounds: Sequence[int] = ()
    protocol: Annotated[
        str,
        Option(
            "--protocol",
            help="How sums are asked for: pairs or shared; default: the federation's, or pairs.",
        ),
    ] = ""
    others: Annotated[
        int | None,
        Option(
            "--others",
            help="pairs: other clients in a set (m); default: the federation's, or 5.",
            min=0,
            max=1_000_000,
        ),
    ] = None
    pairs: Annotated[
        int | None,
        Option(
            "--queries",
            help="pairs: pairs of sums per client and round (K); default: the federation's, or 5.",
            min=0,
            max=1_000_000,
        ),
    ] = None
    sets: Annotated[
        int | None,
        Option(
            "--sets",
            help="shared: sets per round (Q); default: the federation's, or half as many as "
            "clients.",
            min=1,
            max=1_000_000,
        ),
    ] = None
    limit: Annotated[
        float | None,
        Option(
            "--limit",
            help="The largest share of another client's update in an estimate; default: the "
            "federation's, or 0.4.",
            min=0,
        ),
    ] = None
    hidden: Annotated[
        float | None,
        Option(
            "--hidden",
            help="shared: the least share of every update's variance that the sums leave hidden; "
            "default: 0.2.",
            min=0,
            max=1,
        ),
    ] = None
    threshold: Annotated[
        int | None,
        Option(
            "--threshold",
            help="The fewest clients that a sum may include; default: the federation's, or 5.",
            min=1,
            max=1_000_000,
        ),
    ] = None
    secure: Annotated[
        str,
        Option(
            "--secure-aggregation",
            help="The plugin that adds up plaintext updates; default: the federation's, or ideal.",
        ),
    ] = ""
    weights: Annotated[
        str,
        Option(
            "--weights", help="How updates are weighted in sums: equal or size; default: equal."
        ),
    ] = ""
    seed: Annotated[int | None, Option("--seed", help="The seed of everything random.")] = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = (self.others, self.pairs, self.sets, self.threshold, self.limit, self.hidden)
        if any(count is not None and count < 0 for count in counts):
            raise ValueError("others, pairs, sets, threshold, limit and hidden must be at least 0.")
