"""Membership: whether trained records can be told from held-out ones, and how many may be."""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from fedaudit.api.kind import Answer, Judgement, Kind, Question, Row, Table, Test, counted
from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement
from fedaudit.report import query
from fedaudit.report.checklist.answer import MOST_ROWS, missing_reason, results_text
from fedaudit.report.number_format import as_percent, count, format_measurement, number, percent
from fedaudit.report.query import common_scope, missing_reasons, scope_but
from fedaudit.report.tables.table import NONE, build_table, common_note, row_table
from fedaudit.report.verdict.binomial_limit import binomial_p_value, judge_count

FPR = 0.01
"""The false-positive rate at which judged scores are evaluated."""
MEANS = {
    "reference": "how much better the model knows them than its base",
    "rounds": "how much likelier they became in the rounds in which their client trained",
}
"""The judged scores, fixed in advance, in words."""
LEAST_P = "least_p_value"
USAGE = "usage"
LOW_RANKS = "low ranks"
"""scope.test of whether members score lower than held-out records, which training does not do."""
AREA, BALANCED, GAP = "AUC [95 %]", "balanced", "gap [95 %]"
USED = "used [95 %]"
NAMES = {
    "text": "the texts alone",
    "loss": "loss",
    "zlib": "loss / zlib",
    "reference": "loss, less the base's",
    "counterfactual": "loss, less that without the client",
    "min_k": "Min-K %",
    "min_k++": "Min-K %++",
    "error_zone": "EZ-MIA",
    "lira": "LiRA",
    "rmia": "RMIA",
    "neighbourhood": "loss, less its neighbours'",
    "rounds": "loss, by the client's rounds",
}
"""Values of scope.score, as people read them."""


class Membership(Kind):
    """How well scores tell the records that a model was trained on from others like them."""

    name = "membership"
    attack_class = "membership_inference"
    rules = ("membership", "membership limit")
    discloses = False
    compared = frozenset({"tpr", "auc"})
    answers: ClassVar = {
        "fail": "Records that this model was tuned on can be told from records like them that it"
        " was not tuned on: whoever has a record can see whether it was used.",
        "pass": "With these scores, records that this model was tuned on could not be told from"
        " others. Better attacks may tell more.",
        "inconclusive": "Whether records that this model was tuned on can be told from others is"
        " not settled: the reasons say what is missing.",
    }
    question = Question(
        "Can a person be recognised as a member?",
        "EDPB 28/2024, 55(i)",
        "Nobody can be recognised as a member beyond what the policy allows.",
    )

    def tests(
        self, rows: Sequence[Measurement], policy: Policy
    ) -> list[tuple[Measurement, Test | None]]:
        """Return every score's true-positive rate at the policy's false-positive rate, tested.

        Under the null hypothesis each member is recognised with the allowed probability, so p is
        P(Binomial(n, limit) >= hits), which takes the threshold as fixed. But the threshold comes
        from few held-out records, so p is at least the probability of as many members above it if
        members and held-out records are alike. Returns nothing if the policy has no limit.
        """
        if policy.membership is None:
            return []
        rows = [
            row
            for row in rows
            if (row.metric, row.scope.get("source")) == ("tpr", "tuned")
            and row.scope.get("fpr") == policy.membership_fpr
        ]
        return [(row, _limit_test(row, policy.membership, policy.membership_fpr)) for row in rows]

    def judge_test(
        self, row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
    ) -> Judgement:
        """Return the status of one score; inconclusive where it was not measured."""
        most, limit = policy.membership or 0.0, _limit(policy)
        name = _name(row, score=True)
        if test is None or adjusted is None or row.hits is None or not row.n:
            reason = f"{name}: not measured: {row.reason or 'members were not counted'}."
            return Judgement("inconclusive", reason, "membership limit", row, limit)
        summary = f"{name}: {test.subject}"
        return judge_count(
            row, summary, adjusted, policy, most=most, rule="membership limit", limit=limit
        )

    def missing(self, rows: Sequence[Measurement], policy: Policy) -> Iterator[Judgement]:
        """Yield a judgement if the policy limits membership but no such rate was measured."""
        if policy.membership is not None and not self.tests(rows, policy):
            reason = (
                f"The policy {policy.name} limits membership: how many members are recognised at a "
                f"false-positive rate of {as_percent(policy.membership_fpr)} was not measured."
            )
            yield Judgement("inconclusive", reason, "membership limit", None, _limit(policy))

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> list[Judgement]:
        """Return the status of every comparison of members with held-out records, and why.

        The scores are `reference` and, where a client trained in some rounds only, `rounds`. One
        test is of ranks, the other of the members above the threshold that 1 % of held-out records
        reach (rows `p_value`); Holm's correction is over both tests and all comparisons.

        * fail          an adjusted p value is at most the policy's level
        * inconclusive  something is missing; or members score so much lower than held-out records
                        (p at most the policy's level, without correction) that the sets differ in
                        something else than training; or too few groups of records were compared for
                        any p value to be that low; or the share of members recognised at 1 % may be
                        more than the policy's detectable leak, with either records or their groups
                        as independent
        * pass          otherwise

        Reports of versions without these tests have nothing to judge. In reports without the rows
        of groups, only the interval over records counts.
        """
        from fedaudit.metrics.attribution.stouffer import holm

        rows = [row for row in counted(rows) if row.scope.get("score") in MEANS]
        tests = [
            row for row in rows if row.metric == "p_value" and row.scope.get("test") != LOW_RANKS
        ]
        groups = {
            _attack_key(row): [r for r in tests if _attack_key(r) == _attack_key(row)]
            for row in tests
        }
        every = [(key, row) for key, group in groups.items() for row in group]
        missing = {key for key, row in every if row.value is None}
        adjusted = holm([1.0 if row.value is None else row.value for _, row in every])
        share = FPR + policy.detectable
        limit = (
            f"no proof at p = {policy.level:g} that members can be recognised, and surely fewer "
            f"than {as_percent(share)} of them recognised with {FPR:.0%} false alarms"
        )
        judged = []
        for key, group in groups.items():
            outcome = _status(
                group,
                [p for (k, _), p in zip(every, adjusted, strict=True) if k == key],
                [row for row in rows if row not in tests and _attack_key(row) == key],
                policy,
                missing=key in missing,
                needed=policy.level / len(every),
            )
            judged.append(Judgement(*outcome, "membership", group[0], limit))
        return judged

    def decides(self, row: Row) -> bool:
        """Tell whether a row is one of the tests that are judged."""
        return row["metric"] == "p_value" and "test" in row["scope"]

    def shows(self, row: Row) -> bool:
        """Tell whether a table shows a row."""
        return "score" in row["scope"]

    def tables(self, report: Row) -> list[Table]:
        """Return a table per attack with a line for each score, of usage, and of organisations."""
        rows = self.rows(report)
        usage = [row for row in rows if row["metric"] == USAGE]
        scored = [row for row in rows if not _of_organisation(row) and row not in usage]
        tested = [row for row in rows if _of_organisation(row)]
        return [
            *(_table(plugin, group) for plugin, group in query.by_plugin(scored).items()),
            *(_usage(plugin, group) for plugin, group in query.by_plugin(usage).items()),
            *(_participation(plugin, group) for plugin, group in query.by_plugin(tested).items()),
        ]

    def answer(self, report: Row) -> Answer:
        """Answer whether a person can be recognised as a member."""
        rows = [row for row in report["measurements"] if row["kind"] == self.name]
        rates = [row for row in rows if row["metric"] == "tpr" and row["value"] is not None]
        rates.sort(key=lambda row: -row["value"])
        if rates:
            return Answer("answered", results_text(rates), tuple(rates[:MOST_ROWS]))
        known_rows = [
            r for r in rows if r["value"] is not None and r["metric"] in ("auc", "p_value")
        ]
        known_rows.sort(key=lambda r: (r["metric"] != "p_value", _badness(r)))
        if not known_rows:
            return Answer("open", missing_reason(report, "membership_inference"))
        reason = next(iter(query.missing_reasons(r for r in rows if r["metric"] == "tpr")), "")
        text = (
            f"{results_text(known_rows)} No rate at few false positives. {reason}".strip().rstrip(
                "."
            )
            + "."
        )
        return Answer("in part", text, tuple(known_rows[:MOST_ROWS]))


def _badness(row: Row) -> float:
    """Return what is least for the worst row: a p value, or an AUC upside down."""
    return float(row["value"] if row["metric"] == "p_value" else -row["value"])


def _limit(policy: Policy) -> str:
    return (
        f"at most {as_percent(policy.membership or 0.0)} of the members recognised at a "
        f"false-positive rate of {as_percent(policy.membership_fpr)}"
    )


def _name(row: Measurement, *, score: bool) -> str:
    """Return what made a row, with its score and the victim, if several are tried."""
    parts = [f"score {row.scope.get('score', '')}"] if score else []
    parts += [f"victim {row.scope['victim']}"] if "victim" in row.scope else []
    return f"{row.plugin} ({', '.join(parts)})" if parts else row.plugin


def _limit_test(row: Measurement, most: float, fpr: float) -> Test | None:
    from fedaudit.metrics.privacy.membership_tests import true_positives_p_value

    if row.hits is None or not row.n or not 0 <= row.hits <= row.n:
        return None
    subject = (
        f"{row.hits:,} of {row.n:,} members are recognised at a false-positive rate of "
        f"{as_percent(fpr)}"
    )
    p = binomial_p_value(row.hits, row.n, most)
    others = row.scope.get("others")
    if isinstance(others, int) and others > 0:
        p = max(p, true_positives_p_value(row.hits, row.n, others, fpr))
    return Test(_name(row, score=True), p, subject, "more than is allowed")


_OF_ROWS = {"test", "fpr", "groups", "beside"}
"""The scope keys in which the rows of one comparison differ."""


def _attack_key(row: Measurement) -> tuple[str, ...]:
    scope = ((k, str(v)) for k, v in row.scope.items() if k not in _OF_ROWS)
    return (row.plugin, *(f"{key} {value}" for key, value in sorted(scope)))


def _status(
    tests: Sequence[Measurement],
    adjusted: Sequence[float],
    bounds: Sequence[Measurement],
    policy: Policy,
    *,
    missing: bool,
    needed: float,
) -> tuple[str, str]:
    score, n = str(tests[0].scope["score"]), tests[0].n or 0
    name = _name(tests[0], score=score != "reference")
    if missing:
        why = next(row.reason for row in tests if row.value is None)
        return "inconclusive", f"{name}: records were not told from others: {why}."
    if min(adjusted) <= policy.level:
        return "fail", (
            f"{name}: {n:,} records can be told from held-out ones by {MEANS[score]} "
            f"(p = {min(adjusted):.2g})."
        )
    if why := _low_ranks(score, bounds, policy.level) or _too_few_groups(bounds, needed):
        return "inconclusive", f"{name}: {why}"
    at_rate = [row for row in bounds if row.scope.get("fpr") == FPR]
    rate = next((row for row in at_rate if row.metric == "tpr"), None)
    if rate is None or rate.value is None or rate.high is None:
        why = rate.reason if rate else "no rate at 1 % is there"
        return "inconclusive", f"{name}: how many records can be told is not known: {why}."
    high = max(row.high for row in at_rate if row.high is not None)
    summary = (
        f"{name}: {rate.hits or 0:,} of {n:,} records score above what {FPR:.0%} of held-out "
        f"ones reach, at most {high:.2%}"
    )
    if high > FPR + policy.detectable:
        return "inconclusive", (
            f"{summary}: too few records to see whether {as_percent(FPR + policy.detectable)} can "
            "be told."
        )
    return "pass", f"{summary}, no more than chance may give."


def _low_ranks(score: str, bounds: Sequence[Measurement], level: float) -> str:
    """Return a note if members score lower than held-out records; empty if chance may."""
    row = next((row for row in bounds if row.scope.get("test") == LOW_RANKS), None)
    if row is None or row.value is None or row.value > level:
        return ""
    lower = {
        "reference": f"the model knows these {row.n or 0:,} records worse than held-out ones",
        "rounds": f"these {row.n or 0:,} records became less likely in their client's rounds than "
        "held-out ones",
    }
    return (
        f"{lower[score]} (p = {row.value:.2g}), which training does not do: the two sets differ in "
        "something else, such as form, source or time, which may hide what was learnt."
    )


def _too_few_groups(bounds: Sequence[Measurement], needed: float) -> str:
    """Return a note if no test can fail with so few groups; empty if one can, or if unknown."""
    least = next((row for row in bounds if row.metric == LEAST_P), None)
    if least is None or least.value is None or least.value <= needed:
        return ""
    groups = " and ".join(f"{least.scope.get(side, 0)}" for side in ("groups", "beside"))
    return (
        f"{groups} groups of members and held-out records are too few to tell: no p value can be "
        f"below {least.value:.2g}, and {needed:.2g} is needed."
    )


def _of_organisation(row: Row) -> bool:
    return bool(row["scope"].get("unit") == "organisation")


def _participation(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the table of whether an organisation took part, with a line for each round."""
    tests = [row for row in rows if row["metric"] == "p_value"]
    shared, _ = common_scope(tests)
    cells = []
    for test in tests:
        gaps = [r for r in rows if r["metric"] == "score_gap"]
        gaps = [row for row in gaps if scope_but(row, "round") == test["scope"]]
        totals = [row for row in gaps if "round" not in row["scope"]]
        cells += [
            {
                "after": "all rounds"
                if row is None or "round" not in row["scope"]
                else f"round {row['scope']['round']}",
                "claimed": f"{test['scope']['members']:,}",
                "held-out": f"{test['scope']['others']:,}",
                GAP: format_measurement(row) if row is not None else NONE,
                "p": number(test["value"]) if row in totals and test["value"] is not None else NONE,
            }
            for row in (*totals, *(r for r in gaps if r not in totals)) or (None,)
        ]
    return build_table(
        f"Did the organisation take part: {plugin}",
        cells,
        ("after", "claimed", "held-out", GAP, "p"),
        numeric=("claimed", "held-out", GAP, "p"),
        notes=(
            "Gap: by how many nats a token the tuned model gains more on records that the "
            "organisation says it gave than on its own held-out ones; p: how likely such a gap is "
            "if it took no part, whatever style it shares with those who did.",
            *common_note(shared),
            *missing_reasons(tests),
        ),
    )


def _usage(plugin: str, rows: Sequence[Row]) -> Table:
    """Return the table of how much of the members' records was used, with a line an estimator."""
    return row_table(
        f"How much of the records was used: {plugin}",
        rows,
        {
            "estimator": lambda row: "DUCI" if _is_duci(row) else "lower bound",
            USED: _used,
            "of": count,
        },
        numeric=(USED, "of"),
        notes=(
            "The share of the members' records, or groups of records, that the model was trained "
            "on, if those left out are like the held-out ones.",
        ),
        hidden={"estimator"},
    )


def _is_duci(row: Row) -> bool:
    return bool(row["scope"]["estimator"] == "duci")


def _used(row: Row) -> str:
    if row["value"] is None:
        return NONE
    if _is_duci(row):
        return format_measurement(row)
    return f"at least {round(row['value'] * row['n'])}"


def _table(plugin: str, rows: Sequence[Row]) -> Table:
    areas = [row for row in rows if row["metric"] == "auc"]
    shared, scopes = common_scope(areas, {"score"})
    cells = [
        {**_cells(area, rows), "where": scope} for area, scope in zip(areas, scopes, strict=True)
    ]
    columns = list(dict.fromkeys(name for line in cells for name in line if name != "where"))
    return build_table(
        f"Membership: {plugin}",
        cells,
        (*columns, "where"),
        numeric=columns[1:],
        notes=(
            "AUC: of a trained and a held-out record, how often the trained one has the higher "
            "score; 0.5 is guessing. TPR: trained records found where so many held-out ones are "
            "mistaken.",
            *common_note(shared),
            *missing_reasons(rows),
        ),
    )


def _cells(area: Row, rows: Sequence[Row]) -> Mapping[str, str]:
    cells = {
        "score": NAMES.get(str(area["scope"]["score"]), str(area["scope"]["score"])),
        AREA: format_measurement(area) if area["value"] is not None else NONE,
    }
    for row in rows:
        if scope_but(row, "fpr") != area["scope"]:
            continue
        if row["metric"] == "balanced_accuracy":
            cells[BALANCED] = number(row["value"])
        elif row["metric"] == "tpr":
            title = f"TPR at {percent(row['scope']['fpr'])}"
            cells[title] = format_measurement(row) if row["value"] is not None else NONE
    return cells
