"""Settings: options of plugins, profiles of studies, and the registry of installed plugins.

* `coverage`: What becomes of every table and figure of a profile's paper.
* `option_text`: Options as text: a value as `--set` takes it, and what each option means.
* `options`: From a table of options to a frozen dataclass, with one clear sentence for each
  mistake.
* `profile`: Profiles: a paper's federation, study, claims and published figures as one TOML file.
* `profile_tables`: The short forms of a profile: variants that are products, and the tables of a
  paper.
* `registry`: The installed plugins: found through entry points, the built-in ones too.
"""
