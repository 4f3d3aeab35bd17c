"""JSON over HTTP to servers that may be slow, busy or hostile: retried, bounded, brief in errors.

What is waited for is the whole answer, headers too; no redirect is followed, which could take a key
elsewhere; a machine's own servers are asked without a proxy.
"""

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    import httpx

LONGEST_WAIT = 120.0
"""Seconds: a server that asks to wait longer is given up."""
LONGEST_SENTENCE = 300
"""The most characters of a server's own sentence."""
KEY_PART = 6
"""So many characters of a key in a server's sentence give it away."""
GRACE = 5.0
"""Seconds within which what was given up must have ended."""

Sleep = Callable[[float], object]


class ServerUnreachable(TargetError):
    """A server that does not answer, or stays too busy: it may, at another time."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The last HTTP status; 0 where no answer came."""


class HttpStatusError(TargetError):
    """A server that answers, with a status that asking again does not change."""

    def __init__(self, message: str, status: int, said: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.said = said
        """The server's own sentence, which may quote the request and is not in the message."""


@dataclass(frozen=True, slots=True)
class HttpAttempt:
    """The result of one request; a status of 0 means that no answer came."""

    status: int
    problem: str
    wait: float = 0.0
    """Seconds that the server asks to wait."""
    body: bytes = b""
    gone: bool = False
    """Whether no one is there: asking again would only delay saying so."""


class JsonClient:
    """Asks equal servers in turn; several threads may share it. Close it after use.

    `key` is a key in place of one that an environment variable holds. `name` begins its errors;
    `sleep` waits the seconds before a request is sent again.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        name: str,
        key_variable: str = "",
        key: str = "",
        timeout: float = 60.0,
        retries: int = 5,
        most_bytes: int = 2**20,
        sleep: Sleep | None = None,
    ) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self.who, self.timeout, self.retries, self.most_bytes = name, timeout, retries, most_bytes
        self._over, self._turn = threading.Event(), count()
        self.sleep: Sleep = sleep or self._over.wait
        bearer = _bearer(key) if key else key_header(key_variable)
        self._holds_key = _key_detector(bearer.get("Authorization", "").removeprefix("Bearer "))
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # what is unpacked has no bound
            **bearer,
        }
        self.http = {url: _connect(url, headers) for url in self.urls}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let threads that wait to ask again give up."""
        self._over.set()

    def close(self) -> None:
        """Give up whatever still waits, and let go of the connections."""
        self.stop()
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._release(), loop).result(GRACE)
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(GRACE)

    def post(self, path: str, table: Mapping[str, Any], *, patient: bool = True) -> bytes:
        """Return the body of a server's answer to a table.

        Unless `patient`, a server's own failure is not a reason to ask again. Raises
        ServerUnreachable, HttpStatusError, TargetError for an answer without end, and Interrupted
        once it is to stop.
        """
        return self._ask("POST", path, json.dumps(table).encode(), patient=patient)

    def get(self, path: str) -> bytes:
        """Return what a server holds at a path; raises as `post` does."""
        return self._ask("GET", path, b"", patient=False)

    def failed(self, problem: str, url: str = "") -> str:
        """Return the one line for a problem."""
        return f"{self.who} at {url or self.urls[0]} {problem}."

    def _sentence(self, answer: HttpAttempt) -> str:
        """Return the message in an error's body; empty if it repeats a part of the key."""
        try:
            table = json.loads(answer.body)
        except (ValueError, RecursionError):
            return ""
        for _ in range(2):
            if isinstance(table, dict):
                table = next((table[k] for k in ("error", "message", "detail") if k in table), "")
        said = " ".join(table.split())[:LONGEST_SENTENCE] if isinstance(table, str) else ""
        return "" if self._holds_key(said) else said

    def _ask(self, method: str, path: str, content: bytes, *, patient: bool) -> bytes:
        answer, gone, url = HttpAttempt(0, ""), set[str](), self.urls[0]
        for attempt in range(self.retries + 1):
            if attempt:
                _log.info("attempt %d failed: %s", attempt, answer.problem)
                self.sleep(max(answer.wait, min(2.0 ** (attempt - 1), LONGEST_WAIT)))
            answer, url = self._of_some_server(method, path, content, gone)
            if answer.status == 200:
                return answer.body
            if answer.gone:
                raise ServerUnreachable(self.failed(answer.problem, url))
            if not (answer.status in {0, 429} or (answer.status >= 500 and patient)):
                said = self._sentence(answer) if answer.status not in (401, 403) else ""
                raise HttpStatusError(self.failed(answer.problem, url), answer.status, said)
            if answer.wait > LONGEST_WAIT:
                waits = f"{answer.problem} and asks to wait {answer.wait:,.0f} s"
                raise ServerUnreachable(self.failed(waits, url), answer.status)
        problem = f"{answer.problem}, {self.retries + 1} times"
        raise ServerUnreachable(self.failed(problem, url), answer.status)

    def _of_some_server(
        self, method: str, path: str, content: bytes, gone: set[str]
    ) -> tuple[HttpAttempt, str]:
        """Ask the next server in turn, and another one where no one is there."""
        for _ in self.urls:
            remaining = [url for url in self.urls if url not in gone]
            url = remaining[next(self._turn) % len(remaining)]
            if self._over.is_set():
                raise Interrupted(f"{self.who} was not asked any more.")
            answer = self._run_coroutine(self._try(method, url, path, content))
            if not answer.gone:
                break
            gone.add(url)
            if len(gone) == len(self.urls):
                break
        return answer, url

    async def _try(self, method: str, url: str, path: str, content: bytes) -> HttpAttempt:
        """Ask once, within the time that an answer may take."""
        import httpx

        try:
            async with asyncio.timeout(self.timeout):
                request = self.http[url].stream(method, url + path, content=content)
                async with request as response:
                    body = await self._read(response, url)
        except (TimeoutError, httpx.TimeoutException):
            return HttpAttempt(0, f"did not answer within {self.timeout:g} s")
        except httpx.ConnectError:
            return HttpAttempt(0, "cannot be reached", gone=True)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            return HttpAttempt(0, "broke off")
        status, wait = response.status_code, retry_after(response.headers.get("Retry-After", ""))
        return HttpAttempt(status, _status_problem(status), wait, body)

    async def _read(self, response: "httpx.Response", url: str) -> bytes:
        """Return the body as it was sent; raises TargetError for one that is too long."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise TargetError(self.failed("answers in a packed form that no one asked for", url))
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self.most_bytes:
                raise TargetError(
                    self.failed(f"answers with more than {self.most_bytes:,} bytes", url)
                )
        return bytes(body)

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, HttpAttempt]) -> HttpAttempt:
        """Run a coroutine in the client's own thread, started on first use; return its result."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True)
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _release(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self.http.values():
            await client.aclose()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def check_url(url: str, key_variable: str = "") -> None:
    """Raise ValueError for an address that cannot be asked, or not with a key."""
    try:
        parts = urlsplit(url)
        valid_port = parts.port != 0  # one that is not a number, or too large, raises
    except ValueError:
        parts, valid_port = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not valid_port:
        raise ValueError("url must be an address that begins with http:// or https://.")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("url must hold no user, password or query: see key_variable.")
    # What is not a name may be the key itself: it is not repeated.
    if key_variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key_variable):
        raise ValueError("key_variable must be the name of an environment variable.")
    if key_variable and parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ValueError("url must begin with https:// where key_variable names a key to send.")


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, so that no one on the way reads what is sent to it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def key_header(key_variable: str) -> dict[str, str]:
    """Return the header with the key; raises UsageError without one, InputError if invalid."""
    if not key_variable:
        return {}
    key = os.environ.get(key_variable, "").strip()
    if not key:
        raise UsageError("The environment variable that key_variable names is not set.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise InputError("What the environment variable of key_variable holds is not an API key.")
    return _bearer(key)


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def retry_after(header: str) -> float:
    """Return the seconds that a Retry-After header asks for: a number or a date; else 0."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d{1,9}(\.\d+)?", header.strip(), re.ASCII):
        return float(header)
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _status_problem(status: int) -> str:
    # Never the body: some endpoints repeat the key in it.
    denied = " (see key_variable)" if status in (401, 403) else ""
    elsewhere = " (a redirect, which is not followed)" if 300 <= status < 400 else ""
    return f"answers with HTTP status {status}{denied}{elsewhere}"


def _connect(url: str, headers: Mapping[str, str]) -> "httpx.AsyncClient":
    import httpx

    parts = urlsplit(url)
    loopback = is_loopback(parts.hostname or "")
    plain = loopback and parts.scheme == "http"  # reading all certificates takes a while
    try:
        return httpx.AsyncClient(
            timeout=None, headers=headers, trust_env=not loopback, verify=not plain
        )
    except (ImportError, ValueError, OSError, httpx.InvalidURL):
        raise UsageError(
            "The proxy or the certificates that the environment names cannot be used."
        ) from None


def _key_detector(key: str) -> Callable[[str], bool]:
    """Return a function that tells whether a text quotes part of the key.

    The key is in a closure, so that no listing of a client's fields shows it.
    """
    parts = (
        {key[i : i + KEY_PART] for i in range(max(1, len(key) - KEY_PART + 1))} if key else set()
    )
    return lambda text: any(part in text for part in parts)
