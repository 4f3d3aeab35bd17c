"""The child process in which Flower's simulation runs, with its server app and client app.

Work and results pass through Flower as bytes, and errors as results, as they do through Ray.
"""

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Event
from time import sleep
from typing import Any

from fedaudit.engine.parallel.ray_cluster import end_session
from fedaudit.engine.parallel.ray_worker import STORE, error_line, run_packed
from fedaudit.engine.parallel.worker_pool import ATTEMPTS

RECORD, KEY = "fedaudit", "work"
PAUSE = 0.05
"""Seconds between two polls for replies."""


@dataclass(slots=True)
class PendingMessage:
    """A message without a reply yet: its ticket, node, content, and remaining retries."""

    ticket: int
    node: int
    work: bytes
    retries: int = ATTEMPTS - 1


def main() -> None:
    """Serve the parent process at the other end of a socket until either process ends."""
    descriptor, folder, nodes, slots = int(sys.argv[1]), sys.argv[3], *map(int, sys.argv[4:6])
    os.set_inheritable(descriptor, False)
    connection, ready = Connection(descriptor), Event()
    try:
        from flwr.simulation import run_simulation

        run_simulation(
            server_app=server_app(connection, nodes, ready),
            client_app=client_app(),
            num_supernodes=nodes,
            backend_config=backend(slots),
        )
    except Exception as error:
        if not ready.is_set():  # afterwards the parent expects results, not an error line
            with suppress(OSError):
                connection.send(error_line(error))
    finally:
        leave(folder)


def leave(folder: str) -> None:
    """End all processes that were started here, delete the folder, and exit."""
    end_session(os.getpid())
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def backend(slots: int) -> dict[str, dict[str, Any]]:
    """Return Ray's configuration: `slots` clients at once (0: one per core), on localhost only."""
    ray = {"num_cpus": slots or len(os.sched_getaffinity(0)), "_node_ip_address": "127.0.0.1"}
    quiet = {"include_dashboard": False, "log_to_driver": False, "object_store_memory": STORE}
    return {"init_args": {**ray, **quiet}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}}


def client_app() -> Any:
    """Return the client app, which runs the work in each message."""
    from flwr.clientapp import ClientApp

    app = ClientApp()
    app.train()(answer)
    return app


def answer(message: Any, _context: Any) -> Any:
    """Return a reply with the packed result of a message's work."""
    from flwr.app import ConfigRecord, Message, RecordDict

    content = run_packed(message.content[RECORD][KEY])
    return Message(RecordDict({RECORD: ConfigRecord({KEY: content})}), reply_to=message)


def server_app(connection: Connection, nodes: int, ready: Event) -> Any:
    """Return the server app, which relays work to the nodes, and their replies to the parent."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def serve(grid: Any, _context: Any) -> None:
        while len(list(grid.get_node_ids())) < nodes:  # Flower is still registering nodes
            sleep(PAUSE)
        relay = FlowerRelay(grid, connection)
        ready.set()
        with suppress(EOFError, OSError):
            relay.serve()

    app.main()(serve)
    return app


class FlowerRelay:
    """Relays messages between the parent's connection and the grid of Flower's nodes."""

    def __init__(self, grid: Any, connection: Connection) -> None:
        self.grid, self.connection = grid, connection
        self._nodes = sorted(grid.get_node_ids())
        self._sent: dict[str, PendingMessage] = {}
        connection.send((len(self._nodes), 0))

    def serve(self) -> None:
        """Relay messages until the parent process has ended, which raises EOFError."""
        while True:
            while self.connection.poll(PAUSE if self._sent else None):
                self._send(PendingMessage(*self.connection.recv()))
            for reply in self.grid.pull_messages(list(self._sent)):
                self._tell(self._sent.pop(reply.metadata.reply_to_message_id), reply)

    def _send(self, pending: PendingMessage) -> None:
        from flwr.app import ConfigRecord, Message, MessageType, RecordDict

        content = RecordDict({RECORD: ConfigRecord({KEY: pending.work})})
        message = Message(
            content=content, dst_node_id=self._nodes[pending.node], message_type=MessageType.TRAIN
        )
        for number in self.grid.push_messages([message]):
            self._sent[number] = pending
            return
        self.connection.send((pending.ticket, "lost", "Flower does not take the message"))

    def _tell(self, pending: PendingMessage, reply: Any) -> None:
        if not reply.has_error():
            self.connection.send((pending.ticket, "answer", reply.content[RECORD][KEY]))
        elif pending.retries:  # the process died: errors in the work itself are results
            self._send(
                PendingMessage(pending.ticket, pending.node, pending.work, pending.retries - 1)
            )
        else:
            self.connection.send((pending.ticket, "lost", str(reply.error.reason)))
