"""A member's answer to what another one asks about its strings."""

from pathlib import Path

from fedaudit.api.errors import InputError
from fedaudit.joint import exchange
from fedaudit.joint.exchange import ANSWER, ASK, REQUEST
from fedaudit.joint.member import Member, fingerprints, read_commitments, receive


def answer(member: Member) -> list[Path]:
    """Answer every other member's request; return the files, one for each of them.

    A request of another size than its sender committed to, and a second one, are refused with
    InputError, so that no one can try more strings.
    """
    commitments, paths = read_commitments(member.folder), []
    for name in commitments.keys() - {member.name}:
        exchange.check_place(member.folder, ANSWER, member.name, name)
    for name in commitments.keys() - {member.name}:
        message = receive(member.folder, ASK, name, commitments)
        request, asked = message.bins(REQUEST), commitments[name].body["asked"]
        _check_first(member, name, message.digest)
        body = {"commitments": fingerprints(commitments), "to": name, "request": message.digest}
        answers = {ANSWER: member.holder.answer(request, asked)}
        paths.append(member.send(ANSWER, body, answers, receiver=name))
    return sorted(paths)


def _check_first(member: Member, name: str, request: str) -> None:
    path = exchange.path_of(member.folder, ANSWER, member.name, name)
    if path.exists() and exchange.read(path, member.public_key).body["request"] != request:
        raise InputError(
            f"{name} has sent a second request, and {path} answers its first one. A member may "
            "ask once: for another request begin again, with new commitments."
        )
