"""Measurements on a target before any attack: the adapter's effect, and the prompt start.

* `adapter_effect`: The check that the adapter changes the base, since the audit would otherwise be
  of the base.
* `instrument`: Calibration: the model must read, score and answer as a working one does.
* `prompt_start`: Choosing how prompts begin, from the likelihood of text that the auditor knows.
"""
