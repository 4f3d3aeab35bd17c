"""Settings: options of plugins, profiles of studies, and the registry of installed plugins."""
