"""Fine-tuning of adapters, and gradients of losses.

* `finetune`: Tuning a copy of a model on short examples: a new LoRA adapter stacked on the one it
  has.
* `influence`: How the loss of texts changes with the weights that an adapter changes, to first
  order.
* `sample_gradients`: The gradient of each text's own loss with respect to an adapter, many
  texts at a time.
* `loss`: The loss of a batch of sequences, at the cost of the tokens that are learned.
* `prefix_tree`: A batch of sequences as a prefix tree, whose shared tokens are processed once.
* `cross_entropy`: Cross-entropy whose gradient is computed with it, in one buffer of the
  logits' size.
* `logits`: Logits, and the last layer, computed at some positions only.
"""
