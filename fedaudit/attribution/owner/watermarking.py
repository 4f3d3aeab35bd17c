"""The owner's work with marks: planting a new one, testing texts and models for all of them."""

import hmac
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import InputError
from fedaudit.api.progress import Progress, no_progress
from fedaudit.api.records import Document
from fedaudit.api.templates import template
from fedaudit.api.watermark import Mark, Score, Watermark
from fedaudit.attribution.evidence import commitment
from fedaudit.attribution.owner import detection
from fedaudit.config import registry
from fedaudit.config.options import table_of
from fedaudit.data import corpus
from fedaudit.federation import commitments
from fedaudit.federation import watermark_keys as marks_file
from fedaudit.federation.commitments import Commitments
from fedaudit.system.files import (
    check_free,
    check_target,
    existing_parent,
    existing_path,
    read_regular,
)
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

PROMPT_EVERY = 10
"""If no prompts are given, one in this many documents is used as a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkRequest:
    """Documents to mark for one licensee."""

    documents: Path
    out: Path
    watermark: Path
    plugin: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prompts: Path | None = None
    id: str = ""
    model: str
    seed: int | None = None
    """Anyone who knows it can find the mark; None draws one that no one can guess."""
    template: str
    device: str = "auto"
    dtype: str = "auto"


@dataclass(frozen=True, slots=True)
class IssuedWatermark:
    """A new mark and how many documents carry it."""

    mark: Mark
    commitment: str
    """The mark's commitment, which the owner may publish."""
    count: int
    unread: Mapping[str, int]
    """By name, how many documents had a field that is not written with the marked documents."""


def make(
    request: WatermarkRequest, watch: Callable[[str], Progress] = lambda title: no_progress
) -> IssuedWatermark:
    """Issue a mark, write the marked documents, and add the mark to the owner's file.

    Raises InputError for output files that exist already and for input without anything to mark.
    The owner's file is written last, and never without the documents.
    """
    plugin: Watermark = registry.create("watermark", request.plugin, request.options)
    marks = marks_file.read(request.watermark) if request.watermark.exists() else []
    name = request.id or f"mark{len(marks)}"
    check_name(name, Path("--id"), "the mark")
    if name in [mark.id for mark in marks]:
        raise InputError(f"{request.watermark} has a mark {name} already; choose another --id.")
    check_free(request.out, "the documents")
    if request.out.resolve() == request.watermark.resolve():
        raise InputError(f"{request.out} cannot hold both the documents and the marks.")
    check_target(request.watermark)  # which may exist
    existing_parent(request.watermark.absolute().parent)
    unread: Counter[str] = Counter()
    documents, prompts = _texts(request, unread)
    teacher = load_engine(request.model, request.device, request.dtype)
    seed = _seed(request, marks)
    secret = plugin.issue(teacher, prompts, seed=seed, index=len(marks))
    marked = plugin.embed(
        secret, documents, teacher, seed=seed, progress=watch("marking documents")
    )
    options, salt = table_of(plugin), _salt(request, len(marks))
    # An id made from the content would let guesses of the unmarked text be tested.
    marked = [replace(d, id=corpus.DERIVED.sub(partial(_keyed, salt), d.id)) for d in marked]
    corpus.write(request.out, marked)
    mark = Mark(id=name, name=request.plugin, options=options, secret=secret, salt=salt)
    marks_file.write([*marks, mark], request.watermark)
    return IssuedWatermark(mark, commitments.digest(mark, options), len(marked), unread)


def _keyed(salt: str, derived: "re.Match[str]") -> str:
    """Return an id that only the owner of the mark can compute from a derived one."""
    return f"doc-{hmac.digest(salt.encode(), derived[0].encode(), 'sha256').hex()[:12]}"


def _seed(request: WatermarkRequest, marks: Sequence[Mark]) -> int:
    """Return the seed of a new mark.

    If the request has none and the plugin's marks in the file keep theirs, that seed is used again:
    marks that share a seed differ.
    """
    if request.seed is not None:
        return request.seed
    seeds = [mark.secret.get("seed") for mark in marks if mark.name == request.plugin]
    return next((seed for seed in seeds if isinstance(seed, int)), secrets.randbits(63))


def _salt(request: WatermarkRequest, index: int) -> str:
    """Return a salt of 256 bits, which keeps a commitment from revealing its mark.

    If the request has a seed, the salt follows from it.
    """
    if request.seed is None:
        return f"{secrets.randbits(256):064x}"
    return commitments.seeded_salt(request.seed, index)


def publish_commitments(watermark: Path, out: Path | None) -> Commitments:
    """Return the commitments that the owner of a file of marks may publish; write them to `out`.

    Raises InputError if `out` exists.
    """
    if out is not None:
        check_free(out, "the commitments")
    published_commitments = commitment.public_commitments(marks_file.read(watermark))
    if out is not None:
        commitments.write(published_commitments, out)
    return published_commitments


def _texts(request: WatermarkRequest, unread: Counter[str]) -> tuple[list[Document], list[str]]:
    """Return the documents to mark, and texts for prompts."""
    form = template(request.template)
    documents = list(corpus.read(existing_path(request.documents, "file"), form, unread))
    if request.prompts is not None:
        prompts = [d.text for d in corpus.read(existing_path(request.prompts, "file"), form)]
    else:
        prompts = [d.text for d in documents[::PROMPT_EVERY]]
        documents = [d for i, d in enumerate(documents) if i % PROMPT_EVERY]
        if not documents:
            raise InputError(
                f"{request.documents} holds one document, which is held out as a prompt: nothing "
                "is left to mark. Give more documents, or other texts with --prompts."
            )
    return documents, prompts


def check(
    path: Path,
    *,
    texts: Path | None,
    model: str,
    adapter: Path | None,
    options: Mapping[str, Any],
    device: str = "auto",
    dtype: str = "auto",
    progress: Progress = no_progress,
) -> list[tuple[str, Score]]:
    """Return each mark's id with its score on texts, an adapter of the model, or the model."""
    marks = marks_file.read(path)
    tested = detection.watermark_plugins(
        [replace(m, options={**m.options, **options}) for m in marks]
    )
    if texts is not None:
        contents = _read(existing_path(texts, "file"))
        engine = load_engine(model, device, dtype)
        return [
            (mark.id, plugin.test_texts(mark.secret, contents, engine)) for mark, plugin in tested
        ]
    engine = load_engine(model, device, dtype)
    [scores] = detection.measure(engine, [adapter], tested, progress)
    return list(scores.items())


def _read(path: Path) -> Sequence[str]:
    """Return the texts of a JSONL file; any other file is one text, or none where it is blank."""
    if path.suffix == ".jsonl":
        return [document.text for document in corpus.read(path, template("fed_pii"))]
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}.") from None
    return [text] if text.strip() else []


def load_engine(model: str, device: str, dtype: str) -> "LocalEngine":
    """Return the engine of a model."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    return LocalEngine(load_base(model, device=device, dtype=dtype))
