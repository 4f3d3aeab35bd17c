"""Branches of the search over token sequences: expansion, pruning, and draws from pruned mass.

A branch less likely than its threshold is given up, and its mass is added to the mass given up. The
threshold falls with every byte spelt: each way to spell a long string is unlikely, but a branch
that has spelt most of a string usually completes it, which takes few further branches. The mass
given up is also sampled: each abandoned branch launches a Poisson number of draws, in proportion to
its mass, and each draw is continued by sampling its next tokens until it no longer spells a string.
The number of draws that complete a string is then Poisson as well, and its mean is `trials` times
the mass that the search missed.
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
"""The factor on a branch's threshold for each byte spelt; docs/exact.md lists the values tried."""

_STEP, _DRAW, _LAUNCH = (np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """The strings to search for, the sampling params of continuations, the pruning threshold."""

    automaton: TokenAutomaton
    max_new_tokens: int
    """The maximum number of tokens in a continuation."""
    decoding: SamplingParams
    threshold: float
    """The least probability at which a branch that has spelt nothing yet is followed."""

    def followed(self, branches: "SearchBranches") -> Chosen:
        """Return for each branch whether it is likely enough to be followed."""
        spelt = self.automaton.depths[branches.nodes]
        return np.asarray(branches.mass >= self.threshold * RATE**spelt)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBranches:
    """Token sequences, one per row: the prompt, the automaton node reached, and the probability."""

    prompts: Integers
    nodes: Integers
    mass: Floats
    """The probability of a followed branch; 0 for a draw."""
    drawn: Chosen
    """Whether the branch is a draw from mass that was given up."""
    keys: Keys
    """Keys of the random numbers; they depend on prompt, tokens and the number of the draw."""

    def __getitem__(self, chosen: Integers | Chosen | slice) -> "SearchBranches":
        return SearchBranches(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def __len__(self) -> int:
        return len(self.mass)

    @classmethod
    def start(cls, keys: Sequence[int]) -> "SearchBranches":
        """Return one branch per prompt that has spelt nothing yet."""
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
        """Return the branches of all `groups`; there must be at least one group."""
        names = [f.name for f in fields(cls)]
        return cls(**{name: np.concatenate([getattr(p, name) for p in groups]) for name in names})


class SearchTotals:
    """Running totals of a search for each prompt of a batch.

    A branch of mass m that is given up launches Poisson(t x m) draws, t being its prompt's number
    in `trials`.
    """

    def __init__(self, strings: int, trials: Sequence[int]) -> None:
        prompts = len(trials)
        self.trials = np.asarray(trials, dtype=np.float64)
        self.rows: Integers = np.ones(prompts, dtype=np.int64)
        self._least: Floats = np.zeros((prompts, strings))
        self._lost: Floats = np.zeros((prompts, strings + 1))
        self._drawn: Integers = np.zeros((prompts, strings), dtype=np.int64)

    def add(self, branches: SearchBranches, strings: Integers, run: Floats, hit: Chosen) -> None:
        """Add completions of strings: the mass of followed branches, and the draws marked `hit`."""
        np.add.at(self._least, (branches.prompts, strings), run * branches.mass)
        np.add.at(self._drawn, (branches.prompts[hit], strings[hit]), 1)

    def lose(self, lost: SearchBranches, below: tuple[Integers, Integers]) -> None:
        """Add the mass of branches given up to every string that they might have spelt."""
        start, end = (edges[lost.nodes] for edges in below)
        np.add.at(self._lost, (lost.prompts, start), lost.mass)
        np.add.at(self._lost, (lost.prompts, end), -lost.mass)

    def probabilities(self, columns: Integers) -> Iterator[PrefixProbabilities]:
        """Yield each prompt's bounds, clipped to [0, 1], which sums of floats may leave."""
        least = self._least.clip(0, 1)
        most = (least + self._lost[:, :-1].cumsum(axis=1)).clip(least, 1)
        for row, count in enumerate(self.rows.tolist()):
            draws = self._drawn[row, columns]
            yield PrefixProbabilities(
                least=least[row, columns], most=most[row, columns], drawn=draws, rows=count
            )


def distribution(logits: torch.Tensor, config: SearchConfig) -> torch.Tensor:
    """Return the next-token distribution, float64 (rows, tokens in the vocabulary's `order`)."""
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
    """Return the parent row, the token and the branch of every continuation to follow.

    Completed strings are added to `totals`, whether their branch continues or not, and so is the
    mass given up. `is_last` means that the next token is the last one allowed.
    """
    steps = [config.automaton.steps(node) for node in branches.nodes.tolist()]
    rows = np.repeat(np.arange(len(steps)), [len(step.strings) for step in steps])
    first, last = (np.concatenate([getattr(step, n) for step in steps]) for n in ("first", "last"))
    # The mass of a run of tokens is a difference of two cumulative sums.
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
    """Return the vocabulary position of each draw's next token.

    It is -1 for branches that are not draws, and for draws that end: end tokens are missing from
    `sums`, so a quantile beyond the last sum stands for them.
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
    """Return draws from branches that are given up: the index of each draw's branch, and the draws.

    The number of draws from a branch is Poisson with mean trials times mass.
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
    """Return Poisson quantiles: the least counts whose distribution function reaches `uniform`."""
    if not len(uniform):  # always so without trials, and then scipy is not needed
        return np.zeros(0, dtype=np.int64)
    from scipy.special import pdtr, pdtrik

    counts = np.ceil(pdtrik(uniform, mean))
    counts += pdtr(counts, mean) < uniform
    return np.asarray(counts, dtype=np.int64)


def _uniform(keys: Keys, salt: np.uint64) -> Floats:
    return np.asarray((splitmix64(keys ^ salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _gather(table: torch.Tensor, rows: Integers, columns: Integers) -> Floats:
    """Return the table's entries at (row, column), on the host."""
    row, column = (to_device(indices, table.device) for indices in (rows, columns))
    values: Floats = table[row, column].cpu().numpy()
    return values
