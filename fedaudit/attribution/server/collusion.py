"""What a server learns from the sums together with clients who tell it their own updates."""

from collections.abc import Sequence

from fedaudit.api.errors import unknown_name_error
from fedaudit.attribution.server.query_plan import SumPlan
from fedaudit.metrics.attribution.exposure import Exposure


def exposures(plan: SumPlan, colluding: Sequence[str]) -> dict[int, Exposure]:
    """Return by round what the sums give away of the other clients.

    Raises UsageError for somebody who is no client of the federation.
    """
    clients = [client.id for client in plan.federation.manifest.clients]
    for who in colluding:
        if who not in clients:
            raise unknown_name_error("client", who, clients)
    return plan.exposures(known=colluding)


def lines(plan: SumPlan, colluding: Sequence[str]) -> list[str]:
    """Return a line a round for a reader; nothing without anybody who colludes."""
    if not colluding:
        return []
    found = exposures(plan, colluding)
    return [_told(plan, number, one, colluding) for number, one in found.items()]


def _told(plan: SumPlan, number: int, one: Exposure, colluding: Sequence[str]) -> str:
    others = set(plan.federation.manifest.rounds[number].participants) - set(colluding)
    said = f"Round {number}, where {', '.join(colluding)} tell the server their updates: "
    if not others:
        return f"{said}nobody else takes part."
    if one.determined:
        return (
            f"{said}those of {len(one.determined)} of the {len(others)} others follow by linear "
            f"algebra, the first after {one.after} sums."
        )
    group = one.group
    least = "" if group.exact else "at most "
    return (
        f"{said}no other's follows by linear algebra; the smallest group whose sum does has "
        f"{least}{len(group.members)} of the {len(others)} others."
    )
