"""Runs fedaudit in this process, as the console script would."""

import sys
from dataclasses import dataclass

from fedaudit import cli


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class Command:
    def __init__(self, monkeypatch, capfd):
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *words):
        self.capfd.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["fedaudit", *map(str, words)])
        try:
            cli.main()
            code = 0
        except SystemExit as left:
            code = left.code
        shown = self.capfd.readouterr()
        return Outcome(code, shown.out, shown.err)

    def refused(self, code, *words, says=""):
        """Run what must fail: one clear line, no traceback, nothing on stdout."""
        outcome = self(*words)
        assert outcome.code == code, outcome
        assert outcome.out == ""
        assert len(outcome.err.strip().splitlines()) == 1, outcome.err
        assert says in outcome.err, outcome.err
        return outcome
