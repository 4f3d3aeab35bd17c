"""Options of a server under audit: everything except its address and the model's name."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from fedaudit.api.plugin import UpTo


def _check_urls(urls: Iterable[str], key_variable: str) -> None:
    for url in urls:
        # Here, as it takes longer to import than `fedaudit extract --help` takes without it.
        from fedaudit.system.http_client import check_url

        check_url(url, key_variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Options of a server under audit. Raises ValueError for invalid values."""

    base: str = ""
    """The name under which the servers serve the base. Without it and `base_url`, the model is not
    compared with its base."""
    base_url: str = ""
    """The address of a server of the base, if the model's servers do not serve it."""
    urls: tuple[str, ...] = ()
    """Further servers of the same models; requests go to all of them in turn."""
    tokenizer: str = ""
    """The model's own tokenizer, a folder or hub id. Without it, the built-in tokenizer is used,
    and no text can be scored."""
    key_variable: str = ""
    """The environment variable that holds the API key, never the key itself; "" sends none."""
    concurrency: int = 4
    """The number of concurrent requests."""
    timeout: float = 120.0
    """Seconds for one response, from the connection to its last byte."""
    retries: int = 5
    """How often a request is sent again if a server is too busy or fails."""
    scoring: bool = True
    """Whether prompt log-probabilities are requested, which makes some servers crash."""
    context: int = 0
    """The maximum number of tokens in a prompt and its completion together; 0 finds it out."""
    max_requests: Annotated[int, UpTo(1e12)] = 100_000
    """The maximum number of requests."""
    max_tokens: Annotated[int, UpTo(1e12)] = 50_000_000
    """The maximum number of tokens, in prompts and completions together."""

    def __post_init__(self) -> None:
        _check_urls((*self.urls, *filter(None, [self.base_url])), self.key_variable)
        if self.concurrency < 1 or self.concurrency > 256:
            raise ValueError("concurrency must be from 1 to 256.")
        if not self.timeout > 0 or min(self.retries, self.context) < 0:
            raise ValueError("timeout must be above 0, retries and context at least 0.")
        if min(self.max_requests, self.max_tokens) < 1:
            raise ValueError("max_requests and max_tokens must be at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A served model and its served base. Raises ValueError for an invalid address."""

    url: str
    model: str = ""
    """The model's name on the server; if empty, the only model that the server lists."""
    options: EndpointOptions = EndpointOptions()

    def __post_init__(self) -> None:
        _check_urls(self.urls, self.options.key_variable)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of all servers of the model."""
        return tuple(dict.fromkeys(url.rstrip("/") for url in (self.url, *self.options.urls)))

    @property
    def base_urls(self) -> tuple[str, ...]:
        """The addresses of all servers of the base."""
        return (self.options.base_url.rstrip("/"),) if self.options.base_url else self.urls

    @property
    def has_base(self) -> bool:
        """Whether the base is served too."""
        return bool(self.options.base or self.options.base_url)

    @property
    def name(self) -> str:
        """The model's name in reports."""
        return _model_label(self.model, self.url)

    @property
    def base_name(self) -> str:
        """The base's name in reports."""
        return _model_label(self.options.base, self.base_urls[0])


def is_url(target: str | None) -> bool:
    """Tell whether a target is a server's address."""
    return (target or "").lower().startswith(("http:", "https:"))


def _model_label(model: str, url: str) -> str:
    return f"{model} at {url}" if model else url
