"""Each of pytest-xdist's processes counts on one core, and so does all that its tests start.

A simulation then trains in one process, which need not import torch three times. Only what starts
anew is bound to a core: a process of tests that waits leaves its core to the others.
"""

import os
import subprocess


def count_on_one():
    """Have this process, and those that it forks, see one core, and bind those that it starts."""
    if not (worker := os.environ.get("PYTEST_XDIST_WORKER")):
        return
    cores = os.sched_getaffinity(0)
    own = {sorted(cores)[int(worker.removeprefix("gw")) % len(cores)]}
    os.sched_getaffinity = lambda process: own
    start = subprocess.Popen.__init__

    def bound(*arguments, **options):
        os.sched_setaffinity(0, own)  # of this thread, and so of the process that it starts
        try:
            start(*arguments, **options)
        finally:
            os.sched_setaffinity(0, cores)

    subprocess.Popen.__init__ = bound
