"""The green-list watermark of Kirchenbauer et al. (arXiv:2301.10226), as FedAttr plants it.

The teacher prefers green tokens, a share gamma of all that a secret key chooses anew behind every
token. A model that is trained on such texts prefers them too (radioactivity), and its answers show
more of them than gamma.

Keys that were never issued: what z a text has under them, and so how far chance alone takes it.

Without a watermark a key makes every choice of a text green with the chance gamma, whatever the
other choices. So a null key needs no lists of its own: a hash of it and the choice says green.
Under the same null keys, texts that have choices in common have scores in common.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedaudit.api import (
    Completion,
    Document,
    Engine,
    GenerationRequest,
    InputError,
    ModelEngine,
    Progress,
    SamplingParams,
    Score,
    Watermark,
    no_progress,
    text_start,
)

from . import textseal
from .detection import Detector, check_gamma, upper_tail, z_score
from .schemes import SCHEMES
from .texts import continue_text, key_of, rewrite, text_beginnings, text_of
from .writing import WritingConfig, WritingJob, write

if TYPE_CHECKING:
    import numpy as np

METHODS = ("auto", "rewrite", "continue")
NULLS = range(64, 4097)
"""With fewer null keys their spread is itself too much a matter of chance."""


@dataclass(frozen=True, kw_only=True)
class KGW(Watermark):
    """Let a teacher rewrite documents with tokens that a secret key prefers."""

    name: ClassVar[str] = "kgw"
    paper: ClassVar[str] = "Kirchenbauer et al. 2023, arXiv:2301.10226"

    scheme: str = "textseal"
    """What decides whether a token is green; see docs/kgw.md for what it interoperates with."""
    gamma: float = 0.25
    """The share of green tokens."""
    delta: float = 3.0
    """What is added to the logits of green tokens."""
    width: int = 0
    """Tokens of the n-gram that chooses green tokens; 0: the scheme's own number (textseal: 1)."""
    method: str = "auto"
    """"rewrite" by a chat model, "continue" from a document's first tokens, or what fits."""
    temperature: float = 0.8
    """The sampling temperature of marked texts: logits are divided by it."""
    top_p: float = 0.95
    """Sample from the likeliest tokens that together have this probability; 1 is all."""
    prompt_tokens: int = 16
    """Tokens that a continued document keeps, and that a detection prompt has."""
    length: int = 0
    """Tokens of a continued document; 0: as many as the original has."""
    shortest: int = 128
    """The fewest tokens of a rewritten document, or those of the original if it is shorter."""
    longest: int = 1024
    """The most tokens of a rewritten document."""
    prompts: int = 256
    """Prompts that a model under test is asked to continue."""
    tokens: int = 512
    """New tokens for each prompt."""
    sampling: float = 0.0
    """The temperature of the tested model's answers. 0, the paper's, is greedy: a small model then
    says the same few words to every prompt, which leaves little to count."""
    nulls: int = 256
    """Keys that were never issued, with which the answers are tested too, to see how far Z comes by
    chance. 0, the paper's, tests none."""

    def __post_init__(self) -> None:
        _one_of("scheme", self.scheme, tuple(SCHEMES))
        _one_of("method", self.method, METHODS)
        check_gamma(self.gamma)
        if self.delta < 0:
            raise ValueError("delta must not be negative.")
        if not 0 <= self.width <= len(textseal.PRIMES):
            raise ValueError(f"width must lie between 0 and {len(textseal.PRIMES)}.")
        if self.sampling < 0:
            raise ValueError("sampling must be at least 0.")
        if self.nulls and self.nulls not in NULLS:
            raise ValueError(f"nulls must be 0 or lie between {NULLS[0]} and {NULLS[-1]}.")
        if self.temperature <= 0 or not 0 < self.top_p <= 1:
            raise ValueError("temperature must be above 0, top_p above 0 and at most 1.")
        if min(self.prompt_tokens, self.prompts, self.tokens, self.longest) < 1:
            raise ValueError("prompt_tokens, prompts, tokens and longest must be at least 1.")
        rule = SCHEMES[self.scheme]
        if self.tokens <= (window := rule.before(self.width or rule.width)):
            raise ValueError(
                f"tokens must be above {window}: a token of an answer counts only after "
                f"{window} others."
            )
        if self.length < 0 or not 0 <= self.shortest <= self.longest:
            raise ValueError("length must not be negative, nor shortest, nor above longest.")

    def issue(
        self, teacher: ModelEngine, prompts: Sequence[str], *, seed: int, index: int
    ) -> dict[str, Any]:
        """Return key, scheme and the prompts of the test; raises InputError without any prompt."""
        secret = {
            "scheme": self.scheme,
            "key": _key(seed, index),
            "gamma": self.gamma,
            "delta": self.delta,
            "width": self.width or SCHEMES[self.scheme].width,
            "vocabulary": vocabulary_size(teacher),
        }
        return self.add_prompts(secret, prompts, teacher)

    def add_prompts(
        self, secret: Mapping[str, Any], texts: Sequence[str], teacher: ModelEngine
    ) -> dict[str, Any]:
        """Return the secret with prefixes of `texts`; raises InputError where there are none."""
        different = list(dict.fromkeys(texts))
        prefixes = text_beginnings(
            different,
            teacher.tokenize(different),
            count=self.prompts,
            length=self.prompt_tokens,
            longest=teacher.context_length // 2,
        )
        if not prefixes:
            raise InputError("The kgw watermark needs texts for prompts, to be tested.")
        return {**secret, "prompts": prefixes}

    def embed(
        self,
        secret: Mapping[str, Any],
        documents: Sequence[Document],
        teacher: ModelEngine,
        *,
        seed: int,
        progress: Progress = no_progress,
    ) -> list[Document]:
        """Return a text by the teacher for each document; its draws follow from seed and id."""
        tokenizer = teacher.base.tokenizer
        end_tokens = _end_tokens(teacher)
        size = int(teacher.base.model.config.get_text_config().vocab_size)
        config = WritingConfig(
            detector=detector_of(secret, teacher),
            delta=secret_value(secret, "delta", float),
            decoding=SamplingParams(temperature=self.temperature, top_p=self.top_p),
            ends=end_tokens,
            banned=tuple(
                sorted({*tokenizer.all_special_ids, *range(len(tokenizer), size)} - {*end_tokens})
            ),
        )
        planned = [self._job(document, teacher, key_of(seed, document)) for document in documents]
        written = write(teacher, [job for job, _ in planned], config, progress=progress)
        return [
            Document(
                id=f"{document.id}-marked",
                text=text_of(teacher, [*prefix, *tokens]),
                task=document.task,
                group=document.group,
            )
            for document, (_, prefix), tokens in zip(documents, planned, written, strict=True)
        ]

    def _job(
        self, document: Document, teacher: ModelEngine, key: int
    ) -> tuple[WritingJob, tuple[int, ...]]:
        chat = bool(getattr(teacher.base.tokenizer, "chat_template", None))
        if self.method == "rewrite" and not chat:
            raise InputError("This teacher has no chat template: it cannot be asked to rewrite.")
        if self.method == "rewrite" or (self.method == "auto" and chat):
            return rewrite(document, teacher, key=key, shortest=self.shortest, longest=self.longest)
        return continue_text(
            document, teacher, key=key, prefix_length=self.prompt_tokens, length=self.length
        )

    @property
    def decoding(self) -> SamplingParams:
        """How a model under test answers."""
        return SamplingParams(temperature=self.sampling)

    def questions(self, secret: Mapping[str, Any], engine: Engine) -> list[GenerationRequest]:
        """Ask for the continuation of each prompt; a short context shortens the answers."""
        begin, requests = text_start(engine), []
        for encoding in engine.tokenize(secret_value(secret, "prompts", _texts)):
            prompt = (*begin, *encoding.ids)[: engine.context_length - 1]
            new = min(self.tokens, engine.context_length - len(prompt))
            requests.append(GenerationRequest(prompt=prompt, samples=1, max_new_tokens=new))
        return requests

    @property
    def null_marks(self) -> int:
        """Keys that were never issued, tested on the same answers."""
        return self.nulls

    def test(
        self, secret: Mapping[str, Any], answers: Sequence[Completion], engine: Engine
    ) -> Score:
        """Count green tokens in the answers, all together; windows do not reach into prompts."""
        bare = [answer.texts[0] for answer in answers if not answer.tokens]
        tokenized = iter(engine.tokenize(bare) if bare else ())
        detector = detector_of(secret, engine)
        rows = detector.ngrams(
            [answer.tokens[0] if answer.tokens else next(tokenized).ids for answer in answers]
        )
        null = null_scores(detector.choices(rows), detector.gamma, self.nulls, salt=salt_of(secret))
        return replace(_score(detector, rows), null=null)

    def test_texts(self, secret: Mapping[str, Any], texts: Sequence[str], engine: Engine) -> Score:
        """Count green tokens in texts, all together, under the engine's tokenizer."""
        detector = detector_of(secret, engine)
        return _score(detector, detector.ngrams([t.ids for t in engine.tokenize(list(texts))]))


def _score(detector: Detector, rows: "np.ndarray") -> Score:
    count = detector.count_green(rows)
    z = z_score(count, detector.gamma)
    return Score(z=z, p_value=upper_tail(z), n=count.n, hits=count.green, chance=detector.gamma)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError("prompts are a list of texts")
    return value


def _end_tokens(teacher: ModelEngine) -> tuple[int, ...]:
    end = teacher.base.model.generation_config.eos_token_id
    end_tokens = [*(end if isinstance(end, list) else [end]), teacher.base.tokenizer.eos_token_id]
    return tuple(dict.fromkeys(token for token in end_tokens if token is not None))


def _key(seed: int, index: int) -> int:
    """Return an odd number below 2^32.

    The programs that a mark interoperates with multiply it with other numbers in 64 bits or seed
    32-bit generators with the product: a larger key fails in some, and an even one loses bits.
    """
    text = f"kgw:{seed}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=4).digest(), "big") | 1


def _one_of(option: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{option} must be one of {', '.join(choices)}.")


def null_scores(choices: "np.ndarray", gamma: float, count: int, *, salt: int) -> tuple[float, ...]:
    """Return z under each of `count` null keys, of distinct choices, int64 (n, columns).

    z = (G - gamma n) / sqrt(gamma (1 - gamma) n), to four places; zeros where n is 0. It does not
    depend on the order of the choices. `salt` is 64 bits that tell these null keys from others.
    """
    import numpy as np

    from fedaudit.engine.generation.sampler import uniforms

    if not (len(choices) and count):
        return (0.0,) * count
    keys = _hashes(choices, salt)
    scale = float(np.sqrt(gamma * (1 - gamma) * len(keys)))
    green = [
        int((uniforms(keys, np.full_like(keys, null), 0) < gamma).sum()) for null in range(count)
    ]
    return tuple(round((hits - gamma * len(keys)) / scale, 4) for hits in green)


def _hashes(rows: "np.ndarray", salt: int) -> "np.ndarray":
    """Return 64 bits for each row."""
    import numpy as np

    from fedaudit.engine.generation.sampler import splitmix64

    state = np.full(len(rows), salt, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.T:
            state = splitmix64(state ^ column.astype(np.uint64))
    return state


def detector_of(secret: Mapping[str, Any], engine: Engine) -> Detector:
    """Return the test that a secret describes.

    Raises InputError for a secret that is none, and where the lists were made for a vocabulary of
    another size than the engine's.
    """
    begin = text_start(engine)
    try:
        detector = Detector(
            scheme=secret["scheme"],
            key=int(secret["key"]),
            gamma=float(secret["gamma"]),
            vocabulary=int(secret["vocabulary"]),
            width=int(secret["width"]),
            bos=begin[0] if begin else None,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("The secret of this kgw watermark is damaged.") from None
    vocabulary = vocabulary_size(engine)
    if (
        SCHEMES[detector.scheme].uses_vocabulary_size
        and vocabulary
        and vocabulary != detector.vocabulary
    ):
        raise InputError(
            f"This watermark ({detector.scheme}) is for a vocabulary of {detector.vocabulary} "
            f"tokens, and the model's has {vocabulary}: its green lists would be different."
        )
    return detector


def secret_value(secret: Mapping[str, Any], name: str, kind: Callable[[Any], Any]) -> Any:
    """Return a value of a secret, made by `kind`; raises InputError where there is none such."""
    try:
        return kind(secret[name])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("The secret of this kgw watermark is damaged.") from None


def salt_of(secret: Mapping[str, Any]) -> int:
    """Return 64 bits that only the owner can work out, the key and the prompts together.

    Choices depend on the key where lists are shared. Without a salt, anyone who knew the answers
    could try keys by the null scores, which are not secret.
    """
    text = json.dumps(dict(secret), sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def vocabulary_size(engine: Engine) -> int:
    """Return the vocabulary's size in the model's configuration; 0 of an engine without a model."""
    base = getattr(engine, "base", None)
    return int(base.model.config.get_text_config().vocab_size) if base else 0
