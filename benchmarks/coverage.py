"""What becomes of every table and figure of the five papers, as the page docs/coverage.md.

python benchmarks/coverage.py            writes the page from the profiles
python benchmarks/coverage.py --show     prints it
"""

import argparse
from pathlib import Path

from fedaudit.config import coverage, profile

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"

HEAD = """# Coverage: every table and figure of the five papers

`python benchmarks/coverage.py` makes this page from `[[coverage]]` in the profiles; a test holds
the two together.

| state | |
| --- | --- |
{states}

"Measured here" is at nano scale, on two cores, with made-up records and the built-in base. What
stands against a contrary one is a claim in the paper's direction that fails; `fedaudit reproduce`
counts it like any other and says so with its exit code. The states are those of the measurements
in each paper's page, most of ablations of one seed; a run says for itself which claims hold, fail
or are open ([when a claim holds](profiles.md#when-a-claim-holds)). "Figures" are published numbers
that `reproduce` prints beside ours.
"""

PAGES = {
    "fed_attr": "fed-attr-study.md",
    "fed_pii": "fed-pii.md",
    "few_fed_pit": "few-fed-pit-baselines.md",
    "memorization": "memorization.md",
    "secure_gate": "secure-gate.md",
}


def page() -> str:
    """Return the page."""
    states = "\n".join(f"| {state} | {what} |" for state, what in coverage.STATES.items())
    parts = [HEAD.format(states=states)]
    for name in profile.shipped_profiles():
        chosen = profile.load(name)
        if not chosen.paper:
            continue
        parts += [
            f"## `{name}`",
            f"*{chosen.paper}* ([measured]({PAGES[name]})): {coverage.summary(chosen.coverage)}.",
            "\n".join(coverage.table(chosen.covered())) + "\n",
        ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def main() -> None:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true")
    if parser.parse_args().show:
        print(page(), end="")
    else:
        PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
