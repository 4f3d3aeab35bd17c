"""Branches of a walk over token sequences: how they split, what is followed, what is given up.

A branch less likely than its threshold is given up and its mass is added up. The threshold falls
with every byte that is spelt: each way to spell a long string is unlikely, and a branch that has
spelt most of it mostly goes on, which costs few branches. Besides, some of that
mass is drawn from: a Poisson number of draws goes into what is given up, each as likely as its
branch, and every draw is followed by drawing its next tokens until it spells nothing any more. So
the draws that complete strings are a Poisson number too, whose mean is what the walk has missed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch

from fedaudit.api.engine import PrefixProbabilities
from fedaudit.api.records import SamplingParams
from fedaudit.engine.device import to_device
from fedaudit.engine.exact.token_automaton import Integers, TokenAutomaton
from fedaudit.engine.generation.sampler import probabilities, splitmix64

Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.uint64]
Chosen = npt.NDArray[np.bool_]

RATE = 0.75
"""The factor on a branch's threshold for every byte that it has spelt: docs/exact.md has the rates
that were tried."""

_STEP, _DRAW, _LAUNCH = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """What is walked: the strings, how continuations are drawn, and from where on it matters."""

    automaton: TokenAutomaton
    max_new_tokens: int
    """Tokens that a continuation may have."""
    decoding: SamplingParams
    threshold: float
    """A branch that has spelt nothing yet is given up when it is less likely than this."""

    def followed(self, branches: "SearchBranches") -> Chosen:
        """Say which branches are likely enough to be followed."""
        spelt = self.automaton.depths[branches.nodes]
        return np.asarray(branches.mass >= self.threshold * RATE**spelt)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBranches:
    """Sequences of tokens, a row each: whose prompt, how likely, and how much they have spelt."""

    prompts: Integers
    nodes: Integers
    mass: Floats
    """The probability of a followed branch; 0 for a draw."""
    drawn: Chosen
    """Whether it is a draw from what was given up."""
    keys: Keys
    """What its random numbers derive from: prompt and tokens, and which draw it is."""

    def __getitem__(self, chosen: Integers | Chosen | slice) -> "SearchBranches":
        return SearchBranches(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def __len__(self) -> int:
        return len(self.mass)

    @classmethod
    def start(cls, keys: Sequence[int]) -> "SearchBranches":
        """Return a branch for each prompt, which has spelt nothing yet."""
        count = len(keys)
        return cls(
            prompts=np.arange(count),
            nodes=np.zeros(count, dtype=np.int64),
            mass=np.ones(count),
            drawn=np.zeros(count, dtype=np.bool_),
            keys=np.asarray(keys, dtype=np.uint64),
        )

    @classmethod
    def joined(cls, groups: Sequence["SearchBranches"]) -> "SearchBranches":
        """Return the branches of all `groups`, of which there is one at least."""
        names = [f.name for f in fields(cls)]
        return cls(**{name: np.concatenate([getattr(p, name) for p in groups]) for name in names})


class SearchTotals:
    """What a walk adds up for the prompts of a batch; `trials` draws go out from each of them."""

    def __init__(self, strings: int, trials: Sequence[int]) -> None:
        prompts = len(trials)
        self.trials = np.asarray(trials, dtype=np.float64)
        self.rows: Integers = np.ones(prompts, dtype=np.int64)
        self._least: Floats = np.zeros((prompts, strings))
        self._lost: Floats = np.zeros((prompts, strings + 1))
        self._drawn: Integers = np.zeros((prompts, strings), dtype=np.int64)

    def add(self, branches: SearchBranches, strings: Integers, run: Floats, hit: Chosen) -> None:
        """Add what completes strings: the mass that is followed, and the draws that are `hit`."""
        np.add.at(self._least, (branches.prompts, strings), run * branches.mass)
        np.add.at(self._drawn, (branches.prompts[hit], strings[hit]), 1)

    def lose(self, lost: SearchBranches, below: tuple[Integers, Integers]) -> None:
        """Add branches that are given up, to all strings that they might have spelt."""
        start, end = (edges[lost.nodes] for edges in below)
        np.add.at(self._lost, (lost.prompts, start), lost.mass)
        np.add.at(self._lost, (lost.prompts, end), -lost.mass)

    def probabilities(self, columns: Integers) -> Iterator[PrefixProbabilities]:
        """Yield the bounds of every prompt; sums of rounded numbers stay between 0 and 1."""
        least = self._least.clip(0, 1)
        most = (least + self._lost[:, :-1].cumsum(axis=1)).clip(least, 1)
        for row, count in enumerate(self.rows.tolist()):
            draws = self._drawn[row, columns]
            yield PrefixProbabilities(
                least=least[row, columns], most=most[row, columns], drawn=draws, rows=count
            )


def distribution(logits: torch.Tensor, config: SearchConfig) -> torch.Tensor:
    """Return what tokens are drawn from, float64 (rows, tokens in the spelling's order)."""
    order = to_device(config.automaton.vocabulary.order, logits.device)
    if config.decoding.temperature == 0:
        likeliest = logits.float().argmax(dim=-1, keepdim=True)
        return (order[None] == likeliest).double()
    return probabilities(logits.float(), config.decoding)[:, order]


def expand_branches(
    table: torch.Tensor,
    branches: SearchBranches,
    config: SearchConfig,
    totals: SearchTotals,
    *,
    is_last: bool,
) -> tuple[Integers, Integers, SearchBranches]:
    """Return the row, the token and the branch of every way to go on.

    What completes a string is added up, whether it goes on or not, and so is what is given up.
    `is_last` says that no token follows the next one.
    """
    steps = [config.automaton.steps(node) for node in branches.nodes.tolist()]
    rows = np.repeat(np.arange(len(steps)), [len(step.strings) for step in steps])
    first, last = (np.concatenate([getattr(step, n) for step in steps]) for n in ("first", "last"))
    # A run of tokens has the mass of the sum up to its end less that up to its beginning.
    sums = torch.nn.functional.pad(table.cumsum(dim=-1), (1, 0))
    run = (_gather(sums, rows, last) - _gather(sums, rows, first)).clip(0)
    token = _token(sums, branches)
    strings = np.concatenate([step.strings for step in steps])
    totals.add(branches[rows], strings, run, (first <= token[rows]) & (token[rows] < last))
    if is_last:
        none = np.zeros(0, dtype=np.int64)
        return none, none, branches[none]
    rows = np.repeat(np.arange(len(steps)), [len(step.tokens) for step in steps])
    tokens, nodes = (
        np.concatenate([getattr(step, n) for step in steps]) for n in ("tokens", "nodes")
    )
    before = branches[rows]
    longer = SearchBranches(
        prompts=before.prompts,
        nodes=nodes,
        mass=_gather(table, rows, tokens) * before.mass,
        drawn=before.drawn,
        keys=splitmix64(before.keys + tokens.astype(np.uint64) * _STEP),
    )
    follow = np.where(before.drawn, tokens == token[rows], config.followed(longer))
    given_up = np.flatnonzero(~follow & ~before.drawn)
    totals.lose(longer[given_up], config.automaton.below())
    out, launched = _launch_draws(longer[given_up], totals)
    chosen = np.concatenate([np.flatnonzero(follow), given_up[out]])
    ids = config.automaton.vocabulary.order[tokens[chosen]]
    return rows[chosen], ids, SearchBranches.joined([longer[follow], launched])


def _token(sums: torch.Tensor, branches: SearchBranches) -> Integers:
    """Return the position of every draw's next token; -1 for followed branches, or at an end.

    Tokens that end an answer are missing from the sums: they come after all others.
    """
    next_tokens = np.full(len(branches), -1, dtype=np.int64)
    rows = np.flatnonzero(branches.drawn)
    if len(rows):
        quantiles = to_device(_uniform(branches.keys[rows], _DRAW), sums.device)
        places = torch.searchsorted(sums[rows, 1:].contiguous(), quantiles[:, None], right=True)
        token = places.squeeze(-1).cpu().numpy()
        next_tokens[rows] = np.where(token < sums.shape[1] - 1, token, -1)
    return next_tokens


def _launch_draws(
    given_up: SearchBranches, totals: SearchTotals
) -> tuple[Integers, SearchBranches]:
    """Return draws from branches that are given up: the index of each one's branch, and the draws.

    Their number is Poisson with mean trials times mass.
    """
    mean = totals.trials[given_up.prompts] * given_up.mass
    uniform = _uniform(given_up.keys, _LAUNCH)
    indices = np.flatnonzero(uniform > np.exp(-mean))
    out = np.repeat(indices, _poisson(uniform[indices], mean[indices]))
    draw_number = np.arange(len(out)) - np.searchsorted(out, out)
    parents = given_up[out]
    return out, SearchBranches(
        prompts=parents.prompts,
        nodes=parents.nodes,
        mass=np.zeros(len(out)),
        drawn=np.ones(len(out), dtype=np.bool_),
        keys=splitmix64(parents.keys + (draw_number.astype(np.uint64) + np.uint64(1)) * _DRAW),
    )


def _poisson(uniform: Floats, mean: Floats) -> Integers:
    """Return Poisson quantiles: the least numbers whose distribution function reaches `uniform`."""
    if not len(uniform):  # as always without trials: then no scipy is needed
        return np.zeros(0, dtype=np.int64)
    from scipy.special import pdtr, pdtrik

    counts = np.ceil(pdtrik(uniform, mean))
    counts += pdtr(counts, mean) < uniform
    return np.asarray(counts, dtype=np.int64)


def _uniform(keys: Keys, salt: np.uint64) -> Floats:
    """Return a number in [0, 1) for each key."""
    return np.asarray((splitmix64(keys ^ salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _gather(table: torch.Tensor, rows: Integers, columns: Integers) -> Floats:
    """Return the numbers at (row, column)."""
    row, column = (to_device(indices, table.device) for indices in (rows, columns))
    values: Floats = table[row, column].cpu().numpy()
    return values
