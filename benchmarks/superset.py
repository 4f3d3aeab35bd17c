"""Building, ordering and streaming Set(SUP) as it grows: processor time and peak memory.

    python benchmarks/superset.py [--sizes 10000 100000 1000000 3000000] [--samples 1]

Each size runs in a process of its own. Contexts of 50 tokens are drawn from Zipf's distribution
over 50,000 tokens, so that short sub-prefixes recur and long ones hardly do, as in text; there are
as many of them as it takes. `build` makes, counts and orders the set; `stream` goes through it
once; `attack` is all of the attack `superset` against a fake engine that says something else each
time, scored against 1,000 targets. Memory is the peak resident set, of which the interpreter
with numpy takes the line "empty".
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from fedaudit_plugins.attacks.prefix.subprefixes import distinct_subprefixes

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.plugin import AttackContext
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Document, PiiSpan, Target
from fedaudit.config import registry
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction.prefixes import PiiOccurrence

CONTEXT, VOCABULARY, TARGETS = 50, 50_000, 1_000


class Babbler(FakeEngine):
    """Keeps no questions and says a different number each time; some of them are targets."""

    said = 0

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Answer every probe."""
        answers = []
        for request in batch.requests:
            numbers = range(self.said, self.said + request.samples)
            self.said += request.samples
            answers.append(
                Completion(tuple(f" P{n * 7919 % 10_000_000:07d} sued" for n in numbers))
            )
        return answers


def drawn(size: int) -> list[PiiOccurrence]:
    """Return contexts whose sub-prefixes are about `size`."""
    rng = np.random.default_rng(0)
    per_context = 47.8  # measured: short suffixes recur
    tokens = np.minimum(rng.zipf(1.3, (round(size / per_context), CONTEXT)), VOCABULARY - 1)
    return [
        PiiOccurrence(
            prefix=tuple(map(int, row)), tokens=(), at_start=False, label="PERSON", after=","
        )
        for row in tokens
    ]


def megabytes() -> float:
    """Return the process's peak memory so far, in millions of bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def attacked(places: list[PiiOccurrence], samples: int) -> float:
    """Return the seconds that the whole attack takes."""
    fake = Babbler(lambda target, prompt, sample: "")
    texts = [f"P{n * 7919:07d}" for n in range(TARGETS)]
    victim = [Document(id=t, text=t, pii=(PiiSpan(0, len(t), "PERSON"),)) for t in texts]
    case = AttackContext(
        engine=fake, tuned=Target(name="tuned"), base=None, attacker=[], victim=victim, seed=0
    )
    attack = registry.create("attack", "superset", {"samples": samples})
    found = distinct_subprefixes(places, CONTEXT)
    began = time.process_time()
    cls = type("Given", (type(attack),), {"places": lambda self, case: found.first(len(found))})
    result = cls(samples=samples).run(case)
    assert any(row.metric == "coverage" and row.hits for row in result.measurements)
    return time.process_time() - began


def measure(size: int, samples: int) -> dict[str, float]:
    """Return one line of the table, measured in this process."""
    if not size:
        return {"places": 0, "set": 0, "megabytes": megabytes()}
    places = drawn(size)
    line = {"places": len(places), "before": megabytes()}
    began = time.process_time()
    found = distinct_subprefixes(places, CONTEXT)
    line["build"] = time.process_time() - began
    line["set"] = len(found)
    line["built"] = megabytes()
    began = time.process_time()
    assert sum(1 for _ in found) == len(found)
    line["stream"] = time.process_time() - began
    line["attack"] = attacked(places, samples)
    line["megabytes"] = megabytes()
    return line


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**4, 10**5, 10**6, 3 * 10**6])
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(given.one, given.samples)))
        return
    print(
        f"{'contexts':>9} {'Set(SUP)':>10} {'build s':>8} {'stream s':>9} {'attack s':>9} {'MB':>6}"
    )
    for size in (0, *given.sizes):
        command = [sys.executable, __file__, "--one", str(size), "--samples", str(given.samples)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        one = json.loads(done.stdout)
        times = "".join(
            f" {one.get(k, 0):>{w}.2f}" for k, w in (("build", 8), ("stream", 9), ("attack", 9))
        )
        print(f"{one['places']:>9,} {one['set']:>10,}{times} {one['megabytes']:>6,.0f}")


if __name__ == "__main__":
    main()
