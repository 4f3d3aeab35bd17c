"""The server's step of FedAttr: which sums to ask for, and the estimates that they give.

It needs no watermark's key and no single client's update, only secure aggregation's sums. What it
asked for stays with it, in a log.
"""

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.plugin import Aggregator, Update
from fedaudit.api.progress import Progress, no_progress
from fedaudit.attribution import estimates as folder_of
from fedaudit.attribution.estimates import ClientEstimate, Estimates, RoundEstimates
from fedaudit.attribution.server import ledger
from fedaudit.attribution.server import sums_log as log_of
from fedaudit.attribution.server.masks import masks
from fedaudit.attribution.server.query_plan import SumPlan
from fedaudit.federation import adapters, secure_sums
from fedaudit.federation.folder import Federation
from fedaudit.federation.manifest import Round
from fedaudit.metrics.attribution import subset_design
from fedaudit.metrics.attribution.combinations import Combination, Members
from fedaudit.system.files import sha256
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    import torch

START = "global"
"""The folder of the adapter that a round began with, beside one for each client."""


def identity(federation: Federation) -> str:
    """Return what tells a federation from others, whatever round it is in."""
    import hashlib

    found = federation.manifest
    # The first round's result, too: two runs of one configuration may have begun alike.
    begun = [federation.path / one.adapter / adapters.WEIGHTS for one in found.rounds[:2]]
    names = [client.id for client in found.clients]
    parts = [found.base.sha256, found.config_sha256, *map(sha256, begun), *names]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def remaining_plan(planned: SumPlan, out: Path) -> SumPlan:
    """Return the plan without the rounds that `out` has already, which are not asked for again.

    Raises InputError for a folder of anything else than this federation's estimates.
    """
    known = {one.round for one in _begun(planned, out).rounds}
    left = {number: own for number, own in planned.designs.items() if number not in known}
    return replace(planned, designs=left)


def estimate(
    planned: SumPlan,
    out: Path,
    log: Path,
    *,
    recorded: bool = True,
    progress: Progress = no_progress,
) -> tuple[Estimates, float]:
    """Ask for the sums, write the estimates into `out`, and return them with the seconds it took.

    Rounds that `out` has already are not asked for again; its rounds must be this federation's.
    The log names every set that was ever asked for; a round enters it before it is asked for. So it
    does the federation's ledger, which refuses a second design of a round, unless nothing is to be
    `recorded`: where estimates are thrown away, they release nothing.
    """
    began = time.perf_counter()
    if log.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{log} would go to the owner with {out}; choose another --log.")
    planned, found = remaining_plan(planned, out), _begun(planned, out)
    logs, todo = log_of.read(log, found.run), list(planned.designs)
    if recorded:
        ledger.check(planned, found.run, logs)
    for done, number in enumerate(todo):
        logs = log_of.add_entry(logs, _entry(planned, number))
        log_of.write(logs, log, found.run)
        if recorded:  # after the log, which has what it takes to go on where this is interrupted
            logs = log_of.add_entry(
                logs, {**_entry(planned, number), "ledger": _entered(planned, number)}
            )
            log_of.write(logs, log, found.run)
        one, files, dimension = _estimated(planned, number, out)
        found = replace(
            found,
            rounds=tuple(sorted((*found.rounds, one), key=lambda each: each.round)),
            files={**found.files, **files},
            dimension=dimension,
        )
        folder_of.write(found, out)
        progress(done + 1, len(todo))
    return found, time.perf_counter() - began


def _begun(planned: SumPlan, out: Path) -> Estimates:
    federation = planned.federation
    run = identity(federation)
    if (out / folder_of.NAME).exists():
        found = folder_of.read(out)
        if found.run != run:
            raise InputError(f"{out} holds estimates of another run; choose another --out.")
        if found.weights != planned.weighting:
            raise InputError(
                f"{out} holds estimates from sums of weights {found.weights!r}: give --weights "
                f"{found.weights}, or choose another --out."
            )
        if odd := {one.protocol for one in found.rounds} - {planned.protocol}:
            raise InputError(
                f"{out} holds estimates by protocol {min(odd)!r}: give --protocol {min(odd)}, or "
                "choose another --out."
            )
        return found
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is not empty and holds no estimates; choose another --out.")
    manifest = federation.manifest
    return Estimates(
        run=run,
        base=manifest.base,
        aggregation=str(manifest.aggregation["name"]),
        clients=tuple(client.id for client in manifest.clients),
        weights=planned.weighting,
        shares={who: float(f"{share:.2g}") for who, share in planned.weights.items()}
        if planned.weighting == "size"
        else {},
        dimension=0,
        asked=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _estimated(
    planned: SumPlan, number: int, out: Path
) -> tuple[RoundEstimates, dict[str, str], int]:
    """Write one round's adapters; return its record, the hashes and the numbers in an update."""
    federation = planned.federation
    shares = planned.weights
    begin = federation.path / federation.manifest.rounds[number - 1].adapter
    start, config = adapters.read(begin), adapters.check(begin)
    place = f"{number:03d}"
    combinations = planned.designs[number].combinations
    for one in combinations:
        check_name(one.target, federation.path, "the client")
        if one.target.casefold() == START:
            raise InputError(f"{federation.path}: no client can be called {one.target!r} here.")
    shutil.rmtree(out / place, ignore_errors=True)
    adapters.write(start, config, out / place / START)
    own, dimension = [], 0
    for one, update in zip(combinations, _updates(planned, number), strict=True):
        mine = {name: tensor / shares[one.target] for name, tensor in update.items()}
        dimension = sum(tensor.numel() for tensor in mine.values())
        moved = planned.aggregator.moved(start, mine)
        adapters.write(moved, adapters.resized_config(config, moved), out / place / one.target)
        own.append(_record(one, shares, f"{place}/{one.target}"))
    names = [f"{place}/{START}", *(one.adapter for one in own)]
    files = {
        f"{name}/{file}": sha256(out / name / file)
        for name in names
        for file in (adapters.CONFIG, adapters.WEIGHTS)
    }
    record = RoundEstimates(
        round=number,
        start=names[0],
        estimates=tuple(own),
        **asdict(planned.designs[number].settings),
    )
    return record, files, dimension


def _record(one: Combination, shares: Mapping[str, float], adapter: str) -> ClientEstimate:
    c = masks(one, shares)
    # Two digits: with all of them, whoever knows unequal weights could solve for the coefficients.
    return ClientEstimate(
        client=one.target,
        adapter=adapter,
        strength=round(subset_design.masking_strength(c), 2),
        effective=round(subset_design.effective_size(c), 2),
    )


def _updates(planned: SumPlan, number: int) -> "list[dict[str, torch.Tensor]]":
    """Return the combination of sums that each estimate of a round is, as the sums come in."""
    wanted = [one.coefficients for one in planned.designs[number].combinations]
    found: list[dict[str, torch.Tensor]] = [{} for _ in wanted]
    shapes = _shapes(planned)
    for members, total in _sums(planned, number):
        if {name: tensor.shape for name, tensor in total.items()} != shapes:
            raise InputError(
                f"{planned.federation.path}: the sum over {', '.join(members)} in round {number} "
                "has other tensors than an update of the federation's first adapter."
            )
        for coefficients, update in zip(wanted, found, strict=True):
            if by := coefficients.get(members):
                for name, tensor in total.items():
                    update[name] = update[name] + by * tensor if name in update else by * tensor
    return found


def _sums(planned: SumPlan, number: int) -> Iterator[tuple[Members, Update]]:
    """Yield a round's sums: those that were stored while it ran, or new ones of its updates."""
    federation, one = planned.federation, planned.federation.manifest.rounds[number]
    asked = planned.designs[number].sets
    if one.sums:
        stored = secure_sums.StoredSums(federation.path, one)
        yield from ((members, stored(members)) for members in asked)
        return
    shares = planned.weights
    updates = {
        who: {name: tensor * shares[who] for name, tensor in update.items()}
        for who, update in plaintext_updates(planned.federation, planned.aggregator, one).items()
    }
    answers: Iterable[Update] = planned.secure.sums(updates, asked)
    yield from zip(asked, answers, strict=True)


def plaintext_updates(
    federation: Federation, aggregator: Aggregator, one: Round
) -> "dict[str, Update]":
    """Return every participant's update; raises InputError where the folder has none."""
    start = adapters.read(federation.path / start_adapter(federation, aggregator, one))
    if missing := [who for who in one.participants if who not in one.clients]:
        raise InputError(
            f"{federation.path} has neither the update of {missing[0]} in round {one.round} nor "
            "sums: there is nothing to estimate from."
        )
    trained = {who: adapters.read(federation.path / one.clients[who]) for who in one.participants}
    shapes = {who: {name: t.shape for name, t in own.items()} for who, own in trained.items()}
    if odd := [who for who, own in shapes.items() if own != shapes[one.participants[0]]]:
        raise InputError(
            f"{federation.path}: the adapter of {odd[0]} in round {one.round} has not the shapes "
            f"of that of {one.participants[0]}: their updates cannot be added."
        )
    return {who: aggregator.difference(start, own) for who, own in trained.items()}


def update_dimension(planned: SumPlan) -> int:
    """Return how many numbers an update of the federation's rule has."""
    return sum(shape.numel() for shape in _shapes(planned).values())


def _shapes(planned: SumPlan) -> "dict[str, torch.Size]":
    """Return the shapes of an update's tensors, by name."""
    federation = planned.federation
    initial = adapters.read(federation.path / federation.manifest.rounds[0].adapter)
    update = planned.aggregator.difference(initial, initial)
    return {name: tensor.shape for name, tensor in update.items()}


def start_adapter(federation: Federation, aggregator: Aggregator, one: Round) -> str:
    """Return the adapter that clients trained on from in a round."""
    return federation.manifest.rounds[0 if aggregator.merges_each_round else one.round - 1].adapter


def _entered(planned: SumPlan, number: int) -> str:
    """Return the hash of a round's entry in the ledger."""
    shares = planned.weights
    rho = {
        one.target: round(subset_design.masking_strength(masks(one, shares)), 4)
        for one in planned.designs[number].combinations
    }
    run = identity(planned.federation)
    return ledger.append_entry(planned, number, run, rho, update_dimension(planned)).hash


def _entry(planned: SumPlan, number: int) -> dict[str, Any]:
    """Return which sets of a round are asked for, and what they amount to."""
    design = planned.designs[number]
    return {
        "round": number,
        "secure_aggregation": planned.secure.name,
        **asdict(design.settings),
        "threshold": planned.secure.threshold,
        "weights": planned.weighting,
        "seed": planned.seed,
        "queries": design.asked,
        "designs": design.table(),
        "exposure": asdict(planned.exposures((number,))[number]),
    }
