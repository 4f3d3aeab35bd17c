"""fedaudit: what private data can be pulled out of a federated fine-tuned language model.

`audit`, `extract`, `infer`, `memorize`, `simulate`, `attribute` and `Report` are what a notebook or
a script imports; they are imported when they are first used, so that this package alone stays
light. Authors of plugins import `fedaudit.api` and its kits.
"""

__version__ = "0.1.0"

_HOMES = {
    "audit": "fedaudit.audit.verbs",
    "extract": "fedaudit.audit.verbs",
    "infer": "fedaudit.audit.verbs",
    "memorize": "fedaudit.audit.verbs",
    "simulate": "fedaudit.simulation.session",
    "attribute": "fedaudit.attribution.pipeline",
    "Report": "fedaudit.report.document",
}


def __getattr__(name: str) -> object:
    # Nothing is imported before this: `python -m fedaudit` imports this package while the folder
    # where it runs, which may be a stranger's, still comes first in the path.
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
