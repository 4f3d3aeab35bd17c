"""A federation on disk: the files it left, and checks that they are complete and unchanged.

* `adapter_options`: Checks of an adapter's configuration: its options must not make the audit one
  of another model.
* `adapter_origin`: What an adapter's files say about the model it was trained on, compared with its
  base here.
* `adapters`: LoRA adapters on disk: the PEFT folder, in safetensors only.
* `commitments`: Commitments to marks: published before training, so that no key can be chosen
  afterwards.
* `counterfactual`: Counterfactual federations, trained again without some clients: their folders
  and origins.
* `folder`: A federation's folder, checked on reading before anything heavy is imported.
* `manifest`: federation.json: a federation's description of itself, read and written without heavy
  imports.
* `secure_sums`: Sums over sets of clients, as secure aggregation gave them to the server, on
  disk.
* `watermark_keys`: The owner's file of marks, the keys that find the watermarks of its documents.
  It is secret.
"""
