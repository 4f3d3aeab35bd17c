"""Checking that a report's masks and keyed record names belong to the records at hand."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import InputError
from fedaudit.api.templates import TEMPLATES, PromptTemplate
from fedaudit.data import corpus
from fedaudit.report.redaction import KEY_FILE, Redactor, config_folder, is_mask, load_key

_RECORD = re.compile(r"record-([0-9a-f]{16})")


def record_template(report: Mapping[str, Any]) -> PromptTemplate:
    """Return the template with which a report's records were rendered, or the default."""
    named = report["run"]["config"].get("template")
    return TEMPLATES[named if isinstance(named, str) and named in TEMPLATES else "fed_pii"]


def stated_masks(report: Mapping[str, Any]) -> set[str]:
    """Return the HMACs of masks and keyed names in a report's findings and scopes."""
    scopes = [row["scope"] for row in report["measurements"]]
    return set(_hmacs([report["findings"], scopes]))


def key_at_hand() -> bytes | None:
    """Return the user's masking key, or None if it cannot be read."""
    try:
        path = config_folder() / KEY_FILE
        return load_key(path) if path.is_file() else None
    except InputError:  # a key that others can read, or no config folder
        return None


def known_masks(files: Iterable[Path], form: PromptTemplate, key: bytes) -> set[str]:
    """Return the HMACs of all annotated strings and record ids in files of records."""
    mask = Redactor(key).mask
    texts: set[str] = set()
    for path in files:
        try:
            for document in corpus.read(path, form):
                texts.add(document.id)
                texts.update(string for string, _ in document.strings())
        except InputError:  # not a file of records, but of labels or scores
            continue
    return {str(mask(text, "")["hmac"]) for text in texts}


def _hmacs(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _RECORD.findall(value)
    elif isinstance(value, Mapping):
        if isinstance(value.get("hmac"), str) and (is_mask(value) or "length" in value):
            yield value["hmac"]
        for item in value.values():
            yield from _hmacs(item)
    elif isinstance(value, list):
        for item in value:
            yield from _hmacs(item)
