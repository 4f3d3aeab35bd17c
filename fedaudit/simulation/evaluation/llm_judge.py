"""The judge of a simulation's answers: asked where the settings name one, mentioned where not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement
from fedaudit.judge.cache import JudgementCache
from fedaudit.judge.endpoint import EndpointClient
from fedaudit.judge.measurements import rows
from fedaudit.judge.verdicts import Comparison, judge_all
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.evaluation.answers import HeldOutAnswer
from fedaudit.simulation.evaluation.utility import Judge

VERDICTS = "verdicts.jsonl"
"""The file of a judge's scores, by content, in the run's folder; a study's federations share it."""

NOBODY = (
    "no judge was asked (judge.url is empty): utility is held-out loss, Rouge-L and accuracy, which"
    " know one reference answer only"
)


def check(config: Simulation) -> None:
    """Refuse a judge that cannot be asked, before anything is trained; nothing is asked yet."""
    if endpoint := config.judge.endpoint():
        EndpointClient(endpoint).close()


@contextmanager
def open_judge(
    config: Simulation, verdicts: Path, progress: Callable[[str], Progress] = lambda _: no_progress
) -> Iterator[Judge | None]:
    """Give a function that judges answers, None without a judge; it keeps verdicts in `verdicts`.

    Raises TargetError if the endpoint keeps failing; scores given until then are kept.
    """
    endpoint = config.judge.endpoint()
    if endpoint is None:
        yield None
        return
    cache = JudgementCache(verdicts)
    with EndpointClient(endpoint) as client:

        def ask(answers: Sequence[HeldOutAnswer], scope: Mapping[str, object]) -> list[Measurement]:
            title = f"judging {scope.get('source')}"
            results = judge_all(
                client, [*map(_comparison, answers)], cache=cache, progress=progress(title)
            )
            return rows(results, {**scope, "judge": endpoint.model})

        yield ask


def _comparison(answer: HeldOutAnswer) -> Comparison:
    return Comparison(
        prompt=judge_prompt(answer.document), answer=answer.text, reference=answer.document.output
    )


def judge_prompt(document: Document) -> str:
    """Return what the judge reads as the question: instruction and input, without the template."""
    return "\n\n".join(filter(None, (document.instruction, document.input)))


def judge_caveats(config: Simulation, measured: Sequence[Measurement]) -> tuple[str, ...]:
    """Return a report's caveats on who judged its utility; none where no answer was asked."""
    if not any(row.metric in ("rouge_l", "accuracy") for row in measured):
        return ()
    if not config.judge.url:
        return (NOBODY,)
    return (
        f"held-out answers were judged by {config.judge.model}, beside their reference answers;"
        " another judge may find otherwise",
    )
