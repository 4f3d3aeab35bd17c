"""An OpenAI-compatible chat endpoint that judges: asking it, and giving up in one line."""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from fedaudit.api.errors import TargetError
from fedaudit.judge.cache import Judgement, JudgementCache
from fedaudit.judge.prompt import JudgeQuestion, parse_scores
from fedaudit.system.http_client import JsonClient, Sleep, check_url

MOST_BYTES = 2**20
"""Of one answer; a judgement has a few hundred."""

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a judge is reached. Raises ValueError for invalid settings."""

    url: str
    """The API's root, to which /chat/completions is added: http://127.0.0.1:8000/v1, say."""
    model: str
    key_variable: str = ""
    """The environment variable that holds the API key, never the key itself; "" sends none."""
    timeout: float = 60.0
    """Seconds for one answer."""
    retries: int = 5
    """How often a question is asked again after the endpoint was too busy or failed."""
    max_tokens: int = 256
    """How long a judgement may be; 0 leaves it to the endpoint."""

    def __post_init__(self) -> None:
        check_url(self.url, self.key_variable)
        if not self.model:
            raise ValueError("model must name the judge's model.")
        if self.timeout <= 0 or self.retries < 0 or self.max_tokens < 0:
            raise ValueError("timeout must be above 0, retries and max_tokens at least 0.")


class EndpointClient(AbstractContextManager["EndpointClient"]):
    """Asks one endpoint; several threads may share it. Close it, or use it as a context.

    `workers` questions are asked at a time; `sleep` waits so many seconds before one is asked
    again.
    """

    def __init__(self, endpoint: Endpoint, *, workers: int = 4, sleep: Sleep | None = None) -> None:
        if workers < 1:
            raise ValueError("workers must be at least 1.")
        self.endpoint, self._workers = endpoint, workers
        self.model = endpoint.model
        self._http = JsonClient(
            [endpoint.url],
            name="The judge",
            key_variable=endpoint.key_variable,
            timeout=endpoint.timeout,
            retries=endpoint.retries,
            most_bytes=MOST_BYTES,
            sleep=sleep,
        )

    def __exit__(self, *error: object) -> None:
        self.close()

    def judge(
        self, questions: Mapping[str, JudgeQuestion], cache: JudgementCache
    ) -> Iterable[tuple[str, Judgement | None]]:
        """Yield every question's judgement as it comes; the first error ends them all.

        After an unreadable reply the judge is asked once more; after a second one it yields None.
        Raises what `ask` raises.
        """
        pool = ThreadPoolExecutor(max_workers=self._workers)
        try:
            waiting = {
                pool.submit(self._judge_one, key, question, cache): key
                for key, question in questions.items()
            }
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BaseException:
            self.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _judge_one(
        self, key: str, question: JudgeQuestion, cache: JudgementCache
    ) -> Judgement | None:
        for again in (False, True):
            if judgement := parse_scores(self.ask(question.messages(again=again))):
                cache.add(key, judgement)
                return judgement
        return None

    def stop(self) -> None:
        """Make threads that wait to ask again give up."""
        self._http.stop()

    def close(self) -> None:
        """Cancel whatever still waits, and close the connections."""
        self._http.close()

    def ask(self, messages: Messages) -> str:
        """Return the model's reply to a chat, as text.

        Raises TargetError where the endpoint cannot be reached, stays too busy, refuses, or is no
        chat endpoint, and Interrupted once the client is to stop.
        """
        chat: dict[str, Any] = {"model": self.model, "messages": list(messages), "temperature": 0}
        if self.endpoint.max_tokens:
            chat["max_tokens"] = self.endpoint.max_tokens
        body = self._http.post("/chat/completions", chat)
        try:
            content = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            problem = "does not answer as an OpenAI-compatible chat does"
            raise TargetError(self._http.failed(problem, self.endpoint.url)) from None
        return content if isinstance(content, str) else ""  # null: the model declined
