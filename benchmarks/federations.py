"""Made-up federations for what attribution decides: scores of clients, some of whom are marked.

Designs are the tool's own. A client's score in a round is chance, the mark it trained on, and what
its estimate holds of marked clients' updates. Chance has the standard deviation S, and 256 null
marks show it where S is not taken for 1. How a test answers to what an estimate holds of a marked
update is one of:

* "linear": in proportion, also below nothing;
* a share ("0.5"): an innocent client's estimate that holds so much answers at once like the marked
  client, others nothing; a marked client's own answers in proportion, whatever hides of it;
* a share of all ("all 0.5"): the same rule for both, so that a marked client's estimate which holds
  less than that of the mark, its own update included, answers nothing;
* "saturating": in proportion, at most like a marked client that does not hide, at least nothing;
* "absolute": in proportion to the absolute value of its share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from fedaudit.api.watermark import Score
from fedaudit.attribution.scores import RoundScores, Scores
from fedaudit.attribution.server import defaults
from fedaudit.attribution.server.round_designs import PAIRS, SHARED
from fedaudit.metrics.attribution import shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule

NULLS = 256
SIGNAL = 14.0
"""The mean Z of a marked client (the paper's: 14.12)."""
LIMIT = 0.4
ALL = "all "
"""What the name of a law begins with that marked clients' own estimates answer by, too."""
POOL = 20_000
"""Accepted designs that a federation's are drawn from, other than those that the decision knows."""
SYSTEMS = 50
"""As many systems of shared sets, likewise; each may be dealt to clients in any order."""


@dataclass(frozen=True, kw_only=True)
class Federation:
    """What is simulated."""

    name: str
    clients: int = 10
    rounds: int = 5
    marked: int = 3
    marks: int = 3
    """Marked clients share these evenly."""
    spread: float = 1.0
    repeat: float = 0.0
    """The share of chance's variance that is the same in every round."""
    tails: int = 0
    """Degrees of freedom of Student's t that chance has in place of the normal law; 0: normal."""
    scatter: float = 0.0
    """The standard deviation of a factor of 1 by which an estimate answers more or less."""
    nulls: int = NULLS
    """Null marks; with 0, S is taken for 1."""
    leak: str = "linear"
    signal: float = SIGNAL
    heavy: bool = False
    """Whether clients' weights are log-normal (sd 0.75 nats)."""
    present: float = 1.0
    """The share of the clients that takes part in a round."""
    pairs: int = 5
    limit: float = LIMIT
    scale: float = 1.0
    """What the first marked client multiplies its update with."""
    shared: bool = False
    """Whether a round's estimates share their sets, which is for equal weights here."""


Shares = dict[int, dict[str, dict[str, float]]]
"""By round, client and other client: how much of whose update an estimate holds."""


def federation(rng: np.random.Generator, one: Federation) -> tuple[Scores, dict[str, str], Shares]:
    """Return a federation's scores, the mark of each marked client, and what estimates hold."""
    names = [f"c{n:02}" for n in range(one.clients)]
    marks = [f"m{n}" for n in range(one.marks)]
    truth = {who: marks[n % one.marks] for n, who in enumerate(names[: one.marked])}
    weights = rng.lognormal(0, 0.75, one.clients) if one.heavy else np.ones(one.clients)
    shown = np.zeros((one.clients, one.marks))
    for at in range(one.marked):
        shown[at, at % one.marks] = 1.0 if at else one.scale
    shape = (one.clients, one.marks, 1 + one.nulls)
    common = _chance(rng, one, shape) * one.repeat**0.5
    known: Shares = {}
    rounds = tuple(
        _round(
            rng, one, number, weights=weights, names=names, shown=shown, common=common, known=known
        )
        for number in range(1, one.rounds + 1)
    )
    scores = Scores(
        run="r",
        base="b",
        aggregation="fedit",
        clients=tuple(names),
        marks=dict.fromkeys(marks, "kgw"),
        dimension=1,
        weights=dict(zip(names, weights.tolist(), strict=True)) if one.heavy else {},
        rounds=rounds,
    )
    return scores, truth, known


def _round(
    rng: np.random.Generator,
    one: Federation,
    number: int,
    *,
    weights: np.ndarray,
    names: Sequence[str],
    shown: np.ndarray,
    common: np.ndarray,
    known: Shares,
) -> RoundScores:
    size = max(4, round(one.present * one.clients))
    here = np.sort(rng.choice(one.clients, size=size, replace=False))
    settings, coefficients = drawn(rng, one, size)
    shares = coefficients * weights[here] / weights[here][:, None]
    known[number] = share_table([names[at] for at in here.tolist()], shares)
    luck = common[here] + _chance(rng, one, common[here].shape) * (1 - one.repeat) ** 0.5
    each = one.signal / one.rounds**0.5
    rows = one.spread * luck
    answers = each * answer(shares @ shown[here], shown[here], one.leak)
    if one.scatter:
        answers *= 1 + one.scatter * rng.standard_normal(answers.shape)
    rows[..., 0] += answers
    marks = [f"m{n}" for n in range(one.marks)]
    found = {
        names[at]: {mark: score(own) for mark, own in zip(marks, by_mark, strict=True)}
        for at, by_mark in zip(here.tolist(), rows, strict=True)
    }
    rho = np.square(shares).sum(axis=1)
    return RoundScores(
        round=number,
        reference=dict.fromkeys(marks, score(np.zeros(rows.shape[2]))),
        clients=found,
        strength={names[at]: max(0.01, round(own, 2)) for at, own in zip(here, rho, strict=True)},
        effective=dict.fromkeys(found, 1.0),
        **settings,
    )


def _chance(rng: np.random.Generator, one: Federation, shape: tuple[int, ...]) -> np.ndarray:
    """Return scores by chance, of standard deviation 1."""
    if not one.tails:
        return rng.standard_normal(shape)
    return np.asarray(rng.standard_t(one.tails, shape) * ((one.tails - 2) / one.tails) ** 0.5)


def drawn(
    rng: np.random.Generator, one: Federation, size: int
) -> tuple[dict[str, Any], np.ndarray]:
    """Return a round's settings, and c of its estimates, (size, size)."""
    if one.shared:
        rule = shared_rule(size)
        order, pool = rng.permutation(size), shared_designs(rule)
        settings = {"protocol": "shared", "sets": rule.sets, "threshold": rule.threshold}
        settings |= {"limit": rule.limit}
        return settings, pool[int(rng.integers(len(pool)))][np.ix_(order, order)]
    m, limit = design(size, one.pairs, one.limit)
    pool = designs(size, m, one.pairs, limit)
    c = np.zeros((size, size))
    c[~np.eye(size, dtype=bool)] = pool[rng.integers(len(pool), size=size)].ravel()
    return {"others": m, "pairs": one.pairs, "limit": limit}, c


def share_table(names: Sequence[str], shares: np.ndarray) -> dict[str, dict[str, float]]:
    """Return how much each client's estimate holds of every client's update, by name."""
    return {
        who: dict(zip(names, row.tolist(), strict=True))
        for who, row in zip(names, shares, strict=True)
    }


def score(z: np.ndarray) -> Score:
    """Return a score and its null marks' (which stay an array: that is faster)."""
    return Score(
        z=float(z[0]), p_value=0.5, n=1, hits=0, chance=0.5, null=cast("tuple[float, ...]", z[1:])
    )


def answer(took: np.ndarray, own: np.ndarray, law: str) -> np.ndarray:
    """Return the scores of estimates, as shares of a marked client's.

    `took` is what they hold of others' marked updates, `own` of their target's; (clients, marks).
    """
    if law == "linear":
        return np.asarray(own + took)
    if law == "absolute":
        return np.asarray(np.abs(own + took))
    if law == "saturating":
        return np.asarray(np.clip(own + took, 0.0, 1.0))
    share = float(law.removeprefix(ALL)) - 1e-9
    if law.startswith(ALL):
        return np.where(own + took >= share, 1.0, 0.0)
    return np.where(own > 0, own + took, np.where(took >= share, 1.0, 0.0))


@lru_cache
def design(size: int, pairs: int, limit: float) -> tuple[int, float]:
    """Return m and the limit that the tool takes for a round of so many clients."""
    wanted = defaults.ProtocolSettings(others=5, pairs=pairs, limit=limit, threshold=5)
    found = defaults.nearest(PAIRS, wanted, {1: (size, True, 1.0)})
    return found.others, found.limit


@lru_cache
def designs(size: int, others: int, pairs: int, limit: float) -> np.ndarray:
    """Return c of accepted designs, (POOL, others)."""
    found: list[np.ndarray] = []
    for seed in range(1_000, 1_200):
        c = subset_design.sample_coefficients(size, others, pairs, draws=POOL, seed=seed)
        # What is accepted is decided by equal weights: that is the harder case for the decision.
        found.append(c[subset_design.is_accepted(np.rint(c * pairs), others, pairs, limit)])
        if sum(map(len, found)) >= POOL:
            break
    return np.concatenate(found)[:POOL]


@lru_cache
def shared_rule(size: int) -> SharedSetsRule:
    """Return the rule that the tool draws a round's shared sets by, for so many clients."""
    wanted = defaults.ProtocolSettings(others=0, pairs=0, limit=LIMIT, threshold=5)
    kinds = {1: (size, True, 1.0)}
    return defaults.rules(defaults.nearest(SHARED, wanted, kinds), kinds)[1]


@lru_cache
def shared_designs(rule: SharedSetsRule) -> np.ndarray:
    """Return c of whole rounds, (SYSTEMS, clients, clients), other than the decision knows."""
    found = []
    for search in shared_sets.searches(rule, np.random.default_rng(1_000), 10 * SYSTEMS):
        if search.accepted:
            found.append(shared_sets.masks(search.rows))
        if len(found) == SYSTEMS:
            break
    return np.array(found)
