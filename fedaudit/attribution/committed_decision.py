"""A decision over scores that counts published commitments only, with its rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedaudit.api.records import Measurement
from fedaudit.attribution import measurements as rows
from fedaudit.attribution.decision.contamination import Shares
from fedaudit.attribution.decision.decision import Decision, decide
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.evidence.commitment import CommitmentCheck
from fedaudit.attribution.scores import Scores


def decision_rows(
    decision: Decision, scores: Scores, threshold: float, truth: Mapping[str, str]
) -> list[Measurement]:
    """Return the rows of a decision."""
    present = [client for client in scores.clients if client not in decision.absent]
    return [
        *rows.decision_rows(decision, threshold),
        *rows.copy_rows(scores, threshold),
        *rows.unscored_rows(scores),
        *rows.error_rates(rows.PROTOCOL, decision.marks, present, truth),
        *rows.paper_rule_rows(decision, truth),
        *rows.attribute_rows(decision, scores),
        *rows.mean_z_rows(decision, truth),
        *rows.leakage_rows(scores),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedDecision:
    """A decision that flags no client by a mark that is not among the published commitments."""

    decision: Decision
    status: CommitmentCheck | None
    """None where no commitments were given."""
    rows: tuple[Measurement, ...]
    """The rows of the decision, and the counts of its commitments."""

    @property
    def unopened(self) -> int:
        """Published commitments that no one opened: each counts as a test of every client."""
        return self.status.unopened if self.status else 0


def decide_committed(
    scores: Scores,
    commitments: Path | None,
    *,
    noted: str = "",
    threshold: float,
    alpha: float,
    shares: Shares | None,
    truth: Mapping[str, str],
) -> CommittedDecision:
    """Return the decision over scores, in which only marks in the file `commitments` may flag.

    Without a file, every mark may. `noted` is the SHA-256 of that file in the server's ledger, if
    the ledger has one.
    """
    status = commitment.check_commitments(scores, commitments, noted) if commitments else None
    first = decide(scores, threshold=threshold, alpha=alpha, shares=shares)
    counted = first
    if status and status.unopened:
        counted = decide(
            scores, threshold=threshold, alpha=alpha, shares=shares, unopened=status.unopened
        )
    decision = commitment.withhold_uncommitted(counted, status)
    all_rows = decision_rows(decision, scores, threshold, truth)
    committed_rows = (
        *rows.level_rows(alpha, threshold),
        *commitment.drop_threshold(all_rows, first, decision, status),
        *commitment.commitment_counts(scores, status),
    )
    return CommittedDecision(decision=decision, status=status, rows=committed_rows)
