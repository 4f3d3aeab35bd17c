"""A joint audit whose files a server carries."""

import base64
import json
import shutil
import zipfile
from pathlib import Path

import fake_audit
import private_set_intersection.python as psi
import pytest

from fedaudit.api.errors import InputError
from fedaudit.joint import relay
from fedaudit.joint.combining import combine
from fedaudit.joint.exchange import ANSWER, ASK, COMMIT, RESULT
from fedaudit.joint.intersection import padded_size
from fedaudit.joint.keys import asked_keys, text_keys

MODEL = ("--target", "fedaudit-nano", "--adapter", "lora", "--device", "cpu")
LESS = ("--set", "contextual.samples=2")
NAMES = ("a", "b", "c")


def messages():
    """Return everything that left a member, with statements decoded, by path."""
    found = {}
    for path in Path().glob("[abc]/*.*"):
        parts = {"": path.read_bytes()}
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                parts = {name: archive.read(name) for name in archive.namelist()}
        for name, part in parts.items():
            found[str(path), name] = part
            if part.startswith(b"{"):
                payload = base64.b64decode(json.loads(part)["payload"])
                found[str(path), f"{name} payload"] = json.dumps(json.loads(payload)).encode()
    return found


def check_what_left(names):
    """Assert that no string left a member, and that the sizes of sets are padded."""
    sent = messages()
    assert len(sent) > 30
    known = {*fake_audit.NAMES, *fake_audit.PLACES, "the claimant", "sued the bank", "left."}
    keys = [*asked_keys(known), *text_keys("the claimant sued the bank")]
    keys += [key.hex().encode() for key in keys]
    for name, content in sent.items():
        text = content.decode("latin-1").casefold()
        assert not [s for s in known if s.casefold() in text], name
        assert not [key for key in keys if key in content], name
    for name in names:
        sizes = {
            len(psi.Request.FromString(content).encrypted_elements)
            for (path, part), content in sent.items()
            if path == f"{name}/{name}.ask.zip" and part.startswith("request-")
        }
        [size] = sizes  # of every bin
        assert size == padded_size(size)
    for name in names:
        assert not (Path(name) / "private").stat().st_mode & 0o077
        assert (Path(name) / "private/report.json").exists()


@pytest.fixture
def group(files, members):
    """Three members who have committed, in folders a, b and c."""
    found = members(*NAMES)
    found.commit(*MODEL, *LESS, **files)
    return found


class Server:
    """Nodes 1, 2, ... of the members; it keeps what it carries, and may alter it."""

    def __init__(self, names, alter=lambda step, node, files: files):
        self.names, self.alter = names, alter
        self.carried = []

    def __call__(self, step, files):
        sent = {}
        for node, own in files.items():
            folder = Path(self.names[node - 1])
            self.carried += [(folder.name, name) for name in own]
            brought = self.alter(step, node, own)
            sent[node] = relay.take_step(folder, step, brought, counts=True)
        return sent

    def audit(self, folder="together"):
        return relay.carry_all(self, range(1, len(self.names) + 1), Path(folder))


def test_what_a_server_carries_is_what_members_mail(group, run):
    for name in NAMES:
        shutil.copytree(name, f"served/{name}")
    server = Server([f"served/{name}" for name in NAMES])
    carried = server.audit()
    answers = [(to, name) for to, name in server.carried if ".answer-for-" in name]
    assert len(answers) == 6
    assert all(name.endswith(f"-for-{to}.zip") for to, name in answers)
    group.to_answers()
    group.to_results("--counts")
    check_what_left(NAMES)
    mailed = combine(Path("a"))
    rows = [one.report.to_json()["measurements"] for one in (carried, mailed)]
    assert rows[0] == rows[1]
    assert carried.statuses == mailed.statuses
    # A coordinator, or any member, makes the same report of the files that it has.
    names = {path.name for path in Path("together").iterdir()}
    assert names == {f"{name}.{end}.json" for name in NAMES for end in (COMMIT, RESULT)}
    for folder in ("together", "served/b"):
        assert f"all members: {carried.status}" in run("joint", "report", folder).out


def test_a_run_that_broke_goes_on_with_the_files_that_are_there(files, members, monkeypatch):
    two = NAMES[:2]
    members(*two).commit(*MODEL, *LESS, **files)

    def broken(step, node, files):
        if step == RESULT and node == 2:
            raise ConnectionError
        return files

    with pytest.raises(ConnectionError):
        Server(two, alter=broken).audit("first")
    monkeypatch.setattr(relay, "ask", None)  # not taken again
    assert Server(two).audit("first").statuses.keys() == {*two}


def test_commitments_that_were_exchanged_before_are_final(group):
    group.send(".commit.json")
    Path("c/a.commit.json").unlink()
    with pytest.raises(InputError, match=r"a was not among those whose commitments were exchanged"):
        Server(NAMES).audit()


def test_files_of_another_name_or_receiver_and_second_requests_are_refused(group):
    for step, name in (
        (ASK, "../a.commit.json"),
        (ASK, "private"),
        (ANSWER, "a.answer-for-c.zip"),
        (ANSWER, "a.ask.json"),
    ):
        with pytest.raises(InputError, match="is not a file of a joint audit for b"):
            relay.take_step(Path("b"), step, {name: b"x"}, counts=True)
    Path("b/a.ask.zip").write_bytes(b"the first")
    with pytest.raises(InputError, match=r"a\.ask\.zip came a second time, and is another one"):
        relay.take_step(Path("b"), ANSWER, {"a.ask.zip": b"x"}, counts=False)


@pytest.mark.parametrize(
    "sent", [{}, {"x": b""}, {"a.ask.zip": b""}, {"a.commit.json": b"", "b.commit.json": b""}]
)
def test_what_is_no_commitment_begins_nothing(here, sent):
    with pytest.raises(InputError, match="something else than its commitment"):
        relay.carry_all(lambda step, files: dict.fromkeys(files, sent), [1, 2], Path("out"))


def test_two_nodes_of_one_member_and_one_alone_are_refused(here):
    same = {"a.commit.json": b""}
    with pytest.raises(InputError, match="Two nodes are one member: a, a"):
        relay.carry_all(lambda step, files: dict.fromkeys(files, same), [1, 2], Path("out"))
    with pytest.raises(InputError, match="at least two members, not 1"):
        relay.carry_all(lambda step, files: {}, [1], Path("other"))


def test_a_member_speaks_for_itself_only(here):
    answers = {COMMIT: lambda node: f"{'ab'[node - 1]}.commit.json", ASK: lambda node: "b.ask.zip"}

    def carry(step, files):
        return {node: {answers[step](node): b""} for node in files}

    with pytest.raises(InputError, match=r"a has sent b\.ask\.zip in place of a\.ask\.zip"):
        relay.carry_all(carry, [1, 2], Path("out"))


def test_a_result_takes_the_place_of_no_commitment(here):
    """Of the files in the server's folder a member can replace none."""
    sent = {
        COMMIT: lambda name: {f"{name}.commit.json": b"1"},
        ASK: lambda name: {f"{name}.ask.zip": b""},
        ANSWER: lambda name: {f"{name}.answer-for-{'ab'.replace(name, '')}.zip": b""},
        RESULT: lambda name: {f"{name}.commit.json": b"2"},
    }

    def carry(step, files):
        return {node: sent[step]("ab"[node - 1]) for node in files}

    with pytest.raises(InputError, match=r"a has sent a\.commit\.json in place of a\.result\.json"):
        relay.carry_all(carry, [1, 2], Path("out"))
    assert Path("out/a.commit.json").read_bytes() == b"1"
    Path("out/a.commit.json").write_bytes(b"of another one")
    with pytest.raises(InputError, match="is of another joint audit"):
        relay.carry_all(carry, [1, 2], Path("out"))
