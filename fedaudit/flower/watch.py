"""The client mod by which a member tests every global model before it trains on it.

from fedaudit.flower import watch_mod
app = ClientApp(mods=[watch_mod(ours="{client}.jsonl", held_out="{client}-aside.jsonl",
                                out="watch/{client}", lora="adapter_config.json")])
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fedaudit.api.errors import UsageError
from fedaudit.flower.mods import flower_log, node_name, sent_tensors
from fedaudit.flower.strategy import lora_table
from fedaudit.watch.received import CLIENT, ReceivedModels

TRAIN = "train"
LIMIT_PASSED = 400
"""The code of the answer by which a client says that it does not train any more."""
Mod = Callable[[Any, Any, Callable[[Any, Any], Any]], Any]


def watch_mod(
    *,
    ours: str | Path,
    held_out: str | Path,
    out: str | Path,
    lora: Any,
    base: str = "",
    canaries: str | Path | None = None,
    **options: Any,
) -> Mod:
    """Return a mod that tests the model of each request to train, before the app sees it.

    `{client}` in a path is the client's name. `lora` is the PEFT model, its `LoraConfig`, or an
    adapter_config.json; `base` the model that it is on, unless the configuration names it.
    `options` are `limit`, `references` and `template`. If more than the limit was surely learnt the
    app is not called, and the server gets an error in place of an update. Raises UsageError if
    there is no base.
    """
    paths = {"ours": ours, "held_out": held_out, "out": out, "canaries": canaries}
    received = ReceivedModels(paths, lora_table(lora), base, options)

    def test(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Test the model of a request to train, and pass the request on or refuse it."""
        if not str(message.metadata.message_type).startswith(TRAIN):
            return call_next(message, context)
        from fedaudit.watch.member import LimitPassed

        client = _client(context.node_config, paths.values())
        arrays: Mapping[str, Any] = next(iter(message.content.array_records.values()), {})
        try:
            flower_log.info(f"fedaudit: {received.test(client, sent_tensors(arrays))}")
        except LimitPassed as error:
            from flwr.app import Error, Message

            flower_log.info(f"fedaudit: {error}")
            reason = "This client's own limit of what may be learnt of it is passed."
            return Message(Error(LIMIT_PASSED, reason), reply_to=message)
        return call_next(message, context)

    return test


def _client(node_config: Any, paths: Iterable[str | Path | None]) -> str:
    """Return the client's name; raises UsageError without one if a path has a place for it."""
    client = node_name(node_config)
    if not client and any(CLIENT in str(path) for path in paths):
        raise UsageError(
            f"This node has no name to put in the place of {CLIENT}: give it client-name or "
            "partition-id in its configuration."
        )
    return client
