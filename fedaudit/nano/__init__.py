"""The built-in base model `fedaudit-nano`, its tokenizer, and a generator of case files.

* `cases`: Invented case files: what the documents of one case have in common, and how a text is
  filled.
* `generator`: Case files of courts, hospitals and banks whose PII is known, because it is all
  invented.
* `passages`: Passages: short abstracts, patients' questions and trial reports, without any
  personal data.
* `people`: Invented people, English and Chinese, with every personal detail known (made with
  faker).
* `tasks`: What instruction records ask about a case's record, and the right answer.
* `training`: The recipe of `fedaudit-nano`: python -m fedaudit.nano.training OUT [--steps 1600].
"""

from pathlib import Path

BASE = "fedaudit-nano"


def folder() -> Path:
    """Return the folder of the built-in base model."""
    return Path(__file__).parent / "weights"
