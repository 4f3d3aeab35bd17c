"""The PAN detector step by step, slowly: what the fast one is compared with.

One pair at a time, dictionaries for vectors, a table for the common runs, NLTK for everything that
is language. Written from the description of the published detector, not from its code.
"""

import math
import re
import string
from collections import Counter
from functools import cache

from nltk.stem.porter import PorterStemmer
from nltk.tokenize.punkt import PunktLanguageVars, PunktParameters, PunktSentenceTokenizer
from nltk.tokenize.treebank import TreebankWordTokenizer


class OldQuotes(PunktLanguageVars):
    """What closes a sentence in the NLTK that the published answers were recorded with."""

    re_boundary_realignment = re.compile(r'["\')\]}]+?(?:\s+|(?=--)|$)', re.MULTILINE)

    @property
    def _re_non_word_chars(self):
        return r"(?:[)\";}\]\*:@\'\({\[?!])"


def punkt_parameters():
    from punkt.data import english

    known = PunktParameters()
    known.abbrev_types = set(english.ABBREV_TYPES)
    known.collocations = set(english.COLLOCATIONS)
    known.sent_starters = set(english.SENT_STARTERS)
    known.ortho_context.update(english.ORTHO_CONTEXT)
    return known


@cache
def punkt():
    return PunktSentenceTokenizer(punkt_parameters(), lang_vars=OldQuotes())


def split(text):
    return list(punkt().span_tokenize(text))


def unguarded(rules):
    """Return rules of NLTK's as patterns of `re`; NLTK 3.10 guards them at a price in time."""
    return [(re.compile(pattern.pattern), replacement) for pattern, replacement in rules]


class Treebank(TreebankWordTokenizer):
    def __init__(self):
        self.STARTING_QUOTES = unguarded(super().STARTING_QUOTES)
        self.PUNCTUATION = unguarded(super().PUNCTUATION)
        self.ENDING_QUOTES = unguarded(super().ENDING_QUOTES)
        (self.PARENS_BRACKETS,) = unguarded([super().PARENS_BRACKETS])
        (self.DOUBLE_DASHES,) = unguarded([super().DOUBLE_DASHES])


TREEBANK, PORTER = Treebank(), PorterStemmer()


def units(text):
    """Return [Counter of stems, start, length] for each unit, and the document frequencies."""
    text = text.replace("\0", " ")
    found = []
    for start, end in split(text):
        tokens = TREEBANK.tokenize(text[start:end].lower())
        kept = [token for token in tokens if token[0].isalnum() and len(token) >= 3]
        if kept:
            found.append([Counter(PORTER.stem(token) for token in kept), start, end - start])
    df = Counter(stem for tf, _, _ in found for stem in tf)
    return annexed(found, df), df


def annexed(found, df):
    i = 0
    while i < len(found) - 1:
        (tf, start, length), following = found[i], found[i + 1]
        if sum(tf.values()) < 3:
            df.subtract(stem for stem in tf if stem in following[0])
            found[i : i + 2] = [[tf + following[0], start, length + following[2]]]
        else:
            i += 1
    return found


def weighted(ours, df, theirs, other_df):
    total = len(ours) + len(theirs)
    return [
        {s: n * math.log(total / (df[s] + other_df[s])) for s, n in tf.items()} for tf, _, _ in ours
    ]


def cosine(x, y):
    norms = math.sqrt(sum(v * v for v in x.values())) * math.sqrt(sum(v * v for v in y.values()))
    return sum(x[s] * y[s] for s in x if s in y) / norms if norms else 0.0


def dice(x, y):
    return 2 * len(x.keys() & y.keys()) / (len(x) + len(y))


def parts_of(seeds, side, gap):
    ordered = sorted(seeds, key=lambda seed: seed[side])
    parts = []
    for seed in ordered:
        if not parts or seed[side] - parts[-1][-1][side] - 1 > gap:
            parts.append([])
        parts[-1].append(seed)
    return parts


def clusters(seeds, gap, side=0, first=True):
    parts = parts_of(seeds, side, gap)
    if len(parts) <= 1 and not first:
        return parts
    return [c for part in parts for c in clusters(part, gap, 1 - side, False)]


def case_of(seeds):
    a, b = [i for i, _ in seeds], [j for _, j in seeds]
    return (min(a), max(a), min(b), max(b))


def summed(vectors, first, last):
    total = Counter()
    for vector in vectors[first : last + 1]:
        for stem, weight in vector.items():
            total[stem] += weight
    return total


def extended(seeds, gap, wa, wb):
    cases = []
    for part in clusters(seeds, gap):
        a0, a1, b0, b1 = case_of(part)
        if cosine(summed(wa, a0, a1), summed(wb, b0, b1)) > 0.34:
            cases.append((a0, a1, b0, b1))
        elif gap > 0:
            cases += extended(part, gap - 1, wa, wb)
    return cases


def score(case, other, wa, wb):
    best = {
        i: max(cosine(wa[i], wb[j]) for j in range(case[2], case[3] + 1))
        for i in range(case[0], case[1] + 1)
    }
    shared = [v for i, v in best.items() if other[0] <= i <= other[1]]
    rest = [v for i, v in best.items() if not other[0] <= i <= other[1]]
    overlapping = sum(shared) / len(shared)
    return overlapping + ((1 - overlapping) * sum(rest) / len(rest) if rest else 0.0)


def without_overlaps(cases, wa, wb):
    cases = sorted(cases, key=lambda case: case[0])
    kept, i, pending = [], 0, False
    while i < len(cases):
        current = kept[-1] if pending else cases[i]
        n = sum(case[0] <= current[1] for case in cases[i + 1 :])
        if n == 0:
            if not pending:
                kept.append(cases[i])
            pending = False
            i += 1
            continue
        winner, height = current, 0.0
        for other in cases[i + 1 : i + 1 + n]:
            ours, theirs = score(current, other, wa, wb), score(other, current, wa, wb)
            if ours > 0.99 and theirs > 0.99:
                longer = other[1] - other[0] > current[1] - current[0]
                contender, value = (other, theirs) if longer else (current, ours)
                if value > height:
                    winner, height = contender, value
            elif theirs > ours and theirs > height:
                winner, height = other, theirs
        if not pending:
            kept.append(winner)
        else:
            kept[-1] = winner
        i += n
        pending = True
    return kept


def characters(found, first, last):
    return found[first][1], found[last][1] + found[last][2]


def filtered(cases, ua, ub, wa, wb):
    left = without_overlaps(cases, wa, wb)
    spans = [(*characters(ua, c[0], c[1]), *characters(ub, c[2], c[3])) for c in left]
    return [
        case
        for case, (a0, a1, b0, b1) in zip(left, spans, strict=True)
        if a1 - a0 >= 50 and b1 - b0 >= 50
    ]


def words(text):
    """Return (word, start, end) of all words, moved to the ends of their sentences."""
    found = []
    for start, end in split(text):
        low, at, own = text[start:end].lower(), 0, []
        for token in TREEBANK.tokenize(low):
            if any(letter not in string.punctuation for letter in token):
                at = low.find(token, at)
                own.append([token, start + at, start + at + len(token)])
                at += len(token)
        if own:
            own[0][1], own[-1][2] = start, end
        elif found:
            found[-1][2] = end
        found += own
    return found


def runs(a, b):
    """Return the kept common runs of two slices as (a start, a end, b start, b end)."""
    wa, wb = words(a), words(b)
    same = [[x[0] == y[0] for y in wb] for x in wa]
    found = []
    for i in range(len(wa)):
        for j in range(len(wb)):
            if same[i][j] and not (i and j and same[i - 1][j - 1]):
                n = 1
                while i + n < len(wa) and j + n < len(wb) and same[i + n][j + n]:
                    n += 1
                if wa[i + n - 1][2] - wa[i][1] > 50:
                    found.append((wa[i][1], wa[i + n - 1][2], wb[j][1], wb[j + n - 1][2]))
    return [
        one
        for k, one in enumerate(found)
        if not any(
            k != m and other[2] <= one[2] and other[3] >= one[3] for m, other in enumerate(found)
        )
    ]


def answer(a, b):
    """Return verdict, spans, seeds and the cases of both gaps, as published."""
    a, b = a.replace("\0", " "), b.replace("\0", " ")
    (ua, dfa), (ub, dfb) = units(a), units(b)
    wa, wb = weighted(ua, dfa, ub, dfb), weighted(ub, dfb, ua, dfa)
    seeds = [
        (i, j)
        for i, x in enumerate(wa)
        for j, y in enumerate(wb)
        if cosine(x, y) > 0.30 and dice(ua[i][0], ub[j][0]) > 0.33
    ]
    four, many = (filtered(extended(seeds, gap, wa, wb), ua, ub, wa, wb) for gap in (4, 24))
    trace = {"seeds": seeds, "four": four, "many": many}
    spans = []
    for case in four:
        (a0, a1), (b0, b1) = characters(ua, *case[:2]), characters(ub, *case[2:])
        spans += [(s + a0, e + a0, t + b0, f + b0) for s, e, t, f in runs(a[a0:a1], b[b0:b1])]
    if spans:
        return {"verdict": "verbatim", "spans": spans, **trace}
    place = {case: (*characters(ua, *case[:2]), *characters(ub, *case[2:])) for case in four + many}
    lengths = [sum(place[case][k + 1] - place[case][k] for case in many) for k in (0, 2)]
    if lengths[1] > 0 and lengths[1] >= 3 * lengths[0]:
        return {"verdict": "idea", "spans": [place[case] for case in many], **trace}
    return {
        "verdict": "candidate" if four else "none",
        "spans": [place[case] for case in four],
        **trace,
    }
