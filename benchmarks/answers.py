"""How large a cache of answers and its audit become: size on disk, memory, time.

    python benchmarks/answers.py [--probes 1000000] [--samples 15]

One process asks a model that costs nothing and keeps what it is told; a second one goes on with the
whole cache. The share of answers that begin with a target is far above that of a real audit.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fedaudit.api.engine import GenerationBatch
from fedaudit.api.plugin import AttackContext
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, SamplingParams, Target
from fedaudit.cache.answers import AnswerCache, CacheHeader, load
from fedaudit.engine.fake import FakeEngine
from fedaudit.extraction import sampling
from fedaudit.extraction.matcher import TargetMatcher
from fedaudit.extraction.query_plan import Query, QueryPlan
from fedaudit.extraction.sampling import QueryParams, ResponseCache, share_responses
from fedaudit.extraction.scoring import HitCounter
from fedaudit.extraction.targets import TargetSet

TARGETS = [f"{first}{last} of the city" for first in range(80) for last in range(80)]
TUNED = Target(name="tuned")
LENGTH = 50
"""Tokens of a prompt."""


class Engine(FakeEngine):
    """Says a random target in every `often`-th answer on average, and remembers no question."""

    def __init__(self, often: int) -> None:
        super().__init__(lambda *_: "")
        self.often, self.said, self.rng = often, 0, random.Random(0)

    def generate(
        self, target: Target, batch: GenerationBatch, *, progress: Progress = no_progress
    ) -> list[Completion]:
        """Answer every probe."""
        return [Completion(tuple(self._say() for _ in range(p.samples))) for p in batch.requests]

    def _say(self) -> str:
        self.said += 1
        if self.rng.randrange(self.often):
            return " nobody that anybody knows of"
        return f" {self.rng.choice(TARGETS)}, and more"


def plan(requests: int) -> QueryPlan:
    """Return distinct prompts of 50 tokens, made as they are asked."""

    def questions() -> Iterator[Query]:
        for number in range(requests):
            yield Query((*divmod(number, 1000), *range(LENGTH - 2)))

    return QueryPlan(size=requests, queries=questions)


def audit(place: Path, requests: int, samples: int, often: int) -> dict[str, float]:
    """Ask everything, or go on with what is kept; return what it took."""
    started = time.process_time()
    kept = load(place, write=True) or AnswerCache(place, CacheHeader(run="benchmark", config={}))
    known, engine = kept.loaded_answers, Engine(often)
    case = AttackContext(engine=engine, tuned=TUNED, base=None, attacker=[], victim=None)
    target_set = TargetSet(labels=dict.fromkeys(TARGETS, "X"))
    query_params = QueryParams(samples=samples, new_tokens=10, decoding=SamplingParams())
    answers = sampling.ask_plan(
        share_responses(case, ResponseCache(), kept),
        TUNED,
        plan(requests),
        query_params,
        TargetMatcher(TARGETS),
    )
    heard = HitCounter(target_set, samples).update(answers)
    kept.close()
    return {
        "known": known,
        "drawn": engine.said,
        "hits": heard.counts.total(),
        "processor seconds": round(time.process_time() - started, 1),
        "bytes": kept.path.stat().st_size,
        "peak_kB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def main() -> None:
    """Run both processes and print what each took; with --place, one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--probes", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--often", type=int, default=10)
    parser.add_argument("--place", type=Path)
    options = parser.parse_args()
    if options.place:
        found = audit(options.place, options.probes, options.samples, options.often)
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as place:
        for what in ("asked and kept", "gone on with"):
            command = [sys.executable, __file__, *sys.argv[1:], "--place", place]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            print(f"{what}: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main()
