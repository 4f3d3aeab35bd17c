"""What a round's global model says of a member's records, and the bounds that follow.

In a row's scope, `unit` is what is counted ("record", "group" or "canary"), `round` the round,
`test` its place among those tested, `fpr` the share of held-out records (or of secrets that no
client was given) that may stand as high, `others` how many there are, and `limit` the share that
the member allows. `unread` is how many of the member's units were too short to be read, if any:
they are among `n`, and the upper bound takes them as learnt. Rows of a model that was tested before
its file was replaced have `replaced`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

from fedaudit.api.engine import Engine, LogProbabilities, text_start
from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Measurement, Target
from fedaudit.canaries import ranking
from fedaudit.metrics.privacy import attributable_effect, canary_exposure, membership_scores
from fedaudit.metrics.privacy.read_part import ReadPart, read_part, tokens_to_read
from fedaudit.watch.records import Unit, WatchedRecords

T = TypeVar("T")

KIND = "watch"
CANARY = "canary"
LEVEL = 0.05
"""The probability, at most, that any bound of any round is wrong."""
SHORTEST = 8
"""How many tokens a record must have."""
BEYOND = "beyond"
"""scope.unit of the row that says why what was not read bars a pass."""
CAVEATS = (
    "The bounds hold if the held-out records were set aside at random, from the same records as "
    "those that were trained on; no program can check that.",
    "The upper bounds are of what this score shows: another attack may recognise more.",
)
"""What the bounds of every such test rest on."""


@dataclass(frozen=True, slots=True)
class RoundScores:
    """How much likelier a round's model makes own and held-out units, and the canaries' ranks."""

    own: Sequence[float]
    """The gain in ln p per token over the base, in nats; empty if the sets are not comparable."""
    held_out: Sequence[float]
    canaries: Sequence[tuple[float, Sequence[float]]] = ()
    """The log-probability of each planted secret, and of those that it is ranked among."""
    unread: int = 0
    """The number of own units that were too short to be read."""

    @property
    def equal_base(self) -> bool:
        """Whether the model gives every unit exactly the base's likelihood."""
        return bool(self.own) and not any((*self.own, *self.held_out))


class RoundScorer:
    """Scores the global models of one federation; the base is read once."""

    def __init__(
        self,
        engine: Engine,
        records: WatchedRecords,
        base: LogProbabilities | None = None,
        *,
        trained: int = 0,
    ) -> None:
        """Tokenise the records; `base` are the base's scores, if another scorer has them.

        `trained` is how many tokens of a text training read, its start included; 0 if that is not
        known. Raises InputError if the records of a side are all too short.
        """
        self.engine, self._records = engine, records
        self._begin = text_start(engine)
        self._most = tokens_to_read(engine.context_length, len(self._begin), trained=trained)
        self._rows: list[tuple[int, ...]] = []
        self._lengths: list[int] = []
        self._own, self._held_out = map(self._tokenize, (records.own, records.held_out))
        if not self._own or not self._held_out:
            raise InputError(
                f"There is nothing to compare: {len(self._own):,} own and {len(self._held_out):,} "
                f"held-out records have {SHORTEST} tokens."
            )
        self.part = self._read_part()
        """How much of the records is read."""
        self.base = base
        """The base's scores, once they were asked for."""
        slots = (
            ranking.slot_references(
                records.canaries,
                limit=records.references,
                count=records.references,
                seed=records.seed,
            )
            if records.canaries
            else []
        )
        # Other clients' canaries say nothing of this member: the model may well know them.
        self._own_canaries = frozenset(records.own_canaries)
        self._slots = [slot for slot in slots if self._own_canaries.intersection(slot.canaries)]

    def _tokenize(self, units: Sequence[Unit]) -> list[list[int]]:
        """Return the rows of each unit, without those that are too short."""
        texts = [document.text for unit in units for document in unit]
        tokenized = iter(self.engine.tokenize(texts))
        found: list[list[int]] = []
        for unit in units:
            long = [
                tokens.ids
                for tokens in (next(tokenized) for _ in unit)
                if len(tokens.ids[: self._most]) >= SHORTEST
            ]
            if long:
                found.append(list(range(len(self._rows), len(self._rows) + len(long))))
            self._rows += [(*self._begin, *ids[: self._most]) for ids in long]
            self._lengths += map(len, long)
        return found

    @property
    def unread(self) -> int:
        """The number of own units of which no record is long enough to be read."""
        return len(self._records.own) - len(self._own)

    @property
    def limits(self) -> tuple[str, ...]:
        """Caveats about records of either side that were too short to be read, if there are any."""
        sides = (
            ("own", self._records.own, self._own, "the upper bounds take {} as learnt"),
            ("held-out", self._records.held_out, self._held_out, "nothing was compared with them"),
        )
        # A group is read if one of its records is.
        groups = {"record": "them", "group": "groups without any longer record"}
        found = []
        for name, units, read, use in sides:
            total = sum(map(len, units))
            if short := total - sum(map(len, read)):
                found.append(
                    f"{short:,} of {total:,} {name} records have fewer than {SHORTEST} tokens and "
                    f"were not read: {use.format(groups[self._records.unit])}."
                )
        return tuple(found)

    def _read_part(self) -> ReadPart:
        ids = [row[len(self._begin) :] for row in self._rows]
        own = sum(map(len, self._own))
        return read_part(ids[:own], ids[own:], self._lengths, self._most)

    def score(self, tuned: Target, base: Target, progress: Progress = no_progress) -> RoundScores:
        """Return the scores of a round's model."""
        own: list[float] = []
        held_out: list[float] = []
        if not self._records.refusal:
            own, held_out = self.gains(self.read(tuned, base, progress))
        return RoundScores(own, held_out, self.rank_canaries(tuned, progress), self.unread)

    def read(
        self, tuned: Target, base: Target, progress: Progress = no_progress
    ) -> LogProbabilities:
        """Return what a model says of every record; the base is asked before the first."""
        self.base = self.base or self.engine.score(base, self._rows)
        return self.engine.score(tuned, self._rows, progress=progress)

    def gains(self, read: LogProbabilities) -> tuple[list[float], list[float]]:
        """Return the mean gain over the base of each own and each held-out unit."""
        assert self.base is not None
        gains = [
            membership_scores.reference_ratio(row, reference)
            for row, reference in zip(read, self.base, strict=True)
        ]
        return self.by_unit(gains, fmean)

    def by_unit(
        self, values: Sequence[T], summary: Callable[[Iterable[T]], T]
    ) -> tuple[list[T], list[T]]:
        """Return the summary of the records' values in each own and each held-out unit."""
        own, held_out = (
            [summary(values[row] for row in unit) for unit in side]
            for side in (self._own, self._held_out)
        )
        return own, held_out

    def rank_canaries(
        self, tuned: Target, progress: Progress = no_progress
    ) -> list[tuple[float, Sequence[float]]]:
        """Return the log-probability of each planted secret, and those it is ranked among."""
        scored = ranking.score(
            self.engine,
            tuned,
            self._slots,
            begin=self._begin,
            heading=self._records.heading,
            progress=progress,
        )
        return [(s.score, s.references) for s in scored if s.canary in self._own_canaries]


def round_rows(
    scores: RoundScores,
    records: WatchedRecords,
    *,
    number: int,
    test: int,
    limit: float,
    obstacle: str = "",
    replaced: bool = False,
) -> Iterator[Measurement]:
    """Yield the rows of the round `number`, which is tested as the `test`-th.

    `obstacle` says why too little of the records is read for a pass, `replaced` that the round has
    another model now.
    """
    level = attributable_effect.round_level(LEVEL, test) / (2 if records.canaries else 1)
    scope: dict[str, object] = {"source": "tuned", "round": number, "test": test, "limit": limit}
    if replaced:
        scope["replaced"] = True
    units = {**scope, "unit": records.unit}
    if records.refusal:
        yield Measurement.missing(
            records.refusal, kind=KIND, plugin=KIND, metric="learnt", scope=units
        )
    else:
        bounds = attributable_effect.score_bounds(scores.own, scores.held_out, level=level)
        if scores.equal_base:
            # All scores are ties, which upper bounds count as above; but nothing was learnt.
            bounds = [replace(bound, high=0) for bound in bounds]
        yield from bound_rows(
            KIND, bounds, len(scores.own), len(scores.held_out), units, unread=scores.unread
        )
        if obstacle:
            yield obstacle_row(KIND, obstacle, scope)
    if scores.canaries:
        bounds = attributable_effect.ranked_bounds(scores.canaries, level=level)
        size = len(scores.canaries[0][1])
        canaries = {**scope, "unit": CANARY}
        yield from bound_rows(KIND, bounds, len(scores.canaries), size, canaries)
        yield exposure_row(KIND, scores.canaries, canaries)


def obstacle_row(kind: str, obstacle: str, scope: dict[str, object]) -> Measurement:
    """Return a row that bars a pass; what was learnt fails beside it all the same."""
    return Measurement.missing(
        obstacle, kind=kind, plugin=kind, metric="learnt", scope={**scope, "unit": BEYOND}
    )


def reading_caveat(part: ReadPart) -> str:
    """Return how much of the records was read."""
    read = part.describe()
    return f"{read[0].upper()}{read[1:]}; none of fewer than {SHORTEST} tokens was."


def exposure_row(
    kind: str, ranked: Sequence[tuple[float, Sequence[float]]], scope: dict[str, object]
) -> Measurement:
    """Return the row of the mean exposure, in bits, of canaries ranked by a `RoundScorer`."""
    return Measurement(
        kind=kind,
        plugin=kind,
        metric="exposure",
        value=fmean(
            canary_exposure.exact(score, (*references, score)) for score, references in ranked
        ),
        n=len(ranked),
        scope={**scope, "space": len(ranked[0][1]) + 1},
    )


def bound_rows(
    kind: str,
    bounds: Sequence[attributable_effect.AttributableCount],
    members: int,
    others: int,
    scope: dict[str, object],
    *,
    unread: int = 0,
) -> Iterator[Measurement]:
    """Yield a row for each bound on how many of `members` and of the `unread` were learnt.

    An unread one may have been learnt or not, so only the upper bound counts it.
    """
    n = members + unread
    if unread:
        scope = {**scope, "unread": unread}
    for count in bounds:
        likely = min(max(count.hits - count.expected, count.low), count.high)
        yield Measurement(
            kind=kind,
            plugin=kind,
            metric="learnt",
            value=likely / n,
            low=count.low / n,
            high=(count.high + unread) / n,
            n=n,
            hits=count.hits,
            chance=count.expected / n,
            scope={**scope, "fpr": count.rate, "others": others},
        )
