"""Engines in several processes, on this machine or on a Ray cluster.

* `capacity`: The CPUs and GPUs of a cluster, and the share that one engine or training takes.
* `engine`: The engine that splits requests among several processes, here or on a Ray cluster.
* `flower_pool`: Client trainings in Flower's simulation engine, which runs in a child process.
* `flower_worker`: The child process in which Flower's simulation runs, with its server app and
  client app.
* `process_pool`: Worker processes on this machine, each with one engine.
* `protocol`: The configuration of a worker's engine, calls to it, and their execution in the
  worker.
* `ray_cluster`: A Ray cluster, used through a child process, so that Ray never runs in this
  process.
* `ray_worker`: The child process that talks to Ray for an audit, and the code that Ray's workers
  run.
* `worker_pool`: A pool of workers that may die; a question that a dead worker leaves goes to
  another worker.
"""
