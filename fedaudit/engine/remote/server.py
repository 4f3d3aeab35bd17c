"""A named model on one or more servers, to which requests are sent, alone or concurrently."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice

from fedaudit.api.errors import TargetError
from fedaudit.engine.remote.spending import RequestBudget
from fedaudit.engine.remote.wire import (
    PATHS,
    Api,
    CompletionRequest,
    CompletionResponse,
    LengthField,
    MalformedResponse,
    count_choices,
    join_answers,
    read_answer,
    read_models,
)
from fedaudit.report.redaction import make_visible
from fedaudit.system.http_client import HttpStatusError, JsonClient, ServerUnreachable

OTHER_LENGTH: LengthField = "max_completion_tokens"
"""The field that some servers take in place of max_tokens, which their refusal names."""
UNKNOWN = frozenset({400, 404, 405, 410, 422})
"""Statuses of a server that works, but has no such model or no such path."""
BUSY = frozenset({502, 503, 504})
"""Statuses of a server that is there and cannot answer now, whatever it is asked."""
PAUSE = 1.0
"""Seconds after which a probe is repeated that a server failed at: it may not be the probe."""
FEWEST_CHOICES = 4
"""A request for so many samples, which the probes send, is not divided."""
HARMLESS = "Hello"
"""A prompt that a server may quote."""
TRIES = 3
"""How often a request is sent while its responses are malformed."""

AnswerCallback = Callable[[int, CompletionResponse], None]
"""Called with the index of a request and its response, in the order of arrival."""


class CompletionServer:
    """A model on one or more servers; all requests count towards the budget."""

    def __init__(self, client: JsonClient, model: str, spending: RequestBudget) -> None:
        self.client, self.model, self.spending = client, model, spending
        self.api: Api = "completions"
        self.length_field: LengthField = "max_tokens"
        self.most_choices = 0
        """The most samples that one request may ask for; 0 for any number."""
        self.refusal = ""
        """What the server said when it last refused a request of a probe."""
        self.refused: HttpStatusError | None = None
        """The status with which it did so."""
        self.first_draw = ""
        """What the server first drew with a seed, for later comparison."""
        self._models: dict[str, int] | None = None
        self._unlisted: HttpStatusError | None = None

    def ask(self, query: CompletionRequest, *, patient: bool = True) -> CompletionResponse:
        """Return the response to one request; raises TargetError if there is none.

        If a response is malformed, the request is repeated a few times, unless it is not `patient`.
        A request for more samples than the server gives at a time is divided.
        """
        if self.most_choices and query.n > self.most_choices:
            return self._ask_in_parts(query, self.most_choices)
        problem = ""
        for _ in range(TRIES):
            self.spending.take(query)
            try:
                body = self._post(query, patient=patient)
            except HttpStatusError as error:
                renamed = self.length_field == "max_tokens" and OTHER_LENGTH in error.said
                if error.status in (400, 422) and renamed:
                    self.length_field = OTHER_LENGTH
                    self.spending.take(query)
                    body = self._post(query, patient=patient)
                elif error.status in (400, 422) and query.n > FEWEST_CHOICES:
                    return self._ask_in_parts(query, max(FEWEST_CHOICES, query.n // 2))
                elif patient:
                    raise self._with_sentence(error, query) from None
                else:
                    raise
            try:
                return read_answer(body, query, self.api)
            except MalformedResponse as error:
                problem = str(error)
                if FEWEST_CHOICES <= (count := count_choices(body)) < query.n:
                    return self._ask_in_parts(query, count)
                if not patient:
                    break
        raise self.failure(f"sent what {problem}")

    def _ask_in_parts(self, query: CompletionRequest, most: int) -> CompletionResponse:
        """Return the samples of a request, asked for by requests for at most `most` each.

        Each part has a seed of its own, which follows from the request's. A smaller number that the
        server turns out to allow is kept for later requests.
        """
        answers: list[CompletionResponse] = []
        while (count := sum(len(answer.texts) for answer in answers)) < query.n:
            seed = None if query.seed is None else (query.seed + count) % 2**31
            part = replace(query, n=min(most, query.n - count), seed=seed)
            answers.append(self.ask(part))
            # Now it is known that the server takes so many, or even fewer.
            self.most_choices = most = min(most, self.most_choices or most)
        return join_answers(answers)

    def _with_sentence(self, error: HttpStatusError, query: CompletionRequest) -> HttpStatusError:
        """Return a refusal of an audit's request with the server's reason, if it has one.

        The server's own sentence may quote a record. So the same is asked with a harmless prompt:
        if that is refused too, the sentence may be shown.
        """
        if error.status in (401, 403):
            return error
        self.spending.take(query)
        try:
            self._post(replace(query, prompt=HARMLESS), patient=False)
        except HttpStatusError as again:
            if said := make_visible(again.said):
                message = f"{str(error).removesuffix('.')}, and says: {said}"
                return HttpStatusError(message, error.status, error.said)
        except TargetError:
            pass
        return error

    def failure(self, problem: str, said: str = "") -> TargetError:
        """Return the error for a problem, with the server's sentence as it can be shown."""
        quoted = f", and says: {make_visible(said)}" if make_visible(said) else ""
        return TargetError(self.client.failed(f"{problem}{quoted}".rstrip(".")))

    def _post(self, query: CompletionRequest, *, patient: bool) -> bytes:
        table = query.body(self.api, self.length_field)
        return self.client.post(PATHS[self.api], table, patient=patient)

    def try_to(self, query: CompletionRequest) -> CompletionResponse | None:
        """Return the response to a request that a server may not support, or None.

        A server that is only busy is asked again as in an audit, one that fails is once. Raises
        ServerUnreachable if there is no server, HttpStatusError for status 401 or 403.
        """
        try:
            try:
                return self.ask(query, patient=False)
            except HttpStatusError as error:
                if error.status < 500 or not self.client.retries:
                    raise
                if error.status in BUSY:
                    return self.ask(query)
                self.client.sleep(PAUSE)
                return self.ask(query, patient=False)
        except HttpStatusError as error:
            if error.status in (401, 403):
                raise
            self.refusal, self.refused = make_visible(error.said), error
            return None
        except ServerUnreachable:
            raise
        except TargetError as error:
            self.refusal = str(error)
            return None

    def try_all(self, queries: Sequence[CompletionRequest]) -> list[CompletionResponse | None]:
        """Try several requests, with an audit's concurrency; raises as `try_to` does."""
        with ThreadPoolExecutor(max_workers=self.spending.options.concurrency) as pool:
            try:
                return list(pool.map(self.try_to, queries))
            except KeyboardInterrupt:
                self.client.close()  # otherwise the pool would wait for requests in flight
                raise

    def ask_all(self, queries: Sequence[CompletionRequest], on_answer: AnswerCallback) -> None:
        """Send many requests, with the options' concurrency; call `on_answer` for each response.

        If one fails, no more are sent; once requests in flight have finished, its error is raised.
        """
        width = self.spending.options.concurrency
        waiting = iter(enumerate(queries))
        failed: BaseException | None = None
        with ThreadPoolExecutor(max_workers=width) as pool:
            running: dict[Future[CompletionResponse], int] = {}
            while True:
                if failed is None:
                    for index, query in islice(waiting, width - len(running)):
                        running[pool.submit(self.ask, query)] = index
                if not running:
                    break
                try:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:
                    self.client.close()  # otherwise the pool would wait for requests in flight
                    raise
                for future in done:
                    index = running.pop(future)
                    try:
                        on_answer(index, future.result())
                    except TargetError as error:
                        failed = failed or error
                    except BaseException as error:
                        failed = error
        if failed is not None:
            raise failed

    def list_models(self) -> dict[str, int]:
        """Return the context length of each model that the server lists, 0 if it states none."""
        if self._models is None:
            try:
                rows = read_models(self.client.get("/models"))
            except MalformedResponse:
                rows = []
            except HttpStatusError as error:
                rows, self._unlisted = [], error
            self._models = {row["id"]: _claimed_count(row.get("max_model_len")) for row in rows}
        return self._models

    def choose_model(self) -> None:
        """Choose the server's only model if none was named; raises TargetError if it lists several.

        It is also raised if the server lists none, or fails.
        """
        if self.model:
            return
        names = [make_visible(name)[:100] for name in self.list_models()]
        if self._unlisted and self._unlisted.status not in UNKNOWN:
            raise self._unlisted
        if len(names) != 1:
            problem = f"has {', '.join(names[:8])}" if names else "lists no models"
            raise self.failure(f"{problem}: name one with --model")
        [self.model] = self.list_models()


def _claimed_count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
