"""The plan of an audit in words, for a terminal."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fedaudit.api.cost import Cost
from fedaudit.system.numbers import rough_duration

if TYPE_CHECKING:
    from fedaudit.audit.cost import Speed
    from fedaudit.audit.material import Material
    from fedaudit.audit.plan import Plan
    from fedaudit.audit.request import AuditRequest
    from fedaudit.audit.target import AuditTarget


def plan_lines(
    material: "Material",
    plan: "Plan",
    costs: "Mapping[str, Cost]",
    speed: "Speed | None",
    request: "AuditRequest",
) -> Iterator[str]:
    """Yield what is at hand, every step with its cost, what is left out, what nothing can show."""
    from fedaudit.audit.plan import CANNOT, SHOWS, kind_of_step

    yield "At hand"
    yield from (f"  {name}: {value}" for name, value in _at_hand(material, plan))
    yield ""
    yield "Steps"
    total = 0.0
    for name in plan.steps:
        cost = costs[name]
        took = ""
        if speed is not None:
            seconds = speed.seconds(cost, 2 if material.audited.adapter else 1)
            total += seconds
            took = f"; about {rough_duration(seconds)} at most" if cost.is_counted else ""
        yield f"  {name} ({_attacks(plan, name)}): {cost.describe()}{took}"
        if name == kind_of_step(name):
            yield f"    shows {SHOWS[name]}"
    if plan.attribution:
        yield "  attribution (fed_attr): fedaudit attribute --dry-run says what it costs"
        yield f"    shows {SHOWS['attribution']}"
    if speed is not None:
        unknown = ", ".join(name for cost in costs.values() for name in cost.unknown)
        apart = f" without {unknown}" if unknown else ""
        in_all = f"about {rough_duration(total)} at most{apart}"
        yield f"  in all: {in_all}, not counting reading and loading"
    space = space_lines(sum(costs.values(), Cost()), material.audited, request)
    yield from (f"  {line}" for line in space)
    yield ""
    if plan.left_out:
        yield "Left out"
        yield from (f"  {name}: {why.rstrip('.')}" for name, why in plan.left_out.items())
        yield ""
    yield "What this cannot show"
    yield from (f"  {line}" for line in CANNOT)


def space_lines(cost: "Cost", audited: "AuditTarget", request: "AuditRequest") -> Iterator[str]:
    """Yield the memory of a model that runs here, and the disk space of the answers."""
    from fedaudit.engine.device import device_for, dtype_for
    from fedaudit.engine.loading.base_size import PROCESS_BYTES, base_size
    from fedaudit.report.units import size

    if not audited.served and (base := base_size(audited.base)):
        weights = base.parameters * dtype_for(request.dtype, device_for(request.device)).itemsize
        yield f"Memory: about {size(PROCESS_BYTES + weights)}, and what a batch takes"
    if answers := cost.answer_bytes * (2 if audited.untuned else 1):
        yield f"Disk: about {size(answers)} of answers until the report is written"


def _attacks(plan: "Plan", name: str) -> str:
    defaults = {"canaries": ("canary",), "memorization": ("memorize",)}
    return ", ".join(plan.requests[name].attacks or defaults.get(name, (name,)))


def _at_hand(material: "Material", plan: "Plan") -> Iterator[tuple[str, str]]:
    from fedaudit.federation.folder import name_rounds

    audited = material.audited
    yield "model", f"{audited.base}, adapter {audited.adapter or 'none'}"
    if audited.federation:
        rounds = name_rounds([r.round for r in audited.federation.manifest.rounds])
        yield "federation", f"{audited.federation.path}, {rounds}"
    if material.clients:
        yield "clients with documents", ", ".join(client.name for client in material.clients)
    yield "attacker", material.client_name(material.prefixes)
    victims = dict.fromkeys(plan.victims.values()) or [material.client_name(material.victim)]
    yield "victims" if len(victims) > 1 else "victim", ", ".join(victims)
    yield "held-out records", material.held_out.name if material.held_out else "none"
    yield "canaries", material.canaries.name if material.canaries else "none"
    yield "marks", material.marks.name if material.marks else "none"
