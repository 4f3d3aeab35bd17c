"""An OpenAI-compatible chat endpoint: asking it, waiting for it, and giving up in one line."""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedaudit.api.errors import InputError, Interrupted, TargetError, UsageError

if TYPE_CHECKING:
    import httpx

LONGEST_WAIT = 120.0
"""Seconds: an endpoint that asks to wait longer is given up."""
MOST_BYTES = 2**20
"""Of one answer; a judgement has a few hundred."""

Messages = Sequence[Mapping[str, str]]
Sleep = Callable[[float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a judge is found. Raises ValueError for what cannot be."""

    url: str
    """The API's root, to which /chat/completions is added: http://127.0.0.1:8000/v1, say."""
    model: str
    key_variable: str = ""
    """The environment variable that holds the API key, never the key itself; "" sends none."""
    timeout: float = 60.0
    """Seconds for one answer."""
    retries: int = 5
    """How often a question is put again that the endpoint was too busy for, or failed on."""
    max_tokens: int = 256
    """How long a judgement may be; 0 leaves it to the endpoint."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url must be an address that begins with http:// or https://.")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("url must hold no user, password or query: see key_variable.")
        if not self.model:
            raise ValueError("model must name the judge's model.")
        # What is no name may be the key itself: it is not repeated.
        if self.key_variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise ValueError("key_variable must be the name of an environment variable.")
        if self.key_variable and parts.scheme == "http" and not _is_here(parts.hostname):
            raise ValueError("url must begin with https:// where key_variable names a key to send.")
        if self.timeout <= 0 or self.retries < 0 or self.max_tokens < 0:
            raise ValueError("timeout must be above 0, retries and max_tokens at least 0.")


class EndpointClient:
    """Asks one endpoint; several threads may share it. Close it, or use it as a context.

    `sleep` waits so many seconds before a question is put again.
    """

    def __init__(self, endpoint: Endpoint, *, sleep: Sleep | None = None) -> None:
        import httpx

        self.endpoint = endpoint
        self._over = threading.Event()
        self._sleep: Sleep = sleep or self._over.wait
        headers = {"Content-Type": "application/json", **_headers(endpoint)}
        try:
            # A redirect is not followed: it would take the key elsewhere.
            self._http = httpx.Client(timeout=endpoint.timeout, headers=headers)
        except (ImportError, ValueError, OSError, httpx.InvalidURL):
            raise UsageError(
                "The proxy or the certificates that the environment names cannot be used."
            ) from None

    def __enter__(self) -> "EndpointClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def stop(self) -> None:
        """Let threads that wait to ask again give up."""
        self._over.set()

    def close(self) -> None:
        """Give up whatever still waits, and let go of the connections."""
        self.stop()
        self._http.close()

    def ask(self, messages: Messages) -> str:
        """Return what the model says to a chat, as text.

        Raises TargetError where the endpoint cannot be reached, stays too busy, refuses, or is no
        chat endpoint, and Interrupted once the client is to stop.
        """
        problem, wait = "", 0.0
        for attempt in range(self.endpoint.retries + 1):
            if attempt:
                self._sleep(max(wait, min(2.0 ** (attempt - 1), LONGEST_WAIT)))
            if self._over.is_set():
                raise Interrupted("The judge was not asked any more.")
            status, problem, wait, body = self._try(messages)
            if status == 200:
                return self._said(body)
            if not _passes(status):
                raise self._failed(problem)
            if wait > LONGEST_WAIT:
                raise self._failed(f"{problem} and asks to wait {wait:,.0f} s")
        raise self._failed(f"{problem}, {self.endpoint.retries + 1} times")

    def _try(self, messages: Messages) -> tuple[int, str, float, bytes]:
        """Ask once; return the status (0: no answer came), the problem, its wait and the body."""
        import httpx

        chat: dict[str, Any] = {"model": self.endpoint.model, "messages": list(messages)}
        chat["temperature"] = 0
        if self.endpoint.max_tokens:
            chat["max_tokens"] = self.endpoint.max_tokens
        address = f"{self.endpoint.url.rstrip('/')}/chat/completions"
        try:
            with self._http.stream("POST", address, content=json.dumps(chat)) as response:
                body = self._read(response)
                wait = _wait(response.headers.get("Retry-After", ""))
                return response.status_code, self._told(response.status_code), wait, body
        except httpx.TimeoutException:
            return 0, f"did not answer within {self.endpoint.timeout:g} s", 0.0, b""
        except httpx.ConnectError:
            # Nobody is there, or by another name: asking again would only delay saying so.
            raise self._failed("cannot be reached") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            return 0, "broke off", 0.0, b""

    def _read(self, response: "httpx.Response") -> bytes:
        """Return the body; raises a time-out or TargetError where it does not come to an end."""
        import httpx

        body, deadline = b"", time.monotonic() + self.endpoint.timeout
        for part in response.iter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise self._failed(f"answers with more than {MOST_BYTES:,} bytes")
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the answer does not end")
        return body

    def _said(self, body: bytes) -> str:
        try:
            said = json.loads(body)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise self._failed("does not answer as an OpenAI-compatible chat does") from None
        return said if isinstance(said, str) else ""  # null: the model declined

    def _told(self, status: int) -> str:
        # Never the body: some endpoints repeat the key in it.
        denied = " (see key_variable)" if status in (401, 403) else ""
        return f"answers with HTTP status {status}{denied}"

    def _failed(self, problem: str) -> TargetError:
        return TargetError(f"The judge at {self.endpoint.url} {problem}.")


def _is_here(host: str) -> bool:
    """Tell whether a host is this machine, so that nobody on the way reads what is sent to it."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the header with the key; raises UsageError without one, InputError for none."""
    if not endpoint.key_variable:
        return {}
    key = os.environ.get(endpoint.key_variable, "").strip()
    if not key:
        raise UsageError("The environment variable that key_variable names is not set.")
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise InputError("What the environment variable of key_variable holds is no API key.")
    return {"Authorization": f"Bearer {key}"}


def _passes(status: int) -> bool:
    """Tell whether what went wrong may be over when the question is put again."""
    return status in {0, 429} or status >= 500


def _wait(header: str) -> float:
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
