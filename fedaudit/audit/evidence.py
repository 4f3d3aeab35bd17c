"""Masks personal data in what plugins found and wrote before it enters a report.

All of a finding's evidence is masked except numbers and what the plugin declares safe. Elsewhere
(limits, scopes, labels, ids), plugins are responsible for writing no personal data; as a safeguard,
those of the records that the audit knows are looked for and masked there, too.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Finding, Measurement
from fedaudit.data.corpus import DERIVED
from fedaudit.report.document import to_plain
from fedaudit.report.redaction import Redactor
from fedaudit.report.result_contract import TEXT
from fedaudit.system.outputs import REVEALED, write_output

MIN_PII_LENGTH = 4
"""The fewest characters of personal data that are looked for in texts written by plugins."""

FIXED = frozenset({"source", "set"})
"""Parts of a scope with a few known values, which are not masked."""

ResultT = TypeVar("ResultT", bound=Result)
Mask = Callable[[str], dict[str, str | int]]
Write = Callable[[str], str]

_KEY = re.compile(r"[a-z][a-z0-9_]*|-?[0-9]{1,3}")
"""Keys of a table that are not masked: identifiers and small numbers."""

_GAP = re.compile(r"[\s_-]+")
_PIECE = re.compile(r"[\s_-]+|.", re.DOTALL)


def mask_findings(findings: Sequence[Finding], redactor: Callable[[], Redactor]) -> list[Finding]:
    """Return `findings` with masks for the strings of their evidence that are not declared safe."""
    if not findings:
        return []
    mask = redactor().mask
    return [
        replace(finding, evidence=_evidence(finding, partial(mask, label=finding.label)))
        for finding in findings
    ]


def mask_results(
    results: Sequence[Result],
    documents: Iterable[Document],
    redactor: Callable[[], Redactor],
    names: Iterable[str] = (),
) -> list[Result]:
    """Return `results` with masks for the PII of `documents` in what plugins wrote.

    Limits, reasons, scopes, labels, ids, and evidence declared safe are searched. Case and white
    space do not matter, and parts of words count. Not masked are strings shorter than
    MIN_PII_LENGTH, labels, and `names`, which the audit itself gives to clients and keys.
    """
    texts: dict[str, None] = {}
    for result in results:
        _rewrite_result(result, lambda text: texts.setdefault(text) or text)
    pii = _index_pii(documents, [*names])
    joined_texts = "\x00".join(map(_fold_text, texts))
    hits = {spelt: pair for spelt, pair in pii.items() if spelt in joined_texts}
    if hits:
        write = _Masking(hits, redactor().mask)
        results = [_rewrite_result(result, write) for result in results]
    return replace_hashed_ids(results, redactor)


def replace_hashed_ids(
    results: Sequence[ResultT], redactor: Callable[[], Redactor]
) -> list[ResultT]:
    """Return `results` with keyed hashes in place of ids that are plain hashes of records.

    A record has the same keyed hash in every report made with the same key.
    """

    def keyed(match: re.Match[str]) -> str:
        return f"record-{redactor().mask(match[0], TEXT)['hmac']}"

    return [_rewrite_result(result, lambda text: DERIVED.sub(keyed, text)) for result in results]


def spell_mask(mask: Mapping[str, Any]) -> str:
    """Return a mask as text, different for every string: `PERSON(13) #3fa2…` in full."""
    return f"{mask['label']}({mask['length']}) #{mask['hmac']}"


def _evidence(finding: Finding, mask: Mask) -> dict[str, Any]:
    table = to_plain(finding.evidence, "evidence")
    top = mask(str(table.pop(TEXT))) if TEXT in table else {}
    safe = {name: value for name, value in table.items() if name in finding.safe}
    unsafe = {name: value for name, value in table.items() if name not in finding.safe}

    def mask_key(key: str) -> str:
        return key if _KEY.fullmatch(key) else spell_mask(mask(key))

    return {**safe, **_map_strings(unsafe, mask, mask_key), **top}


def _fold_text(text: str) -> str:
    return _GAP.sub(" ", text.casefold())


def _index_pii(documents: Iterable[Document], names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the (string, label) of all PII that is looked for, by the folded string."""
    pairs = {pair for document in documents for pair in document.strings()}
    stay = {_fold_text(name) for name in (*names, *(label for _, label in pairs))}
    pii = {
        _fold_text(string.strip()): (string.strip(), label)
        for string, label in sorted(pairs, reverse=True)
    }
    return {
        key: pair for key, pair in pii.items() if len(key) >= MIN_PII_LENGTH and key not in stay
    }


@dataclass(frozen=True)
class _Masking:
    """Replaces strings by masks, the longest first."""

    pii: Mapping[str, tuple[str, str]]
    mask: Callable[[str, str], dict[str, str | int]]
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        longest = sorted(self.pii, key=lambda s: (-len(s), s))
        object.__setattr__(self, "pattern", re.compile("|".join(map(re.escape, longest))))

    def __call__(self, text: str) -> str:
        pieces = list(_PIECE.finditer(text))
        folded = [_fold_text(piece[0]) for piece in pieces]
        # Folding turns some letters into two: the origin of each folded letter.
        spans = [p.span() for p, letters in zip(pieces, folded, strict=True) for _ in letters]
        written, position = "", 0
        for match in self.pattern.finditer("".join(folded)):
            start, end = spans[match.start()][0], spans[match.end() - 1][1]
            written += text[position:start] + spell_mask(self.mask(*self.pii[match[0]]))
            position = end
        return written + text[position:]


def _rewrite_result(result: ResultT, write: Write) -> ResultT:
    """Return `result` with `write` applied to every string in it that a report shows."""
    return replace(
        result,
        measurements=tuple(_row(row, write) for row in result.measurements),
        findings=tuple(_finding(finding, write) for finding in result.findings),
        limits=tuple(map(write, result.limits)),
        revealed=tuple({**leak, "id": write(leak["id"])} for leak in result.revealed),
    )


def _row(row: Measurement, write: Write) -> Measurement:
    scope = {
        write(name): value
        if name in FIXED
        else _map_strings(to_plain(value, "value"), write, write)
        for name, value in row.scope.items()
    }
    return replace(row, plugin=write(row.plugin), reason=write(row.reason), scope=scope)


def _finding(finding: Finding, write: Write) -> Finding:
    return replace(
        finding,
        id=write(finding.id),
        label=write(finding.label),
        measurement=write(finding.measurement),
        evidence={
            name: _map_strings(to_plain(value, "value"), write, write)
            if name in finding.safe
            else value
            for name, value in finding.evidence.items()
        },
    )


def _map_strings(value: Any, text: Callable[[str], Any], key: Write) -> Any:
    """Return a JSON value with `text` applied to every string, and `key` to every key."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {key(name): _map_strings(item, text, key) for name, item in value.items()}
    return [_map_strings(item, text, key) for item in value] if isinstance(value, list) else value


def write_revealed_leaks(leaks: Iterable[Mapping[str, str]], path: Path) -> None:
    """Write leaks as plain text, one per line, into a file that only its owner can read."""
    lines = (json.dumps(dict(leak), ensure_ascii=False) + "\n" for leak in leaks)
    write_output(path, "".join(lines), REVEALED, mode=0o600)
