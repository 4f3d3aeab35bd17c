"""Verbatim extraction (FedPII, appendix B.4): documents that are continued word for word."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.api import (
    HAN,
    Attack,
    AttackContext,
    Cost,
    Counts,
    Document,
    GenerationRequest,
    InputError,
    Result,
    Target,
)

from . import likelihood, measurements, pairs
from .pairs import ContinuedDocuments, DocumentSplit


@dataclass(frozen=True, kw_only=True)
class Verbatim(Attack):
    """Give the beginning of each document and compare what follows with the document itself."""

    name: ClassVar[str] = "verbatim"
    paper: ClassVar[str] = "FedPII, arXiv:2506.06060, appendix B.4 and figure 7"
    compares: ClassVar[bool] = True
    needs = frozenset({"continue"})

    prefix: int = 50
    """How many tokens of a document's beginning the model is given; at most half of the
    document."""
    suffix: int = 50
    """The most tokens after the beginning that are compared."""
    shortest: int = 10
    """Documents with fewer tokens to compare are left out: short texts are easily guessed."""
    documents: int = 0
    """The most documents to continue, drawn at random; 0 takes all."""

    def __post_init__(self) -> None:
        if min(self.prefix, self.suffix, self.shortest) < 1 or self.documents < 0:
            raise ValueError(
                "prefix, suffix and shortest must be at least 1, documents at least 0."
            )
        if self.shortest > self.suffix:
            raise ValueError("shortest must be at most suffix.")

    def cost(self, counts: Counts) -> Cost:
        """Return the cost of one continuation for each document, and for as many held-out ones."""
        sets = [counts.tried, counts.held_out] if counts.has_victim else [counts.tried]
        continuations = sum(min(self.documents or count, count) for count in sets)
        return Cost(continuations, continuations * self.suffix)

    def run(self, context: AttackContext) -> Result:
        """Continue the victim's documents, or the attacker's own where those are all."""
        every, short = self._cuts(context, context.attacked_documents)
        if not every:
            raise InputError(
                f"There is nothing to continue: no document has {self.shortest} tokens or more "
                "after its beginning."
            )
        splits, shared = pairs.exclusive_splits(context, every)
        if not splits:
            raise InputError(
                "There is nothing to continue: the attacker or another member also has all that "
                "follows in the victim's documents."
            )
        chosen = pairs.draw_splits(splits, self.documents, context.seed)
        continued = self._continue(context, chosen)
        records = "own" if context.victim is None else "victim"
        beside, _ = self._cuts(context, context.held_out or ())
        held_out = self._held_out(context, beside, chosen)
        tasks = {split.task for split in held_out.splits} if held_out else set()
        own = splits_with_own_words(context, chosen)
        judged = [i for i, split in enumerate(chosen) if i in own or split.task in tasks]
        recited = [i for i in continued.recited() if i in own or chosen[i].task in tasks]
        result = measurements.result(
            self.name,
            continued,
            judged,
            held_out,
            records=records,
            seed=context.seed,
            evidence=likelihood.evidence(context, chosen, recited, beside),
        )
        limits = [self._coverage_text(context, splits, chosen, short)]
        if shared:
            limits.append(
                f"{self.name}: {shared:,} further documents were left out, because the attacker or "
                "another member also has what follows in them."
            )
        if copied := len(chosen) - len(judged):
            limits.append(
                f"{self.name}: {copied:,} of these documents are not judged: every word of what "
                "follows in them also occurs in their own beginning or in another document, so a "
                "model may copy it without having seen them; --held-out, with documents of the "
                "same tasks, lets them be judged."
            )
        limits += [self._bound_text(beside, chosen)] if context.base else []
        return replace(result, limits=(*limits, *result.limits))

    def _held_out(
        self,
        context: AttackContext,
        beside: Sequence[DocumentSplit],
        tried: Sequence[DocumentSplit],
    ) -> ContinuedDocuments | None:
        """Continue held-out documents of the tasks tried, where anything is judged by them."""
        tasks = {split.task for split in tried}
        alike = [split for split in beside if split.task in tasks]
        if not alike or context.base is None or context.victim is None:
            return None
        return self._continue(context, pairs.draw_splits(alike, self.documents, context.seed))

    def _continue(
        self, context: AttackContext, splits: Sequence[DocumentSplit]
    ) -> ContinuedDocuments:
        """Ask the model, and its base where there is one."""
        asked = {
            prompt: GenerationRequest(prompt=prompt, samples=1, max_new_tokens=self.suffix)
            for prompt in sorted({split.prompt for split in splits})
        }

        def ask(target: Target) -> pairs.WrittenContinuation:
            texts = pairs.answer_greedily(context, target, asked.values())
            written = [texts[asked[split.prompt]] for split in splits]
            return pairs.compare_continuations(context.engine, splits, written)

        return ContinuedDocuments(
            splits=splits,
            tuned=ask(context.tuned),
            base=ask(context.base) if context.base else None,
        )

    def _cuts(
        self, context: AttackContext, documents: Sequence[Document]
    ) -> tuple[list[DocumentSplit], int]:
        return pairs.split_documents(context, documents, self.prefix, self.suffix, self.shortest)

    def _bound_text(
        self, held_out: Sequence[DocumentSplit], chosen: Sequence[DocumentSplit]
    ) -> str:
        tasks = {split.task for split in chosen} - {split.task for split in held_out}
        assumed = f"{self.name}: p-values assume that training on other documents leaves at least "
        share = (
            f"{likelihood.MIN_SURPRISE_LEFT:.0%} of the base's surprise at a document "
            "that the model never saw"
        )
        if not tasks:
            return f"{assumed}{share}, and no less than it left at held-out documents."
        return (
            f"{assumed}{share}; held-out documents of the same tasks (--held-out) correct this "
            "assumption if they show that training leaves less."
        )

    def _coverage_text(
        self,
        context: AttackContext,
        splits: Sequence[DocumentSplit],
        chosen: Sequence[DocumentSplit],
        short: int,
    ) -> str:
        owner = "the attacker's own" if context.victim is None else "the victim's"
        return (
            f"{self.name}: {len(chosen):,} of {len(splits):,} distinct documents, {owner}, were "
            f"continued greedily after their first {self.prefix} tokens (half of a short one) and "
            f"compared over at most {self.suffix} tokens; {short:,} were left out because fewer "
            f"than {self.shortest} tokens follow."
        )


_RUN = re.compile(rf"([{HAN}]+)|\d+(?:[.,:/-]\d+)+(?!\w)|[^\W_{HAN}]+")
Piece = tuple[str, int, int]
"""A word, a number or two neighbouring Chinese characters, and where it stands: half-open."""


def splits_with_own_words(context: AttackContext, splits: Sequence[DocumentSplit]) -> set[int]:
    """Return the indices of the splits with a word of their own behind the cut.

    It stands there whole, but neither before the cut nor in a document of anybody else: the rest
    of the victim's (other groups, or other texts where there are none), the attacker's, other
    members' and held-out ones. Case and Unicode form do not matter. Chinese has no spaces between
    words: there a character is of its own where no pair that it is in stands elsewhere.
    """
    outside = set[str]()
    for documents in (context.attacker, *context.members.values(), context.held_out or ()):
        # Without a victim the attacker's own documents are those that are tried.
        if documents is not context.attacked_documents:
            outside.update(*map(_strings, {document.text for document in documents}))
    owners: dict[str, set[str]] = defaultdict(set)
    for document in context.attacked_documents:
        for string in _strings(document.text):
            owners[string].add(_owner(document.group, document.text))
    return {
        i
        for i, split in enumerate(splits)
        if _has_own(split, outside, owners, _owner(split.group, split.document))
    }


def _has_own(
    split: DocumentSplit, outside: set[str], owners: dict[str, set[str]], owner: str
) -> bool:
    """Tell whether a split has a piece behind the cut of which a character is in no known piece."""
    begin, end = split.start, split.start + len(split.text)
    given = _strings(split.document[:begin])

    def is_known(string: str) -> bool:
        return string in outside or string in given or bool(owners[string] - {owner})

    pieces = [piece for piece in _pieces(split.document) if begin <= piece[1] and piece[2] <= end]
    known = {at for string, *span in pieces if is_known(string) for at in range(*span)}
    return any(not known.issuperset(range(*span)) for _, *span in pieces)


def _owner(group: str, text: str) -> str:
    return f"group {group}" if group else f"text {text}"


def _strings(text: str) -> set[str]:
    return {string for string, _, _ in _pieces(text)}


def _pieces(text: str) -> Iterator[Piece]:
    for match in _RUN.finditer(text):
        if match[1]:
            yield from ((text[at : at + 2], at, at + 2) for at in range(*match.span())[:-1])
        else:
            yield unicodedata.normalize("NFKC", match[0]).casefold(), *match.span()
