"""A round under secure aggregation: the server keeps sums, and no client's update stays behind."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from statistics import fmean

from fedaudit.api.plugin import Update
from fedaudit.api.secure_aggregation import SecureAggregation
from fedaudit.federation import adapters, secure_sums
from fedaudit.metrics.attribution import shared_rule, shared_sets, subset_design
from fedaudit.metrics.attribution.shared_rule import SharedSetsRule
from fedaudit.simulation.config import Simulation

Members = tuple[str, ...]


def update_weights(examples: Mapping[str, float]) -> dict[str, float]:
    """Return what each client multiplies its update by: its examples over the clients' mean."""
    mean = fmean(examples.values())
    return {client: count / mean for client, count in examples.items()}


def weighted_mean(updates: Mapping[str, Update], examples: Mapping[str, float]) -> Update:
    """Return the mean of the participants' updates, weighted by their examples."""
    total = sum(examples[client] for client in updates)
    names = next(iter(updates.values()))
    return {
        name: sum(
            (updates[c][name].double() * (examples[c] / total) for c in sorted(updates)),
            start=names[name].double() * 0.0,
        )
        for name in names
    }


def requested_sets(
    participants: Mapping[str, object],
    config: Simulation,
    threshold: int,
    number: int,
    weighted: Mapping[str, float] | None = None,
) -> list[Members]:
    """Return the sets of a round's sums, each once and in an order that tells nothing.

    These are the sets of every participant's design, or those that all share, and the round's own
    set of all participants. `weighted` are the weights in that sum; None means equal weights.
    """
    everybody = tuple(sorted(participants))
    if config.queries.protocol == "shared":
        sets = set(_shared_sets(everybody, config, threshold, number, weighted))
    else:
        sets = set(_pairs(everybody, config, threshold, number))
    return sorted({*sets, everybody})


def _pairs(
    everybody: Members, config: Simulation, threshold: int, number: int
) -> Iterator[Members]:
    designs = (
        subset_design.draw(
            everybody,
            client,
            mask_size=config.queries.others,
            queries=config.queries.pairs,
            threshold=threshold,
            seed=config.seed,
            number=number,
            limit=config.queries.limit,
        )
        for client in everybody
    )
    for design in designs:
        yield from (*design.include, *design.exclude)


def _shared_sets(
    everybody: Members,
    config: Simulation,
    threshold: int,
    number: int,
    weighted: Mapping[str, float] | None,
) -> tuple[Members, ...]:
    weights = weighted or {}
    equal = config.queries.weights == "equal"
    total_known = not equal or shared_rule.has_equal_weights(
        weights.get(client, 1.0) for client in everybody
    )
    rule = SharedSetsRule(
        participants=len(everybody),
        queries=config.queries.sets
        or shared_rule.default_queries(len(everybody), total_known=total_known),
        threshold=threshold,
        limit=config.queries.limit,
        whole=total_known,
    )
    return shared_sets.draw(rule, everybody, seed=config.seed, number=number).sets


def store_sums(
    secure: SecureAggregation,
    updates: Mapping[str, Update],
    weighted: Mapping[str, float],
    config: Simulation,
    number: int,
    folder: Path,
) -> dict[str, Members]:
    """Ask for the round's sums, write them, and remove every client's adapter.

    The round's own sum is of updates times `weighted`, and so are the others unless the settings
    ask for equal weights. Returns the members of each sum by file name below the federation.
    """
    sets = requested_sets(updates, config, secure.threshold, number, weighted)
    shares = {
        client: {name: tensor * weighted[client] for name, tensor in update.items()}
        for client, update in updates.items()
    }
    sums_folder = folder / secure_sums.FOLDER
    equal = config.queries.weights == "equal"
    plain = [members for members in sets if equal and len(members) < len(updates)]
    scaled = [members for members in sets if members not in plain]
    answers = chain(
        zip(plain, secure.sums(updates, plain) if plain else (), strict=True),
        zip(scaled, secure.sums(shares, scaled), strict=True),
    )
    stored = f"rounds/{number:03d}/{secure_sums.FOLDER}"
    files = {
        f"{stored}/{secure_sums.write(total, members, number, sums_folder)}": members
        for members, total in answers
    }
    for client in updates:
        adapters.remove(folder / "clients" / client)
    return files
