"""Reading what an audit needs: each federation is opened once, each file read and parsed once."""

from collections import Counter
from pathlib import Path

from fedaudit.api.templates import PromptTemplate
from fedaudit.audit.inputs.input_file import InputFile
from fedaudit.data import corpus
from fedaudit.federation.folder import Federation, open_federation
from fedaudit.system.file_reader import FileReader


class InputReader(FileReader):
    """Reads federations, documents and other files for all steps of one command."""

    def __init__(self) -> None:
        super().__init__()
        self._federations: dict[Path, Federation] = {}
        self._corpora: dict[tuple[Path, PromptTemplate], InputFile] = {}

    def federation(self, path: Path) -> Federation:
        """Return the checked federation in a folder; raises InputError as `open_federation`."""
        if path not in self._federations:
            self._federations[path] = open_federation(path, self)
        return self._federations[path]

    def corpus(self, path: Path, form: PromptTemplate) -> InputFile:
        """Return the documents of a file, as they are; raises InputError as `corpus.read`."""
        if (path, form) not in self._corpora:
            unread = Counter[str]()
            documents = tuple(corpus.read(path, form, unread, self.open))
            self._corpora[path, form] = InputFile(
                path=path, documents=documents, unread=unread, sha256=self.sha256(path)
            )
        return self._corpora[path, form]

    def corpus_or_empty(self, path: Path, form: PromptTemplate) -> InputFile:
        """Return the documents of a file, none for an empty one."""
        if corpus.is_empty(path, self.open):
            return InputFile(path=path, documents=(), sha256=self.sha256(path))
        return self.corpus(path, form)
