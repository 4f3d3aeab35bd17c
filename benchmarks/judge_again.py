"""Stored studies, judged by today's claims: `study_tables.py --judge-again`.

No study is run. A stored claim has its values by seed; from them come the paired differences, and
the intervals of values that are compared with a number. Clients that are flagged are counted:
FedAttr's from docs/studies/attribution, of the same federations and more seeds, other methods' from
their shares of as many clients. What has no interval in this way is open.
"""

import json
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from attribution_study_tables import ABLATION_SEED, KEPT, SEEDS

from fedaudit.api.records import Measurement
from fedaudit.config import profile
from fedaudit.config.profile import Profile, Select, Statement, Variant
from fedaudit.metrics.intervals import wilson
from fedaudit.metrics.replication import mean_margins
from fedaudit.reproduction import study_lock
from fedaudit.reproduction.claims import NO_VARIATION, check_claims

UNMEASURED = {"holds": None, "detail": "not measured in this run"}
LEFT, RIGHT = "left", "right"
"""The two sides of a claim, as variants."""
DECIDED = ("fed_attr", "paper_rule")
"""The rules whose decisions are kept by federation."""
ROUNDED = 5e-4
"""Stored values have four digits: differences that are nearer to each other may be equal."""
COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
ALONE = "alone it holds with"
BY_SEED = re.compile(r"\((\d[\d, ]*): ([^()]*)\)$")
NUMBERS = re.compile(r"(\S+) (?:>=|<=|>|<) (\S+)$")


def judge_again(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored study with the claims that its profile has today."""
    if not kept.get("claims"):
        return dict(kept)
    config = kept["run"]["config"]
    chosen = profile.load(config["profile"])
    seeds = config.get("seeds") or [config.get("seed", ABLATION_SEED)]
    stored = {claim["id"]: claim for claim in kept["claims"]}
    result = {
        **kept,
        "claims": [
            {"id": one.id, "source": one.source, "statement": one.statement}
            | _judged(chosen, one, stored.get(one.id, UNMEASURED), seeds)
            for one in chosen.claims
        ],
    }
    for beside in ("again", "more"):
        if beside in kept:
            claims = kept[beside]["claims"]
            result[beside] = {
                **kept[beside],
                "claims": {
                    one.id: _judged(chosen, one, claims[one.id], kept[beside]["seeds"])
                    for one in chosen.claims
                    if one.id in claims
                },
            }
    if chosen.name == "fed_attr" and len(seeds) > 1:
        judged = {one.id: _counted(one, {}, SEEDS) for one in chosen.claims}
        result["more"] = {
            "seeds": list(SEEDS),
            "claims": {name: claim for name, claim in judged.items() if claim},
        }
        result["fresh"] = _fresh(chosen)
    return result


def _fresh(chosen: Profile) -> dict[str, Any]:
    """Return what FedAttr's claims come to on seeds that were locked first, as they are today."""
    locked = study_lock.read(study_lock.lock_path(KEPT, "nano"))
    today = study_lock.claim_digests(chosen, "nano", {})
    judged = {}
    for claim in chosen.claims:
        seeds = [seed for seed in locked if locked[seed].get(claim.id) == today[claim.id]]
        if outcome := _counted(claim, {}, seeds):
            judged[claim.id] = outcome
    run = [seed for seed in locked if list(KEPT.glob(f"*-{seed}.json"))]
    return {"seeds": run, "lock": {name: today[name] for name in judged}, "claims": judged}


def _judged(
    chosen: Profile, claim: Statement, stored: Mapping[str, Any], seeds: Sequence[int]
) -> dict[str, Any]:
    values = _values(stored["detail"], seeds)
    if chosen.name == "fed_attr" and (counted := _counted(claim, values, seeds)):
        return counted
    same = {"holds": stored["holds"], "detail": stored["detail"]}
    if not values or (isinstance(claim.right, Select) and not claim.paired):
        return same
    if claim.paired:
        held = sum(COMPARE[claim.compare](left, right) for left, right in values.values())
        _, start, by_seed = stored["detail"].partition(ALONE)
        alone = f"{start} {held}{by_seed[2:]}" if start else ""
        differences = [left - right for left, right in values.values()]
        if len(values) > 1 and max(differences) - min(differences) < ROUNDED:
            numbers = stored["detail"].split(";", maxsplit=1)[0]
            return {"holds": None, "detail": f"{numbers}; {NO_VARIATION}; {alone}"}
        pairs = [
            {
                LEFT: [_row(claim.left, left)],
                RIGHT: [_row(claim.right, (right - claim.margin) / claim.factor)],
            }
            for left, right in values.values()
            if isinstance(claim.right, Select)
        ]
        return _check(claim, pairs, alone)
    numbers = [left for left, _ in values.values()]
    margins = mean_margins(
        numbers, [None] * len(numbers), [None] * len(numbers), same_records=False
    )
    mean = fmean(numbers)
    row = _row(claim.left, mean)
    if margins and margins[0]:  # equal values of counts have no interval in their scatter
        row = _row(claim.left, mean, mean - margins[0], mean + margins[0])
    return _check(claim, [{LEFT: [row]}], stored["detail"])


def _check(
    claim: Statement,
    by_seed: Sequence[Mapping[str, Sequence[Measurement]]],
    stored: str = "",
) -> dict[str, Any]:
    """Return a claim's outcome by the rule of `reproduce`, its sides as two variants."""
    right = claim.right
    if isinstance(right, Select):
        right = replace(right, variant=RIGHT)
    apart = replace(claim, left=replace(claim.left, variant=LEFT), right=right)
    means: dict[str, Sequence[Measurement]] = {}
    for name in by_seed[0]:
        rows = [one[name][0] for one in by_seed]
        mean = fmean(row.value for row in rows if row.value is not None)
        means[name] = [replace(rows[0], value=mean)] if len(rows) > 1 else rows
    sides = (Variant(name=LEFT), Variant(name=RIGHT))
    study = Profile(name=claim.id, scale={}, study=sides, claims=(apart,))
    [outcome] = check_claims(study, means, by_seed)
    start = stored.find(ALONE)
    detail = outcome.detail if start < 0 else f"{outcome.detail}; {stored[start:]}"
    return {"holds": outcome.holds, "detail": detail}


def _row(
    side: Select, value: float, low: float | None = None, high: float | None = None
) -> Measurement:
    return Measurement(
        kind="study", plugin=side.plugin or "study", metric=side.metric, value=value,
        low=low, high=high, scope=dict(side.scope),
    )  # fmt: skip


def _values(detail: str, seeds: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return both sides of a stored claim by seed, none where it was not measured."""
    by_seed = BY_SEED.search(detail)
    parts = by_seed[2].split("; ") if by_seed else [detail.split(";", maxsplit=1)[0]]
    found = [NUMBERS.match(part) for part in parts]
    if len(found) != len(seeds) or not all(found):
        return {}
    return {
        seed: (float(one[1]), float(one[2])) for seed, one in zip(seeds, found, strict=True) if one
    }


def _counted(
    claim: Statement,
    values: Mapping[int, tuple[float, float]],
    seeds: Sequence[int],
) -> dict[str, Any] | None:
    """Return the outcome of a claim about flagged clients, or about their mean Z; else None."""
    rows = {}
    parts = []
    for mark, side in ((LEFT, claim.left), (RIGHT, claim.right)):
        if not isinstance(side, Select):
            continue
        own = {seed: pair[mark == RIGHT] for seed, pair in values.items()}
        found = _side(side, own, seeds)
        if found is None:
            return None
        rows[mark], part = [found[0]], found[1]
        parts.append(part)
    outcome = _check(claim, [rows])
    return {**outcome, "detail": f"{outcome['detail']}; {', '.join(parts)}"}


def _side(
    side: Select, values: Mapping[int, float], seeds: Sequence[int]
) -> tuple[Measurement, str] | None:
    federations = {seed: _kept(side.variant, seed) for seed in seeds}
    if side.metric == "stouffer_z" and side.plugin == "fed_attr" and len(seeds) == 1:
        return _mean_z(side, federations[seeds[0]])
    if side.metric not in ("tpr", "fpr"):
        return None
    hits = n = 0
    for seed, kept in federations.items():
        if side.plugin in DECIDED:
            if kept is None:
                continue
            [row] = [
                row for row in kept["rows"]
                if (row["plugin"], row["metric"]) == (side.plugin, side.metric)
            ]  # fmt: skip
            hits, n = hits + (row["hits"] or 0), n + row["n"]
        elif seed in values and kept:
            marked = sum(map(bool, kept["truth"].values()))
            clients = marked if side.metric == "tpr" else len(kept["truth"]) - marked
            hits, n = hits + round(values[seed] * clients), n + clients
    if not n:
        return None
    share = wilson(hits, n)
    row = _row(side, share.value, share.low, share.high)
    return row, f"{hits} of {n} [{100 * share.low:.0f}, {100 * share.high:.0f} %]"


def _mean_z(side: Select, kept: Mapping[str, Any] | None) -> tuple[Measurement, str] | None:
    if kept is None or side.scope.get("clients") != "marked":
        return None
    found = [
        row["value"] for row in kept["rows"]
        if row["metric"] == "stouffer_z" and kept["truth"].get(row["client"])
    ]  # fmt: skip
    if len(found) < 2:
        return None
    mean, low, high = _mean(found)
    return _row(side, mean, low, high), f"[{low:.1f}, {high:.1f}] over {len(found)} clients"


def _mean(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return a mean with its interval; equal values, such as those of counts, do not have one."""
    unknown = [None] * len(values)
    margins = mean_margins(values, unknown, unknown, same_records=False)
    mean = fmean(values)
    if not margins or not margins[0]:
        return mean, None, None
    return mean, mean - margins[0], mean + margins[0]


def _kept(variant: str, seed: int) -> dict[str, Any] | None:
    """Return the figures of a variant's federation, if they are kept."""
    name = variant.removesuffix("-0").replace("-0-", "-")
    if name.startswith("no-watermark"):  # odd seeds have the fictitious mark there, even ones KGW
        if (name == "no-watermark") != bool(seed % 2):
            return None
        name = "nobody"
    path = KEPT / f"{name}-{seed}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else None
