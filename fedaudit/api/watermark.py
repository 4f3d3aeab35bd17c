"""What a watermark is: it marks documents so that a model trained on them is recognised."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from fedaudit.api.contract import ensures
from fedaudit.api.engine import Engine, ModelEngine
from fedaudit.api.errors import UsageError
from fedaudit.api.plugin import Plugin
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Completion, Document, GenerationRequest, SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One watermark, as its owner keeps it: a licensee's own, found by its secret alone."""

    id: str
    name: str
    """The plugin."""
    options: Mapping[str, Any]
    """The plugin's settings; no secret."""
    secret: Mapping[str, Any] = field(repr=False)
    """What `Watermark.issue` returned."""
    salt: str = field(default="", repr=False)
    """What hides the mark behind its commitment until it is opened; empty where none was drawn."""

    def with_options(self, options: Mapping[str, Mapping[str, Any]]) -> "Mark":
        """Return the mark with the options that its plugin was given anew, by the plugin's name.

        Raises UsageError for one that was settled when the mark was made.
        """
        own = options.get(self.name, {})
        if settled := [name for name in own if name in self.secret]:
            raise UsageError(
                f"{self.name}.{settled[0]} was settled when the mark was made: it cannot be set "
                "anew."
            )
        return replace(self, options={**self.options, **own})


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a test for a watermark counted, and how far that is from chance."""

    z: float
    """Standard normal where there is no watermark; large where there is one."""
    p_value: float
    """The upper tail."""
    n: int
    """Things looked at: scored tokens, questions. With none, a client was not tested."""
    hits: int
    """Those that speak for the watermark: green tokens, right answers."""
    chance: float
    """The share of hits that is expected without a watermark."""
    parts: tuple[int, ...] = ()
    """The hits of each part of a test that has parts, such as the attributes of an entity."""
    null: tuple[float, ...] = ()
    """z of the same things under marks that were never issued, in every test the same ones: as many
    as `Watermark.null_marks`; `test_texts` gives none. What tests of several models say alike, it
    says alike under all of them."""


def _document_each(
    _: object,
    result: list[Document],
    _secret: object,
    documents: Sequence[Document],
    *__: object,
    **___: object,
) -> str:
    """Say where there are fewer or more marked documents than were given."""
    made, given = len(result), len(documents)
    return "" if made == given else f"{made} documents in place of {given}"


class Watermark(Plugin, ABC):
    """Plants a mark in documents and finds it in texts and in what a model answers.

    Its fields are public settings. What only the owner may know is in the secret, a table that
    JSON can hold.
    """

    lost_by: ClassVar[str] = ""
    """What may take the mark out of documents and leave their texts as they are, if anything:
    wherever the mark is looked for, a reader is told that one not found may be lost by this."""

    @abstractmethod
    def issue(
        self, teacher: ModelEngine, prompts: Sequence[str], *, seed: int, index: int
    ) -> dict[str, Any]:
        """Return the secret of a new mark: another one for every `seed` and `index`.

        `teacher` is the engine of the model that writes marked documents; `prompts` are texts
        that are never trained on, for a detector that needs prompts of its own.
        """

    @abstractmethod
    @ensures(_document_each)
    def embed(
        self,
        secret: Mapping[str, Any],
        documents: Sequence[Document],
        teacher: ModelEngine,
        *,
        seed: int,
        progress: Progress = no_progress,
    ) -> list[Document]:
        """Return one marked document in place of each of `documents`."""

    def add_prompts(
        self, secret: Mapping[str, Any], texts: Sequence[str], teacher: ModelEngine
    ) -> dict[str, Any]:
        """Return the secret with prompts made of `texts`, where the test has prompts at all."""
        return dict(secret)

    def has_issued(self, secret: Mapping[str, Any]) -> bool | None:
        """Return whether a secret is one that `issue` gives for what it names; None: cannot tell.

        Else its owner may have made it up: of something that exists, or so that a model knows it.
        """
        return None

    @abstractmethod
    def questions(self, secret: Mapping[str, Any], engine: Engine) -> list[GenerationRequest]:
        """Return what a model under test is asked, once each."""

    @property
    def decoding(self) -> SamplingParams:
        """How a model under test answers: greedily, unless a watermark needs it otherwise.

        Where it draws, every model draws with the same random numbers.
        """
        return SamplingParams(temperature=0)

    @property
    @abstractmethod
    def null_marks(self) -> int:
        """How many null marks `test` gives, which an innocent client's Z is held against.

        24 or more leave power. 0 where a setting asks for a paper's own test, never by default: Z
        of several rounds is taken for standard normal then, and a report says among its limits that
        no one has shown it.
        """

    @abstractmethod
    def test(
        self, secret: Mapping[str, Any], answers: Sequence[Completion], engine: Engine
    ) -> Score:
        """Test the answers to `questions`, in their order; prompts are not part of them.

        `Score.null` has `null_marks` numbers, from the same answers or from further questions to
        the same models.
        """

    @abstractmethod
    def test_texts(self, secret: Mapping[str, Any], texts: Sequence[str], engine: Engine) -> Score:
        """Test any texts."""
