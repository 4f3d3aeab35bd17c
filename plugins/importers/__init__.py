"""Layouts in which other frameworks leave a federation."""

from typing import TYPE_CHECKING

from fedaudit.api import hookimpl

if TYPE_CHECKING:
    from fedaudit.api import Importer


@hookimpl
def fedaudit_importers() -> "list[type[Importer]]":
    """Return the built-in importers."""
    from .federatedscope import FederatedScope
    from .flora import Flora
    from .flower import FlowerDumps
    from .flowertune import FlowerTune
    from .nvflare import NVFlare
    from .openfedllm import OpenFedLLM
    from .peft import PeftFolders
    from .shepherd import Shepherd
    from .trainer import TrainerCheckpoints

    return [
        FederatedScope,
        Flora,
        FlowerDumps,
        FlowerTune,
        NVFlare,
        OpenFedLLM,
        PeftFolders,
        Shepherd,
        TrainerCheckpoints,
    ]
