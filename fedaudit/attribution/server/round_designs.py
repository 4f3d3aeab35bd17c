"""The design of one round's sums, by either protocol: pairs of sets, or sets that all share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from fedaudit.api.errors import InputError, UsageError
from fedaudit.metrics.attribution import shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.metrics.attribution.shared_sets import SharedSets
from fedaudit.metrics.attribution.subset_design import Combination, Design, Members

PAIRS, SHARED = "pairs", "shared"
PROTOCOLS = (PAIRS, SHARED)

VARIANCE_DRAWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSettings:
    """How a round's sets were drawn, as the decision needs to know; 0 for unknown settings."""

    protocol: str = PAIRS
    others: int = 0
    """m, the other clients in a set, for pairs of sets."""
    pairs: int = 0
    """K, the pairs of sets for each client."""
    limit: float = 0.0
    """The largest share of another client's update that an estimate may have."""
    sets: int = 0
    """How many sets a round's estimates share."""
    whole: bool = True
    """Whether the set of all clients is one of the shared sets."""
    threshold: int = 0
    """The fewest clients whose sum may follow from the sums over the shared sets."""
    ratio: float = 1.0
    """The largest weight in the sums divided by the smallest."""

    def rule(self, participants: int) -> SharedSetsRule | None:
        """Return the rule that shared sets are drawn by; None for pairs."""
        if self.protocol != SHARED:
            return None
        return SharedSetsRule(
            participants=participants,
            queries=self.sets - 1,
            threshold=self.threshold,
            limit=self.limit,
            whole=self.whole,
            ratio=self.ratio,
        )


SETTINGS = tuple(DesignSettings.__dataclass_fields__)


def settings_of(record: DesignSettings) -> dict[str, Any]:
    """Return the design settings of a record, without its other fields."""
    return {name: getattr(record, name) for name in SETTINGS}


def check_settings(record: DesignSettings, participants: int, where: str) -> None:
    """Raise InputError for settings that are impossible with this number of participants."""
    if record.protocol not in PROTOCOLS:
        raise InputError(f"{where} was asked for by an unknown protocol, {record.protocol!r}.")
    rule = record.rule(participants)
    try:
        if rule is not None:
            rule.check()
    except UsageError as error:
        raise InputError(f"{where} has no such shared sets: {error}") from None
    counts = (record.others, record.pairs, record.limit, record.sets, record.threshold)
    if min(counts) < 0:
        raise InputError(f"{where} was asked for with a setting below 0, which there is not.")
    if not 1 <= record.ratio < math.inf:
        raise InputError(f"{where} has weights of no such ratio.")


@dataclass(frozen=True)
class PairDesign:
    """The paper's design: K pairs of sets for each client."""

    designs: tuple[Design, ...]
    limit: float
    participants: int

    @property
    def others(self) -> int:
        """The other clients in a set (m)."""
        return len(self.designs[0].exclude[0])

    @property
    def pairs(self) -> int:
        """The pairs of sets for each client (K)."""
        return len(self.designs[0].include)

    @property
    def settings(self) -> DesignSettings:
        """The settings that are passed on to the decision."""
        return DesignSettings(others=self.others, pairs=self.pairs, limit=self.limit)

    @property
    def sum_count(self) -> int:
        """The number of sums behind the estimates: 2 K for each."""
        return 2 * self.pairs * len(self.designs)

    @property
    def sets(self) -> list[Members]:
        """The distinct sets, in the order asked."""
        sets = (s for design in self.designs for s in (*design.include, *design.exclude))
        return list(dict.fromkeys(sets))

    @cached_property
    def combinations(self) -> list[Combination]:
        """The estimates."""
        return [design.combination for design in self.designs]

    @property
    def floor(self) -> float:
        """The least strength of an estimate's masks."""
        return subset_design.floor(self.participants, self.others, self.pairs)

    @property
    def expected(self) -> float:
        """The expected strength of masks, before any draw is rejected."""
        return subset_design.expected_strength(self.participants, self.others, self.pairs)

    @property
    def variance(self) -> float:
        """The estimator's covariance as a multiple of the other clients' own."""
        count, others, pairs = self.participants, self.others, self.pairs
        mean = subset_design.accepted_strength(
            count, others, pairs, limit=self.limit, draws=VARIANCE_DRAWS
        )
        return subset_design.covariance_scale(count, mean)

    def table(self) -> list[dict[str, Any]]:
        """Return all sets as the log has them."""
        return [asdict(design) for design in self.designs]

    def identity(self) -> dict[str, Any]:
        """Return a table that identifies these sets, whatever the order of the clients."""
        return {"designs": sorted(self.table(), key=lambda d: str(d["target"]))}

    def from_table(self, table: Sequence[Mapping[str, Any]]) -> "PairDesign":
        """Return the sets of a log's `table`, by the same settings."""
        return PairDesign(read_designs(table), self.limit, self.participants)

    def describe(self) -> str:
        """Return in words what was asked for."""
        return f"{self.pairs} pairs for each client, {self.others} others in a set"


@dataclass(frozen=True)
class SharedDesign:
    """Our design: a few sets of half the clients each, whose sums all estimates combine."""

    targets: tuple[str, ...]
    shared_sets: SharedSets
    rule: SharedSetsRule

    @property
    def settings(self) -> DesignSettings:
        """The settings that are passed on to the decision."""
        rule = self.rule
        return DesignSettings(
            protocol=SHARED,
            limit=rule.limit,
            sets=rule.sets,
            whole=rule.whole,
            threshold=rule.threshold,
            ratio=rule.ratio,
        )

    @property
    def sum_count(self) -> int:
        """The number of sums behind the estimates, which all share."""
        return len(self.shared_sets.sets)

    @property
    def sets(self) -> list[Members]:
        """The sets; that of all clients is last, if it is one of them."""
        return list(self.shared_sets.sets)

    @cached_property
    def combinations(self) -> list[Combination]:
        """The estimates."""
        by_target = {c.target: c for c in self.shared_sets.combinations()}
        return [by_target[client] for client in self.targets]

    @property
    def floor(self) -> float:
        """The least strength of an estimate's masks."""
        return shared_sets.floor(self.rule.participants, self.rule.queries)

    @property
    def expected(self) -> float:
        """The strength of masks from sets that weigh on all clients alike."""
        return shared_sets.typical_strength(self.rule.participants, self.rule.queries)

    @property
    def variance(self) -> float:
        """The estimator's covariance as a multiple of the others' own, by the round's mean rho."""
        mean = fmean(shared_sets.masking_strengths(self.shared_sets.rows).tolist())
        return subset_design.covariance_scale(self.rule.participants, mean)

    def table(self) -> dict[str, Any]:
        """Return all sets as the log has them."""
        return {"sets": [list(members) for members in self.shared_sets.sets]}

    def identity(self) -> dict[str, Any]:
        """Return a table that identifies these sets."""
        return {"protocol": SHARED, **self.table()}

    def from_table(self, table: Mapping[str, Any]) -> "SharedDesign":
        """Return the sets of a log's `table`, by the same settings."""
        sets = SharedSets(self.shared_sets.participants, read_sets(table["sets"]))
        return SharedDesign(self.targets, sets, self.rule)

    def describe(self) -> str:
        """Return in words what was asked for."""
        size = self.rule.participants // 2
        if self.rule.whole:
            return f"{self.rule.queries} sets of {size} clients and all of them, shared by all"
        return f"{self.rule.sets} sets of {size} clients, shared by all estimates"


RoundDesign = PairDesign | SharedDesign


def read_sets(sets: Sequence[Sequence[str]]) -> tuple[Members, ...]:
    """Return the sets of a log's table."""
    return tuple(tuple(map(str, members)) for members in sets)


def read_designs(table: Sequence[Mapping[str, Any]]) -> tuple[Design, ...]:
    """Return the designs of a log's table."""
    return tuple(
        Design(str(row["target"]), read_sets(row["include"]), read_sets(row["exclude"]))
        for row in table
    )
