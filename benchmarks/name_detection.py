"""How many of a file's annotated names a detector finds, and how many of its finds are annotated.

    python benchmarks/name_detection.py FILE.jsonl [--half 0|1] [--ner spacy:MODEL] [--show 100]

A name is found where a span of the detector overlaps it. Files annotate what their makers looked
for, often one name a record: what the detector finds besides is printed with --show, a random
sample of it, for somebody to read; the share that are names is its precision.
"""

import argparse
import random
import time
from pathlib import Path

from fedaudit.api.records import PiiSpan
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.data import corpus


def main() -> None:
    """Print recall, time and a sample of what is not annotated, for each detector."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("file", type=Path)
    options.add_argument("--half", type=int, choices=(0, 1), help="every second record only")
    options.add_argument("--label", default="PERSON")
    options.add_argument("--ner", nargs="*", default=[])
    options.add_argument("--show", type=int, default=0)
    given = options.parse_args()
    documents = list(corpus.read(given.file, template("fed_pii")))
    if given.half is not None:
        documents = documents[given.half :: 2]
    detectors = [registry.create("detector", "names", {})]
    detectors += [registry.create("detector", "presidio", {"ner": [one]}) for one in given.ner]
    print("| detector | names | found | recall | other finds | seconds |")
    print("| --- " * 6 + "|")
    for detector in detectors:
        began = time.perf_counter()
        spans = detector.detect([one.text for one in documents])
        seconds = time.perf_counter() - began
        names = found = 0
        others = []
        for document, own in zip(documents, spans, strict=True):
            people = [span for span in own if span.label == given.label]
            true = [span for span in document.pii or () if span.label == given.label]
            names += len(true)
            found += sum(any(_overlap(one, other) for other in people) for one in true)
            others += [
                document.text[one.start : one.end]
                for one in people
                if not any(_overlap(one, other) for other in true)
            ]
        name = " ".join([detector.name, *getattr(detector, "ner", ())])
        row = (name, names, found, f"{found / max(1, names):.1%}", len(others), f"{seconds:.1f}")
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        for text in random.Random(0).sample(others, min(given.show, len(others))):
            print(f"    {text}")


def _overlap(one: PiiSpan, other: PiiSpan) -> bool:
    return one.start < other.end and other.start < one.end


if __name__ == "__main__":
    main()
