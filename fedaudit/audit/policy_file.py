"""Policies: built in, or a TOML file."""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from fedaudit.api.errors import InputError, unknown_name_error
from fedaudit.api.policy import Policy
from fedaudit.pii import lookalikes
from fedaudit.pii.taxonomy import category, taxonomy
from fedaudit.report.verdict.criteria import policy_of, same_limits
from fedaudit.system.documents import parse_toml
from fedaudit.system.files import read_regular

BUILT_IN = ("default", "strict", "research")
LIMIT = 2**20
"""Bytes of the largest file of a policy."""


def read_policy(name: str) -> Policy:
    """Return the policy of this name, or that of a TOML file.

    Raises UsageError for a name that is neither, InputError for a file that is not a policy and for
    a limit on a kind of data that the taxonomy lacks: a typing error would go unnoticed.
    """
    path = Path(name)
    if name in BUILT_IN:
        text = files("fedaudit.audit").joinpath(f"policies/{name}.toml").read_bytes()
    elif path.is_file():
        text = read_regular(path, LIMIT)
    elif path.suffix == ".toml" or "/" in name:
        raise InputError(f"There is no policy {name}.")
    else:
        raise unknown_name_error("policy", name, BUILT_IN)
    return _parse_policy(text, name)


def _parse_policy(text: bytes, name: str) -> Policy:
    policy = policy_of({"name": Path(name).stem, **parse_toml(text, name)}, name)
    built_in = built_in_policy(policy) if name not in BUILT_IN else None
    if built_in and not same_limits(policy, built_in):
        raise InputError(
            f"{name}: its name is {policy.name!r}, and its limits are not those of fedaudit's "
            f"policy {built_in.name}: give it another name."
        )
    _check_kinds(policy.kinds, name)
    return policy


def built_in_policy(policy: Policy) -> Policy | None:
    """Return the built-in policy that has the same name, however it is spelt; None without one.

    Names are the same that look the same: in any case, with invisible characters or look-alikes.
    """
    readings = {*lookalikes.folded_readings(policy.name)}
    known = next((name for name in BUILT_IN if readings & lookalikes.forms(name)), None)
    return read_policy(known) if known else None


def _check_kinds(kinds: Iterable[str], name: str) -> None:
    """Raise InputError for a limit of no kind of data, and for two of the same kind."""
    majors = {c.major for c in taxonomy().categories}
    first: dict[str, str] = {}
    for kind in kinds:
        if kind in majors:
            continue
        same = category(kind)
        if same is None:
            raise InputError(
                f"{name}: {kind!r} is not a kind of data: name a label such as PERSON or ID_CARD, "
                f"or a"
                f" category: {', '.join(sorted(majors))}."
            )
        other = first.setdefault(same.name, kind)
        if other != kind:
            raise InputError(f"{name}: {other} and {kind} are the same kind of data: limit one.")
