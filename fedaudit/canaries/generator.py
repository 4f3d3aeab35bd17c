"""New canaries: who gets which secret, in which sentence, how often."""

import random
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated

from typer import Option

from fedaudit.api.errors import InputError, UsageError
from fedaudit.api.templates import template
from fedaudit.canaries.canary_file import (
    MAX_CANARIES,
    MAX_TIMES,
    REFERENCES,
    Canary,
    CanarySet,
    is_instruction,
)
from fedaudit.canaries.kinds import NUMBER, SECRET, SecretKind, check_sentence, find_kind
from fedaudit.canaries.secret_space import SecretSpace
from fedaudit.config.options import build
from fedaudit.system.files import read_regular
from fedaudit.system.names import check_name

NUMBERS = range(100_000, 1_000_000)
"""What tells one canary's sentence from another's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRequest:
    """Which canaries to make. Raises UsageError for what cannot be made."""

    kind: Annotated[str, Option("--kind", help="phone, card, id or name.")] = "phone"
    language: Annotated[str, Option("--language", help="en or zh.")] = "en"
    count: Annotated[int, Option("--count", help="Secrets to plant.", min=1, max=10_000)] = 12
    times: tuple[int, ...] = (1, 4, 16)
    """How many copies: the first canary has the first of these, and so on in turn."""
    controls: Annotated[
        int,
        Option(
            "--controls",
            help="Secrets that no client is given, to compare with.",
            min=0,
            max=1_000_000,
        ),
    ] = 100
    clients: Annotated[
        tuple[str, ...],
        Option("--client", help="A client that gets secrets; may be repeated."),
    ] = ("c0",)
    corpora: Annotated[
        tuple[Path, ...],
        Option(
            "--corpus",
            help="Records that must not hold any of the secrets, as JSONL; may be repeated.",
        ),
    ] = ()
    formats: Annotated[
        tuple[str, ...],
        Option(
            "--format",
            metavar="TEXT",
            help="A sentence with {secret}; {number} before it tells canaries apart; may be "
            "repeated.",
        ),
    ] = ()
    """The kind's own without any."""
    instruction: Annotated[
        str,
        Option(
            "--instruction",
            help="The instruction that the sentences answer, if records are instructions.",
        ),
    ] = ""
    pattern: Annotated[
        str | None,
        Option(
            "--pattern",
            help="The form of the secrets, in place of the kind's: # is a digit, [ab] is a or b.",
        ),
    ] = None
    names: Annotated[
        Path | None,
        Option("--names", help="A file with the names for --kind name, one per line."),
    ] = None
    seed: Annotated[
        int | None,
        Option("--seed", help="Makes the canaries repeatable for anybody who knows it."),
    ] = None
    template: str = "fed_pii"

    def __post_init__(self) -> None:
        if not self.times or any(not 0 < n <= MAX_TIMES for n in self.times):
            raise UsageError(f"--times takes numbers from 1 to {MAX_TIMES:,}, as 1,4,16.")
        if self.pattern == "":
            raise UsageError("--pattern is empty: it must spell secrets, as 07700 900###.")
        if len(set(self.times)) < len(self.times) or len(set(self.clients)) < len(self.clients):
            raise UsageError("--times and --client name nothing twice.")
        if self.controls < 0 or self.count + self.controls > MAX_CANARIES:
            raise UsageError(f"A file has {MAX_CANARIES:,} canaries at most, controls included.")
        if not is_instruction(self.instruction):
            raise UsageError(f"--instruction takes one line without {SECRET}.")
        least = len(self.times) * max(1, len(self.clients))
        if not self.clients or self.count < least:
            raise UsageError(
                f"--count {self.count} is too few: every client gets one canary of each "
                f"multiplicity at least, {least} in all."
            )


def make(request: CanaryRequest, known_texts: Iterable[str] = ()) -> CanarySet:
    """Return new canaries, of which no corpus of the request and no known text holds a secret.

    Secrets are drawn uniformly from those of their space that no corpus holds, without a seed by
    the operating system's generator.
    """
    for client in request.clients:
        check_name(client, Path("--client"), "the client")
    kind = find_kind(request.kind, request.language)
    template(request.template)  # refused where no corpus needs it, too
    rng = (
        random.SystemRandom() if request.seed is None else random.Random(f"canaries {request.seed}")
    )
    read = (text for path in request.corpora for text in _texts(path, request.template))
    corpus_text = _fold_texts(chain(known_texts, read))
    space = _space(request, kind, corpus_text)
    planted, controls = _secrets(space, request, rng, corpus_text)
    sentences = [check_sentence(sentence) for sentence in request.formats or kind.sentences]
    texts = _contexts(sentences, request.count, rng)
    planted_canaries = [
        Canary(text=text, secret=secret, client=client, times=times)
        for text, secret, (client, times) in zip(texts, planted, _shares(request), strict=True)
    ]
    # A control stands in the sentence of a planted secret: a place that training has changed.
    control_canaries = [
        Canary(text=texts[i % len(texts)], secret=secret) for i, secret in enumerate(controls)
    ]
    return CanarySet(
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        salt=f"{rng.getrandbits(256):064x}",
        kind=request.kind,
        language=request.language,
        label=kind.label,
        space=space,
        instruction=request.instruction,
        canaries=(*planted_canaries, *control_canaries),
    )


def _shares(request: CanaryRequest) -> list[tuple[str, int]]:
    """Return the client and the copies of each canary: all multiplicities for each in turn."""
    cycle, shares = len(request.times), []
    for index in range(request.count):
        client = request.clients[index // cycle % len(request.clients)]
        shares.append((client, request.times[index % cycle]))
    return shares


def _space(request: CanaryRequest, kind: SecretKind, corpus_text: str) -> SecretSpace:
    """Return the secrets to draw from; of a list, those that no corpus holds."""
    if bool(request.names) != (kind.space is None):
        need = "needs --names FILE" if kind.space is None else "takes no --names"
        raise UsageError(f"--kind {request.kind} {need}.")
    if request.names is None:
        assert kind.space is not None
        if request.pattern is None:
            return kind.space
        return build(SecretSpace, {"pattern": request.pattern}, "--pattern")
    if request.pattern is not None:
        raise UsageError("--pattern and --names cannot be given together.")
    names = dict.fromkeys(filter(None, map(str.strip, _lines(request.names))))
    words = tuple(name for name in names if not _holds(corpus_text, name))
    if len(words) < 2:
        raise InputError(f"{request.names} has fewer than two names that no corpus holds.")
    return build(SecretSpace, {"words": words}, "--names")


def _lines(path: Path) -> list[str]:
    try:
        return read_regular(path).decode("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8.") from None


def _secrets(
    space: SecretSpace, request: CanaryRequest, rng: random.Random, corpus_text: str
) -> tuple[list[str], list[str]]:
    """Return secrets to plant and controls, of which no corpus holds any."""
    # Secrets that no client was given are compared with: without references a rank cannot be had.
    total = request.count + max(request.controls, REFERENCES)
    drawn_secrets, secrets = set[str](), list[str]()
    while len(secrets) < total:
        try:
            batch = space.sample(total - len(secrets), rng, drawn_secrets)
        except ValueError:
            raise UsageError(
                f"The {space.size:,} secrets of this kind, less those that a corpus holds, are too "
                f"few for {request.count:,} canaries and {request.controls:,} controls."
            ) from None
        drawn_secrets.update(batch)
        secrets += [secret for secret in batch if not _holds(corpus_text, secret)]
    return secrets[: request.count], secrets[request.count : request.count + request.controls]


def _contexts(sentences: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Return a sentence for each canary, different from all others; UsageError without as many."""
    numbers = rng.sample(NUMBERS, min(count, len(NUMBERS)))
    texts = [
        sentences[i % len(sentences)].replace(NUMBER, str(numbers[i % len(numbers)]))
        for i in range(count)
    ]
    if len({text.partition(SECRET)[0] for text in texts}) < count:
        raise UsageError(
            f"The formats give fewer than {count:,} different beginnings: add {NUMBER} before "
            f"{SECRET}, or more formats."
        )
    return texts


def _texts(path: Path, form: str) -> Iterable[str]:
    from fedaudit.data import corpus

    return (document.text for document in corpus.read(path, template(form)))


def _fold_texts(texts: Iterable[str]) -> str:
    """Return texts as one, letters and digits alone, in which secrets are found however spaced."""
    return "\0".join(map(_letters, texts))


def _holds(corpus_text: str, secret: str) -> bool:
    return bool(corpus_text) and _letters(secret) in corpus_text


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
