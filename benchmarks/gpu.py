"""fedaudit's engine on a GPU, measured within minutes: one command, several calls if need be.

    python benchmarks/gpu.py --minutes 9 --out DIR [--tiny] [--device cuda]

It needs neither a network nor more packages than torch, transformers, peft, safetensors, numpy,
typer, rich and pluggy. First the card's own rates, then the engine's answers beside those of plain
transformers, then Llamas of random weights in bfloat16 (135 M, 1 B and 8 B parameters): probing
beside `generate`, scoring, the exact walk, eleven adapters, LoRA training, a profile. DIR/gpu.json
keeps each step as it ends; a further call goes on from there. DIR/gpu.md has the tables. Exit
codes: 0 all done, 1 a step failed or an answer is wrong, 3 a bad --out, 4 no such device,
6 call again. --tiny does all of it at sizes that a CPU manages.
"""

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

try:
    import fedaudit
except ImportError:  # not installed: the tree that this file is in
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import fedaudit

import torch
import transformers
from gpu_steps.models import Workbench
from gpu_steps.report import markdown
from gpu_steps.runner import run, steps
from gpu_steps.state import Results
from gpu_steps.work import FULL, SIZES, TINY, TINY_SIZES

from fedaudit.api.errors import FedauditError
from fedaudit.engine.device import device_for
from fedaudit.engine.loading.loader import quiet
from fedaudit.system.files import atomic_text

REPORT = "gpu.md"


def about(device: torch.device, *, tiny: bool) -> dict[str, str]:
    """Return what all results of a folder have in common."""
    on_card = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_card else device.type,
        "amounts": "tiny" if tiny else "full",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "fedaudit": fedaudit.__version__,
        "python": platform.python_version(),
    }


def arguments() -> argparse.Namespace:
    """Return what the user wants."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=9.0, help="to be over by then")
    parser.add_argument("--out", type=Path, required=True, help="folder for results")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that a CPU manages")
    return parser.parse_args()


def measure(given: argparse.Namespace, end: float) -> int:
    """Run what is not done yet, write the tables, and return the exit code."""
    device = device_for(given.device)
    sizes, amounts = (TINY_SIZES, TINY) if given.tiny else (SIZES, FULL)
    given.out.mkdir(parents=True, exist_ok=True)
    results = Results(given.out, about(device, tiny=given.tiny))
    todo = steps(sizes)
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(device, amounts, Path(folder))
        run(todo, bench, results, end, lambda text: print(text, flush=True), patient=given.tiny)
    text = markdown(results, sizes)
    atomic_text(given.out / REPORT, text)
    found = [results.steps.get(step.name) for step in todo]
    if any(one and ("failed" in one or one.get("correct") is False) for one in found):
        return 1
    return 6 if None in found else 0


def main() -> int:
    """Measure, and say a user's mistake in one line."""
    given, began = arguments(), time.monotonic()
    quiet()
    try:
        return measure(given, began + 60 * given.minutes)
    except FedauditError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"{given.out} cannot be used: {error.strerror}.", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
