"""How a server is asked: everything beside its address and the model's name."""

from dataclasses import dataclass

from fedaudit.system.http_client import check_url


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """Options of a server under audit. Raises ValueError for what cannot be."""

    base: str = ""
    """The name by which the servers serve the base, to compare with; without it there is none."""
    base_url: str = ""
    """Where the base is served, if not beside the model."""
    urls: tuple[str, ...] = ()
    """Further servers of the same models, which are asked in turn."""
    tokenizer: str = ""
    """The model's own tokenizer, a folder or hub id; without it texts are cut by the built-in
    one, and no text can be scored."""
    key_variable: str = ""
    """The environment variable that holds the API key, never the key itself; "" sends none."""
    concurrency: int = 4
    """Requests that are under way at once."""
    timeout: float = 120.0
    """Seconds for one answer, from the connection to its last byte."""
    retries: int = 5
    """How often a request is sent again that a server was too busy for, or failed on."""
    scoring: bool = True
    """Whether log-probabilities of prompts are asked for: some servers die of that."""
    context: int = 0
    """Tokens that a prompt and its continuation may have together; 0 finds out."""
    max_requests: int = 100_000
    """No more requests than that are sent."""
    max_tokens: int = 50_000_000
    """No more tokens than that, read or written, are asked for."""

    def __post_init__(self) -> None:
        for url in (*self.urls, *filter(None, [self.base_url])):
            check_url(url, self.key_variable)
        if self.concurrency < 1 or self.concurrency > 256:
            raise ValueError("concurrency must be from 1 to 256.")
        if not self.timeout > 0 or min(self.retries, self.context) < 0:
            raise ValueError("timeout must be above 0, retries and context at least 0.")
        if min(self.max_requests, self.max_tokens) < 1:
            raise ValueError("max_requests and max_tokens must be at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model behind servers, and its base there. Raises ValueError for what cannot be."""

    url: str
    model: str = ""
    """The name by which it is asked; the only one that the server has without it."""
    options: EndpointOptions = EndpointOptions()

    def __post_init__(self) -> None:
        for url in self.urls:
            check_url(url, self.options.key_variable)

    @property
    def urls(self) -> tuple[str, ...]:
        """All servers of the model."""
        return tuple(dict.fromkeys(url.rstrip("/") for url in (self.url, *self.options.urls)))

    @property
    def base_urls(self) -> tuple[str, ...]:
        """All servers of the base."""
        return (self.options.base_url.rstrip("/"),) if self.options.base_url else self.urls

    @property
    def has_base(self) -> bool:
        """Whether there is a base to compare with."""
        return bool(self.options.base or self.options.base_url)

    @property
    def name(self) -> str:
        """The model as a report calls it."""
        return _model_label(self.model, self.url)

    @property
    def base_name(self) -> str:
        """The base as a report calls it."""
        return _model_label(self.options.base, self.base_urls[0])


def is_url(target: str | None) -> bool:
    """Tell whether a target is a server's address."""
    return (target or "").lower().startswith(("http:", "https:"))


def _model_label(model: str, url: str) -> str:
    return f"{model} at {url}" if model else url
