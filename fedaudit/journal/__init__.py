"""Answers of models kept on disk, so that a stopped audit resumes and shards merge.

* `caching_engine`: An engine whose answers are kept: a stopped attack that asks in its own way
  goes on as well.
* `chunk_size`: How much is asked at once, and kept at once: little at first, and more as more is
  kept.
* `encryption`: The records of a journal as bytes: framed, checked, and sealed under a key.
* `header`: What a journal says of itself, whose key opens it, and who may write to it.
* `journal`: What a model answered, kept while an audit runs: a killed audit goes on from there.
* `shards`: What an audit asks and keeps: all of its questions or one shard's, and its journals.
* `spot_checks`: Asking again a random sample of what shards say, because somebody else may have
  made them.
* `unfinished_piece`: Answers to a piece of questions that was not asked to its end: kept beside the
  whole pieces.
"""
