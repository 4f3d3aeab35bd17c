"""Engines in several processes, on this machine or on a Ray cluster.

* `capacity`: How much of a cluster there is, and what one engine or training takes of it.
* `engine`: The engine of several processes, here or on a Ray cluster: each answers a part of the
  questions.
* `flower_pool`: Trainings as messages to the clients of Flower's simulation engine, which runs in a
  child.
* `flower_worker`: The process in which Flower's simulation runs for another, and what its clients
  do.
* `process_pool`: Engines in processes of this machine, one each.
* `protocol`: What an engine on a cluster is made of, what it is asked, and how it answers there.
* `ray_cluster`: A Ray cluster: this process asks a child, and only the child talks to Ray.
* `ray_worker`: The process that talks to Ray on behalf of an audit, and the code that Ray's workers
  run.
* `worker_pool`: Questions shared out among workers that may die: a dead worker's question goes to
  another.
"""
