"""Fake audits in processes forked from one that has imported what they need.

A fork begins in a few milliseconds where a new interpreter takes seconds to import torch and scipy;
it is as new, since its parent ran nothing.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOADED = ("fake_audit", "fedaudit.audit.session", "scipy.stats", "torch")


def run(*words, how="SIGKILL", point=0, log="log", cwd=".", site=None, env=None, timeout=120):
    """Run fedaudit as `fake_audit` does; return its exit code (negative: the signal) and output.

    `site` is a folder to import from, as of installed packages.
    """
    command = [how, str(point), str(log), *map(str, words)]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [str(Path(folder, name)) for name in ("out", "err")]
        options = (str(cwd), outputs, site and str(site), {"COLUMNS": "80", **(env or {})})
        child = context.Process(target=_audit, args=(command, *options))
        child.start()
        child.join(timeout)
        if child.exitcode is None:
            child.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        texts = [Path(path).read_text() for path in outputs]
    return subprocess.CompletedProcess(command, child.exitcode, *texts)


def _audit(command, here, outputs, site, env):
    """Be fake_audit, with a folder, an environment and standard streams of its own."""
    import fake_audit

    os.chdir(here)
    os.environ.update(env)
    if site:
        sys.path.insert(0, site)
    for stream, path in zip((1, 2), outputs, strict=True):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, stream)
        os.close(handle)
    sys.argv = [fake_audit.__file__, *command]
    fake_audit.main()
