"""What the paper's pairs of sets and shared sets cost, find and give away on the same federations.

    python benchmarks/attribution_by_protocol.py FEDERATION [...] --out DIR [--seeds 0 1 2]

Each federation, simulated with marks, is attributed by `fedaudit attribute --protocol`, once for
each seed of the sets. A row has the sums and their size, the seconds that they and the tests took,
how many clients' updates a round's sums determine, the fewest clients that a sum is over, the
variance factor (1 is a mask as strong as an update), Z of marked clients on average by seed, and
who is flagged. Reports are kept in DIR; a run goes on where another stopped.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fedaudit.attribution.server.estimation import update_dimension
from fedaudit.attribution.server.protocol_config import ProtocolConfig
from fedaudit.attribution.server.sum_plan import draw_sum_plan
from fedaudit.federation.folder import open_federation

PROTOCOLS = ("pairs", "shared")
FLOAT = 4
"""Bytes of a number in a sum."""

Report = Mapping[str, Any]


def attributed(federation: Path, protocol: str, seed: int, out: Path) -> Report:
    """Return the report of one attribution, which is made unless it is kept."""
    folder = out / f"{federation.name}-{protocol}-{seed}"
    if not (folder / "report.json").exists():
        words = ["attribute", "--rounds", str(federation), "--protocol", protocol, "--quiet"]
        words += ["--seed", str(seed), "--workers", "1", "--out", str(folder)]
        command = [sys.executable, "-m", "fedaudit", *words]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        if done.returncode not in (0, 1, 7):
            raise SystemExit(f"{federation} by {protocol} ended with {done.returncode}.")
    report: Report = json.loads((folder / "report.json").read_text("utf-8"))
    return report


def values(report: Report, metric: str, **scope: object) -> list[float]:
    """Return the values of the protocol's rows of a metric whose scope has all of `scope`."""
    return [
        row["value"]
        for row in report["measurements"]
        if (row["plugin"], row["metric"]) == ("fed_attr", metric)
        and scope.items() <= row["scope"].items()
    ]


def row(federation: Path, protocol: str, reports: Sequence[Report]) -> str:
    """Return a line of Markdown about one federation's attributions by one protocol."""
    plan = draw_sum_plan(open_federation(federation), ProtocolConfig(protocol=protocol))
    size = plan.queries * update_dimension(plan) * FLOAT / 2**20
    rates = {
        metric: [
            one
            for report in reports
            for one in report["measurements"]
            if (one["plugin"], one["metric"]) == ("fed_attr", metric)
        ]
        for metric in ("tpr", "fpr")
    }
    found = [
        f"{sum(r['hits'] for r in rows)} of {sum(r['n'] for r in rows)}" for rows in rates.values()
    ]
    seconds = [
        mean(v for report in reports for v in values(report, "seconds", step=step))
        for step in ("sums", "scoring")
    ]
    z_values = [mean(values(report, "stouffer_z", clients="marked")) for report in reports]
    cells = [
        federation.name,
        protocol,
        f"{plan.queries:,}",
        f"{size:,.0f}",
        *(f"{value:.1f}" for value in seconds),
        f"{max(v for report in reports for v in values(report, 'determined')):g}",
        f"{min(v for report in reports for v in values(report, 'smallest_set')):g}",
        f"{mean(v for report in reports for v in values(report, 'estimator_variance')):.2f}",
        ", ".join(f"{z:.1f}" for z in z_values),
        *found,
    ]
    return f"| {' | '.join(cells)} |"


def table(federations: Sequence[Path], seeds: Sequence[int], out: Path) -> Iterator[str]:
    """Yield the table's lines, each as soon as its attributions are there."""
    names = (
        "federation", "protocol", "sums", "MiB", "s for sums", "s for tests", "determined",
        "smallest set", "variance factor", "mean Z of marked clients", "marked flagged",
        "innocent flagged",
    )  # fmt: skip
    yield f"| {' | '.join(names)} |"
    yield f"| {' | '.join('---' for _ in names)} |"
    for federation in federations:
        for protocol in PROTOCOLS:
            reports = [attributed(federation, protocol, seed, out) for seed in seeds]
            yield row(federation, protocol, reports)


def main() -> None:
    """Attribute and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("federations", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    for line in table(given.federations, given.seeds, given.out):
        print(line, flush=True)


if __name__ == "__main__":
    main()
