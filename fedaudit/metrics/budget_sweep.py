"""What a smaller budget would have found, read off one run (FedPII, section 5.2, figure 4)."""


class BudgetCurve:
    """The number of prefixes, in the order of asking, after which each target is first found.

    Sample i of a prompt depends only on the seed, the prompt and i. So the answers of a run with a
    smaller budget, or with fewer samples per prefix, are among those of the larger run:
    `needed[s][n - 1]` is exactly the budget at which a separate run with `n` samples per prefix
    first finds s.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.needed: dict[str, list[float]] = {}

    def add(self, target: str, *, start: int, draw: int, copies: int = 1) -> None:
        """Count draw number `draw` of a prompt that stands for `copies` equal prefixes.

        These are the prefixes `start`, `start + 1`, ... in the order of asking. With n samples
        each, prefix `start + k` has the draws from k n to (k + 1) n - 1.
        """
        budgets = self.needed.setdefault(target, [float("inf")] * self.samples)
        if start >= max(budgets):
            return
        for n in range(1, self.samples + 1):
            if (copy := draw // n) < copies:
                budgets[n - 1] = min(budgets[n - 1], start + copy + 1)

    def merge(self, curve: "BudgetCurve") -> None:
        """Merge in the curve of another part of the same sequence of prefixes."""
        for target, budgets in curve.needed.items():
            ours = self.needed.setdefault(target, [float("inf")] * self.samples)
            ours[:] = map(min, ours, budgets)

    def extracted_targets(self, budget: float, samples: int) -> set[str]:
        """Return the targets that the first `budget` prefixes find with `samples` draws each."""
        return {t for t, needed in self.needed.items() if needed[samples - 1] <= budget}


def budget_steps(most: int) -> tuple[int, ...]:
    """Return 1, 2, 5, 10, 20, ... below `most`, and `most`: about evenly spaced on a log scale."""
    powers = (10**exponent for exponent in range(len(str(most))))
    below = (step * power for power in powers for step in (1, 2, 5))
    return (*(step for step in below if step < most), *([most] if most > 0 else []))
