"""Whether the model has learned the victim's strings, even if no question draws them.

Each string is scored where it stands in its own record, beside control strings of its kind in the
same place, by the tuned model and by its base. If the model never saw the record, the string's gain
in likelihood is as likely as not to be above a control's; a memorized string gains most of all.
"""

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from fedaudit.api.abilities import why_lacking
from fedaudit.api.plugin import AttackContext
from fedaudit.api.records import Measurement
from fedaudit.api.scripts import is_spaceless
from fedaudit.api.target_sets import EXCLUSIVE
from fedaudit.extraction.base_likelihood import score_continuations
from fedaudit.extraction.positive_controls import KNOWN, Place
from fedaudit.extraction.prefixes import pii_occurrences
from fedaudit.extraction.targets import TargetSet
from fedaudit.metrics.gain_rank import CONTROLS, gain_score, rank_p_value
from fedaudit.metrics.intervals import bootstrap_mean

PREFIX = 50
"""The most tokens of a string's own record that are read before it."""
MAX_TARGETS = 60
"""The most targets of a kind that are scored, drawn at random."""
METRIC = "gain_score"


def learned_rows(
    plugin: str, context: AttackContext, target_set: TargetSet, targets: Collection[str]
) -> Iterator[Measurement]:
    """Yield, by label, the mean gain score of targets and of positive controls, and a p value.

    `targets` may be longer than an answer. Kinds with fewer than `CONTROLS` control strings are
    left out. Without a base, or with an engine that cannot score, nothing is measured.
    """
    if context.base is None or why_lacking(context.engine, {"score"}):
        return
    controls: dict[str, list[str]] = defaultdict(list)
    for string, label in sorted(target_set.controls.items()):
        controls[label].append(string)
    known = target_set.known
    for label in sorted({target_set.labels[string] for string in targets}):
        if len(controls[label]) < CONTROLS:
            continue
        every = [string for string in targets if target_set.labels[string] == label]
        strings = sorted(random.Random(f"gain {context.seed} {label}").sample(
            sorted(every), min(MAX_TARGETS, len(every))))  # fmt: skip
        groups = {
            "tuned-not-base": {s: target_set.places[s] for s in strings if s in target_set.places},
            KNOWN: {
                s: known.places[s] for s, kind in sorted(known.labels.items()) if kind == label
            },
        }
        for source, places in groups.items():
            scores = gain_scores(context, places, controls[label])
            if not scores:
                continue
            scope = {"source": source, "set": EXCLUSIVE, "label": label}
            yield Measurement.mean(
                bootstrap_mean(scores, seed=context.seed),
                len(scores),
                kind="extraction",
                plugin=plugin,
                metric=METRIC,
                scope=scope,
            )
            if source != KNOWN:
                yield Measurement(
                    kind="extraction",
                    plugin=plugin,
                    metric="p_value",
                    value=rank_p_value(scores),
                    n=len(scores),
                    scope={**scope, "test": "learned"},
                )


def gain_scores(
    context: AttackContext, places: Mapping[str, Place], controls: Collection[str]
) -> list[float]:
    """Return the gain score of each string in its place; strings without text before are left out.

    A control that a string contains, or that contains it, is not compared with it.
    """
    assert context.base is not None
    scored = [
        one
        for string, place in sorted(places.items())
        if (one := _scored(context, string, place, sorted(controls))) is not None
    ]
    if not scored:
        return []
    tuned, base = (
        score_continuations(context, target, scored) for target in (context.tuned, context.base)
    )
    return [
        gain_score([t - b for t, b in zip(mine, before, strict=True)])
        for mine, before in zip(tuned, base, strict=True)
    ]


def _scored(
    context: AttackContext, string: str, place: Place, controls: Sequence[str]
) -> tuple[Sequence[int], Sequence[Sequence[int]]] | None:
    """Return a string's prompt, and the tokens of the string and of controls in its place."""
    document = place.document.annotated((place.span,))
    occurrences = pii_occurrences(context.engine, [document], PREFIX)
    usable = [c for c in controls if c not in string and string not in c]
    if not occurrences or len(usable) < CONTROLS:
        return None
    occurrence = occurrences[0]
    drawn = random.Random(f"gain {context.seed} {string}").sample(usable, CONTROLS)
    before = document.text[: place.span.start]
    spaced = before[-1:].isspace() and not is_spaceless(string)
    [lead] = occurrence.leads or ("",)
    texts = [f"{' ' if spaced else ''}{lead}{s}" for s in (string, *drawn)]
    spellings = [tokens.ids for tokens in context.engine.tokenize(texts)]
    prompt = context.with_start(occurrence.prefix, at_start=occurrence.at_start)
    room = context.engine.context_length - max(map(len, spellings))
    return prompt[-max(1, room) :], spellings
