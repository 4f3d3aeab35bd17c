"""The built-in plugins; the core finds them through entry points, as it finds a stranger's."""
