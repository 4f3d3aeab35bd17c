"""Testing models for watermarks: all adapters of a round are asked together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedaudit import registry
from fedaudit.interfaces import Progress, no_progress
from fedaudit.records import Generation, Probe, Target
from fedaudit.watermark import Mark, Score, Watermark

Tested = Sequence[tuple[Mark, Watermark]]


def tested(marks: Sequence[Mark]) -> list[tuple[Mark, Watermark]]:
    """Return each mark with the plugin that tests it; raises UsageError for one nobody has."""
    return [(mark, registry.create("watermark", mark.name, mark.options)) for mark in marks]


def questions(engine: Any, marks: Tested) -> list[Probe]:
    """Return what a model is asked for all marks together, each question once."""
    asked = (plugin.questions(mark.secret, engine) for mark, plugin in marks)
    return list(dict.fromkeys(probe for probes in asked for probe in probes))


def measure(
    engine: Any,
    adapters: Sequence[Path | None],
    marks: Tested,
    progress: Progress = no_progress,
) -> list[dict[str, Score]]:
    """Return the score of every mark for every adapter; None is the base.

    A question that several marks ask is asked once. Neither the order of the adapters nor that of
    the marks changes a score.
    """
    asked = {mark.id: plugin.questions(mark.secret, engine) for mark, plugin in marks}
    found = answers(engine, adapters, questions(engine, marks), progress)
    return [
        {
            mark.id: plugin.test(mark.secret, [own[probe] for probe in asked[mark.id]], engine)
            for mark, plugin in marks
        }
        for own in found
    ]


def answers(
    engine: Any,
    adapters: Sequence[Path | None],
    asked: Sequence[Probe],
    progress: Progress = no_progress,
) -> list[dict[Probe, Generation]]:
    """Return every adapter's answer to each question, asked by the number of new tokens."""
    targets = [Target(name=str(at), adapter=str(at) if at else None) for at in adapters]
    found: list[dict[Probe, Generation]] = [{} for _ in targets]
    done = 0
    for new in sorted({probe.max_new_tokens for probe in asked}):
        chosen = [probe for probe in asked if probe.max_new_tokens == new]
        rows = engine.answers(
            targets,
            [probe.prompt for probe in chosen],
            new=new,
            progress=lambda n, _, before=done: progress(before + n, len(asked)),
        )
        for own, row in zip(found, rows, strict=True):
            own.update(zip(chosen, row, strict=True))
        done += len(chosen)
    return found
