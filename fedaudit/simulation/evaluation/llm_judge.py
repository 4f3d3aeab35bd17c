"""The judge of a simulation's answers: asked where the settings name one, mentioned where not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document, Measurement
from fedaudit.judge.cache import JudgementCache
from fedaudit.judge.endpoint import EndpointClient
from fedaudit.judge.local import LocalJudge, plain_chat
from fedaudit.judge.measurements import rows
from fedaudit.judge.verdicts import Comparison, Judge, judge_all
from fedaudit.simulation.config import Simulation
from fedaudit.simulation.evaluation import utility
from fedaudit.simulation.evaluation.answers import HeldOutAnswer

VERDICTS = "verdicts.jsonl"
"""The file of a judge's scores, by content, in the run's folder; a study's federations share it."""

CHANCE = 0.5
"""The share of controls in which a judge that tosses a coin prefers the right answer, at most."""

NOBODY = (
    "no judge was asked (judge.url and judge.base are empty): utility is held-out loss, Rouge-L and"
    " accuracy, which know one reference answer only"
)


def check(config: Simulation) -> None:
    """Refuse a judge that cannot be asked, before anything is trained; nothing is asked yet."""
    if endpoint := config.judge.endpoint():
        EndpointClient(endpoint).close()
    if config.judge.base:
        from fedaudit.engine.loading.loader import locate

        locate(config.judge.base)


@contextmanager
def open_judge(
    config: Simulation, verdicts: Path, progress: Callable[[str], Progress] = lambda _: no_progress
) -> Iterator[utility.AnswerJudge | None]:
    """Give a function that judges answers, None without a judge; it keeps verdicts in `verdicts`.

    Raises TargetError if an endpoint keeps failing; scores given until then are kept.
    """
    with _configured_judge(config) as judge:
        if judge is None:
            yield None
            return
        cache = JudgementCache(verdicts)

        def ask(answers: Sequence[HeldOutAnswer], scope: Mapping[str, object]) -> list[Measurement]:
            title = f"judging {scope.get('source')}"
            results = judge_all(
                judge, [*map(_comparison, answers)], cache=cache, progress=progress(title)
            )
            return rows(results, {**scope, "judge": judge.model})

        yield ask


@contextmanager
def _configured_judge(config: Simulation) -> Iterator[Judge | None]:
    """Give the judge that the settings name, None where they name none."""
    if endpoint := config.judge.endpoint():
        with EndpointClient(endpoint) as client:
            yield client
    elif config.judge.base:
        yield local_judge(config.judge.base, device=config.device, dtype=config.dtype)
    else:
        yield None


def local_judge(base: str, *, device: str, dtype: str) -> LocalJudge:
    """Load a model that judges on this machine, by its own chat template if it has one."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    loaded = load_base(base, device=device, dtype=dtype)
    tokenizer = loaded.tokenizer

    def chat(messages: Sequence[Mapping[str, str]]) -> str:
        return str(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        )

    return LocalJudge(
        LocalEngine(loaded),
        chat=chat if getattr(tokenizer, "chat_template", None) else plain_chat,
        model=f"{Path(base).name} ({loaded.sha256[:8]})",
    )


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
    if not (config.judge.url or config.judge.base):
        return (NOBODY,)
    model = next((row.scope["judge"] for row in measured if row.plugin == "judge"), "")
    caveat = (
        f"held-out answers were judged by {model}, beside their reference answers; another judge"
        " may find otherwise"
    )
    return caveat, *map(_control_caveat, filter(_cannot_tell, measured))


def _cannot_tell(row: Measurement) -> bool:
    """Tell whether a row is of a control in which the right answer is not surely preferred."""
    control = row.metric == "judge_lose" and row.scope["source"] == utility.CONTROL
    return control and (row.low is None or row.low <= CHANCE)


def _control_caveat(row: Measurement) -> str:
    found = f"in {row.hits} of {row.n} controls" if row.n else "in no control"
    return (
        f"{row.scope['judge']} scored a prompt's reference above that of another prompt {found}: "
        "its verdicts are not told from chance"
    )
