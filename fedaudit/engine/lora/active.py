"""A cache of the most recently used adapters, attached to a model by PEFT."""

from itertools import count
from pathlib import Path

from peft import PeftModel
from transformers import PreTrainedModel

from fedaudit.engine.loading import loader
from fedaudit.federation.adapters import CONFIG, WEIGHTS

MAX_ADAPTERS = 16
"""The maximum number of adapters that stay attached."""

Version = tuple[str | int, ...]
"""A folder, with the modification times and sizes of its files."""


def version(adapter: str) -> Version:
    """Return a key of the adapter's files as they are now; rewriting them changes it."""
    try:
        files = [Path(adapter, name).stat() for name in (CONFIG, WEIGHTS)]
    except OSError:  # the code that reads the adapter reports what is missing
        return (adapter,)
    return adapter, *(value for f in files for value in (f.st_mtime_ns, f.st_size))


class AdapterCache:
    """The adapters attached to one model, and PEFT's name of each."""

    def __init__(self) -> None:
        self._names: dict[Version, str] = {}
        self._numbers = count()

    def activated(self, model: PreTrainedModel | PeftModel, adapter: str) -> PeftModel:
        """Return the model with this adapter active; raises InputError for one that does not fit.

        Beyond MAX_ADAPTERS, the least recently used adapter is removed.
        """
        key = version(adapter)
        name = self._names.pop(key, None)
        if name is None:
            name = f"adapter{next(self._numbers)}"
            model = loader.attach(model, Path(adapter), name)
        assert isinstance(model, PeftModel)
        self._names[key] = name
        for oldest in list(self._names)[:-MAX_ADAPTERS]:
            model.delete_adapter(self._names.pop(oldest))
        model.set_adapter(name)
        model.eval()
        return model
