"""What plugins found and wrote, made fit to be seen: personal data in it is masked.

A finding's evidence is masked as a whole, but for numbers and what the plugin declares safe. What
plugins write elsewhere (limits, scopes, labels, ids) is theirs to keep clean; there the personal
data of the records that the audit knows are looked for.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from fedaudit.api.plugin import Result
from fedaudit.api.records import Document, Finding, Measurement
from fedaudit.data.corpus import DERIVED
from fedaudit.report.document import to_plain
from fedaudit.report.redaction import Redactor

TEXT = "text"
"""The field of the evidence that holds what leaked."""

LEAST = 4
"""Characters that personal data has at least to be looked for in what plugins write."""

FIXED = frozenset({"source", "set"})
"""Parts of a scope whose values are few and known."""

Found = TypeVar("Found", bound=Result)
Mask = Callable[[str], dict[str, str | int]]
Write = Callable[[str], str]

_KEY = re.compile(r"[a-z][a-z0-9_]*|-?[0-9]{1,3}")
"""What the key of a table may be and stay: a name as programs have it, or a small number."""

_GAP = re.compile(r"[\s_-]+")


def mask_findings(findings: Sequence[Finding], redactor: Callable[[], Redactor]) -> list[Finding]:
    """Return `findings` with masks for the strings of their evidence that are not declared safe."""
    if not findings:
        return []
    mask = redactor().mask
    return [
        replace(one, evidence=_evidence(one, partial(mask, label=one.label))) for one in findings
    ]


def mask_results(
    results: Sequence[Result],
    documents: Iterable[Document],
    redactor: Callable[[], Redactor],
    names: Iterable[str] = (),
) -> list[Result]:
    """Return `results` with masks for the PII of `documents` in what plugins wrote.

    That is limits, reasons, scopes, labels, ids, and evidence that is declared safe. Case and white
    space do not matter, and parts of words count. Strings shorter than LEAST, labels and `names`,
    which the audit itself gives to clients and keys, stay.
    """
    said: dict[str, None] = {}
    for result in results:
        _rewritten(result, lambda text: said.setdefault(text) or text)
    known = _known(documents, [*names])
    whole = "\x00".join(map(_compared, said))
    found = {spelt: pair for spelt, pair in known.items() if spelt in whole}
    if found:
        write = _Masking(found, redactor().mask)
        results = [_rewritten(result, write) for result in results]
    return replace_hashed_ids(results, redactor)


def replace_hashed_ids(results: Sequence[Found], redactor: Callable[[], Redactor]) -> list[Found]:
    """Return `results` without ids that are hashes of records: keyed ones stand in their place.

    The same record has the same one, in every report made with the key.
    """

    def keyed(found: re.Match[str]) -> str:
        return f"record-{redactor().mask(found[0], TEXT)['hmac']}"

    return [_rewritten(result, lambda text: DERIVED.sub(keyed, text)) for result in results]


def spell_mask(mask: Mapping[str, Any]) -> str:
    """Return a mask as text that is another one for every string: `PERSON(13) #3fa2…` in full."""
    return f"{mask['label']}({mask['length']}) #{mask['hmac']}"


def _evidence(finding: Finding, mask: Mask) -> dict[str, Any]:
    table = to_plain(finding.evidence, "evidence")
    top = mask(str(table.pop(TEXT))) if TEXT in table else {}
    safe = {name: value for name, value in table.items() if name in finding.safe}
    rest = {name: value for name, value in table.items() if name not in finding.safe}
    return {**safe, **_hidden(rest, mask), **top}


def _hidden(value: Any, mask: Mask) -> Any:
    """Return what JSON holds with a mask for every string, and for keys that are no names."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {_key(key, mask): _hidden(one, mask) for key, one in value.items()}
    return [_hidden(one, mask) for one in value] if isinstance(value, list) else value


def _key(key: str, mask: Mask) -> str:
    return key if _KEY.fullmatch(key) else spell_mask(mask(key))


def _compared(text: str) -> str:
    return _GAP.sub(" ", text.casefold())


def _known(documents: Iterable[Document], names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the (string, label) of all PII that is looked for, by how it is compared."""
    pairs = {pair for document in documents for pair in document.strings()}
    stay = {_compared(name) for name in (*names, *(label for _, label in pairs))}
    known = {
        _compared(string.strip()): (string.strip(), label)
        for string, label in sorted(pairs, reverse=True)
    }
    return {key: pair for key, pair in known.items() if len(key) >= LEAST and key not in stay}


@dataclass(frozen=True)
class _Masking:
    """Writes masks in the place of strings, the longest first."""

    found: Mapping[str, tuple[str, str]]
    mask: Callable[[str, str], dict[str, str | int]]
    pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        longest = sorted(self.found, key=lambda one: (-len(one), one))
        some = ("[\\s_-]+".join(map(re.escape, _GAP.split(one))) for one in longest)
        object.__setattr__(self, "pattern", re.compile("|".join(some), re.IGNORECASE))

    def __call__(self, text: str) -> str:
        return self.pattern.sub(self._masked, text)

    def _masked(self, match: re.Match[str]) -> str:
        string, label = self.found.get(_compared(match[0]), (match[0], "TEXT"))
        return spell_mask(self.mask(string, label))


def _rewritten(result: Found, write: Write) -> Found:
    """Return `result` with every string that its plugin wrote to be seen as `write` has it."""
    return replace(
        result,
        measurements=tuple(_row(row, write) for row in result.measurements),
        findings=tuple(_finding(one, write) for one in result.findings),
        limits=tuple(map(write, result.limits)),
        revealed=tuple({**leak, "id": write(leak["id"])} for leak in result.revealed),
    )


def _row(row: Measurement, write: Write) -> Measurement:
    scope = {
        write(name): value if name in FIXED else _written(value, write)
        for name, value in row.scope.items()
    }
    return replace(row, plugin=write(row.plugin), reason=write(row.reason), scope=scope)


def _finding(one: Finding, write: Write) -> Finding:
    return replace(
        one,
        id=write(one.id),
        label=write(one.label),
        measurement=write(one.measurement),
        evidence={
            name: _written(value, write) if name in one.safe else value
            for name, value in one.evidence.items()
        },
    )


def _written(value: Any, write: Write) -> Any:
    """Return what JSON holds with every string, and key, as `write` has it."""
    value = to_plain(value, "value")
    if isinstance(value, str):
        return write(value)
    if isinstance(value, dict):
        return {write(key): _written(one, write) for key, one in value.items()}
    return [_written(one, write) for one in value] if isinstance(value, list) else value
