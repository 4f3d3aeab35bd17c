"""How every table and figure of the five papers came out, derived from the stored studies.

python benchmarks/coverage.py            writes docs/coverage.md
python benchmarks/coverage.py --check    exits with 1 if the page is not what the studies say
"""

import argparse
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedaudit.config import profile
from fedaudit.config.profile import CoverageEntry, PaperCoverage
from fedaudit.reproduction.study_lock import claim_digests

ROOT = Path(__file__).parents[1]
PAGE, STUDIES = ROOT / "docs/coverage.md", ROOT / "docs/studies"
CUT = Path(__file__).with_name("cut_claims.toml")
RESTATED = Path(__file__).with_name("restated_claims.toml")

STATES = {
    "shown": "a claim holds, and none fails or has values that go against it",
    "restated": "a claim holds, but its number was chosen when its seeds had been seen",
    "open": "no interval is narrow enough to tell, and the values go the paper's way",
    "contrary by value": "the values go against a claim, but the intervals leave it open",
    "contrary": "a claim in the paper's direction fails",
    "figures only": "published numbers stand beside ours, and no claim is about them",
    "not at this scale": "what it needs is in the profile, but not at nano scale",
    "not covered": "nothing here measures it",
}

HEAD = """# Coverage: every table and figure of the five papers

`python benchmarks/coverage.py` derives this page from the profiles' `[[coverage]]` and from the
studies in `docs/studies/`; the test suite runs it with `--check`.

| state | |
| --- | --- |
{states}

"Measured" is at nano scale, on two cores, with made-up records and the built-in base. A claim's
outcome is that of the stored study that measured it with the most seeds; none of these seeds had a
part in choosing settings ([when a claim holds](profiles.md#when-a-claim-holds)). A restated claim
that holds does not count as holding until other seeds judge it, those that were
[locked](profiles.md#the-lock) first: its number or its comparison was chosen after these results
had been seen. "Figures" are published numbers that `reproduce` prints
beside ours.

| profile | claims | hold | fail | open | restated | not measured |
| --- | --: | --: | --: | --: | --: | --: |
{counts}
"""

PAGES = {
    "fed_attr": "fed-attr-study.md",
    "fed_pii": "fed-pii.md",
    "few_fed_pit": "few-fed-pit-baselines.md",
    "memorization": "memorization.md",
    "secure_gate": "secure-gate-seeds.md",
}

_NUMBERS = re.compile(r"(\S+) (>=|<=|>|<) ([^\s;]+)")


@dataclass(frozen=True)
class Outcome:
    """How a claim came out in the study that measured it with the most seeds."""

    holds: bool | None
    seeds: int
    against: bool
    """Whether the values go against the claim, whatever their intervals say."""
    seen: bool = False
    """Whether the seeds had been seen when the claim was stated as it is."""

    @property
    def restated(self) -> bool:
        """Whether it holds on seeds that were seen before the claim was stated."""
        return self.seen and self.holds is True


def outcomes(name: str) -> dict[str, Outcome]:
    """Return the outcomes of a profile's claims in the stored studies, by id."""
    found: dict[str, Outcome] = {}
    restated = tomllib.loads(RESTATED.read_text("utf-8")).get(name, ())
    today = claim_digests(profile.load(name), "nano", {})
    for path in sorted(STUDIES.glob("*.json")):
        kept = json.loads(path.read_text("utf-8"))
        if kept["run"]["config"]["profile"] != name:
            continue
        for seeds, claims, locked in _claims(kept):
            changed = {key for key in locked if locked[key] != today.get(key)}
            for claim in claims:
                outcome = _outcome(claim, seeds, changed if locked else restated)
                if outcome and _precedence(outcome) > _precedence(found.get(claim["id"])):
                    found[claim["id"]] = outcome
    return found


def _precedence(outcome: Outcome | None) -> tuple[bool, int]:
    """Return what tells which of two outcomes counts: that of seeds unseen when it was stated."""
    return (not outcome.seen, outcome.seeds) if outcome else (False, 0)


def _claims(
    kept: Mapping[str, Any],
) -> Iterator[tuple[int, Sequence[Mapping[str, Any]], Mapping[str, str]]]:
    """Yield the numbers of seeds, the claims and the lock of a stored study and those beside it."""
    config = kept["run"]["config"]
    yield len(config.get("seeds", (0,))), kept.get("claims", []), config.get("lock", {})
    for beside in ("again", "more", "fresh", "locked"):
        if beside in kept:
            claims = [{"id": key, **value} for key, value in kept[beside]["claims"].items()]
            yield len(kept[beside]["seeds"]), claims, kept[beside].get("lock", {})


def _outcome(claim: Mapping[str, Any], seeds: int, seen: Collection[str]) -> Outcome | None:
    numbers = _NUMBERS.match(claim["detail"])
    if claim["detail"].startswith("not measured") or not numbers:
        return None
    left, right = float(numbers[1]), float(numbers[3])
    against = {
        ">": left <= right, ">=": left < right, "<": left >= right, "<=": left > right,
    }[numbers[2]]  # fmt: skip
    contrary = against and (left, right) != (0, 0)
    return Outcome(claim["holds"], seeds, contrary, claim["id"] in seen)


def state(entry: CoverageEntry, claims: Sequence[str], found: Mapping[str, Outcome]) -> str:
    """Return how a table or figure came out."""
    if entry.state != "measured":
        return entry.state
    if not claims:
        return "figures only"
    measured = [found[claim] for claim in claims if claim in found]
    if any(one.holds is False for one in measured):
        return "contrary"
    if any(one.holds is None and one.against for one in measured):
        return "contrary by value"
    if any(one.holds and not one.restated for one in measured):
        return "shown"
    return "restated" if any(one.restated for one in measured) else "open"


def table(covered: PaperCoverage, found: Mapping[str, Outcome]) -> list[str]:
    """Return the lines of a Markdown table: every source, its state, and what is here about it."""
    head = ["| source | what it shows | state | here |", "| --- | --- | --- | --- |"]
    for entry in covered.covered:
        claims = covered.claims_of(entry)
        head.append(
            f"| {entry.source} | {entry.what} | {state(entry, claims, found)} | "
            f"{_notes(entry, claims, covered.figures_of(entry), found)} |"
        )
    return head


def _notes(
    entry: CoverageEntry, claims: Sequence[str], figures: int, found: Mapping[str, Outcome]
) -> str:
    grouped: dict[str, list[str]] = {}
    for claim in claims:
        grouped.setdefault(_word(found.get(claim)), []).append(f"`{claim}`")
    words = ("fails", "open, against it by value", "holds", "open", "restated", "not measured")
    notes = [f"{word}: {', '.join(grouped[word])}" for word in words if word in grouped]
    if figures:
        notes.append(f"{figures} figure{'s' * (figures > 1)} beside ours")
    return "; ".join(note.replace("|", "\\|") for note in [*notes, entry.reason] if note)


def _word(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not measured"
    if outcome.holds is None:
        return "open, against it by value" if outcome.against else "open"
    return "fails" if not outcome.holds else "restated" if outcome.restated else "holds"


def summary(covered: PaperCoverage, found: Mapping[str, Outcome]) -> str:
    """Return how many tables and figures there are, and how many of each state."""
    counted = Counter(
        state(entry, covered.claims_of(entry), found)
        for entry in covered.covered
        if re.match(r"(table|figure) \d+$", entry.source)
    )
    counts = ", ".join(f"{counted[name]} {name}" for name in STATES if counted[name])
    return f"{counted.total()} tables and figures: {counts}"


def _cut() -> Iterator[str]:
    """Yield the page's list of the claims that were cut."""
    yield "## Claims that were cut"
    rows = ["| profile | claims | why |", "| --- | --- | --- |"]
    for name, groups in tomllib.loads(CUT.read_text("utf-8")).items():
        for group in groups:
            ids = ", ".join(f"`{claim}`" for claim in group["claims"])
            rows.append(f"| `{name}` | {ids} | {group['reason']} |")
    yield "\n".join(rows)


def page() -> str:
    """Return the page."""
    parts, counts = [], []
    for name in profile.shipped_profiles():
        chosen = profile.load(name)
        if not chosen.paper:
            continue
        found = outcomes(name)
        words = Counter(_word(found.get(claim.id)).split(",")[0] for claim in chosen.claims)
        numbers = (words[word] for word in ("holds", "fails", "open", "restated", "not measured"))
        counts.append(f"| `{name}` | {len(chosen.claims)} | {' | '.join(map(str, numbers))} |")
        covered = chosen.covered()
        parts += [
            f"## `{name}`",
            f"*{chosen.paper}* ([measured]({PAGES[name]})): {summary(covered, found)}.",
            "\n".join(table(covered, found)),
        ]
    states = "\n".join(f"| {name} | {what} |" for name, what in STATES.items())
    head = HEAD.format(states=states, counts="\n".join(counts)).rstrip("\n")
    return "\n\n".join([head, *parts, *_cut()]) + "\n"


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        PAGE.write_text(page(), "utf-8")
    elif page() != PAGE.read_text("utf-8"):
        sys.exit(f"{PAGE} is not what the studies say: run python benchmarks/coverage.py")


if __name__ == "__main__":
    main()
