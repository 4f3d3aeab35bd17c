"""Recall and precision of the names that detectors find, by layout, script and culture group.

    python benchmarks/name_detection.py [--half tuning|held-out|afterwards] [--ner spacy:MODEL]
    python benchmarks/name_detection.py --file FILE.jsonl [--half ...] [--show 100]

Without --file the sentences are those of name_sentences.toml: every layout with people of every
group, and sentences without names. A name is *touched* if a find overlaps it and *whole* if finds
cover all its letters; a find is *right* if it has no letter outside a name and its title. --file
measures recall on annotated records instead; their makers may have marked only some of the names,
so precision is not computed there: --show prints a sample of the other finds to be read.
"""

import argparse
import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedaudit.api import PiiDetector
from fedaudit.api.templates import template
from fedaudit.config import registry
from fedaudit.data import corpus

HALVES = ("tuning", "held-out")
AFTERWARDS = "afterwards"
"""Sentences that were written after the rules."""
SENTENCES = Path(__file__).with_name("name_sentences.toml")
_TITLE = re.compile(r"(?:(?:mr|mrs|ms|miss|dr|prof|professor|rev|med)\b\.?\s*)+", re.IGNORECASE)
_JOINED = re.compile(r"[ ,.]*")
Names = list[tuple[int, int]]


class Sentence(NamedTuple):
    """A text, where its names are, and the groups that it counts in."""

    text: str
    names: Names
    groups: tuple[str, ...]


def main() -> None:
    """Print a table for each detector."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--file", type=Path)
    options.add_argument("--half", choices=(*HALVES, AFTERWARDS))
    options.add_argument("--label", default="PERSON")
    options.add_argument("--ner", nargs="*", default=[])
    options.add_argument("--show", type=int, default=0)
    given = options.parse_args()
    sentences = list(_of_file(given) if given.file else _of_table(given.half))
    detectors = [registry.create("detector", "names", {})]
    detectors += [
        registry.create("detector", name, {"ner": [model]})
        for model in given.ner
        for name in ("presidio", "names")
    ]
    for detector in detectors:
        print("\n" + " ".join([detector.name, *getattr(detector, "ner", ())]))
        _print_table(detector, sentences, given.label, given.show, precise=not given.file)


def sentences_of(half: str | None, table: Mapping[str, Any]) -> Iterator[Sentence]:
    """Yield the sentences of a half of the table, of both, or those written afterwards."""
    if half == AFTERWARDS:
        for script, name in (("latin", "Latin script"), ("chinese", "Chinese")):
            for line in table[half][script].strip().splitlines():
                text = line.replace(r"\n", "\n").replace(r"\t", "\t")
                yield Sentence(*_marked(text), (f"{name}, written afterwards",))
    for number, name in enumerate(HALVES):
        if half in (None, name):
            yield from _half(table, number)


def judge(
    detector: PiiDetector, sentences: Sequence[Sentence], label: str = "PERSON"
) -> tuple[dict[str, list[int]], list[tuple[str, str]]]:
    """Return counts by group, and what was missed or wrongly found.

    The counts are names, touched, whole, finds, right finds, sentences, sentences with a wrong
    find.
    """
    counts: dict[str, list[int]] = defaultdict(lambda: [0] * 7)
    faults: list[tuple[str, str]] = []
    for sentence, spans in zip(
        sentences, detector.detect([s.text for s in sentences]), strict=True
    ):
        text, finds = sentence.text, [(s.start, s.end) for s in spans if s.label == label]
        right = [_is_right(find, sentence) for find in finds]
        touched = [any(s < e2 and s2 < e for s2, e2 in finds) for s, e in sentence.names]
        whole = [_is_whole(name, text, finds) for name in sentence.names]
        row = [len(touched), sum(touched), sum(whole), len(finds), sum(right), 1, not all(right)]
        for group in sentence.groups:
            counts[group] = [a + b for a, b in zip(counts[group], row, strict=True)]
        faults += [
            ("missed", f"{text[s:e]!r} in {text!r}")
            for (s, e), found in zip(sentence.names, whole, strict=True)
            if not found
        ]
        faults += [
            ("wrong", f"{text[s:e]!r} in {text!r}")
            for (s, e), good in zip(finds, right, strict=True)
            if not good
        ]
    return counts, faults


def _print_table(
    detector: PiiDetector, sentences: Sequence[Sentence], label: str, show: int, *, precise: bool
) -> None:
    counts, faults = judge(detector, sentences, label)
    print("| group | sentences | names | touched | whole | precision | wrong sentences |")
    print("| --- " * 7 + "|")
    for group, (names, touched, whole, finds, right, number, wrong) in counts.items():
        shares = (_share(touched, names), _share(whole, names))
        last = (_share(right, finds), wrong) if precise else ("", "")
        print(f"| {' | '.join(map(str, (group, number, names, *shares, *last)))} |")
    for kind, text in random.Random(0).sample(faults, min(show, len(faults))):
        print(f"    {kind}: {text}")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _is_right(find: tuple[int, int], sentence: Sentence) -> bool:
    start, end = find
    inside = {i for s, e in sentence.names for i in range(s, e)}
    if title := _TITLE.match(sentence.text, start, end):
        start = title.end()
    return all(i in inside for i in range(start, end) if sentence.text[i].isalpha())


def _is_whole(name: tuple[int, int], text: str, finds: Names) -> bool:
    covered = {i for s, e in finds for i in range(s, e)}
    return all(i in covered for i in range(*name) if text[i].isalpha())


def _of_table(half: str | None) -> Iterator[Sentence]:
    return sentences_of(half, tomllib.loads(SENTENCES.read_text("utf-8")))


def _half(table: Mapping[str, Any], half: int) -> Iterator[Sentence]:
    for number, (group, line) in enumerate(table["people"].items()):
        people = [tuple(person.split("|")) for person in line.split(";")][half::2]
        for position, (layout, forms) in enumerate(table["layouts"].items()):
            form = forms[half::2][(number + position) % 2]
            text, names = _filled(form, people, position)
            groups = ("Latin script, all", f"layout {layout}", f"people {group}")
            yield Sentence(text, names, groups)
    for line in table["without"]["latin"].strip().splitlines()[half::2]:
        text = line.replace(r"\n", "\n").replace(r"\t", "\t")
        yield Sentence(text, [], ("Latin script, all", "Latin script, no name"))
    for key, group in (("chinese", "Chinese"), ("other_scripts", "other scripts")):
        lines = table[key]["sentences"].strip().splitlines()
        named = [line for line in lines if "{" in line]
        bare = [line for line in lines if "{" not in line]
        for line in named[half::2]:
            yield Sentence(*_marked(line), (f"{group}, names",))
        for line in bare[half::2]:
            yield Sentence(line, [], (f"{group}, no name",))


def _filled(form: str, people: Sequence[tuple[str, ...]], position: int) -> tuple[str, Names]:
    """Return a layout with people in it, and where they stand."""
    values: dict[str, str] = {}
    for suffix, step in (("", 0), ("2", 5), ("3", 11)):
        given, family = people[(position + step) % len(people)]
        values |= {
            f"given{suffix}": given,
            f"family{suffix}": family,
            f"full{suffix}": f"{given} {family}",
            f"FAMILY{suffix}": family.upper(),
            f"initial{suffix}": given[0],
        }
    return _marked(re.sub(r"\{(\w+)\}", lambda match: "{" + values[match[1]] + "}", form))


def _marked(line: str) -> tuple[str, Names]:
    """Return a line without its braces, and what they were around; neighbours are one name."""
    text, names = "", list[tuple[int, int]]()
    for piece in re.split(r"(\{[^{}]*\})", line):
        if not piece.startswith("{"):
            text += piece
            continue
        start, text = len(text), text + piece[1:-1]
        if names and _JOINED.fullmatch(text, names[-1][1], start):
            names[-1] = (names[-1][0], len(text))
        else:
            names.append((start, len(text)))
    return text, names


def _of_file(given: argparse.Namespace) -> Iterator[Sentence]:
    documents = list(corpus.read(given.file, template("fed_pii")))
    if given.half in HALVES:
        documents = documents[HALVES.index(given.half) :: 2]
    for document in documents:
        spans = [s for s in document.pii or () if s.label == given.label]
        yield Sentence(document.text, [(s.start, s.end) for s in spans], ("records",))


if __name__ == "__main__":
    main()
