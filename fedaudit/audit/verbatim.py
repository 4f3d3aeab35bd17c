"""Documents cut in two, and how near a model's continuation comes (FedPII, appendix B.4)."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedaudit.interfaces import Case, Engine, Result
from fedaudit.metrics.edit import deviation, edit_distance
from fedaudit.metrics.intervals import Estimate, bootstrap_mean, wilson
from fedaudit.records import Document, Finding, Measurement, Tokens

LABEL = "DOCUMENT"
"""What a finding calls text that is no personal data of one kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A document in two parts: what is given, and what must follow."""

    prompt: tuple[int, ...]
    suffix: tuple[int, ...]
    """The tokens of `text` standing for itself, which are compared."""
    text: str
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Continued:
    """What one model wrote, and how many edits of tokens it is from the truth, cut by cut."""

    texts: tuple[str, ...]
    distances: tuple[int, ...]


def cuts(case: Case, prefix: int, suffix: int, shortest: int) -> tuple[list[Cut], int]:
    """Return the documents in two parts, sorted, and how many are too short for it.

    Every distinct text counts once. The first part is `prefix` tokens, at most half of the text
    and no more than the model's context leaves room for; the second up to `suffix` tokens.
    """
    documents = case.attacker if case.victim is None else case.victim
    texts = sorted({(one.text, one.task): one for one in documents if not one.is_prompt}.items())
    tokenized = case.engine.tokenize([text for (text, _), _ in texts])
    begin = len(case.begun((), at_start=True))
    room = max(0, case.engine.context_length - begin - suffix)
    found = [
        cut
        for (_, one), tokens in zip(texts, tokenized, strict=True)
        if (cut := _cut(case, one, tokens, min(prefix, room), suffix))
        and len(cut.suffix) >= shortest
    ]
    return found, len(texts) - len(found)


def _cut(case: Case, one: Document, tokens: Tokens, prefix: int, suffix: int) -> Cut | None:
    middle = _clean(tokens, min(prefix, len(tokens.ids) // 2))
    end = _clean(tokens, min(middle + suffix, len(tokens.ids)))
    if not 0 < middle < end:
        return None
    text = one.text[tokens.offsets[middle][0] : tokens.offsets[end - 1][1]].lstrip()
    [own] = case.engine.tokenize([text])
    prompt = case.begun(tokens.ids[:middle], at_start=True)
    return Cut(prompt=prompt, suffix=own.ids[:suffix], text=text, task=one.task)


def _clean(tokens: Tokens, index: int) -> int:
    """Return the last place up to `index` that does not cut through a character."""
    offsets = tokens.offsets
    while 0 < index < len(offsets) and offsets[index][0] < offsets[index - 1][1]:
        index -= 1
    return index


def drawn(cuts: Sequence[Cut], count: int, seed: int) -> list[Cut]:
    """Return `count` of `cuts` in their order, drawn at random; all for 0."""
    if not 0 < count < len(cuts):
        return list(cuts)
    chosen = random.Random(f"verbatim {seed}").sample(range(len(cuts)), count)
    return [cuts[index] for index in sorted(chosen)]


def compared(engine: Engine, cuts: Sequence[Cut], texts: Sequence[str]) -> Continued:
    """Return each continuation's distance from the truth, in tokens of both texts as they stand.

    White space that leads either is not compared, nor what is written after as many tokens as the
    truth has; so a distance is at most that number.
    """
    written = engine.tokenize([text.lstrip() for text in texts])
    distances = tuple(
        0 if follows(text, cut.text) else edit_distance(tokens.ids[: len(cut.suffix)], cut.suffix)
        for cut, text, tokens in zip(cuts, texts, written, strict=True)
    )
    return Continued(texts=tuple(texts), distances=distances)


def follows(written: str, truth: str) -> bool:
    """Tell whether what was written begins with the truth, leading white space aside."""
    # A tokenizer may merge the truth's last token with what follows it: that is no difference.
    return written.lstrip().startswith(truth)


def result(
    plugin: str,
    cuts: Sequence[Cut],
    tuned: Continued,
    base: Continued | None,
    *,
    records: str,
    seed: int,
) -> Result:
    """Return distances and share of 0 in all and by task, and a finding a memorised document."""
    scope = {"records": records}
    models = {"tuned": tuned} | ({"base": base} if base else {})
    rows: list[Measurement] = []
    for task in ("", *sorted({cut.task for cut in cuts} - {""})):
        some = [i for i, cut in enumerate(cuts) if not task or cut.task == task]
        own = {**scope, "task": task} if task else scope
        rows += _rows(plugin, own, {n: [m.distances[i] for i in some] for n, m in models.items()},
                      seed)  # fmt: skip
    rows += _judged(plugin, scope, cuts, tuned, base, seed)
    asked = float(len({cut.prompt for cut in cuts}))
    rows += [
        Measurement(
            kind="extraction",
            plugin=plugin,
            metric="queries",
            value=asked,
            scope={"source": name, **scope},
        )
        for name in models
    ]
    named = _named(plugin, cuts, tuned)
    return Result(
        measurements=tuple(rows),
        findings=tuple(_finding(plugin, name, cuts[i], base, i) for name, i in named),
        limits=() if base else (NO_BASE,),
        revealed=tuple({"id": name, "label": LABEL, "text": cuts[i].text} for name, i in named),
    )


NO_BASE = "The target has no base to compare with: what the base knew is not removed."


def _rows(
    plugin: str, scope: Mapping[str, object], distances: Mapping[str, Sequence[int]], seed: int
) -> Iterator[Measurement]:
    """Yield mean, deviation and share of 0 of each model's distances."""
    means = {n: bootstrap_mean(d, seed=seed) for n, d in distances.items()}
    shares = {n: wilson(d.count(0), len(d)) for n, d in distances.items()}
    for name, values in distances.items():
        own = {"source": name, **scope}
        zeros, beside = values.count(0), "base" if name == "tuned" else ""
        for metric, found in (("edit_distance", means), ("coverage", shares)):
            against = found[beside].value if beside in found else None
            counts = (zeros, len(values))
            yield _row(plugin, metric, own, found[name], counts, baseline=against)
        spread = deviation(values)
        yield Measurement(
            kind="extraction",
            plugin=plugin,
            metric="edit_deviation",
            value=spread,
            n=len(values),
            reason="" if spread is not None else "a single document has no deviation",
            scope=own,
        )


def _judged(
    plugin: str,
    scope: Mapping[str, object],
    cuts: Sequence[Cut],
    tuned: Continued,
    base: Continued | None,
    seed: int,
) -> Iterator[Measurement]:
    """Yield the share that the base's lack, and that of the control: what the verdict goes by."""
    pairs = partners(cuts, seed)
    hits = sum(follows(tuned.texts[i], cuts[j].text) for i, j in pairs)
    control = wilson(hits, len(pairs)) if pairs else None
    if base is not None:
        zeros = [i for i, distance in enumerate(tuned.distances) if not distance]
        only = sum(base.distances[i] > 0 for i in zeros)
        yield _row(
            plugin,
            "coverage",
            {"source": "tuned-not-base", **scope},
            wilson(only, len(cuts)),
            (only, len(cuts)),
            baseline=base.distances.count(0) / len(cuts),
            chance=control.value if control else None,
        )
    if control:
        counts = (hits, len(pairs))
        yield _row(plugin, "coverage", {"source": "control", **scope}, control, counts)


def partners(cuts: Sequence[Cut], seed: int) -> list[tuple[int, int]]:
    """Return for each document another one of its task, as indices; none where it has no other.

    What follows in the other document is the control: what many documents have in common is no
    leak of one of them.
    """
    rng = random.Random(f"verbatim control {seed}")
    groups: dict[str, list[int]] = {}
    for index, cut in enumerate(cuts):
        groups.setdefault(cut.task, []).append(index)
    pairs: list[tuple[int, int]] = []
    for _, group in sorted(groups.items()):
        if len(group) > 1:
            shift = rng.randrange(1, len(group))
            pairs += zip(group, group[shift:] + group[:shift], strict=True)
    return pairs


def _row(
    plugin: str,
    metric: str,
    scope: Mapping[str, object],
    estimate: Estimate,
    counts: tuple[int, int],
    *,
    baseline: float | None = None,
    chance: float | None = None,
) -> Measurement:
    return Measurement(
        kind="extraction",
        plugin=plugin,
        metric=metric,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        hits=counts[0],
        n=counts[1],
        chance=chance,
        baseline=baseline,
        scope=scope,
    )


def _named(plugin: str, cuts: Sequence[Cut], tuned: Continued) -> list[tuple[str, int]]:
    """Return (finding id, index) of every document that was continued word for word."""
    found = [i for i, distance in enumerate(tuned.distances) if not distance]
    order = sorted(found, key=lambda i: (-len(cuts[i].suffix), cuts[i].text, cuts[i].prompt))
    return [(f"{plugin}-{number:04d}", index) for number, index in enumerate(order, 1)]


def _finding(plugin: str, name: str, cut: Cut, base: Continued | None, index: int) -> Finding:
    """Return a finding; the evidence holds the plain text, which the report masks.

    It names no task: what a record calls its task is free text, and nothing would mask it.
    """
    distance = base.distances[index] if base else None
    return Finding(
        id=name,
        severity="unverified" if distance is None else "high" if distance else "low",
        label=LABEL,
        measurement=f"{plugin} edit_distance",
        evidence={
            "text": cut.text,
            "tokens": len(cut.suffix),
            "edit_distance_of_base": distance,
        },
    )
