"""For a client of NVFLARE: a filter that tests every global model before it is trained on.

In the site's `local/privacy.json`, or in a job, as a filter of the task "train":

    {"path": "fedaudit.nvflare.WatchFilter", "args": {"ours": "/data/ours.jsonl",
     "held_out": "/data/aside.jsonl", "out": "/data/watch", "lora": "/data/adapter"}}
"""

from pathlib import Path

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fedaudit.federation import adapters
from fedaudit.watch.received import ReceivedModels

TRAIN = "train"


class WatchFilter(DXOFilter):
    """Tests the weights of each task "train", and lets them through unless a limit is passed."""

    def __init__(
        self,
        *,
        ours: str,
        held_out: str,
        out: str,
        lora: str,
        base: str = "",
        canaries: str = "",
        limit: float = 0.1,
        references: int = 100,
        template: str = "fed_pii",
    ) -> None:
        """Keep the settings, by the names under which NVFLARE writes them into a job.

        `lora` is the folder of an adapter_config.json, `base` the model that it is on, unless the
        configuration names it; `{client}` in a path is the site's name.
        """
        super().__init__([DataKind.WEIGHTS], None)
        self.ours, self.held_out, self.out, self.canaries = ours, held_out, out, canaries
        self.lora, self.base = lora, base
        self.limit, self.references, self.template = limit, references, template
        self._received: ReceivedModels | None = None

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> None:
        """Test the global adapter; the weights go on as they came.

        Raises LimitPassed if more than the limit was surely learnt, which NVFLARE answers with
        TASK_DATA_FILTER_ERROR in place of an update; InputError for records and weights that
        cannot be used.
        """
        import torch

        if fl_ctx.get_prop(FLContextKey.TASK_NAME) != TRAIN:
            return
        if self._received is None:
            paths = {
                "ours": self.ours, "held_out": self.held_out, "out": self.out,
                "canaries": self.canaries,
            }  # fmt: skip
            config = adapters.read_config(Path(self.lora))
            options = {
                "limit": self.limit, "references": self.references, "template": self.template,
            }  # fmt: skip
            self._received = ReceivedModels(paths, config, self.base, options)
        sent = {name: torch.as_tensor(weights) for name, weights in dxo.data.items()}
        self.log_info(fl_ctx, self._received.test(fl_ctx.get_identity_name(), sent))
