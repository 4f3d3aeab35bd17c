"""Random texts that have much in common, for comparing detectors, and the detector's steps."""

from fedaudit.metrics.overlap.classifier import filter_passages
from fedaudit.metrics.overlap.passages import extend_seeds
from fedaudit.metrics.overlap.seeds import Pair

# fmt: off
WORDS = [
    "applicant", "detained", "eleven", "months", "facility", "outside", "capital", "court",
    "ordered", "ministry", "damages", "widow", "officer", "water", "council", "budget", "pumps",
    "doctor", "patient", "fever", "cannot", "the", "and", "was", "with",
]
# fmt: on
ENDS = (".", ".", ".", "!", "?", "...", '."', "!!!", "", " .")
JOINTS = (" ", " ", "  ", "\n", " \n\n")


def sentence(draw, vocabulary):
    words = [draw.choice(vocabulary) for _ in range(draw.choice([1, 2, 3, 5, 8, 12, 14]))]
    text = " ".join(words).capitalize()
    if draw.random() < 0.1:
        text = '"' + text
    if draw.random() < 0.2:
        text = text.replace(" ", ", ", 1)
    return text + draw.choice(ENDS)


def text_pair(draw, most=20):
    """Return two texts of few words; the second holds some sentences of the first."""
    vocabulary = draw.sample(WORDS, draw.choice([4, 8, 12, 20, 24]))
    a, b = (
        [sentence(draw, vocabulary) for _ in range(draw.randint(1, draw.choice([4, most])))]
        for _ in "ab"
    )
    for _ in range(draw.randint(0, 3)):
        b.insert(draw.randint(0, len(b)), draw.choice(a))
    for _ in range(draw.randint(0, 2)):
        a.insert(draw.randint(0, len(a)), draw.choice(a))
    joint = draw.choice(JOINTS)
    return joint.join(a), joint.join(b)


def steps_of(a, b):
    """Return the seeds of two prepared texts, and the passages with either gap."""
    pair, settings = Pair(a, b), a.settings
    seeds = pair.seeds()
    gaps = (settings.gap, settings.wide_gap)
    return seeds, *(filter_passages(pair, extend_seeds(pair, seeds, gap)) for gap in gaps)
