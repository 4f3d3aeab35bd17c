"""What is claimed of a model under each question, and what speaks for and against it."""

from collections.abc import Mapping
from typing import NamedTuple

from fedaudit.api.kind import Answer
from fedaudit.report.checklist.attackers import attack_class
from fedaudit.report.checklist.questions import QUESTIONS, ChecklistItem, answers
from fedaudit.report.query import Row
from fedaudit.report.verdict.recheck import judgements

OF_CLASS = {
    "exfiltration": 5,
    "regurgitation": 7,
    "attribute_inference": 9,
    "inversion": 10,
    "reconstruction": 10,
}
OF_RULE = {
    "required": 3,
    "gate": 15,
    "attribution": 17,
    **{rule: item.number for item in QUESTIONS for rule in item.rules},
}
JUDGED_QUESTIONS = frozenset({*OF_CLASS.values(), *OF_RULE.values(), 6} - {3})
"""Questions that judgements decide; the claims of the others hold if they are answered."""


class AssessedClaim(NamedTuple):
    """A statement about the model under one question, and what the report says about it."""

    item: ChecklistItem
    statement: str
    answer: Answer
    judgements: tuple[Row, ...]

    @property
    def score(self) -> int | None:
        """1 if the claim holds, 0 if it does not; None if the report cannot tell."""
        statuses = {judgement["status"] for judgement in self.judgements}
        if "fail" in statuses:
            return 0
        if self.item.number in JUDGED_QUESTIONS or self.item.rules:
            return 1 if statuses == {"pass"} and not self.answer.against else None
        return 1 if self.answer.status == "answered" and "inconclusive" not in statuses else None


def claims(report: Row) -> list[AssessedClaim]:
    """Return the claim of every question, in their order."""
    answered = answers(report)
    of_rule = OF_RULE | {rule: item.number for item, _ in answered for rule in item.rules}
    by_question: Mapping[int, list[Row]] = {item.number: [] for item, _ in answered}
    for judgement in judgements(report):
        if number := _question(judgement, of_rule):
            by_question[number].append(judgement)
    return [
        AssessedClaim(item, item.statement, answer, tuple(by_question[item.number]))
        for item, answer in answered
    ]


def _question(judgement: Row, of_rule: Mapping[str, int]) -> int | None:
    """Return the number of the question that a judgement decides; None for none."""
    row = judgement["measurement"]
    if judgement["rule"] in of_rule:
        return of_rule[judgement["rule"]]
    if row is None:
        return None
    return 6 if row["plugin"] in ("untargeted", "benign") else OF_CLASS.get(attack_class(row))
