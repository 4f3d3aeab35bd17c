"""A joint audit in a Flower federation as it stands (docs/joint.md): the server carries the files.

app = ClientApp()
take_part(app)                              # in the client app
joint_audit(grid, "runs/joint", members=3)  # in the server app
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import FedauditError, InputError
from fedaudit.flower.mods import flower_log

if TYPE_CHECKING:
    from fedaudit.joint.combining import Combined
    from fedaudit.joint.relay import Files

ACTION, STEP, FILES = "joint", "step", "files"
FOLDER, COUNTS = "joint-folder", "joint-counts"
"""Entries of a node's configuration: a member's folder, and whether it tells its counts."""
REFUSED = 400
"""The code of the answer by which a member says that it cannot take a step."""
_WAIT = 3.0


def take_part(app: Any) -> None:
    """Let the nodes of a ClientApp take part in joint audits.

    Each node's operator gives `fedaudit joint commit` before, names its folder as `joint-folder` in
    the node's configuration, and with `joint-counts=true` allows its counts to be told. Records and
    keys stay in that folder. A step that fails is told to the server without its reason, which is
    in the node's log.
    """

    def step(message: Any, context: Any) -> Any:
        """Take a step of a joint audit."""
        from flwr.app import Error, Message

        try:
            sent = _take_step(message, context.node_config)
        except FedauditError as error:
            _log(str(error))
            reason = "This member cannot take the step; its log says why."
            return Message(Error(REFUSED, reason), reply_to=message)
        return Message(_content(sent), reply_to=message)

    app.query(ACTION)(step)


def _take_step(message: Any, node_config: Any) -> "Files":
    from fedaudit.joint import relay
    from fedaudit.joint.exchange import ASK
    from fedaudit.joint.member import key_lines

    if not (folder := node_config.get(FOLDER)):
        raise InputError(
            "This node has no folder of a joint audit: give fedaudit joint commit FOLDER, and name "
            f"it as {FOLDER} in the node's configuration."
        )
    step, files = _read(message.content)
    sent = relay.take_step(Path(str(folder)), step, files, counts=node_config.get(COUNTS) is True)
    if step == ASK:
        for line in key_lines(Path(str(folder))):
            _log(line)
    _log(f"took the step {step}")
    return sent


def joint_audit(
    grid: Any, folder: str | Path, *, members: int, timeout: float | None = None
) -> "Combined":
    """Audit jointly with all nodes of a grid; return their results as one.

    Waits until `members` nodes are there. `timeout` is for each step, in seconds. `folder` keeps
    commitments and results; of them `fedaudit joint report` makes the report again. Raises
    InputError if a member cannot take a step, or does not in time.
    """
    from fedaudit.joint import relay

    if len(nodes := sorted(grid.get_node_ids())) < members:
        _log(f"waits for {members} members; {len(nodes)} are there")
    while len(nodes := sorted(grid.get_node_ids())) < members:
        time.sleep(_WAIT)

    def carry(step: str, files: "Mapping[int, Files]") -> "dict[int, Files]":
        """Send a step to all nodes; return what they answer."""
        from flwr.app import ConfigRecord, Message

        asked = []
        for node, own in files.items():
            content = _content(own)
            content[STEP] = ConfigRecord({STEP: step})
            asked.append(Message(content=content, message_type=f"query.{ACTION}", dst_node_id=node))
        _log(f"asks {len(asked)} members for the step {step}")
        replies = list(grid.send_and_receive(asked, timeout=timeout))
        failed = [one for one in replies if one.has_error()]
        if failed or len(replies) < len(asked):
            lacking = len(asked) - len(replies) + len(failed)
            why = f": {failed[0].error.reason}" if failed else ""
            raise InputError(f"{lacking} of {len(asked)} members did not take the step {step}{why}")
        return {one.metadata.src_node_id: _read(one.content)[1] for one in replies}

    combined = relay.carry_all(carry, nodes, Path(folder))
    for line in combined.lines():
        _log(line)
    return combined


def _content(files: "Files") -> Any:
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({FILES: ConfigRecord(dict(files))})


def _read(content: Any) -> "tuple[str, Files]":
    """Return the step that a message names, and its files."""
    records: Mapping[str, Mapping[str, Any]] = content.config_records
    files = dict(records.get(FILES, {}).items())
    if not all(isinstance(value, bytes) for value in files.values()):
        raise InputError("A message of a joint audit holds something else than files.")
    return str(records.get(STEP, {}).get(STEP, "")), files


def _log(text: str) -> None:
    flower_log.info("fedaudit joint: %s", text)
