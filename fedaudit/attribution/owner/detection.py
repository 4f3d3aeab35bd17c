"""Testing models for watermarks: all adapters of a round answer together."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedaudit.api.engine import MultiTargetEngine
from fedaudit.api.errors import InputError, PluginError, unknown_name_error
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, GenerationRequest, SamplingParams, Target
from fedaudit.api.watermark import Mark, Score, Watermark
from fedaudit.config import registry

MarkWatermarks = Sequence[tuple[Mark, Watermark]]
Question = tuple[GenerationRequest, SamplingParams]
"""A generation request, and the sampling parameters of its answer."""


def watermark_plugins(marks: Sequence[Mark]) -> list[tuple[Mark, Watermark]]:
    """Return each mark with the plugin that tests it; raises UsageError for an unknown plugin."""
    return [(mark, registry.create("watermark", mark.name, mark.options)) for mark in marks]


def override_options(
    marks: Sequence[Mark],
    options: Mapping[str, Mapping[str, Any]],
    methods: Collection[str] = (),
) -> list[Mark]:
    """Return the marks with the options that their plugins were given anew, by a plugin's name.

    Raises UsageError for options of a plugin that neither a mark nor one of `methods` uses.
    """
    used = {*methods, *(mark.name for mark in marks)}
    for name in options:
        if name not in used:
            raise unknown_name_error("method or watermark in use", name, sorted(used))
    return [mark.with_options(options) for mark in marks]


def check_issued(marks: Sequence[Mark], path: Path) -> None:
    """Raise InputError for a mark in `path` that its plugin can recognize as made up."""
    for mark, plugin in watermark_plugins(marks):
        if plugin.has_issued(mark.secret) is False:
            raise InputError(
                f"{path}: the mark {mark.id} is not the one that {mark.name} issues for its seed "
                "and index: what it is about may exist."
            )


def detection_requests(engine: MultiTargetEngine, marks: MarkWatermarks) -> list[Question]:
    """Return the questions that a model is asked for all marks together, each once."""
    return list(dict.fromkeys(q for pair in marks for q in _questions(engine, *pair)))


def _questions(engine: MultiTargetEngine, mark: Mark, plugin: Watermark) -> list[Question]:
    return [(request, plugin.decoding) for request in plugin.questions(mark.secret, engine)]


def measure(
    engine: MultiTargetEngine,
    adapters: Sequence[Path | None],
    marks: MarkWatermarks,
    progress: Progress = no_progress,
) -> list[dict[str, Score]]:
    """Return the score of every mark for every adapter; an adapter of None is the bare base.

    A question that several marks ask is asked once. Neither the order of the adapters nor that of
    the marks changes a score. Raises PluginError for a watermark without the null marks that it
    promises.
    """
    questions = {mark.id: _questions(engine, mark, plugin) for mark, plugin in marks}
    answers = generate_answers(engine, adapters, detection_requests(engine, marks), progress)
    return [
        {
            mark.id: _score(mark, plugin, [completions[q] for q in questions[mark.id]], engine)
            for mark, plugin in marks
        }
        for completions in answers
    ]


def _score(
    mark: Mark, plugin: Watermark, answers: Sequence[Completion], engine: MultiTargetEngine
) -> Score:
    score = plugin.test(mark.secret, answers, engine)
    if len(score.null) != plugin.null_marks:
        raise PluginError(
            f"The watermark {mark.name} gave {len(score.null)} null marks, where its null_marks is "
            f"{plugin.null_marks}."
        )
    return score


def generate_answers(
    engine: MultiTargetEngine,
    adapters: Sequence[Path | None],
    questions: Sequence[Question],
    progress: Progress = no_progress,
) -> list[dict[Question, Completion]]:
    """Return every adapter's answers; questions of equal length and decoding form a batch."""
    targets = [Target(name=str(path), adapter=str(path) if path else None) for path in adapters]
    answers: list[dict[Question, Completion]] = [{} for _ in targets]
    done = 0
    for new, decoding in dict.fromkeys((request.max_new_tokens, how) for request, how in questions):
        chosen = [q for q in questions if (q[0].max_new_tokens, q[1]) == (new, decoding)]

        def report_progress(number: int, _: int, before: int = done) -> None:
            progress(before + number, len(questions))

        rows = engine.answers(
            targets,
            [request.prompt for request, _ in chosen],
            new=new,
            decoding=decoding,
            progress=report_progress,
        )
        for target_answers, row in zip(answers, rows, strict=True):
            target_answers.update(zip(chosen, row, strict=True))
        done += len(chosen)
    return answers
