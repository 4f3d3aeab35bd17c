"""A kind of number: how the verdict judges it and what reports say of it, in one class."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from fedaudit.api.policy import Policy
from fedaudit.api.records import Measurement

Row = Mapping[str, Any]
"""A measurement, a finding or a whole report, as report.json has it."""


class Judgement(NamedTuple):
    """A status, the reason for it, and what was judged; a verdict consists of judgements."""

    status: str
    """`fail`, `inconclusive` or `pass`."""
    reason: str
    rule: str = ""
    """Which rule judged: "leak", "kind", "membership", ..."""
    row: Measurement | None = None
    """The measurement that was judged; None where there was none to judge."""
    limit: str = ""
    """What the policy allows, in words."""

    def table(self) -> dict[str, Any]:
        """Return the judgement as a report holds it, with the number that was judged."""
        table = {"rule": self.rule, "status": self.status, "reason": self.reason}
        return {**table, "limit": self.limit, "measurement": self._measurement_table()}

    def _measurement_table(self) -> dict[str, Any] | None:
        if self.row is None:
            return None
        names = ("kind", "plugin", "metric", "value", "low", "high", "n", "hits", "scope")
        return {name: getattr(self.row, name) for name in names}


@dataclass(frozen=True, slots=True)
class Test:
    """A p value, and the words for the finding if it is small."""

    name: str
    p: float
    subject: str
    """What was counted, in words."""
    finding: str
    """What is said about the count if p is small."""
    excess: float | None = None
    """The upper bound of the share's excess over the one that it is compared with."""
    unasked: int = 0
    """Strings that were not asked about, since the attack's options leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled table of plain text; columns named in `numeric` are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A report's answer to an assessor's question; `rows` are the measurements behind it."""

    status: Literal["answered", "in part", "open"]
    text: str
    rows: tuple[Row, ...] = ()
    against: bool = False
    """Whether the answer speaks against the model although no judgement fails."""


class Question(NamedTuple):
    """The question of an assessor, its source, and the answer that raises no concern."""

    text: str
    source: str
    statement: str
    """What must be true to give no cause for concern."""


class Kind:
    """One kind of measurement: its rule, its words, and what reports do with its rows.

    A subclass sets `name` and whatever of the rest applies. The general table, sentence and answer
    serve a kind that does not override `tables`, `sentences` or `answer`.
    """

    name: ClassVar[str]
    """What `Measurement.kind` is of its rows."""
    title: ClassVar[str] = ""
    """The heading of its general table; without one, its name."""
    attack_class: ClassVar[str] = ""
    """The class of attacks after EDPB Opinion 28/2024, paragraph 55, that its rows are of."""
    rules: ClassVar[tuple[str, ...]] = ()
    """The rules that its judgements name."""
    discloses: ClassVar[bool | None] = None
    """What a failure means: True, data comes out; False, it is recognised among other data (records
    of members, the true value of several); None, neither.
    """
    compared: ClassVar[frozenset[str]] = frozenset()
    """The metrics that `fedaudit compare` compares."""
    shown: ClassVar[frozenset[str]] = frozenset()
    """The metrics that its tables show; without any, they show all."""
    outcomes: ClassVar[frozenset[str]] = frozenset()
    """Keys of a scope that tell what was found: rows that differ in them only are compared."""
    answers: ClassVar[Mapping[str, str]] = {}
    """The verdict in plain words, by status, where an audit measured nothing else."""
    question: ClassVar[Question | None] = None
    """What an assessor asks about it; a row of the annex."""
    glossary: ClassVar[Mapping[str, str]] = {}
    """Terms of its tables and what they mean, for readers who are not engineers."""

    def tests(
        self, rows: Sequence[Measurement], policy: Policy
    ) -> Sequence[tuple[Measurement, Test | None]]:
        """Return what is tested at the level that all tests of a report share, and each test.

        `rows` are those of this kind that a verdict counts (`counted`), and those of targets that
        were not asked about, by label. A row that could not be tested has no test. Their p values
        go into one correction for multiple testing (Holm).
        """
        return ()

    def judge_test(
        self, row: Measurement, test: Test | None, adjusted: float | None, policy: Policy
    ) -> Judgement:
        """Return the status of a row of `tests`, given its adjusted p value."""
        raise NotImplementedError

    def judge(self, rows: Sequence[Measurement], policy: Policy) -> Sequence[Judgement]:
        """Return the judgements that have the policy's level for themselves.

        `rows` are all rows of this kind; most rules judge `counted(rows)` only.
        """
        return ()

    def missing(self, rows: Sequence[Measurement], policy: Policy) -> Iterable[Judgement]:
        """Return a judgement for each limit of the policy that nothing was measured for.

        `rows` are those that `tests` is given.
        """
        return ()

    def decides(self, row: Row) -> bool:
        """Tell whether a row is of what `answers` are about."""
        return True

    def shows(self, row: Row) -> bool:
        """Tell whether its tables show a row; other rows are in a table at the end."""
        return not self.shown or row["metric"] in self.shown

    def rows(self, report: Row) -> list[Row]:
        """Return a report's rows of this kind that tables show."""
        return [r for r in report["measurements"] if r["kind"] == self.name and self.shows(r)]

    def tables(self, report: Row) -> Sequence[Table] | None:
        """Return its tables; None for a general one with a line for each row."""
        return None

    def sentences(self, report: Row) -> Sequence[str] | None:
        """Return what was tried and what came of it; None for a general sentence."""
        return None

    def answer(self, report: Row) -> Answer | None:
        """Return the answer to `question`; None for a general one that lists the numbers."""
        return None


SWEPT = frozenset({"budget", "samples"})
"""The scope keys of rows about a part of an attack's budget."""
RIGHT = "right"
"""The value of scope.key for requests with a valid key."""
OWN_RECORDS = "own"
"""The value of scope.records for attacks on the attacker's own records, without a victim."""


def is_own_data(scope: Mapping[str, object]) -> bool:
    """Tell whether a scope is of an attack on the attacker's own records only."""
    return scope.get("records") == OWN_RECORDS


def is_judged(row: Measurement) -> bool:
    """Tell whether a row is judged: not about a right key or the attacker's own records."""
    return row.scope.get("key") != RIGHT and not is_own_data(row.scope)


def counted(rows: Sequence[Measurement]) -> list[Measurement]:
    """Return the rows that a verdict counts.

    It counts no row of a part of the budget, of one label or category, of what a right key opens,
    or of the attacker's own records.
    """
    return [
        row
        for row in rows
        if is_judged(row)
        and not SWEPT.issubset(row.scope)
        and not {"label", "category"} & row.scope.keys()
    ]
