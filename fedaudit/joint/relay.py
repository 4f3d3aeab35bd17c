"""A joint audit whose files are carried by a server, as those of a federation are.

The members' steps and files are those of docs/joint.md; a server brings every file to those that it
is for, and keeps what a coordinator may have: commitments and results.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.audit.run import Watcher, no_listener, no_watcher
from fedaudit.joint import exchange
from fedaudit.joint.answering import answer
from fedaudit.joint.asking import ask
from fedaudit.joint.combining import Combined, combine
from fedaudit.joint.counting import count, send_result
from fedaudit.joint.exchange import ANSWER, ASK, COMMIT, RESULT
from fedaudit.joint.member import Member, open_member, read_commitments
from fedaudit.system.files import atomic

Files = Mapping[str, bytes]
"""The bytes of the files that are carried, by their names."""
Carry = Callable[[str, Mapping[int, Files]], Mapping[int, Files]]
"""Brings a step and its files to each node; returns the files that each sent back, by node."""
END = "end"
"""The last step: the members get each other's results."""

_NAME = exchange.NAME.pattern
_FILE = re.compile(
    rf"(?P<sender>{_NAME})\.((?P<step>{COMMIT}|{RESULT})\.json|{ASK}\.zip"
    rf"|{ANSWER}-for-(?P<receiver>{_NAME})\.zip)"
)


def take_step(
    folder: Path, step: str, files: Files, *, counts: bool, watch: Watcher = no_watcher
) -> dict[str, bytes]:
    """Keep the files that came to a member's folder, take a step, and return the files to send.

    A step that was taken already is not taken again: its files are sent once more. With `counts`
    the result has the counts, too. Raises InputError for a file that is not for this member, and
    for one that differs from what was there: commitments that were exchanged before are final.
    """
    member = open_member(folder)
    _keep(member, files)
    steps: dict[str, Callable[[], object]] = {
        COMMIT: lambda: None,  # by `fedaudit joint commit`, with the member's own key
        ASK: lambda: ask(member, watch),
        ANSWER: lambda: answer(member),
        RESULT: lambda: send_result(
            member, count(member, watch, no_listener).report, counts=counts
        ),
    }
    if step == END:
        return {}
    if step not in steps:
        raise InputError(f"A joint audit has no step {step!r}.")
    paths = _own_files(member, step)
    if not all(path.exists() for path in paths):
        steps[step]()
    return {path.name: path.read_bytes() for path in paths}


def _own_files(member: Member, step: str) -> list[Path]:
    """Return where the files are that a member sends in a step."""
    others = sorted(read_commitments(member.folder)) if step == ANSWER else [""]
    return [
        exchange.path_of(member.folder, step, member.name, name)
        for name in others
        if name != member.name
    ]


def _keep(member: Member, files: Files) -> None:
    """Write the others' files into a member's folder."""
    known = {path.name for path in member.folder.glob(f"*.{COMMIT}.json")}
    for name, content in sorted(files.items()):
        match, path = _FILE.fullmatch(name), member.folder / name
        if not match or match["receiver"] not in (None, member.name):
            raise InputError(f"{name!r} is not a file of a joint audit for {member.name}.")
        if match["sender"] == member.name:
            continue
        if path.exists():
            if path.read_bytes() != content:
                raise InputError(f"{path} came a second time, and is another one.")
        elif match["step"] == COMMIT and len(known) > 1:
            raise InputError(
                f"{match['sender']} was not among those whose commitments were exchanged before: "
                f"{', '.join(sorted(known))}. To let others in, remove these but for your own."
            )
        else:
            with atomic(path) as temporary:
                temporary.write_bytes(content)


def carry_all(carry: Carry, nodes: Sequence[int], folder: Path) -> Combined:
    """Take all members through a joint audit, and return their results as one.

    `folder` keeps commitments and results; an audit that broke goes on in it. Raises InputError for
    fewer than two members, for two of one name, for a file that is not what its sender has to send,
    and for one that differs from that in `folder`.
    """
    if len(nodes) < 2:
        raise InputError(f"A joint audit needs at least two members, not {len(nodes)}.")
    sent = carry(COMMIT, {node: {} for node in nodes})
    names = {node: _sender(files) for node, files in sent.items()}
    members = {*names.values()}
    if len(members) < len(nodes):
        raise InputError(f"Two nodes are one member: {', '.join(sorted(names.values()))}.")
    for step, following in pairwise((COMMIT, ASK, ANSWER, RESULT, END)):
        for node, files in sent.items():
            _check(step, names[node], files, members)
        every = [pair for files in sent.values() for pair in files.items()]
        if step in (COMMIT, RESULT):
            _store(folder, every)
        sent = carry(following, {node: _for(names[node], every) for node in nodes})
    return combine(folder)


def _store(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a folder, in which the same ones may be."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files:
        path = folder / name
        if path.exists() and path.read_bytes() != content:
            raise InputError(f"{path} is of another joint audit: choose another folder.")
        with atomic(path) as temporary:
            temporary.write_bytes(content)


def _sender(files: Files) -> str:
    """Return whose commitment it is that a node sent first."""
    matches = [_FILE.fullmatch(name) for name in files]
    [match, *more] = matches or [None]
    if match is None or more or match["step"] != COMMIT:
        raise InputError("A node has sent something else than its commitment.")
    return match["sender"]


def _check(step: str, sender: str, files: Files, members: set[str]) -> None:
    """Raise InputError unless a member has sent all of its files of a step, and no others."""
    receivers = members - {sender} if step == ANSWER else {""}
    expected = {exchange.path_of(Path(), step, sender, name).name for name in receivers}
    if files.keys() != expected:
        raise InputError(
            f"{sender} has sent {', '.join(sorted(files)) or 'nothing'} in place of "
            f"{', '.join(sorted(expected))}."
        )


def _for(receiver: str, every: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return the files that are for all, or for one receiver."""
    found = ((_FILE.fullmatch(name), name, content) for name, content in every)
    return {
        name: content
        for match, name, content in found
        if match and match["sender"] != receiver and match["receiver"] in (None, receiver)
    }
