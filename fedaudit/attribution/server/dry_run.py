"""A preview of an attribution: its sums, costs and leakage, before anything is asked for."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedaudit.api.errors import unknown_name_error
from fedaudit.api.watermark import Mark
from fedaudit.attribution.owner import detection
from fedaudit.attribution.server import estimation, masks
from fedaudit.attribution.server.round_designs import SHARED
from fedaudit.attribution.server.sum_plan import SumPlan, describe_hidden, percent_up
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.sum_leakage import SumLeakage, leakage_bits

if TYPE_CHECKING:
    from fedaudit.attribution.owner.worker_pool import WorkerOptions

FLOAT = 4
"""Bytes of a number in a sum."""

TIMED_QUESTIONS = 16
"""How many questions the base is asked to measure the time of an answer."""


def describe_plan(
    plan: SumPlan, marks: Sequence[Mark], worker_options: "WorkerOptions | None"
) -> list[str]:
    """Return the plan in lines of text; only the bare base is run, no adapter of the federation."""
    numbers = sorted(plan.designs)
    if not numbers:
        return ["Every round has been asked for already: nothing would be asked."]
    dimension = estimation.update_dimension(plan)
    how = "; ".join(dict.fromkeys(design.describe() for design in plan.designs.values()))
    lines = [
        f"{plan.queries} sums in rounds {', '.join(map(str, numbers))}: {how}, by "
        f"{plan.secure.name} secure aggregation with threshold {plan.secure.threshold}, limit "
        f"{plan.limit:g}.",
        *describe_choices(plan),
        f"The sums have {plan.queries * dimension * FLOAT / 2**20:,.1f} MiB in all.",
        f"Time for the sums: about {_duration(plan.queries * _addition(plan, dimension))}.",
    ]
    if marks and worker_options is not None:
        seconds, count = _scoring(plan, marks, worker_options)
        lines.append(
            f"Time for the tests: about {_duration(seconds)} in one process for {count:,} answers."
        )
    return [*lines, *_masks(plan, dimension), *describe_exposure(plan)]


def describe_choices(plan: SumPlan) -> list[str]:
    """Return lines on settings that replaced impossible ones, and on what the sums contain."""
    return [f"{line[0].upper()}{line[1:]}." for line in (*plan.notes, *describe_sums(plan))]


def describe_sums(plan: SumPlan) -> Iterator[str]:
    """Yield lines on what is summed, and on the largest share of another client in an estimate."""
    if any(len(members) == 1 for number in plan.designs for members in plan.sets(number)):
        yield (
            "some sums are over a single client, whose update they show in the clear: that is not "
            "secure aggregation"
        )
    if plan.protocol == SHARED:
        yield "all estimates of a round are made of the same sums, over sets that they share"
    if plan.weighting == "size":
        yield "sums are weighted by the clients' sizes"
    else:
        yield "every client's update has weight 1 in the sums, whatever its size"
    share = masks.largest_foreign_share(plan.designs, plan.weights)
    if share is not None:
        above = share.value > plan.limit * (1 + masks.ROUNDING)
        yield (
            f"an estimate holds at most {share.value:.2f} times another client's update "
            f"({share.of} in that of {share.target}, round {share.round})"
            + (f", more than the limit of {plan.limit:g}" if above else "")
        )


def _masks(plan: SumPlan, dimension: int) -> list[str]:
    """Return lines on how well each round's estimates are masked."""
    result = []
    for number, design in plan.designs.items():
        c = {e.target: masks.masks(e, plan.weights) for e in design.combinations}
        rho = {client: subset_design.masking_strength(row) for client, row in c.items()}
        weakest = min(rho, key=lambda client: rho[client])
        effective = subset_design.effective_size(c[weakest])
        result.append(
            f"Round {number}: masking strength at least {rho[weakest]:.3f} (expected "
            f"{design.expected:.3f}), n_eff {effective:.1f}; an estimate "
            f"alone tells at most {leakage_bits(rho[weakest], dimension):,.0f} bits of its update "
            f"of {dimension:,} numbers, and C d / n_eff with an unknown C."
        )
    return result


def describe_exposure(plan: SumPlan) -> list[str]:
    """Return what each round's sums give away together."""
    result = []
    for number, exposure in plan.exposures().items():
        line = (
            f"Round {number}: {exposure.sets} distinct sets, the smallest of {exposure.smallest} "
            f"clients; {exposure.differences} pairs differ by a group below the threshold"
        )
        if exposure.differences:
            line += f", the closest by {len(exposure.closest)}"
        if exposure.determined:
            line += (
                f". TOGETHER THEY GIVE AWAY single updates: those of {len(exposure.determined)} "
                f"clients follow by linear algebra, the first after "
                f"{exposure.queries_until_determined} sums"
            )
        else:
            line += ". No client's update follows exactly from them"
        result.append(f"{line}; {describe_hidden(exposure)}.")
    return [*result, *_over_rounds(plan)]


def _over_rounds(plan: SumPlan) -> Iterator[str]:
    """Yield what the sums of all rounds together tell, if clients repeat their updates."""
    if len(plan.designs) > 1:
        client, hidden = plan.hidden_over_rounds()
        yield (
            "Over the rounds nothing adds up where a client's updates of different rounds are "
            "unlike; if every client sent the same update in each, "
            f"{percent_up(1 - hidden)} of the variance of {client}'s could be told."
        )


def describe_collusion(plan: SumPlan, colluders: Sequence[str]) -> list[str]:
    """Return what each round's sums tell a server that knows the updates of `colluders`.

    Nothing without colluding clients. Raises UsageError for a name that is not a client of the
    federation.
    """
    clients = [client.id for client in plan.federation.manifest.clients]
    for name in colluders:
        if name not in clients:
            raise unknown_name_error("client", name, clients)
    exposures = plan.exposures(colluders=colluders) if colluders else {}
    return [
        _describe_with_colluders(plan, number, exposure, colluders)
        for number, exposure in exposures.items()
    ]


def _describe_with_colluders(
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


def _addition(plan: SumPlan, dimension: int) -> float:
    """Return the seconds that one sum over a set takes, measured on zeros."""
    import torch

    most = max(len(members) for design in plan.designs.values() for members in design.sets)
    rows = [torch.zeros(dimension) for _ in range(most)]
    began = time.perf_counter()
    for _ in range(3):
        torch.stack(rows).sum(0)
    return (time.perf_counter() - began) / 3


def _scoring(
    plan: SumPlan, marks: Sequence[Mark], worker_options: "WorkerOptions"
) -> tuple[float, int]:
    """Return the seconds and the number of answers of all tests, as timed on the bare base."""
    from fedaudit.attribution.owner.worker_pool import engine_for

    base = plan.federation.manifest.base
    engine = engine_for(base.name, base.sha256, worker_options)
    tested = detection.watermark_plugins(marks)
    questions = detection.detection_requests(engine, tested)
    models = sum(len(design.combinations) + 1 for design in plan.designs.values())
    sample = questions[:TIMED_QUESTIONS]
    began = time.perf_counter()
    detection.generate_answers(engine, [None], sample)
    answer_seconds = (time.perf_counter() - began) / max(1, len(sample))
    return answer_seconds * len(questions) * models, len(questions) * models


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
