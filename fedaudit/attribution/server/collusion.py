"""What a server learns from the sums together with clients who tell it their own updates."""

from collections.abc import Sequence

from fedaudit.api.errors import unknown_name_error
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.metrics.attribution.sum_leakage import SumLeakage


def exposures(plan: SumPlan, colluders: Sequence[str]) -> dict[int, SumLeakage]:
    """Return, by round, what the sums leak about the clients that do not collude.

    Raises UsageError for a name that is not a client of the federation.
    """
    clients = [client.id for client in plan.federation.manifest.clients]
    for name in colluders:
        if name not in clients:
            raise unknown_name_error("client", name, clients)
    return plan.exposures(colluders=colluders)


def describe_collusion(plan: SumPlan, colluders: Sequence[str]) -> list[str]:
    """Return one line of text for each round; nothing without colluding clients."""
    if not colluders:
        return []
    by_round = exposures(plan, colluders)
    return [
        _describe_exposure(plan, number, exposure, colluders)
        for number, exposure in by_round.items()
    ]


def _describe_exposure(
    plan: SumPlan, number: int, exposure: SumLeakage, colluders: Sequence[str]
) -> str:
    honest = set(plan.federation.manifest.rounds[number].participants) - set(colluders)
    prefix = f"Round {number}, where {', '.join(colluders)} tell the server their updates: "
    if not honest:
        return f"{prefix}no other client takes part."
    if exposure.determined:
        return (
            f"{prefix}those of {len(exposure.determined)} of the {len(honest)} others follow by "
            f"linear algebra, the first after {exposure.queries_until_determined} sums."
        )
    group = exposure.group
    least = "" if group.exact else "at most "
    return (
        f"{prefix}no other client's follows by linear algebra; the smallest group whose sum "
        f"follows has {least}{len(group.members)} of the {len(honest)} others."
    )
