"""The owner's part: watermarks, and testing estimates for them.

* `detection`: Testing models for watermarks: all adapters of a round are asked together.
* `scoring`: The owner's step of FedAttr: the key, the estimates, and nothing else.
* `watermarking`: What the owner of documents does with marks: plant a new one, test texts and
  models for all.
* `worker_pool`: Testing many adapters: in processes of their own on CPU, in this one on a GPU.
"""
