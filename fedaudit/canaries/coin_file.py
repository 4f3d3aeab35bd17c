"""The file of canaries that coins put into training or leave out, and the commitment to it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedaudit.api.errors import InputError, UsageError
from fedaudit.config.options import build
from fedaudit.federation.commitments import canonical, parse_time
from fedaudit.system.files import Read, atomic_text, check_version, read_json, read_regular
from fedaudit.system.names import check_name

SCHEMA_VERSION = "1.0"
SCHEME = "fedaudit coins 1"
"""What is hashed with the file, so that no other text is ever taken for it."""
SCORERS = {
    "loss": "log-probability of the suffix, less the base's or the round before's",
    "gradient": "the canary's own gradient in the client's updates, by ridge regression on those "
    "of all canaries and of the client's records",
}
"""What canaries are scored by; the second is for the position that sees updates."""
LARGEST_DELTA = 1e-5
"""With a larger delta canaries prove little however many there are: docs/dp-audit.md."""
MIN_COINS, MAX_COINS = 20, 20_000

_SALT = re.compile(r"[0-9a-f]{64}")

Position = Literal["outsider", "client", "server"]
Estimator = Literal["f_dp", "one_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinCanary:
    """A document of its own, and whether its coin put it into training."""

    prefix: str
    suffix: str
    included: bool

    @property
    def text(self) -> str:
        """The whole document."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinSet:
    """Canaries with their coins, and all that an audit could choose afterwards."""

    schema_version: str = SCHEMA_VERSION
    made: str
    salt: str
    client: str
    """Whose records the canaries are planted in."""
    delta: float = LARGEST_DELTA
    level: float = 0.05
    """The probability, at most, of refuting a claim that is true."""
    positions: tuple[Position, ...] = ("client",)
    """From where the trained model is seen; each costs its part of the level."""
    estimator: Estimator = "f_dp"
    """By which test the claim is judged."""
    shares: tuple[float, ...] = (0.75, 0.5)
    """Of the canaries, that are guessed; each costs its part of the level."""
    scorer: str = SCORERS["loss"]
    canaries: tuple[CoinCanary, ...]

    def __post_init__(self) -> None:
        if not 0 < self.delta <= LARGEST_DELTA:
            raise ValueError(f"delta must be above 0 and at most {LARGEST_DELTA:g}")
        if not 0 < self.level <= 0.2:
            raise ValueError("level must be above 0 and at most 0.2")
        if not self.positions or len(set(self.positions)) < len(self.positions):
            raise ValueError("positions are one or more, none of them twice")
        if self.uses_gradients and self.positions != ("server",):
            raise ValueError("only the position server sees updates, which gradients need")
        if not self.shares or not all(0 < share <= 1 for share in self.shares):
            raise ValueError("shares are one or more numbers above 0, at most 1")

    @property
    def uses_gradients(self) -> bool:
        """Whether canaries are scored by their gradients."""
        return self.scorer == SCORERS["gradient"]

    @property
    def coins(self) -> list[bool]:
        """Of each canary, whether it was put into training."""
        return [canary.included for canary in self.canaries]


def commitment(coins: CoinSet) -> str:
    """Return the SHA-256 that commits to everything in the file, its salt included."""
    return hashlib.sha256(canonical({"scheme": SCHEME, **asdict(coins)})).hexdigest()


def write(coins: CoinSet, path: Path) -> None:
    """Write canaries and coins into a file that only its owner can read."""
    text = json.dumps(asdict(coins), indent=2, ensure_ascii=False)
    atomic_text(path, text + "\n", mode=0o600)


def read(path: Path, read_file: Read = read_regular) -> CoinSet:
    """Return what is in `path`; raises InputError, without any text of it, for another file."""
    table = read_json(path, f"There is no file of coins {path}.", read_file)
    check_version(table, path, SCHEMA_VERSION)
    items = table.get("canaries") if isinstance(table, Mapping) else None
    if not isinstance(items, list) or not all(map(_is_canary, items)):
        raise InputError(
            f"{path} holds no canaries with coins; `fedaudit dp make` writes such a file."
        )
    try:
        coins = build(CoinSet, {**table, "canaries": ()}, path.name)
    except UsageError as error:
        raise InputError(f"{path}: {error}") from None
    canaries = tuple(CoinCanary(**item) for item in items)
    coins = replace(coins, canaries=canaries)
    _check(coins, path)
    return coins


def _is_canary(item: Any) -> bool:
    return (
        isinstance(item, Mapping)
        and set(item) == {"prefix", "suffix", "included"}
        and isinstance(item["prefix"], str)
        and isinstance(item["suffix"], str)
        and isinstance(item["included"], bool)
    )


def _check(coins: CoinSet, path: Path) -> None:
    if not _SALT.fullmatch(coins.salt):
        raise InputError(f"{path}: its salt is not 64 hexadecimal digits.")
    if parse_time(coins.made) is None:
        raise InputError(f"{path}: {coins.made!r} is not a time with a time zone.")
    if coins.scorer not in SCORERS.values():
        raise InputError(f"{path}: its scorer is one that this version does not have.")
    check_name(coins.client, path, "the client")
    if not MIN_COINS <= len(coins.canaries) <= MAX_COINS:
        raise InputError(f"{path} needs {MIN_COINS} to {MAX_COINS:,} canaries.")
    if len({canary.text for canary in coins.canaries}) < len(coins.canaries):
        raise InputError(f"{path} holds one canary twice.")
    if not all(canary.prefix.strip() and canary.suffix.strip() for canary in coins.canaries):
        raise InputError(f"{path}: a canary needs a prefix and a suffix.")
    if len(set(coins.coins)) < 2:
        raise InputError(f"{path}: all of its coins fell alike.")
