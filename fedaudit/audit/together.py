"""Several attacks on one case: no question is asked twice, and what they found is compared."""

from collections.abc import Sequence

from fedaudit.audit import venn
from fedaudit.audit.asking import ROOM, Memory, sharing
from fedaudit.audit.extraction import PrefixAttack
from fedaudit.audit.scoring import Scored, Tally
from fedaudit.interfaces import Attack, Case, Result


def memory(attacks: Sequence[Attack]) -> Memory:
    """Return a memory for their answers, with room where more than one of them asks prefixes."""
    several = sum(isinstance(attack, PrefixAttack) for attack in attacks) > 1
    return Memory(ROOM if several else 0)


def run(attacks: Sequence[Attack], case: Case, shared: Memory) -> list[Result]:
    """Return the result of each attack in the order given, and behind them their comparison."""
    own = sharing(case, shared)
    found = {index: attacks[index].run(own) for index in _order(attacks)}
    results = [found[index] for index in range(len(attacks))]
    return [*results, *_compared(results)]


def _order(attacks: Sequence[Attack]) -> list[int]:
    """Return the attacks' places, those first that ask a prompt most often.

    Their answers do for the others, but not the other way round. Which attack asks first changes
    no result.
    """

    def rank(index: int) -> tuple[bool, int]:
        attack = attacks[index]
        return (attack.distinct, -attack.samples) if isinstance(attack, PrefixAttack) else (True, 0)

    return sorted(range(len(attacks)), key=rank)


def _compared(results: Sequence[Result]) -> list[Result]:
    tallies = [r.tally for r in results if isinstance(r, Scored) and r.tally is not None]
    alike = [tally for tally in tallies if _same_targets(tally, tallies[0])]
    if len(tallies) < 2:
        return []
    apart = [tally.plugin for tally in tallies if not _same_targets(tally, tallies[0])]
    said = f"{', '.join(apart)}: not compared with {tallies[0].plugin}, which has other targets."
    return [Result(measurements=tuple(venn.rows(alike)), limits=(said,) if apart else ())]


def _same_targets(one: Tally, other: Tally) -> bool:
    return one.truth.labels == other.truth.labels
