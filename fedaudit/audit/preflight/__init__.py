"""Checks of a target before anything is asked.

* `adapter_effect`: Does the adapter change the base at all? An audit of a dead adapter audits the
  base.
* `prompt_start`: How a prompt should begin, measured on text that the auditor knows.
"""
