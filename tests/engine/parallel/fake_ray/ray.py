"""A stand-in for Ray where Ray is not: one process for each actor and each task, on this machine.

FAKE_RAY says what is wrong with it: "unreachable", "ends", "late" (at its third start), or nothing.
"""

import os
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class ActorDiedError(RayError):
    pass


class WorkerCrashedError(RayError):
    pass


exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
threads = ThreadPoolExecutor(16)
slots = {}
starts = []


def init(**options):
    print("Ray is noisy.")
    if os.environ.get("FAKE_RAY") == "unreachable":
        raise ConnectionError("no cluster answers.\nDid you start one?")
    starts.append(options)
    if os.environ.get("FAKE_RAY") == "late" and len(starts) < 3:
        raise RuntimeError("The node timed out during startup.")
    if os.environ.get("FAKE_RAY") == "ends":
        os._exit(1)
    slots["CPU"] = float(options.get("num_cpus", 64))


def cluster_resources():
    return slots


def shutdown():
    pass


def kill(actor):
    for process in list((actor.pool._processes or {}).values()):
        process.kill()


def called(pool, lost, work, *values):
    try:
        return pool.submit(work, *values).result()
    except BrokenProcessPool:
        raise lost("A process is gone.") from None
    except BaseException as error:
        raise RayTaskError(f"ray::{work.__name__} failed: {error!r}\nand more") from None


class Reference:
    def __init__(self, work, *values):
        self.asked: Future = threads.submit(work, *values)

    def future(self):
        return self.asked


class Method:
    def __init__(self, actor, name):
        self.actor, self.name = actor, name

    def remote(self, *values):
        work = getattr(self.actor.made, self.name)
        return Reference(called, self.actor.pool, ActorDiedError, work, *values)


class Actor:
    def __init__(self, made):
        self.made, self.pool = made, ProcessPoolExecutor(1)

    def __getattr__(self, name):
        return Method(self, name)


def again_and_again(times, work, *values):
    for left in reversed(range(times)):
        with ProcessPoolExecutor(1) as pool:
            try:
                return called(pool, WorkerCrashedError, work, *values)
            except WorkerCrashedError:
                if not left:
                    raise
    raise AssertionError


class Remote:
    def __init__(self, made, retries=0):
        self.made, self.retries = made, retries

    def options(self, *, num_cpus, num_gpus, max_retries=0, max_restarts=0):
        return Remote(self.made, max_retries)

    def remote(self, *values):
        if isinstance(self.made, type):
            return Actor(self.made(*values))
        return Reference(again_and_again, self.retries + 1, self.made, *values)


remote = Remote
