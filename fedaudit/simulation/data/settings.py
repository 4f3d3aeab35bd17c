"""Settings of what clients train on: made-up records, partition, few shots, marks, canaries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fedaudit.api.plugin import UpTo

MOST_DOCUMENTS = 1_000_000
"""Made-up documents; each takes some kilobytes of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What the built-in generator writes when `data` is "nano", and how much of `data` is used."""

    limit: Annotated[int, UpTo(1e12)] = 0
    """At most this many documents, drawn by their hashes, whatever `data` is; 0: all."""
    cases: int = 24
    documents_per_case: int = 16
    kinds: int = 0
    """Kinds of document in a case (0: all); fewer make its particulars recur more."""
    languages: tuple[str, ...] = ("en", "zh")
    domains: tuple[str, ...] = ("legal",)
    tasks: tuple[str, ...] = ("record", "reading", "summary", "classification")
    passages: int = 0
    """Passages of each domain of `tasks`, in place of case files: see docs/memorization.md."""
    copies: Annotated[tuple[int, ...], UpTo(10_000)] = ()
    """How many copies of its documents a client trains on: its first document has the first of
    these, and so on in turn; empty: one of each."""

    def __post_init__(self) -> None:
        if min(self.limit, self.kinds, self.passages) < 0:
            raise ValueError("limit, kinds and passages must be at least 0.")
        if min(self.cases, self.documents_per_case, *self.copies) < 1:
            raise ValueError("cases, documents_per_case and copies must be at least 1.")
        if max(self.cases * self.documents_per_case, self.passages) > MOST_DOCUMENTS:
            raise ValueError(f"All cases together must have {MOST_DOCUMENTS:,} documents at most.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """How documents are dealt to clients, each about equally many.

    "corpus" gives each client documents of one corpus: groups named "CORPUS/..." in the data.
    """

    method: Literal["iid", "dirichlet", "cluster", "corpus"] = "cluster"
    alpha: float = 0.5
    clusters: int = 8
    by: Literal["task", "group"] = "task"
    """What a Dirichlet partition is skewed over; "cluster" is skewed over embeddings instead."""
    whole_groups: bool = True
    """Whether a group's documents, such as a case's, stay with one client. Groups whose documents
    are of several classes leave little of a skew: clients then differ less than `alpha` says."""
    embedding: str = ""
    """The model whose mean hidden state embeds a document; empty is the base itself."""

    def __post_init__(self) -> None:
        if self.alpha <= 0 or self.clusters < 1:
            raise ValueError("alpha must be above 0 and clusters at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot:
    """How few documents clients train on: some of every K-means cluster of all that there are."""

    each: int = 0
    """Documents drawn from every cluster; 0: clients train on all documents."""
    clusters: int = 100
    """Clusters of the embeddings that `partition.embedding` makes; a partition by "cluster" then
    uses these clusters, not `partition.clusters`."""

    def __post_init__(self) -> None:
        if self.each < 0 or self.clusters < 1:
            raise ValueError("each must be at least 0 and clusters at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkSettings:
    """Which clients train on documents that carry someone's watermark, without a licence."""

    plugin: str | Mapping[str, Any] = ""
    """The watermark plugin, by name or as a table of name and options; empty marks nothing."""
    clients: int = 3
    """How many clients are drawn, after the partition; each has a mark of its own."""
    marks: int = 0
    """Marks that the owner issues at least; those that no client trains on test for chance."""
    ratio: float = 0.2
    """The share of such a client's documents that marked ones replace."""
    documents: str = ""
    """The owner's documents: a JSONL file, or a domain of the built-in generator. Those that are
    not marked are its prompts. Empty: clients' own are marked, and held-out ones are prompts."""
    distinct: int = 0
    """How many different marked documents a mark has, each repeated as often as needed; 0: all."""
    prompts: Literal["kept", "marked"] = "kept"
    """What prompts of tests are made of: documents that were not marked, or the marked ones. An
    owner has both; a model that learned marked texts by heart continues them."""
    teacher: str = ""
    """The model that writes marked documents; empty is the base itself."""

    def __post_init__(self) -> None:
        if min(self.clients, self.marks, self.distinct) < 0:
            raise ValueError("clients, marks and distinct must be at least 0.")
        if not 0 < self.ratio <= 1:
            raise ValueError("ratio must be above 0 and at most 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySettings:
    """Secrets of known law that clients' records get before any defence sees them."""

    count: Annotated[int, UpTo(10_000)] = 0
    """How many different secrets are planted; 0 plants none."""
    kind: str = "phone"
    language: str = "en"
    times: Annotated[tuple[int, ...], UpTo(10_000)] = (1, 4, 16)
    """How many copies: the first canary has the first of these, and so on in turn."""
    controls: int = 100
    """Secrets that no client gets."""
    clients: tuple[str, ...] = ()
    """The clients that get them, in turn; if empty, every client."""
    instruction: str = ""
    """The instruction that their sentences answer, for clients whose records are instructions."""

    def __post_init__(self) -> None:
        if min(self.count, self.controls) < 0:
            raise ValueError("count and controls must be at least 0.")
        if not self.times or min(self.times) < 1 or len(set(self.times)) < len(self.times):
            raise ValueError("times takes different numbers from 1 on, as [1, 4, 16].")
        if self.kind == "name":
            raise ValueError("kind name needs a list of names: plant with fedaudit canary.")
