"""Accusations decided again: by the opened marks alone, and at the usual error level."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedaudit.attribution.decision import known_designs
from fedaudit.attribution.decision.decision import ALPHA, verdicts
from fedaudit.attribution.evidence import commitment, report_file
from fedaudit.attribution.scores import Scores
from fedaudit.metrics.attribution.stouffer import THRESHOLD
from fedaudit.report.check import Check

FOLLOWS = ("decision", "verdict", "Z")
"""Kinds of checks that compare a report with its scores, which are then not all checked."""


def withhold(checks: Iterator[Check], closed: Sequence[str]) -> Iterator[Check]:
    """Yield the checks; what follows from scores that were not computed again is "not checked"."""
    why = f"it follows from the bundle's scores; those of {', '.join(closed)} are not checked"
    for check in checks:
        is_open = check.state == "same" and check.kind in FOLLOWS
        yield replace(check, state="not checked", why=why) if is_open else check


def check_accusations(
    report: Mapping[str, Any],
    scores: Scores,
    opened: Sequence[str],
    public: Path | None,
    log: Path | None,
) -> Iterator[Check]:
    """Yield, for each flagged client, whether what is checked flags it by the same mark.

    That is asked where not all marks are opened, or where the decision took a higher alpha or a
    lower tau than the usual ones. A mark that is not opened counts as a test of every client that
    found nothing: its scores may be made up, and must not make it easier to flag by another.
    """
    config = report_file.settings(report)
    status = (
        commitment.check_commitments(scores, public) if config["committed"] and public else None
    )
    closed = [mark for mark in scores.marks if mark not in opened]
    alpha, tau = min(config["alpha"], ALPHA), max(config["threshold"], THRESHOLD)
    given = f"alpha {config['alpha']:g} and tau {config['threshold']:g}"
    is_lax = (alpha, tau) != (config["alpha"], config["threshold"])
    if not closed and not is_lax:
        return
    shares = None
    if log is not None and config["sets_known"]:
        combinations = known_designs.read_log(log, scores.run)
        shares = known_designs.estimate_shares(scores, combinations, scores.weights)
    found = verdicts(
        _only(scores, opened),
        threshold=tau,
        alpha=alpha,
        shares=shares,
        unopened=len(closed) + (status.unopened if status else 0),
    )
    for finding in report["findings"]:
        client, mark = (str(finding["evidence"].get(name, "")) for name in ("client", "mark"))
        name = f"of {client}" + ", by the opened marks alone" * bool(closed)
        name += f", at alpha {alpha:g} and tau {tau:g}" * is_lax
        check = Check(state="not checked", kind="accusation", name=name)
        rests = report_file.accusation(report)
        if mark not in opened:
            why = f"it rests on mark {mark}, which is not opened"
            yield replace(check, why=why, rests=rests)
        elif (client, mark) in found and found[client, mark].flagged:
            yield replace(check, state="same")
        else:
            needed = [f"with the scores of {', '.join(closed)}"] * bool(closed)
            needed += [f"at {given}, which the decision chose"] * is_lax
            why = f"mark {mark} flags it only {' or '.join(needed)}"
            yield replace(check, why=why, rests=rests)


def _only(scores: Scores, marks: Sequence[str]) -> Scores:
    """Return the scores of some marks."""
    rounds = tuple(
        replace(
            r,
            reference={mark: r.reference[mark] for mark in marks},
            clients={c: {mark: row[mark] for mark in marks} for c, row in r.clients.items()},
        )
        for r in scores.rounds
    )
    return replace(scores, marks={mark: scores.marks[mark] for mark in marks}, rounds=rounds)
