"""What a stranger's attack returns: nothing private of it is shown, what is wrong is refused."""

import json
import shutil
from html import unescape

import fake_audit
import fork
import pytest

from fedaudit.cache.answers import FILE
from fedaudit.report.document import validate

NAME, CARD, ID_CARD = "Zoe Quist", "6222 0210 1234 5678", "11010519491231002X"

PLUGIN = f"""
from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.extraction.prefix_attack import PrefixAttack
from fedaudit.api.engine import GenerationBatch
from fedaudit.api.hooks import hookimpl
from fedaudit.api.plugin import Attack, Result
from fedaudit.api.records import Finding, Measurement

NAME, CARD, ID_CARD = {NAME!r}, {CARD!r}, {ID_CARD!r}


@dataclass(frozen=True, kw_only=True)
class Sloppy(Attack):
    "Say what it should not."

    name: ClassVar[str] = "sloppy"
    known: str = ""
    broken: str = ""

    def run(self, case):
        case.engine.generate(case.tuned, GenerationBatch([probe(case)], seed=0))
        parts = {{"severity": "high", "label": "PERSON", "measurement": "sloppy guesses"}}
        evidence = {{
            "text": NAME,
            "context": f"Mrs {{NAME}} has {{ID_CARD}}",
            "nested": [{{"id_card": ID_CARD, CARD: [NAME, 1]}}],
            "how": "by heart",
            "tries": 3,
        }}
        row = Measurement(
            kind="sloppiness", plugin="sloppy", metric="guesses", value=7.25, low=6.5, high=8.5,
            n=40, scope={{"label": "PERSON", "who": f"of {{self.known}}"}},
        )
        without = Finding(id="no-text", evidence={{"only": ID_CARD, "how": "by luck"}}, **parts)
        found = Result(
            measurements=(row,),
            findings=(
                Finding(id=f"of-{{self.known}}", evidence=evidence, safe=("how",), **parts),
                replace(without, label=f"LIKE {{self.known}}"),
            ),
            limits=(f"sloppy: {{self.known.upper()}} was the first.",),
        )
        wrong = {{
            "severity": replace(found, findings=(replace(without, severity="dire"),)),
            "metric": replace(found, measurements=(replace(row, metric=NAME),)),
        }}
        return wrong.get(self.broken, found)


def probe(case):
    from fedaudit.api.records import GenerationRequest

    prompt = case.engine.tokenize(["The claimant"])[0].ids
    return GenerationRequest(prompt=prompt, samples=1, max_new_tokens=4)


@hookimpl
def fedaudit_attacks():
    return [Sloppy]
"""

VICTIM = fake_audit.NAMES[6]
AUDIT = (
    *("extract", "--prefixes", "own.jsonl", "--victim", "victim.jsonl", "--quiet"),
    *("--target", "fedaudit-nano", "--adapter", "lora", "--out", "out"),
    *("--attack", "superset", "--set", "superset.context=3", "--attack", "sloppy"),
)


@pytest.fixture
def here(tmp_path):
    """Return a folder with documents, an adapter, and an installed package with the plugin."""
    fake_audit.written(tmp_path)
    (tmp_path / "site/sloppy-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site/sloppy.py").write_text(PLUGIN)
    info = {
        "METADATA": "Metadata-Version: 2.1\nName: sloppy\nVersion: 1.0\n",
        "entry_points.txt": "[fedaudit]\nsloppy = sloppy\n",
    }
    for name, text in info.items():
        (tmp_path / "site/sloppy-1.0.dist-info" / name).write_text(text)
    return tmp_path


def drawn(here):
    """Return what the model was asked to continue, by piece; scores are quick and not kept."""
    lines = (here / "log").read_text().splitlines()
    return [line for line in lines if " scores " not in line]


def run(here, *words):
    """Run fedaudit in a process; what it leaves is text."""
    return fork.run(*words, cwd=here, site=here / "site", env={"COLUMNS": "200"})


def test_of_a_sloppy_plugin_every_form_shows_its_metric_and_nothing_private(here):
    done = run(here, *AUDIT, "--set", f"sloppy.known={VICTIM}", "--reveal")
    assert done.returncode in (0, 1, 7), done.stderr
    text = (here / "out/report.json").read_text("utf-8")
    forms = [run(here, "report", "out", "--format", form) for form in ("markdown", "html")]
    assert all(form.returncode == 0 for form in forms), forms
    page = (here / "out/report.html").read_text("utf-8")
    # The settings hold what the test gave the plugin as an option.
    report = json.loads(text)
    validate(report)
    report["run"]["config"] = {}
    shown = {
        "report.json": json.dumps(report, ensure_ascii=False),
        "terminal": done.stdout + done.stderr,
        "Markdown": forms[0].stdout,
        "HTML": unescape(page),
    }
    for form, what in shown.items():
        for private in (NAME, CARD, ID_CARD, VICTIM):
            assert private.casefold() not in what.casefold(), (private, form)
    # Its own metric is in every form all the same.
    for what in (done.stdout, forms[0].stdout.replace("\\", ""), unescape(page)):
        assert "sloppiness: guesses" in what
        assert "7.25 [6.5, 8.5]" in what
        assert "label PERSON" in what
    assert [row["n"] for row in report["measurements"] if row["metric"] == "guesses"] == [40]
    mine = [one for one in report["findings"] if one["measurement"] == "sloppy guesses"]
    first, second = mine
    assert first["evidence"]["hmac"]
    assert (first["evidence"]["how"], first["evidence"]["tries"]) == ("by heart", 3)
    assert first["evidence"]["context"]["length"] == len(f"Mrs {NAME} has {ID_CARD}")
    # What is masked twice has one HMAC, whatever field it is in.
    assert first["evidence"]["nested"][0]["id_card"]["hmac"] == second["evidence"]["only"]["hmac"]
    assert "text" not in second["evidence"]
    assert "hmac" not in second["evidence"]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("severity", "the severity of finding 1 is none of high, medium, low, unverified"),
        ("metric", "the metric of measurement 1 is no lower-case name, as in my_metric"),
    ],
)
def test_what_no_report_holds_is_refused_in_one_line_and_nothing_asked_is_lost(here, broken, says):
    done = run(here, *AUDIT, "--set", f"sloppy.broken={broken}")
    assert done.returncode == 70
    [line] = done.stderr.splitlines()
    assert f"The plugin sloppy returned what no report can hold: {says}." in line
    assert line.endswith("The answers are kept: --resume goes on with them.")
    assert NAME not in line
    assert not (here / "out/report.json").exists()
    assert (here / "out" / FILE).exists()
    asked = drawn(here)
    # The same command with the plugin mended draws nothing again.
    shutil.rmtree(here / "site/__pycache__", ignore_errors=True)
    mended = PLUGIN.replace("return wrong.get(self.broken, found)", "return found")
    (here / "site/sloppy.py").write_text(mended)
    again = run(here, *AUDIT, "--set", f"sloppy.broken={broken}", "--resume")
    assert again.returncode in (0, 1, 7), again.stderr
    assert drawn(here) == asked
    assert not (here / "out" / FILE).exists()
