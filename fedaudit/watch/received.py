"""The test of global models as a framework hands them to a client: arrays by their names."""

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedaudit.api.errors import UsageError
from fedaudit.api.records import Target
from fedaudit.federation import adapters
from fedaudit.system.names import check_name

if TYPE_CHECKING:
    import torch

    from fedaudit.engine.local import LocalEngine
    from fedaudit.watch.member import MemberWatch

CLIENT = "{client}"
"""In a path, the place of the client's name."""


class ReceivedModels:
    """Tests what the clients of this process are sent, each with its own records and report."""

    def __init__(
        self,
        paths: Mapping[str, str | Path | None],
        config: Mapping[str, Any],
        base: str,
        options: Mapping[str, Any],
    ) -> None:
        """Keep how models are tested; the clients' records are read when they are first needed.

        `paths` and `options` are the fields of `WatchSettings`, `config` the adapter's. Raises
        UsageError if neither `base` nor the configuration names the base.
        """
        self._paths, self._config, self._options = paths, config, options
        self._base = base or str(config.get("base_model_name_or_path") or "")
        if not self._base:
            raise UsageError("The LoRA configuration names no base model: set base.")
        self._members: dict[str, MemberWatch] = {}

    def test(self, client: str, sent: "Mapping[str, torch.Tensor]") -> str:
        """Test the adapter that a client was sent, add it to its report, and return what it says.

        Raises LimitPassed if more than the limit was surely learnt, and InputError for records and
        for tensors that cannot be used, and for a name that cannot be a file's.
        """
        from fedaudit.engine.loading.received_adapter import adapter_tensors, known_shapes

        member = self._member(client)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            adapters.write({}, self._config, path)
            shapes = known_shapes(self._base, path)
            tensors = adapter_tensors(sent, shapes, self._config, "The global adapter")
            adapters.write(tensors, self._config, path)
            engine = _engine(self._base)
            tuned, base = Target(name="round", adapter=str(path)), Target(name="base")
            return member.test(engine, tuned, base, self._base, str(engine.model.device))

    def _member(self, client: str) -> "MemberWatch":
        from fedaudit.watch.member import MemberWatch, WatchSettings

        if client not in self._members:
            if any(CLIENT in str(path) for path in self._paths.values()):
                check_name(client, Path("configuration"), "the client")
            named: dict[str, Any] = {
                key: Path(str(path).replace(CLIENT, client))
                for key, path in self._paths.items()
                if path
            }
            self._members[client] = MemberWatch(WatchSettings(**named, **self._options))
        return self._members[client]


@cache
def _engine(base: str) -> "LocalEngine":
    """Return the base, loaded once for this process."""
    from fedaudit.engine.loading.loader import load_base
    from fedaudit.engine.local import LocalEngine

    return LocalEngine(load_base(base))
