"""The owner's part: watermarks, and testing estimates for them.

* `detection`: Testing models for watermarks: all adapters of a round answer together.
* `scoring`: The owner's step of FedAttr: scoring estimates, with the key and the estimates as only
  inputs.
* `watermarking`: The owner's work with marks: planting a new one, testing texts and models for all
  of them.
* `worker_pool`: Testing many adapters: in worker processes on CPU, in this process on a GPU.
"""
