"""A study's lock: what each claim and its variants were before a seed was run.

A bound, a budget or a setting that was changed after a seed had been looked at is not judged on it.
The lock knows what the profile and the user say, not what the code does with it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, fields, replace
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.records import Claim
from fedaudit.config.options import merge_tables
from fedaudit.config.profile import Profile, Select, Statement, Variant
from fedaudit.system.files import atomic_text, json_sha256, read_json

MACHINE = frozenset({"seed", "device", "dtype", "workers"})
"""Settings that say on which federation or where, and not what is measured."""
WORDS = frozenset({"id", "source", "statement"})
"""What a claim is called: a corrected word changes nothing that is judged."""
PLACE = frozenset({"name", "pool", "quick", "simulate", "scale", "only"})
"""What a variant is called and where it runs; its settings are counted as they come out."""

Lock = Mapping[int, Mapping[str, str]]
"""By seed, a digest of each claim."""


def claim_digests(profile: Profile, scale: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return, by id, a digest of each claim: its comparison, and all that its variants are set to.

    Neither words nor seeds matter, nor how many federations of the same settings a pool has, nor
    defaults: settings that come to fedaudit later leave a digest as it is.
    """
    return {
        claim.id: json_sha256([
            _given(claim, WORDS),
            [_sides(profile, scale, settings, side) for side in (claim.left, claim.right)],
        ])[:16]
        for claim in profile.claims
    }  # fmt: skip


def _sides(
    profile: Profile, scale: str, settings: Mapping[str, Any], side: Select | float
) -> list[str]:
    """Return digests of the different variants that one side of a claim counts."""
    if not isinstance(side, Select):
        return []
    variants = [
        variant
        for variant in profile.study
        if side.variant in (variant.name, variant.pool) and profile.runs_at(variant, scale)
    ]
    return sorted({_variant_digest(profile, scale, settings, variant) for variant in variants})


def _variant_digest(
    profile: Profile, scale: str, settings: Mapping[str, Any], variant: Variant
) -> str:
    own = merge_tables(profile.settings(scale), profile.variant_settings(variant, scale))
    table = merge_tables(own, settings)
    kept = {key: value for key, value in table.items() if key not in MACHINE}
    return json_sha256([_given(profile.variant_at(variant, scale), PLACE), kept])[:16]


def _given(item: Statement | Variant, left_out: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a claim or variant that are not as they would be without being set."""
    table = asdict(item)
    return {
        field.name: table[field.name]
        for field in fields(item)
        if field.name not in left_out and getattr(item, field.name) != _default(field)
    }


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


def lock_path(folder: Path, scale: str) -> Path:
    """Return where the lock of a study at `scale` is, in the folder of its report."""
    return folder / f"lock-{scale}.json"


def lock(path: Path, digests: Mapping[str, str], seeds: Sequence[int]) -> Lock:
    """Write the digests for seeds that the file does not have yet, and return all that it has.

    A seed keeps what it was locked with. Raises InputError for a file that is not a lock.
    """
    locked = {**{seed: dict(digests) for seed in seeds}, **read(path)}
    text = json.dumps({str(seed): locked[seed] for seed in sorted(locked)}, indent=1)
    atomic_text(path, text + "\n")
    return locked


def read(path: Path) -> dict[int, dict[str, str]]:
    """Return a file's lock, an empty one without a file; raises InputError for another file."""
    if not path.exists():
        return {}
    table = read_json(path, "lock of a study")
    try:
        return {int(seed): dict(claims) for seed, claims in table.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{path} is not a study's lock.") from None


def unjudged(
    claims: Sequence[Claim], locked: Lock, digests: Mapping[str, str], seeds: Sequence[int]
) -> list[Claim]:
    """Return the claims; one that is not as it was locked for each of the `seeds` is open."""
    result = []
    for claim in claims:
        changed = [seed for seed in seeds if locked[seed].get(claim.id) != digests[claim.id]]
        if changed and claim.holds is not None:
            names = ", ".join(map(str, changed))
            words = f"changed after it had been locked for seed {names}: other seeds can judge it"
            claim = replace(claim, holds=None, detail=f"{claim.detail}; {words}")  # noqa: PLW2901
        result.append(claim)
    return result
