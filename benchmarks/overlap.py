"""The overlap detector beside the published steps taken one by one, over the same pairs.

    python benchmarks/overlap.py [--texts 1000] [--each 10] [--peer 40] [--repeats 3]

Every generated text is compared with ten training suffixes, as in a memorization matrix; sizes go
from 80 x 60 to 1000 x 1500 words, and a third of the generated texts copy some sentences. There are
two peers, and the ratio to each is printed:

* the published program as it is, by its recorded times: 35 ms for the smallest pairs, 90 ms for the
  largest, 250 ms with long copies, of another machine. It loads Punkt anew for every pair; what
  that costs here is measured, from files in the format that it reads.
* its steps with Punkt loaded once: the slow reference of the tests, on every n-th pair, in this
  process. Both must give the same verdicts and spans.

"Prepared": suffixes and generations prepared before the clock starts. "First": preparing by a
process that has seen no word before. Times are CPU times of this process.
"""

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import nltk
from nltk.data import FileSystemPathPointer
from nltk.tokenize.punkt import load_punkt_params, save_punkt_params
from pan_reference import answer, punkt_parameters, units

from fedaudit.metrics.overlap import (
    DEFAULT,
    ORIGINAL,
    OverlapSettings,
    compare_prepared,
    prepare_text,
    prepare_texts,
)

PUBLISHED_MS = (35.0, 90.0)
"""What the published program takes for 80 x 60 and for 1000 x 1500 words on one core."""
VOCABULARY = 8000


def vocabulary(draw: random.Random) -> tuple[list[str], list[float]]:
    """Return made-up words, and their Zipf weights."""
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    words = {"".join(draw.choices(syllables, k=draw.randint(1, 5))) for _ in range(VOCABULARY)}
    return sorted(words), [1 / (rank + 5) for rank in range(len(words))]


def text(draw: random.Random, words: tuple[list[str], list[float]], count: int) -> list[str]:
    """Return sentences of 8 to 25 words, `count` words together."""
    found: list[str] = []
    while count > 0:
        size = min(count, draw.randint(8, 25))
        found.append(" ".join(draw.choices(*words, k=size)).capitalize() + ".")
        count -= size
    return found


def texts(draw: random.Random, count: int) -> tuple[list[str], list[str]]:
    """Return training suffixes and generated texts, both from small to large."""
    words = vocabulary(draw)
    training, generated = [], []
    for number in range(count):
        size = number / max(1, count - 1)
        ours = text(draw, words, round(80 * (1000 / 80) ** size))
        theirs = text(draw, words, round(60 * (1500 / 60) ** size))
        if draw.random() < 1 / 3:
            at, to, copied = (
                draw.randrange(len(ours)),
                draw.randrange(len(theirs)),
                draw.randint(1, 4),
            )
            theirs[to : to + copied] = ours[at : at + copied]
        training.append(" ".join(ours))
        generated.append(" ".join(theirs))
    return training, generated


def fast(
    training: list[str],
    generated: list[str],
    pairs: list[tuple[int, int]],
    settings: OverlapSettings,
) -> tuple[float, float, Counter[str]]:
    """Return the seconds for preparing and for comparing, and the verdicts."""
    began = time.process_time()
    sides = [prepare_texts(side, settings) for side in (training, generated)]
    ready = time.process_time()
    verdicts = Counter[str](compare_prepared(sides[0][i], sides[1][j]).verdict for i, j in pairs)
    return ready - began, time.process_time() - ready, verdicts


def slow(
    training: list[str], generated: list[str], pairs: list[tuple[int, int]]
) -> tuple[float, int]:
    """Return the peer's seconds, and on how many pairs the two agree."""
    began = time.process_time()
    answers = [answer(training[i], generated[j]) for i, j in pairs]
    spent = time.process_time() - began
    agreed = 0
    for (i, j), expected in zip(pairs, answers, strict=True):
        ours = compare_prepared(
            prepare_text(training[i], ORIGINAL), prepare_text(generated[j], ORIGINAL)
        )
        same = sorted(ours.spans) == sorted(expected["spans"])
        agreed += same and ours.verdict == expected["verdict"]
    return spent, agreed


def loading(repeats: int) -> float:
    """Return the least seconds for reading Punkt's English model from files, as NLTK keeps it."""
    spent = []
    with TemporaryDirectory() as place:
        nltk.data.path.append(place)  # it reads and writes nowhere else
        save_punkt_params(punkt_parameters(), place)
        for _ in range(repeats):
            began = time.process_time()
            load_punkt_params(FileSystemPathPointer(place))
            spent.append(time.process_time() - began)
    return min(spent)


def prepare_time(texts: list[str], repeats: int, obvious: int) -> tuple[float, float, float]:
    """Return the seconds a text: words not seen before, seen before, and by the obvious way."""
    spent = []
    for _ in range(repeats + 1):
        began = time.process_time()
        prepare_texts(texts, ORIGINAL)
        spent.append((time.process_time() - began) / len(texts))
    sample = texts[:: max(1, len(texts) // obvious)]
    began = time.process_time()
    for text in sample:
        units(text)
    return spent[0], min(spent[1:]), (time.process_time() - began) / len(sample)


def main() -> None:
    """Print pairs per second and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("texts", 1000), ("each", 10), ("peer", 40), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    training, generated = texts(random.Random(0), given.texts)
    pairs = [((j + k) % given.texts, j) for j in range(given.texts) for k in range(given.each)]
    sample = pairs[:: max(1, len(pairs) // given.peer)][: given.peer]
    answer("A first text.", "Another one.")  # Models are loaded before any clock starts.
    prepare_text("A first text.", ORIGINAL)
    first, again, obvious = prepare_time(training + generated, given.repeats, given.peer)
    whole, compared, ratios = [], [], []
    for _ in range(given.repeats):
        spent, agreed = slow(training, generated, sample)
        preparing, comparing, verdicts = fast(training, generated, pairs, ORIGINAL)
        whole.append(len(pairs) / (preparing + comparing))
        compared.append(len(pairs) / comparing)
        ratios.append(whole[-1] * spent / len(sample))
    print(f"{len(pairs)} pairs: {dict(verdicts.most_common())}")
    print(f"agreed with the peer on {agreed} of {len(sample)} pairs, verdict and spans")
    print(f"pairs a second, preparing included: {median(whole):8.0f}")
    print(f"pairs a second, prepared:           {median(compared):8.0f}")
    default = fast(training, generated, pairs, DEFAULT)
    print(f"pairs a second, default settings:   {len(pairs) / sum(default[:2]):8.0f}")
    print(f"preparing a text: first {1e6 * first:.0f} us, again {1e6 * again:.0f} us,", end=" ")
    print(
        f"with NLTK alone {1e6 * obvious:.0f} us: x {obvious / first:.0f} and {obvious / again:.0f}"
    )
    print(
        f"x the published steps, Punkt loaded once ({1e3 * spent / len(sample):.1f} ms a pair): "
        f"{median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f})"
    )
    low, high = (median(whole) * cost / 1e3 for cost in PUBLISHED_MS)
    print(
        f"x the published program as it is, by recorded times: {low:.0f} (if all its pairs were "
        f"small) to {high:.0f}; loading Punkt takes {1e3 * loading(given.repeats):.0f} ms here"
    )
    print("size (words)   pairs/s   x the published program")
    for first, cost in ((0, PUBLISHED_MS[0]), (given.texts - given.texts // 10, PUBLISHED_MS[1])):
        part = slice(first, first + given.texts // 10)
        near = [(i, j) for i in range(given.texts // 10) for j in range(given.texts // 10)][:1000]
        rate = len(near) / fast(training[part], generated[part], near, ORIGINAL)[1]
        words = (len(training[part.stop - 1].split()), len(generated[part.stop - 1].split()))
        print(f"to {words[0]} x {words[1]:<6} {rate:8.0f} {rate * cost / 1e3:8.0f}")


if __name__ == "__main__":
    main()
