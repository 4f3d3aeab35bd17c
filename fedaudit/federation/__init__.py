"""A federation on disk: what it left behind, and whether it is whole.

* `adapter_options`: What an adapter's configuration may say: an audit of anything else would be
  of another model.
* `adapters`: LoRA adapters on disk: the PEFT folder, in safetensors only.
* `commitments`: Commitments to marks: published before training, so that no key can be chosen
  afterwards.
* `counterfactual`: Federations that were trained again without some client: where they lie, and
  whose they are.
* `folder`: A federation's folder, checked on reading before anything heavy is imported.
* `manifest`: federation.json: what a federation says of itself, read and written without heavy
  imports.
* `secure_sums`: Sums over sets of clients, as secure aggregation gave them to the server, on
  disk.
* `watermark_keys`: The owner's file of marks: what finds the watermarks of its documents. It is
  secret.
"""
