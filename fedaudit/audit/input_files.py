"""The files of an audit: each federation is opened once, each file read, parsed and hashed once."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedaudit.api.records import Document
from fedaudit.api.templates import PromptTemplate
from fedaudit.data import corpus
from fedaudit.federation import adapters
from fedaudit.federation.folder import FederationReader

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file of annotated documents, and the detector that annotated it, if any."""

    path: Path
    documents: Sequence[Document]
    annotation: str | None = None
    sha256: str
    unread: Mapping[str, int] = field(default_factory=dict)
    """For each field that fedaudit does not read, the number of records that have it."""

    def row(self) -> dict[str, Any]:
        """Return the report's row for this file."""
        return {
            "path": str(self.path),
            "sha256": self.sha256,
            "records": len(self.documents),
            "annotation": self.annotation,
        }


class InputReader(FederationReader):
    """Reads federations, documents and other files for all steps of one command."""

    def __init__(self) -> None:
        super().__init__()
        self._corpora: dict[tuple[Path, PromptTemplate], InputFile] = {}
        self.models: dict[Path, str] = {}
        """The fingerprint of every adapter that `fingerprint` was asked for."""

    def fingerprint(self, adapter: Path) -> str:
        """Return an adapter's fingerprint, which the report states if it is not the audited one."""
        self.models[adapter] = adapters.fingerprint(adapter, self.sha256)
        return self.models[adapter]

    def corpus(self, path: Path, form: PromptTemplate) -> InputFile:
        """Return the documents of a file, as they are; raises InputError as `corpus.read`."""
        if (path, form) not in self._corpora:
            unread = Counter[str]()
            documents = tuple(corpus.read(path, form, unread, self.open))
            _log.info("read %s: %d documents", path, len(documents))
            self._corpora[path, form] = InputFile(
                path=path, documents=documents, unread=unread, sha256=self.sha256(path)
            )
        return self._corpora[path, form]

    def corpus_or_empty(self, path: Path, form: PromptTemplate) -> InputFile:
        """Return the documents of a file, none for an empty one."""
        if corpus.is_empty(path, self.open):
            return InputFile(path=path, documents=(), sha256=self.sha256(path))
        return self.corpus(path, form)
