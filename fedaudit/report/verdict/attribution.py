"""Whom the attribution protocol flags: what the verdict goes by, and the tables too."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from fedaudit.api.kind import Judgement
from fedaudit.api.records import Finding, Measurement
from fedaudit.report.number_format import first_of
from fedaudit.system.numbers import count_of

PROTOCOL = "fed_attr"
"""The method whose flags are judged; the results of other methods are only shown."""

MOST_NAMED = 10
"""The maximum number of clients named in one reason."""

NOT_JUDGED = "Only methods ran that the verdict does not go by: it goes by the protocol fed_attr."
NO_CLIENT = "fed_attr tested no client."

FOUND = "marked_found"
"""The metric of how often a marked client of simulated federations is flagged."""
POWER = 0.9
"""The share of federations in which a usual mark is found, without which an attribution does not
pass: the interval of those that were simulated lies above it."""

UNSCORED = "unscored_rounds"
"""The metric of how many rounds of the federation have no scores (`scope.rounds` lists them)."""
LIKE = "like_updates"
"""The metric of in how many rounds a client's update was like others' (`scope.alike`)."""

RULE = "attribution"

ACCUSATION = "WATERMARK"
"""The label of the findings that accuse a client."""
STATISTIC = "stouffer_z"
REQUIRED = ("client", "mark", "z", "rounds")
"""What the evidence of an accusation must hold."""

StatusReason = tuple[str, str]
"""A status and the reason for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedClient:
    """One client's combined statistic, and what it must exceed for the client to be flagged."""

    variant: str
    client: str
    mark: str
    z: float | None
    threshold: float | None
    rounds: int | None
    reason: str
    """Why there is no statistic."""
    alike: str = ""
    """Which clients sent the same updates, or nearly so, in words; empty if none did."""

    @property
    def flagged(self) -> bool:
        """Whether the statistic exceeds its threshold."""
        return self.z is not None and self.threshold is not None and self.z > self.threshold

    @property
    def decided(self) -> bool:
        """Whether there are a statistic and a threshold to compare it with."""
        return self.z is not None and self.threshold is not None


def tested_clients(measurements: Iterable[Measurement]) -> list[TestedClient]:
    """Return every client that the protocol tested or could not test, in the order given."""
    rows = list(measurements)
    alike = {
        (str(row.scope.get("variant", "")), str(row.scope.get("client", ""))): _like_text(row)
        for row in rows
        if _protocol(row) and row.metric == LIKE
    }
    return [
        TestedClient(
            variant=str(row.scope.get("variant", "")),
            client=str(row.scope["client"]),
            mark=str(row.scope.get("mark", "")),
            z=row.value,
            threshold=row.baseline,
            rounds=row.n,
            reason=row.reason,
            alike=alike.get((str(row.scope.get("variant", "")), str(row.scope["client"])), ""),
        )
        for row in rows
        if _is_client_row(row)
    ]


def accusation(
    client: str,
    *,
    variant: str = "",
    mark: str,
    z: float,
    needed: float,
    p_value: float | None,
    rounds: int | None,
    **evidence: object,
) -> Finding:
    """Return the finding that accuses a client flagged by `z` above `needed`.

    `p_value` is Holm's; `variant` names the variant of a study.
    """
    return Finding(
        id=f"{variant}-{PROTOCOL}-{client}" if variant else f"{PROTOCOL}-{client}",
        severity="high",
        label=ACCUSATION,
        measurement=f"{PROTOCOL} {STATISTIC}" + (f", {variant}" if variant else ""),
        evidence={
            "client": client,
            "mark": mark,
            "z": round(z, 2),
            "needed": round(needed, 2),
            "p_value": p_value,
            "rounds": rounds,
            **evidence,
        },
        safe=("client", "mark"),
    )


def is_accusation(label: object, measurement: object) -> bool:
    """Tell whether a finding's label and measurement make it one that accuses a client.

    Either is enough: a reader takes it for one by its label, and formats for programs by its
    measurement.
    """
    plugin = str(measurement).split()[:1]
    return str(label).strip() == ACCUSATION or plugin == [PROTOCOL]


def accusations(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return those of a report's findings that accuse a client."""
    return [f for f in findings if is_accusation(f["label"], f["measurement"])]


def unfounded_accusations(
    measurements: Sequence[Measurement], findings: Iterable[Finding]
) -> list[Finding]:
    """Return the findings that accuse a client otherwise than the measurements do, or twice.

    An accusation must be the one that a flagged client's rows give, in all that its evidence says
    of what they hold: client, mark, statistic, threshold, p value and rounds. Accusations of a
    single seed are not checked in a study, whose rows are means over its seeds.
    """
    is_study = any("variant" in row.scope for row in measurements if _protocol(row))
    holm = {
        tuple(str(row.scope.get(name, "")) for name in ("variant", "client", "mark")): row.value
        for row in measurements
        if _protocol(row) and row.metric == "p_value" and row.scope.get("adjusted") == "holm"
    }
    founded = [
        accusation(
            test.client,
            variant=test.variant,
            mark=test.mark,
            z=test.z,
            needed=test.threshold,
            p_value=holm.get((test.variant, test.client, test.mark)),
            rounds=test.rounds,
        )
        for test in tested_clients(measurements)
        if test.z is not None and test.threshold is not None and test.flagged
    ]
    unfounded = []
    for finding in findings:
        if not is_accusation(finding.label, finding.measurement):
            continue
        if is_study and finding.id.startswith("seed-"):
            continue
        matches = (other for other in founded if _says_the_same(finding, other))
        if match := next(matches, None):
            founded.remove(match)
        else:
            unfounded.append(finding)
    return unfounded


def _says_the_same(finding: Finding, founded: Finding) -> bool:
    """Tell whether a finding is the founded one, but for evidence left out that is not REQUIRED."""
    names = ("id", "severity", "label", "measurement")
    if any(getattr(finding, name) != getattr(founded, name) for name in names):
        return False
    shared = founded.evidence.keys() & {*finding.evidence, *REQUIRED}
    return all(_equal(finding.evidence.get(name), founded.evidence[name]) for name in shared)


def _equal(stated: object, known: object) -> bool:
    """Tell whether two values of evidence are equal, numbers up to the rounding of JSON."""
    if isinstance(stated, int | float) and isinstance(known, int | float):
        return isclose(stated, known, rel_tol=1e-6, abs_tol=1e-300)
    return stated == known


def _is_client_row(row: Measurement) -> bool:
    """Tell whether a row is of a client over all rounds.

    It has a client and a mark, or a client alone where it has no number; the rows of single rounds
    and of means over clients have other scopes.
    """
    keys = set(row.scope) - {"variant"}
    of_client = keys == {"client", "mark"} or (keys == {"client"} and row.value is None)
    return of_client and _protocol(row) and row.metric == STATISTIC


def judge_attribution(measurements: Iterable[Measurement]) -> list[Judgement]:
    """Return the status of an attribution on each variant, and why; nothing if there was none.

    * fail          the protocol flags a client
    * inconclusive  no client is flagged, but one could not be tested, none was, rounds of the
                    federation have no scores, a mark has no matching commitment where such are
                    required, a client with a mark of the usual strength may be flagged in fewer
                    than `POWER` of such federations, by those that were simulated, or none were, or
                    the protocol did not run
    * pass          all clients were tested in all rounds, none exceeds the threshold, and a client
                    with such a mark would have
    """
    variants: dict[str, list[Measurement]] = {}
    for row in measurements:
        if row.kind == "attribution":
            variants.setdefault(str(row.scope.get("variant", "")), []).append(row)
    # Counts pooled over variants name no client; each variant is judged by itself.
    pooled = [
        n for n, rows in variants.items() if any(map(_protocol, rows)) and not tested_clients(rows)
    ]
    if len(pooled) < len(variants):
        variants = {name: rows for name, rows in variants.items() if name not in pooled}
    limit = "no client's statistic above its threshold"
    return [
        Judgement(*_judge(name, rows), RULE, _strongest_row(rows), limit)
        for name, rows in variants.items()
    ]


def _strongest_row(rows: Iterable[Measurement]) -> Measurement | None:
    known_rows = [row for row in rows if _is_client_row(row) and row.value is not None]
    return max(known_rows, key=lambda row: (row.value or 0.0, str(row.scope)), default=None)


def strongest_tests(tests: Iterable[TestedClient]) -> list[TestedClient]:
    """Return each client's test with the strongest evidence, the highest statistic first."""
    best: dict[str, TestedClient] = {}
    for test in sorted(tests, key=_rank):
        best.setdefault(test.client, test)
    return list(best.values())


def _judge(variant: str, rows: Sequence[Measurement]) -> StatusReason:
    tag = f" (variant {variant})" if variant else ""
    if not any(map(_protocol, rows)):
        return "inconclusive", f"{NOT_JUDGED.removesuffix('.')}{tag}."
    tests = tested_clients(rows)
    clients = strongest_tests(tests)
    if not clients:
        reasons = [row.reason.removesuffix(".") for row in rows if _protocol(row) and row.reason]
        why = f": {min(reasons)}" if reasons else ""  # the same in any order of rows
        return "inconclusive", f"{NO_CLIENT.removesuffix('.')}{tag}{why}."
    if flagged := [test for test in clients if test.flagged]:
        return "fail", (
            f"{PROTOCOL}{tag}: {len(flagged):,} of {len(clients):,} clients "
            f"{'is' if len(flagged) == 1 else 'are'} flagged: {_list_clients(flagged)}."
        )
    if obstacle := _obstacle(rows, tests):
        return "inconclusive", f"{PROTOCOL}{tag}: {obstacle}."
    highest = clients[0]
    status, power = _power(rows)
    return status, (
        f"{PROTOCOL}{tag}: none of {len(clients):,} clients is flagged: the highest Z is "
        f"{highest.z:.2f}, which must exceed {highest.threshold:.4g}; {power}."
    )


def _obstacle(rows: Sequence[Measurement], tests: Sequence[TestedClient]) -> str:
    """Return why clients without a flag are not cleared; "" if nothing bars that."""
    clients = len({test.client for test in tests})
    if bare := _uncommitted_marks(rows):
        plural = len(bare) > 1
        return (
            f"mark{'s' * plural} {', '.join(bare)} {'have' if plural else 'has'} no matching "
            "commitment published beforehand, so nobody is flagged by "
            f"{'them' if plural else 'it'}"
        )
    # A client that one mark could test may have had nothing to test by another.
    if unknown := strongest_tests(test for test in tests if not test.decided):
        return (
            f"{len(unknown):,} of {clients:,} clients could not be tested: {_list_clients(unknown)}"
        )
    for row in rows:
        if _protocol(row) and row.metric == UNSCORED and row.value:
            return (
                f"none of {clients:,} clients is flagged, but {row.value:,.0f} of the federation's "
                f"{count_of(row.n or 0, 'round')} {'has' if row.value == 1 else 'have'} no scores: "
                f"{row.scope.get('rounds')}"
            )
    return ""


def _power(rows: Iterable[Measurement]) -> StatusReason:
    """Return whether a mark of the usual strength would have been found, and that in words.

    Clients that took part in other numbers of rounds have a row each, and the worst one decides.
    """
    usual = [
        row for row in rows if _protocol(row) and row.metric == FOUND and "rounds" in row.scope
    ]
    if not usual:
        return "inconclusive", (
            "how often a client with a mark would be flagged was not simulated (--federations 100)"
        )
    worst = min(usual, key=lambda row: (row.low or 0.0, row.value or 0.0, str(row.scope)))
    found, least, rounds = worst.value or 0.0, worst.low or 0.0, worst.scope["rounds"]
    passes = least >= POWER
    apart = ", where such a client is hardest to find" if len(usual) > 1 else ""
    return "pass" if passes else "inconclusive", (
        f"a client with a mark of the usual strength (Z {worst.scope['strength']} over {rounds} "
        f"round{'' if rounds == 1 else 's'}{apart}) would be flagged in {found:.0%} of federations "
        f"like this one (at least {least:.0%}, by {worst.n or 0:,} that were simulated)"
        f"{'' if passes else f'; a pass takes {POWER:.0%} at least'}"
    )


def _uncommitted_marks(rows: Iterable[Measurement]) -> list[str]:
    """Return the tested marks that have no matching commitment that counts."""
    uncommitted = (
        row for row in rows if _protocol(row) and row.metric == "committed" and not row.value
    )
    return [str(row.scope.get("mark", "")) for row in uncommitted]


def _rank(test: TestedClient) -> tuple[bool, bool, float, str, str, str, str]:
    """Return a key of a total order, so that reasons do not depend on the order of the rows."""
    z = 0.0 if test.z is None else -test.z
    tie_breakers = (test.client, test.mark, str(test.threshold), test.reason)
    return not test.flagged, test.z is None, z, *tie_breakers


def _list_clients(clients: Sequence[TestedClient]) -> str:
    return ", ".join(first_of([*map(_client_text, clients)], MOST_NAMED))


def _client_text(test: TestedClient) -> str:
    if test.z is None:
        return f"{test.client} ({test.reason})"
    if test.threshold is None:
        return f"{test.client} (there is no threshold)"
    alike = f"; {test.alike}" if test.alike else ""
    return f"{test.client} (mark {test.mark}, Z {test.z:.2f}, above {test.threshold:.4g}{alike})"


def _like_text(row: Measurement) -> str:
    """Return in words who sent the same updates as a client, by its row of LIKE."""
    others = str(row.scope.get("alike", ""))
    verb = "are" if "," in others else "is"
    always = f", and {verb} equally suspect" if row.value == row.n else ""
    rounds = f"{row.value or 0:g} of {count_of(row.n or 0, 'round')}"
    return f"{others} sent the same update, or nearly so, in {rounds}{always}"


def _protocol(row: Measurement) -> bool:
    return (row.kind, row.plugin) == ("attribution", PROTOCOL)
