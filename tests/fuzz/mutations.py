"""Changes to valid files: of what they say (JSON, TOML, JSONL), and of their bytes.

All randomness comes from the generator that is given, so a case is its seed.
"""

import json
from collections.abc import Callable
from random import Random
from typing import Any

RAW = "@raw:"
"""What a string begins with that stands for text which no JSON library writes."""

TEXTS = {
    "long number": "1" + "0" * 400,
    "longer number": "1" + "0" * 5000,
    "no float": "1e999",
    "nested": "[" * 200 + "]" * 200,
    "nested objects": '{"a":' * 300 + "1" + "}" * 300,
    "nested deeply": "[" * 950 + "]" * 950,
    "nested without end": "[" * 20_000,
}
NUMBERS = (
    *(0, -1, 1, 2, 7, 2**31, 2**53 - 1, 2**53, 2**63, 10**12, 10**15, 10**18, -(10**18), 2**64),
    *(0.5, 1.5, -0.5, 1e-9, 5e-324, 1e300, 1.7e308, -1e308, 1e18),
    *(float("nan"), float("inf"), float("-inf")),
    *(f"{RAW}{name}" for name in ("long number", "longer number", "no float")),
)
STRINGS = (
    *("", ".", "..", "../../outside", "/etc/passwd", "/dev/zero", "a/../../b", "a\0b", "x" * 5000),
    *("\ud800", "\udfff x", "\u202egnp.exe", "\x1b[31mred\x1b[0m", "\r\n", "nul", " ", "-", "é"),
    *(
        "0",
        "1e9",
        "true",
        "{{ 7 * 7 }}",
        "<script>",
        "张三",
        "%s%n",
        "a" * 101,
        "https://x.example",
    ),
)
KEYS = ("", "..", "name", "id", "text", "schema_version", "a\0b", "\ud800", "x" * 5000, "__class__")
OTHERS: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], [None], [1], ["a"], {"a": 1}, {"": None}, {"name": "x"}),
    *([{}], [{}, {}], *(f"{RAW}{name}" for name in TEXTS if name.startswith("nested"))),
)

Value = Any
Edit = Callable[[Value, Random], Value]


def changed(value: Value, rng: Random) -> Value:
    """Return a value that differs from a valid one in one place to three; the old one stays."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _somewhere(value, rng, rng.choice(_EDITS))
    return value


def _somewhere(value: Value, rng: Random, edit: Edit) -> Value:
    """Return a copy that is edited in one place, as often near the root as far from it."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return edit(value, rng)
    copy = value.copy()
    place = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
    copy[place] = _somewhere(copy[place], rng, edit)
    return copy


def _other(value: Value, rng: Random) -> Value:
    kind = rng.choice((NUMBERS, STRINGS, OTHERS))
    return rng.choice(kind)


def _alike(value: Value, rng: Random) -> Value:
    """Return another value of the same type."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        near = (value + 1, value - 1, -value, value * 2, value * 10**6)
        return rng.choice((*NUMBERS, *near))
    if isinstance(value, str):
        return rng.choice((*STRINGS, value + rng.choice(STRINGS), value[:-1], value * 50, [value]))
    return _members(value, rng)


def _members(value: Value, rng: Random) -> Value:
    """Return a list or table with a member less, more, twice, or renamed."""
    if isinstance(value, list):
        return rng.choice((value[1:], value[::-1], value + value[:1], value * 3, [*value, *KEYS]))
    if not isinstance(value, dict):
        return [value]
    if not value or rng.random() < 0.3:
        return {**value, rng.choice(KEYS): _other(None, rng)}
    name = rng.choice(list(value))
    rest = {key: one for key, one in value.items() if key != name}
    return rng.choice((rest, {**rest, rng.choice(KEYS): value[name]}))


def _moved(value: Value, rng: Random) -> Value:
    """Return what stands in a member in the place of the whole."""
    if isinstance(value, dict) and value:
        return rng.choice(list(value.values()))
    return value[0] if isinstance(value, list) and value else {"a": value}


_EDITS: tuple[Edit, ...] = (_other, _other, _alike, _alike, _members, _members, _moved)


def flipped(content: bytes, rng: Random) -> bytes:
    """Return bytes that were cut, repeated, or replaced in one place to three."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(content) + 1)
        to = min(len(content), at + rng.choice((1, 2, 8, 100)))
        content = rng.choice(
            (
                content[:at],
                content[at:],
                content[:at] + content[to:],
                content[:to] + content[at:],
                content[:at] + content[at:to] * 50 + content[to:],
                content[:at] + rng.randbytes(to - at) + content[to:],
                content[:at]
                + bytes([rng.choice((0, 9, 10, 34, 92, 127, 128, 255))])
                + content[to:],
            )
        )
    return content


def as_json(value: Value) -> str:
    """Return a value as JSON, with NaN, halves of surrogate pairs and what RAW stands for."""
    text = json.dumps(value)
    for name, raw in TEXTS.items() if RAW in text else ():
        text = text.replace(json.dumps(f"{RAW}{name}"), raw)
    return text


def as_toml(value: Value) -> str:
    """Return a table as TOML, each of its values on one line; null, which TOML lacks, as "null"."""
    if not isinstance(value, dict):
        return _inline(value)
    return "".join(f"{json.dumps(key)} = {_inline(one)}\n" for key, one in value.items())


def _inline(value: Value) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(key)} = {_inline(one)}" for key, one in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, float):
        return repr(value)
    return TEXTS.get(str(value).removeprefix(RAW)) or json.dumps(value)
