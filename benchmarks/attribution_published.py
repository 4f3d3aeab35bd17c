"""How often the rule as the paper has it, Z > 4, flags innocent clients: made-up federations.

    python benchmarks/attribution_published.py

Ten clients, three of them marked, five rounds, K = 5 pairs, m = 5. "As published" has no limit on
coefficients and takes ten paraphrases for independent, which makes a score the root of ten times as
large; this tool's protocol limits coefficients to 0.4 and counts paraphrases once. How an estimate
answers to others' marked updates is a law of federations.py. Intervals of 95 % are over federations
(normal, of their shares of flagged clients), since clients of one federation share marks.
"""

import numpy as np
from federations import LIMIT, SIGNAL, Federation, federation

from fedaudit.metrics.attribution.stouffer import THRESHOLD

FEDERATIONS = 400
PARAPHRASES = 10


def rates(limit: float, factor: float, law: str) -> np.ndarray:
    """Return each federation's share of innocent clients with Z > 4 by any mark."""
    rng = np.random.default_rng(11)
    one = Federation(name="", nulls=0, limit=limit, signal=SIGNAL * factor, leak=law)
    shares = []
    for _ in range(FEDERATIONS):
        scores, truth, _ = federation(rng, one)
        flagged = [
            any(
                sum(kept.clients[who][mark].z for kept in scores.rounds) / len(scores.rounds) ** 0.5
                > THRESHOLD
                for mark in scores.marks
            )
            for who in scores.clients
            if who not in truth
        ]
        shares.append(np.mean(flagged))
    return np.array(shares)


def main() -> None:
    """Print the table in Markdown."""
    print("| answers | limit | paraphrases | innocent clients flagged, % |")
    print("| --- | --: | --- | --: |")
    for law in ("linear", "0.5", "0.4"):
        for limit, factor in ((1.0, PARAPHRASES**0.5), (1.0, 1.0), (LIMIT, 1.0)):
            found = 100 * rates(limit, factor, law)
            error = 1.96 * found.std() / len(found) ** 0.5
            says = "independent" if factor > 1 else "count once"
            print(f"| {law} | {limit:g} | {says} | {found.mean():.1f} ± {error:.1f} |", flush=True)


if __name__ == "__main__":
    main()
