"""The server's step of FedAttr: which sums to ask for, and the estimates that they give.

The server needs no watermark key and no single client's update, only the sums from secure
aggregation. It keeps the sets that it asked for in a log, which it does not pass on.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Update
from fedaudit.api.progress import Progress, no_progress
from fedaudit.attribution import copied_updates
from fedaudit.attribution import estimates as estimates_folder
from fedaudit.attribution.estimates import ClientEstimate, Estimates, RoundEstimates
from fedaudit.attribution.server import ledger, simulation_report, sums_log
from fedaudit.attribution.server.masks import masks
from fedaudit.attribution.server.stored_updates import plaintext_updates
from fedaudit.attribution.server.sum_plan import SumPlan
from fedaudit.federation import adapters, commitments, secure_sums
from fedaudit.federation.folder import Federation
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.subset_design import Combination, Members
from fedaudit.system.files import sha256
from fedaudit.system.names import check_name
from fedaudit.system.staging import remove_stale_stages

if TYPE_CHECKING:
    import torch

START = "global"
"""The folder of the adapter that a round began with, beside one for each client."""


def identity(federation: Federation) -> str:
    """Return the identity of a federation, which stays the same when rounds are added."""
    import hashlib

    manifest = federation.manifest
    # The first round's result is included: two runs of one configuration may have begun alike.
    weight_files = [federation.path / r.adapter / adapters.WEIGHTS for r in manifest.rounds[:2]]
    names = [client.id for client in manifest.clients]
    facts = [manifest.base.sha256, manifest.config_sha256, *map(sha256, weight_files), *names]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def remaining_plan(plan: SumPlan, out: Path) -> SumPlan:
    """Return the plan without the rounds whose estimates are already in `out`.

    Raises InputError if the folder holds anything but this federation's estimates.
    """
    existing = {r.round for r in _open_estimates(plan, out).rounds}
    designs = {n: design for n, design in plan.designs.items() if n not in existing}
    return replace(plan, designs=designs)


def estimate(
    plan: SumPlan,
    out: Path,
    log: Path,
    *,
    recorded: bool = True,
    progress: Progress = no_progress,
) -> tuple[Estimates, float]:
    """Ask for the sums, write the estimates into `out`, and return them with the seconds it took.

    Rounds that `out` has already are not asked for again; they must be this federation's. The log
    names every set that was ever asked for; a round is entered before its sums are asked for. The
    round is also entered in the federation's ledger, which refuses a second design of a round,
    unless `recorded` is false: estimates that are thrown away release nothing.
    """
    began = time.perf_counter()
    if log.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{log} would go to the owner with {out}; choose another --log.")
    plan, stored = remaining_plan(plan, out), _open_estimates(plan, out)
    estimates = _update_facts(plan, stored)
    remove_stale_stages(out, below=True)
    logs, remaining_rounds = sums_log.read(log, estimates.run), list(plan.designs)
    if recorded:
        ledger.check(plan, estimates.run, logs)
    for done, number in enumerate(remaining_rounds):
        logs = sums_log.add_entry(logs, _entry(plan, number))
        sums_log.write(logs, log, estimates.run)
        if recorded:  # after the log, because an interrupted run is resumed from the log
            logs = sums_log.add_entry(
                logs, {**_entry(plan, number), "ledger": _append_to_ledger(plan, number)}
            )
            sums_log.write(logs, log, estimates.run)
        estimates = _estimate_round(plan, number, estimates, out)
        progress(done + 1, len(remaining_rounds))
    if not remaining_rounds and estimates != stored:  # the federation has gained other rounds
        estimates_folder.write(estimates, out)
    if recorded and (out / estimates_folder.NAME).exists():
        _hand_over(plan, estimates, out, log, logs)
    return estimates, time.perf_counter() - began


def _hand_over(plan: SumPlan, estimates: Estimates, out: Path, log: Path, logs: list[Any]) -> None:
    """Note the SHA-256 of estimates.json in the ledger and in the log, for anyone who doubts it."""
    digest, folder = sha256(out / estimates_folder.NAME), plan.federation.path
    ledger.add_note(
        folder,
        ledger.HANDED_OVER,
        estimates.run,
        digest,
        [r.round for r in estimates.rounds],
        folder / commitments.NAME,
    )
    earlier = [d for d in sums_log.handed_over(log) if d != digest]
    sums_log.write(logs, log, estimates.run, [*earlier, digest])


def _open_estimates(plan: SumPlan, out: Path) -> Estimates:
    federation = plan.federation
    run = identity(federation)
    if (out / estimates_folder.NAME).exists():
        estimates = estimates_folder.read(out)
        if estimates.run != run:
            raise InputError(f"{out} holds estimates of another run; choose another --out.")
        if estimates.weights != plan.weighting:
            raise InputError(
                f"{out} holds estimates from sums of weights {estimates.weights!r}: give --weights "
                f"{estimates.weights}, or choose another --out."
            )
        if odd := {r.protocol for r in estimates.rounds} - {plan.protocol}:
            raise InputError(
                f"{out} holds estimates by protocol {min(odd)!r}: give --protocol {min(odd)}, or "
                "choose another --out."
            )
        return estimates
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty and holds no estimates; choose another --out.")
    manifest = federation.manifest
    return Estimates(
        run=run,
        base=manifest.base,
        aggregation=str(manifest.aggregation["name"]),
        clients=tuple(client.id for client in manifest.clients),
        weights=plan.weighting,
        shares={client: float(f"{share:.2g}") for client, share in plan.weights.items()}
        if plan.weighting == "size"
        else {},
        dimension=update_dimension(plan),
        federation_rounds=_round_count(federation),
        asked=ledger.first_request(federation, run),
        trained=simulation_report.start_time(federation),
        noted=_noted_commitments(federation, run),
    )


def _update_facts(plan: SumPlan, estimates: Estimates) -> Estimates:
    """Return the estimates with what only the server knows of the federation as it is now."""
    return replace(
        estimates,
        federation_rounds=_round_count(plan.federation),
        copies=copied_updates.find_copies(plan.federation),
    )


def _round_count(federation: Federation) -> int:
    """Return how many rounds were trained; the first entry is the start."""
    return len(federation.manifest.rounds) - 1


def _noted_commitments(federation: Federation, run: str) -> str:
    """Return the SHA-256 of the commitments at the first sum: noted before, or in the folder."""
    noted = ledger.commitments_at_first_sum(federation.path, run)
    if noted is not None or not ledger.is_writable(federation.path):
        return noted or ""
    public = federation.path / commitments.NAME
    return sha256(public) if public.is_file() else ""


def _estimate_round(plan: SumPlan, number: int, estimates: Estimates, out: Path) -> Estimates:
    """Return the estimates with one more round, whose adapters and record are written to `out`."""
    federation = plan.federation
    shares = plan.weights
    begin = federation.path / federation.manifest.rounds[number - 1].adapter
    start, config = adapters.read(begin), adapters.check(begin)
    folder = f"{number:03d}"
    combinations = plan.designs[number].combinations
    for client in (c.target for c in combinations):
        check_name(client, federation.path, "the client")
        if client.casefold() == START:
            raise InputError(f"{federation.path}: no client can be called {client!r} here.")
    updates = _updates(plan, number)
    estimates_folder.write(estimates, out)  # a run that ends within the first round goes on later
    adapters.write(start, config, out / folder / START)
    found = []
    for combination, update in zip(combinations, updates, strict=True):
        client_update = {
            name: tensor / shares[combination.target] for name, tensor in update.items()
        }
        moved = plan.aggregator.moved(start, client_update)
        adapters.write(
            moved, adapters.resized_config(config, start, moved), out / folder / combination.target
        )
        found.append(_record(combination, shares, f"{folder}/{combination.target}"))
    names = [f"{folder}/{START}", *(e.adapter for e in found)]
    files = {
        f"{name}/{file}": sha256(out / name / file)
        for name in names
        for file in (adapters.CONFIG, adapters.WEIGHTS)
    }
    record = RoundEstimates(
        round=number,
        start=names[0],
        estimates=tuple(found),
        **asdict(plan.designs[number].settings),
    )
    estimates = replace(
        estimates,
        rounds=tuple(sorted((*estimates.rounds, record), key=lambda r: r.round)),
        files={**estimates.files, **files},
    )
    estimates_folder.write(estimates, out)
    return estimates


def _record(combination: Combination, shares: Mapping[str, float], adapter: str) -> ClientEstimate:
    c = masks(combination, shares)
    # Two digits: with all of them, anyone who knows unequal weights could solve for the
    # coefficients.
    return ClientEstimate(
        client=combination.target,
        adapter=adapter,
        strength=round(subset_design.masking_strength(c), 2),
        effective=round(subset_design.effective_size(c), 2),
    )


def _updates(plan: SumPlan, number: int) -> "list[dict[str, torch.Tensor]]":
    """Return each estimate of a round as a combination of sums, added up as the sums come in."""
    all_coefficients = [c.coefficients for c in plan.designs[number].combinations]
    updates: list[dict[str, torch.Tensor]] = [{} for _ in all_coefficients]
    shapes = _shapes(plan)
    for members, total in _sums(plan, number):
        if {name: tensor.shape for name, tensor in total.items()} != shapes:
            raise InputError(
                f"{plan.federation.path}: the sum over {', '.join(members)} in round {number} "
                "has other tensors than an update of the federation's first adapter."
            )
        for coefficients, update in zip(all_coefficients, updates, strict=True):
            if factor := coefficients.get(members):
                for name, tensor in total.items():
                    update[name] = (
                        update[name] + factor * tensor if name in update else factor * tensor
                    )
    return updates


def _sums(plan: SumPlan, number: int) -> Iterator[tuple[Members, Update]]:
    """Yield a round's sums: those stored while the round ran, or new ones over its updates."""
    federation, record = plan.federation, plan.federation.manifest.rounds[number]
    sets = plan.designs[number].sets
    if record.sums:
        stored = secure_sums.StoredSums(federation.path, record)
        yield from ((members, stored(members)) for members in sets)
        return
    shares = plan.weights
    updates = {
        client: {name: tensor * shares[client] for name, tensor in update.items()}
        for client, update in plaintext_updates(plan.federation, plan.aggregator, record).items()
    }
    answers: Iterable[Update] = plan.secure.sums(updates, sets)
    yield from zip(sets, answers, strict=True)


def update_dimension(plan: SumPlan) -> int:
    """Return how many numbers an update has under the federation's aggregation rule."""
    return sum(shape.numel() for shape in _shapes(plan).values())


def _shapes(plan: SumPlan) -> "dict[str, torch.Size]":
    """Return the shapes of an update's tensors, by name."""
    federation = plan.federation
    initial = adapters.read(federation.path / federation.manifest.rounds[0].adapter)
    update = plan.aggregator.difference(initial, initial)
    return {name: tensor.shape for name, tensor in update.items()}


def _append_to_ledger(plan: SumPlan, number: int) -> str:
    """Append a round to the ledger, and return the hash of its entry."""
    shares = plan.weights
    rho = {
        combination.target: round(subset_design.masking_strength(masks(combination, shares)), 4)
        for combination in plan.designs[number].combinations
    }
    run = identity(plan.federation)
    return ledger.append_entry(plan, number, run, rho, update_dimension(plan)).hash


def _entry(plan: SumPlan, number: int) -> dict[str, Any]:
    """Return a round's entry for the log: its sets, and what they give away together."""
    design = plan.designs[number]
    return {
        "round": number,
        "secure_aggregation": plan.secure.name,
        **asdict(design.settings),
        "threshold": plan.secure.threshold,
        "weights": plan.weighting,
        "seed": plan.seed,
        "queries": design.sum_count,
        "designs": design.table(),
        "exposure": asdict(plan.exposures((number,))[number]),
    }
