"""Testing models for watermarks: all adapters of a round are asked together."""

from collections.abc import Sequence
from pathlib import Path

from fedaudit.api.engine import MultiTargetEngine
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target
from fedaudit.api.watermark import Mark, Score, Watermark
from fedaudit.config import registry

Tested = Sequence[tuple[Mark, Watermark]]
Question = tuple[GenerationRequest, SamplingParams]
"""What is asked, and how the answer is chosen."""


def watermark_plugins(marks: Sequence[Mark]) -> list[tuple[Mark, Watermark]]:
    """Return each mark with the plugin that tests it; raises UsageError for one nobody has."""
    return [(mark, registry.create("watermark", mark.name, mark.options)) for mark in marks]


def detection_requests(engine: MultiTargetEngine, marks: Tested) -> list[Question]:
    """Return what a model is asked for all marks together, each question once."""
    return list(dict.fromkeys(q for one in marks for q in _questions(engine, *one)))


def _questions(engine: MultiTargetEngine, mark: Mark, plugin: Watermark) -> list[Question]:
    return [(request, plugin.decoding) for request in plugin.questions(mark.secret, engine)]


def measure(
    engine: MultiTargetEngine,
    adapters: Sequence[Path | None],
    marks: Tested,
    progress: Progress = no_progress,
) -> list[dict[str, Score]]:
    """Return the score of every mark for every adapter; None is the base.

    A question that several marks ask is asked once. Neither the order of the adapters nor that of
    the marks changes a score.
    """
    asked = {mark.id: _questions(engine, mark, plugin) for mark, plugin in marks}
    found = generate_answers(engine, adapters, detection_requests(engine, marks), progress)
    return [
        {
            mark.id: plugin.test(mark.secret, [own[one] for one in asked[mark.id]], engine)
            for mark, plugin in marks
        }
        for own in found
    ]


def generate_answers(
    engine: MultiTargetEngine,
    adapters: Sequence[Path | None],
    asked: Sequence[Question],
    progress: Progress = no_progress,
) -> list[dict[Question, Completion]]:
    """Return every adapter's answer to each question, asked by how long and how it may be."""
    targets = [Target(name=str(at), adapter=str(at) if at else None) for at in adapters]
    found: list[dict[Question, Completion]] = [{} for _ in targets]
    done = 0
    for new, decoding in dict.fromkeys((request.max_new_tokens, how) for request, how in asked):
        chosen = [one for one in asked if (one[0].max_new_tokens, one[1]) == (new, decoding)]

        def told(number: int, _: int, before: int = done) -> None:
            progress(before + number, len(asked))

        rows = engine.answers(
            targets,
            [request.prompt for request, _ in chosen],
            new=new,
            decoding=decoding,
            progress=told,
        )
        for own, row in zip(found, rows, strict=True):
            own.update(zip(chosen, row, strict=True))
        done += len(chosen)
    return found
