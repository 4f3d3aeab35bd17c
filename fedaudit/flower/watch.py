"""The client mod by which a member tests every global model before it trains on it.

from fedaudit.flower import watch_mod
app = ClientApp(mods=[watch_mod(ours="{client}.jsonl", held_out="{client}-aside.jsonl",
                                out="watch/{client}", lora="adapter_config.json")])
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Target
from fedaudit.federation import adapters
from fedaudit.flower.arrays import adapter_tensors, known_shapes
from fedaudit.flower.mods import node_name
from fedaudit.flower.strategy import lora_table
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    from fedaudit.engine.local import LocalEngine

CLIENT = "{client}"
"""In a path, the place of the client's name, as `name_mod` has it."""
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
    config = lora_table(lora)
    name = base or str(config.get("base_model_name_or_path") or "")
    if not name:
        raise UsageError("The LoRA configuration names no base model: give watch_mod() its base.")
    members: dict[str, Any] = {}
    paths = {"ours": ours, "held_out": held_out, "out": out, "canaries": canaries}

    def test(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Test the model of a request to train, and pass the request on or refuse it."""
        if not str(message.metadata.message_type).startswith(TRAIN):
            return call_next(message, context)
        from fedaudit.watch.member import LimitPassed, MemberWatch, WatchSettings

        client = _client(context.node_config, paths.values())
        named: dict[str, Any] = {
            key: Path(str(path).replace(CLIENT, client)) for key, path in paths.items() if path
        }
        if client not in members:
            members[client] = MemberWatch(WatchSettings(**named, **options))
        member = members[client]
        arrays: Mapping[str, Any] = next(iter(message.content.array_records.values()), {})
        try:
            _log(f"fedaudit: {_test(member, arrays, config, name)}")
        except LimitPassed as error:
            from flwr.app import Error, Message

            _log(f"fedaudit: {error}")
            reason = "This client's own limit of what may be learnt of it is passed."
            return Message(Error(LIMIT_PASSED, reason), reply_to=message)
        return call_next(message, context)

    return test


def _client(node_config: Any, paths: Iterable[str | Path | None]) -> str:
    """Return the client's name, with which paths are completed.

    Raises UsageError for a path with `{client}` if the node has no name, as all such nodes would
    share it, and InputError for a name that cannot be a file's.
    """
    client = node_name(node_config)
    if any(CLIENT in str(path) for path in paths):
        if not client:
            raise UsageError(
                f"This node has no name to put in the place of {CLIENT}: give it client-name or "
                "partition-id in its configuration."
            )
        check_name(client, Path("node configuration"), "the client")
    return client


def _test(member: Any, arrays: Mapping[str, Any], config: Mapping[str, Any], base: str) -> str:
    """Test the adapter that a server sent; return what the test says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        adapters.write({}, config, path)
        tensors = adapter_tensors(arrays, known_shapes(base, path), config, "The global adapter")
        adapters.write(tensors, config, path)
        tuned, bare = Target(name="round", adapter=str(path)), Target(name="base")
        engine = _engine(base)
        said: str = member.test(engine, tuned, bare, base, str(engine.model.device))
        return said


@cache
def _engine(base: str) -> "LocalEngine":
    """Return the base, loaded once for this process."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    return LocalEngine(load_base(base))


def _log(text: str) -> None:
    import logging

    logging.getLogger("flwr").info(text)
