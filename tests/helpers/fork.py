"""Commands in processes forked from one that has imported what they need.

A fork begins in a few milliseconds where a new interpreter takes seconds to import torch, peft and
transformers; it is as new, since its parent ran nothing. What a new interpreter does before it has
imported all that, and after the command has ended, is tested with one.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing import forkserver, reduction
from pathlib import Path

HERE = Path(__file__).parent
CLOSED = "closed"
"""A stream that is closed when the command begins."""


class _Handle:
    """A file descriptor that the child gets, too."""

    def __init__(self, number):
        self.number = number

    def __getstate__(self):
        return reduction.DupFd(self.number)

    def __setstate__(self, received):
        self.number = received.detach()


def run(*words, how="SIGKILL", point=0, log="log", verdict="", timeout=600, **options):
    """Run fedaudit as `fake_audit` does; return its exit code (negative: the signal) and output.

    `verdict` replaces that of the report; the rest is as for `start`.
    """
    command = [how, str(point), str(log), *map(str, words)]
    return _finished(fake, command, verdict, timeout=timeout, **options)


def fedaudit(*words, timeout=600, **options):
    """Run fedaudit itself, with real models; return its exit code and output."""
    return _finished(real, list(map(str, words)), timeout=timeout, **options)


def program(code, *, real, timeout=600, **options):
    """Run Python with fedaudit's real models, or as `fake_audit` does; return code and output."""
    return _finished(script, code, real, timeout=timeout, **options)


def start(main, *arguments, cwd=".", site=None, env=None, out=None, err=None):
    """Start a function of this module in a fork, and return its process.

    `site` is a folder to import from, as of installed packages; `env` is added to this process's.
    `out` and `err` are open files or CLOSED; what is printed is lost without them.
    """
    environment = {**os.environ, "COLUMNS": "80", **(env or {})}
    with open(os.devnull, "w") as lost:
        files = [lost if file is None else file for file in (out, err)]
        streams = [file if file == CLOSED else _Handle(file.fileno()) for file in files]
        place = str(cwd), streams, site and str(site), environment
        child = context().Process(target=_begin, args=(main, arguments, *place))
        child.start()
    return child


def context():
    """Return the context of forked processes; the one that they come from runs from now on."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["preloaded"])
    path, before = "PYTHONPATH", os.environ.get("PYTHONPATH")
    os.environ[path] = os.pathsep.join([str(HERE), *([before] if before else [])])
    try:
        forkserver.ensure_running()
    finally:
        del os.environ[path]
        if before is not None:
            os.environ[path] = before
    return found


def _finished(main, *arguments, timeout, out=None, err=None, **options):
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        child = start(main, *arguments, out=out or printed, err=err or said, **options)
        child.join(timeout)
        if child.exitcode is None:
            child.kill()
            raise subprocess.TimeoutExpired(arguments, timeout)
        texts = [file.seek(0) or file.read() for file in (printed, said)]
    return subprocess.CompletedProcess(arguments, child.exitcode, *texts)


def _begin(main, arguments, here, streams, site, environment):
    """Have a folder, an environment and standard streams of its own, and be the command."""
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    if site:
        sys.path.insert(0, site)
    for number, name, handle in zip((1, 2), ("stdout", "stderr"), streams, strict=True):
        if handle == CLOSED:
            os.close(number)
            setattr(sys, name, None)
            continue
        os.dup2(handle.number, number)
        os.close(handle.number)
        stream = os.fdopen(number, "w", 1 if number == 2 else -1, closefd=False)
        setattr(sys, name, stream)
    main(*arguments)


def fake(words, verdict=""):
    """Be `fake_audit` by its words; `verdict` replaces the report's."""
    import fake_audit

    from fedaudit.report import document

    if verdict:
        reasons = ["the test says so"]
        document.judge = lambda *found: {"status": verdict, "reasons": reasons}
    sys.argv = [fake_audit.__file__, *words]
    fake_audit.main()


def real(words):
    """Be fedaudit."""
    from fedaudit.__main__ import main

    sys.argv = ["fedaudit", *words]
    main()


def script(code, real):
    """Be a program that imports fedaudit."""
    if not real:
        import fake_audit

        fake_audit.replace(setattr, "log", fake_audit.Chances("SIGKILL", sys.maxsize))
    exec(compile(code, "program", "exec"), {"__name__": "__main__"})
