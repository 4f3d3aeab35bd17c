"""What a reader should know of the record files that a simulation was given."""

from collections import Counter
from pathlib import Path

from fedaudit.data import corpus
from fedaudit.simulation.config import Simulation


def data_caveats(config: Simulation) -> list[str]:
    """Return caveats on parts of the configured record files that are not read or not used."""
    named = [config.data if config.data != "nano" else "", config.test, config.watermark.documents]
    named += config.client_data.values()
    named += [str(options.get("source", "")) for _, options in config.defense_plugins()]
    form, result = config.prompt_template, []
    for path in dict.fromkeys(Path(name) for name in named if name and Path(name).is_file()):
        unread_counts: Counter[str] = Counter()
        total = sum(1 for _ in corpus.read(path, form, unread_counts))
        result += corpus.unread_caveat(path, unread_counts)
        if path == Path(config.data) and 0 < config.records.limit < total:
            used = f"{config.records.limit:,} of {total:,} documents are used (records.limit)."
            result.append(f"{path}: {used}")
    return result
